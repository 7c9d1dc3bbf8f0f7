//! Test support for the crates above: an ERROR in the log fails the test, so that levels keep their meaning, and the body of
//! a binary runs inside of a test as it does in its process.
//!
//! ```
//! # fn the_code_under_test() {}
//! let errors = bloodraven_service::testing::expect_no_errors();
//! errors.allow("lease lost"); // only where the test provokes it
//! the_code_under_test();
//! drop(errors); // panics if anything else was logged at ERROR
//! ```

mod errors;
mod in_process;

pub use errors::{FailOnError, NoErrors, expect_no_errors, expect_no_errors_anywhere};
pub use in_process::{InProcess, StopError, start};
