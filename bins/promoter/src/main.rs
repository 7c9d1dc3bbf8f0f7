//! bloodraven-promoter.
fn main() {}
