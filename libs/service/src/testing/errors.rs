//! Watches the log of a test for ERROR events.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// A layer that remembers the ERROR events it sees. Cheap to clone; clones share what they remember.
#[derive(Clone, Debug, Default)]
pub struct FailOnError {
    errors: Arc<Mutex<Vec<String>>>,
}

/// Fails the test when it is dropped and an ERROR was logged that is not allowed.
#[derive(Debug)]
#[must_use = "the check is made when the guard is dropped"]
pub struct NoErrors {
    layer: FailOnError,
    from: usize,
    allowed: Mutex<Vec<String>>,
    _default: Option<DefaultGuard>,
}

/// Watches the events of this thread, which are all events of a test that has no runtime or a current-thread one
/// (`#[tokio::test]`).
pub fn expect_no_errors() -> NoErrors {
    let layer = FailOnError::default();
    let default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer.clone()));
    NoErrors {
        layer,
        from: 0,
        allowed: Mutex::default(),
        _default: Some(default),
    }
}

/// Watches the events of all threads, for tests on a multi-threaded runtime. Under a runner that shares one process between
/// tests, the errors of the others count too; nextest gives each test its own.
///
/// # Panics
///
/// When another global subscriber was installed before.
pub fn expect_no_errors_anywhere() -> NoErrors {
    static GLOBAL: OnceLock<FailOnError> = OnceLock::new();
    let layer = GLOBAL.get_or_init(|| {
        let layer = FailOnError::default();
        let installed = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer.clone()));
        fail_if(
            installed.is_err(),
            "another global subscriber is installed, so errors cannot be watched",
        );
        layer
    });
    NoErrors {
        layer: layer.clone(),
        from: layer.errors().len(),
        allowed: Mutex::default(),
        _default: None,
    }
}

impl FailOnError {
    /// The errors seen so far, each as `message field=value …`.
    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl NoErrors {
    /// Lets errors pass that contain `text`.
    pub fn allow(&self, text: impl Into<String>) {
        self.allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(text.into());
    }

    /// The errors logged since the guard was made, allowed or not.
    pub fn errors(&self) -> Vec<String> {
        self.layer.errors().split_off(self.from)
    }
}

impl Drop for NoErrors {
    fn drop(&mut self) {
        let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut errors = self.errors();
        errors.retain(|error| !allowed.iter().any(|allowed| error.contains(allowed)));
        // A second panic while the first unwinds would abort the test run and hide the first.
        if !std::thread::panicking() {
            fail_if(
                !errors.is_empty(),
                &format!("errors were logged:\n  {}", errors.join("\n  ")),
            );
        }
    }
}

impl<S: Subscriber> Layer<S> for FailOnError {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            let mut text = Text::default();
            event.record(&mut text);
            self.errors
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(format!("{}{}", text.message, text.fields));
        }
    }
}

#[expect(clippy::panic, reason = "failing the test is the purpose of this module")]
#[track_caller]
fn fail_if(failed: bool, message: &str) {
    if failed {
        panic!("{message}");
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ERROR fails the test that holds the guard, a WARN and an allowed ERROR do not.
    #[test]
    fn an_error_event_fails_the_test() {
        let quiet = expect_no_errors();
        quiet.allow("expected here");
        tracing::warn!("only a warning");
        tracing::error!(site = "west", "this is expected here");
        assert_eq!(quiet.errors(), ["this is expected here site=\"west\""]);
        drop(quiet);

        let failure = std::panic::catch_unwind(|| {
            let _guard = expect_no_errors();
            tracing::error!(code = 7, "broken");
        })
        .unwrap_err();
        assert_eq!(
            failure.downcast_ref::<String>().unwrap(),
            "errors were logged:\n  broken code=7"
        );
    }
}
