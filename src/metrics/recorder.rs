//! Keeps the numbers and writes them as Prometheus text.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::catalogue::all;
use super::metric::{Kind, Metric};

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Another library of this process already keeps the metrics, so these would not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another metrics recorder is already installed in this process")]
pub struct AlreadyInstalled;

/// Reads what the process-wide recorder holds. Cheap to clone.
#[derive(Clone)]
pub struct Handle(PrometheusHandle);

impl Handle {
    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        declared_as_counters(self.0.render())
    }

    /// Folds collected samples into histograms. To be called every few seconds: samples pile up until then.
    pub fn run_upkeep(&self) {
        self.0.run_upkeep();
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// Installs the process-wide recorder, describes every metric and shows those with closed labels as 0, so that the first
/// event is a rise from 0 and not a series out of nowhere. Later calls give the same handle.
pub fn install() -> Result<Handle, AlreadyInstalled> {
    let handle = RECORDER.get_or_init(|| {
        let recorder = recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).ok()?;
        describe();
        Some(handle)
    });
    handle.clone().map(Handle).ok_or(AlreadyInstalled)
}

/// Describes every metric to the recorder of this thread or process and sets those with closed labels to 0.
pub fn describe() {
    for metric in all() {
        metric.describe();
        metric.set_out();
    }
}

pub(super) fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in all() {
        if let Kind::Histogram { buckets } = metric.kind {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
                .expect("no histogram of the catalogue has an empty list of buckets");
        }
    }
    builder.build_recorder()
}

/// Sums with fractions are kept in gauges, since the recorder's counters are whole numbers; for Prometheus they are counters.
fn declared_as_counters(text: String) -> String {
    let sums = all().filter(|metric| matches!(metric.kind, Kind::Sum));
    sums.fold(text, |text, Metric { name, .. }| {
        text.replace(&format!("# TYPE {name} gauge\n"), &format!("# TYPE {name} counter\n"))
    })
}

#[cfg(test)]
pub(super) fn rendered(record: impl FnOnce()) -> String {
    let recorder = recorder();
    metrics::with_local_recorder(&recorder, || {
        describe();
        record();
    });
    Handle(recorder.handle()).render()
}
