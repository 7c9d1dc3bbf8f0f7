//! bloodraven-publisher.
fn main() {}
