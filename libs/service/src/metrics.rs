//! Metrics: one recorder for the process, rendered by `/metrics`, and the few metrics that every binary has.
//!
//! Crates use the `metrics` facade with names of their own and describe them once; only this crate knows the exporter.

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::error::BoxError;

/// Always 1; the labels say what runs.
pub const BUILD_INFO: &str = "bloodraven_build_info";
/// Messages handled, by name and result.
pub const MESSAGES_HANDLED: &str = "bloodraven_messages_handled_total";

/// Buckets of every histogram that ends in `_seconds`, unless it has its own: from one statement (1 ms) to the longest wait
/// of a planned run (300 s).
pub const SECONDS_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0,
];

/// How often histograms are folded when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Renders what was recorded.
#[derive(Clone)]
pub struct MetricsHandle {
    handle: PrometheusHandle,
}

impl MetricsHandle {
    /// The Prometheus text format.
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Keeps the memory of unscraped histograms bounded, for as long as the runtime lives.
    pub(crate) fn keep_up(&self) {
        let handle = self.handle.clone();
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(UPKEEP);
            loop {
                tick.tick().await;
                handle.run_upkeep();
            }
        });
    }
}

impl std::fmt::Debug for MetricsHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsHandle").finish_non_exhaustive()
    }
}

/// Buckets for one histogram, by its full name.
pub type Buckets = (&'static str, &'static [f64]);

/// Builds the recorder; `buckets` overrule [`SECONDS_BUCKETS`].
pub(crate) fn recorder(buckets: &[Buckets]) -> Result<(PrometheusRecorder, MetricsHandle), BuildError> {
    let mut builder =
        PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)?;
    for (name, bounds) in buckets {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), bounds)?;
    }
    let recorder = builder.build_recorder();
    let handle = MetricsHandle {
        handle: recorder.handle(),
    };
    Ok((recorder, handle))
}

/// Makes the recorder that of the process.
pub(crate) fn install(buckets: &[Buckets]) -> Result<MetricsHandle, BoxError> {
    let (recorder, handle) = recorder(buckets)?;
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    Ok(handle)
}

/// Describes and sets the metrics of every binary.
pub(crate) fn announce(binary: &'static str, version: &'static str) {
    metrics::describe_gauge!(BUILD_INFO, "Which binary and version runs here; the value is always 1.");
    metrics::describe_counter!(
        MESSAGES_HANDLED,
        "Messages handled by this binary, by the name of the message and the result."
    );
    metrics::gauge!(BUILD_INFO, "binary" => binary, "version" => version).set(1.0);
}

/// The outcome of handling one message, as the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageResult {
    /// What it asked for was done.
    Handled,
    /// It had been handled before.
    Duplicate,
    /// It was for a run, revision or time that is over, and nothing was done.
    Refused,
    /// It could not be read.
    Malformed,
    /// Handling failed; it comes again.
    Failed,
}

impl MessageResult {
    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handled => "handled",
            Self::Duplicate => "duplicate",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::Failed => "failed",
        }
    }
}

/// Counts handled messages for one binary. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MessageCounter {
    binary: Arc<str>,
}

impl MessageCounter {
    /// A counter for the binary of this name.
    pub fn new(binary: &str) -> Self {
        Self { binary: binary.into() }
    }

    /// Counts one message called `name`.
    pub fn count(&self, name: &str, result: MessageResult) {
        let [binary, name] = [self.binary.to_string(), name.to_owned()];
        metrics::counter!(MESSAGES_HANDLED, "binary" => binary, "name" => name, "result" => result.as_str())
            .increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metrics of every binary carry their labels, and durations have buckets of their own kind unless overruled.
    #[test]
    fn metrics_are_rendered() {
        let (recorder, handle) = recorder(&[("bloodraven_planned_failover_duration_seconds", &[1.0, 300.0])]).unwrap();
        ::metrics::with_local_recorder(&recorder, || {
            announce("fencer", "1.2.3");
            MessageCounter::new("fencer").count("fence", MessageResult::Refused);
            ::metrics::histogram!("bloodraven_fence_seconds").record(0.004);
            ::metrics::histogram!("bloodraven_planned_failover_duration_seconds").record(12.0);
        });
        let text = handle.render();
        for line in [
            r#"bloodraven_build_info{binary="fencer",version="1.2.3"} 1"#,
            r#"bloodraven_messages_handled_total{binary="fencer",name="fence",result="refused"} 1"#,
            r#"bloodraven_fence_seconds_bucket{le="0.0025"} 0"#,
            r#"bloodraven_fence_seconds_bucket{le="0.005"} 1"#,
            r#"bloodraven_planned_failover_duration_seconds_bucket{le="1"} 0"#,
            r#"bloodraven_planned_failover_duration_seconds_bucket{le="300"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(
            !text.contains(r#"failover_duration_seconds_bucket{le="0.005"}"#),
            "{text}"
        );
    }
}
