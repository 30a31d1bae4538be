//! What a metric is, and how one is recorded.

use metrics::{Key, Label as Pair, Level, Metadata, SharedString, Unit};

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A whole number that only rises.
    Counter,
    /// A number with fractions that only rises; a counter for Prometheus.
    Sum,
    /// A number that rises and falls.
    Gauge,
    /// A distribution.
    Histogram {
        /// Upper bounds of its buckets.
        buckets: &'static [f64],
    },
}

impl Kind {
    /// Prometheus' word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter | Kind::Sum => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram { .. } => "histogram",
        }
    }
}

/// The values that a label can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Exactly these.
    Closed(&'static [&'static str]),
    /// Others too; the text says where they come from and what bounds their number.
    Open(&'static str),
}

/// A label of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its possible values.
    pub values: Values,
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// `assayd_<room>_<thing>_<unit>[_total]`; the few that alerts are built on have no room in their name.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What it counts: `spans`, `seconds`, `bytes`, ….
    pub unit: &'static str,
    /// Its labels, in order.
    pub labels: &'static [Label],
    /// What it means, in one sentence.
    pub help: &'static str,
}

static METADATA: Metadata<'static> = Metadata::new("assayd", Level::INFO, None);

impl Metric {
    /// Adds to a counter. One value per label, in the labels' order.
    pub(super) fn add<const N: usize>(&self, count: u64, values: [SharedString; N]) {
        metrics::with_recorder(|recorder| {
            recorder.register_counter(&self.key(values), &METADATA).increment(count)
        });
    }

    /// Adds to a sum.
    pub(super) fn add_fraction<const N: usize>(&self, amount: f64, values: [SharedString; N]) {
        if amount.is_finite() && amount > 0.0 {
            metrics::with_recorder(|recorder| {
                recorder.register_gauge(&self.key(values), &METADATA).increment(amount)
            });
        }
    }

    /// Sets a gauge.
    pub(super) fn set<const N: usize>(&self, value: f64, values: [SharedString; N]) {
        metrics::with_recorder(|recorder| recorder.register_gauge(&self.key(values), &METADATA).set(value));
    }

    /// Moves a gauge up or down.
    pub(super) fn shift<const N: usize>(&self, by: f64, values: [SharedString; N]) {
        metrics::with_recorder(|recorder| {
            recorder.register_gauge(&self.key(values), &METADATA).increment(by)
        });
    }

    /// Adds a sample to a histogram.
    pub(super) fn record<const N: usize>(&self, value: f64, values: [SharedString; N]) {
        metrics::with_recorder(|recorder| {
            recorder.register_histogram(&self.key(values), &METADATA).record(value)
        });
    }

    pub(super) fn describe(&self) {
        let unit = match self.unit {
            "seconds" => Some(Unit::Seconds),
            "bytes" => Some(Unit::Bytes),
            _ => None,
        };
        metrics::with_recorder(|recorder| match self.kind {
            Kind::Counter => recorder.describe_counter(self.name.into(), unit, self.help.into()),
            Kind::Sum | Kind::Gauge => recorder.describe_gauge(self.name.into(), unit, self.help.into()),
            Kind::Histogram { .. } => recorder.describe_histogram(self.name.into(), unit, self.help.into()),
        });
    }

    /// Shows every series of a metric whose labels are all closed, at its present value, which is 0 at the start.
    pub(super) fn set_out(&self) {
        let mut series: Vec<Vec<Pair>> = vec![Vec::new()];
        for label in self.labels {
            let Values::Closed(values) = label.values else { return };
            series = series
                .iter()
                .flat_map(|pairs| {
                    values.iter().map(|value| {
                        let mut longer = pairs.clone();
                        longer.push(Pair::from_static_parts(label.name, value));
                        longer
                    })
                })
                .collect();
        }
        metrics::with_recorder(|recorder| {
            for pairs in series {
                let key = Key::from_parts(self.name, pairs);
                match self.kind {
                    Kind::Counter => recorder.register_counter(&key, &METADATA).increment(0),
                    Kind::Sum | Kind::Gauge => recorder.register_gauge(&key, &METADATA).increment(0.0),
                    Kind::Histogram { .. } => drop(recorder.register_histogram(&key, &METADATA)),
                }
            }
        });
    }

    fn key<const N: usize>(&self, values: [SharedString; N]) -> Key {
        debug_assert_eq!(self.labels.len(), N, "{} has other labels", self.name);
        let pairs: Vec<Pair> =
            self.labels.iter().zip(values).map(|(label, value)| Pair::new(label.name, value)).collect();
        Key::from_parts(self.name, pairs)
    }
}
