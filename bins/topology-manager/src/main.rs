//! bloodraven-topology-manager.
fn main() {}
