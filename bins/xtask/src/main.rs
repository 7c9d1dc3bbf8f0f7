//! bloodraven-xtask.
fn main() {}
