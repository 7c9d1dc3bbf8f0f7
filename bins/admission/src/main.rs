//! bloodraven-admission.
fn main() {}
