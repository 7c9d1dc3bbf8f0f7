//! The shape of a JSON log line.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use bloodraven_service::telemetry::JsonLayer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// What `body` logs, with a fixed time.
fn logged(body: impl FnOnce()) -> String {
    let lines = Lines::default();
    let layer = JsonLayer::new(lines.clone())
        .with_field("binary", "fencer")
        .with_time(|| "2026-12-01T10:00:00.000000Z".to_owned());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), body);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

#[derive(Debug, thiserror::Error)]
#[error("cannot fence west")]
struct FenceError(#[source] std::io::Error);

/// Lines begin with time, level, msg and fg, flatten the fields of all spans and have camelCase keys.
#[test]
fn json_lines_have_the_documented_shape() {
    let text = logged(|| {
        let run = tracing::info_span!(
            "run",
            fg = "default/orders",
            run_id = "01",
            attempt = tracing::field::Empty
        );
        let _run = run.enter();
        run.record("attempt", 2);
        tracing::info!(target: "fencer", site = "west", took_seconds = 0.25, read_only = true, "fenced \"west\"\nsource");
        let _inner = tracing::info_span!("statement", site = "east").entered();
        let error = FenceError(std::io::Error::other("connection reset"));
        tracing::error!(target: "fencer", error = &error as &dyn std::error::Error, target = "east", "ALERT");
        tracing::warn!(target: "fencer", time = "later", msg = "mine", level = 3, fg = "default/other", "own keys");
    });
    insta::assert_snapshot!(text);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// An ERROR on any thread fails a test that watches all of them.
#[test]
fn errors_of_all_threads_are_seen() {
    let failure = std::panic::catch_unwind(|| {
        let _guard = bloodraven_service::testing::expect_no_errors_anywhere();
        std::thread::spawn(|| tracing::error!("from afar")).join().unwrap();
    });
    let failure = failure.unwrap_err();
    assert_eq!(
        failure.downcast_ref::<String>().unwrap(),
        "errors were logged:\n  from afar"
    );
}
