//! bloodraven-kubernetes.
