//! bloodraven-fencer.
fn main() {}
