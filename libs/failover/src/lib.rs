//! bloodraven-failover.
