//! Errors at the edge of a binary: any error in, its whole chain of causes out.

use std::error::Error;

/// Any error that a task may end with; `anyhow::Error` and every `thiserror` type turn into it by `?`.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// The error and all its causes on one line, `outer: inner: innermost`. A cause whose text the error has already is left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
