//! bloodraven-executor.
