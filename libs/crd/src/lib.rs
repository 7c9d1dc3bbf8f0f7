//! bloodraven-crd.
