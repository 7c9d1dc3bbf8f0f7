//! kubectl-bloodraven.
fn main() {}
