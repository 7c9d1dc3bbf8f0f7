//! bloodraven-dragonfly-promoter.
fn main() {}
