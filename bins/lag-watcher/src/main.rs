//! bloodraven-lag-watcher.
fn main() {}
