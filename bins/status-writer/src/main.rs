//! bloodraven-status-writer.
fn main() {}
