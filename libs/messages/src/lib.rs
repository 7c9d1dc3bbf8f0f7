//! bloodraven-messages.
