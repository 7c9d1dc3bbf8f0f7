//! bloodraven-bus.
