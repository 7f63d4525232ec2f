//! Metric families that the components of one process share by name, and the text of `/metrics`.
//!
//! Corresponds to k8s.io/component-base/metrics.

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry};
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Labels and their values, in the order of the text.
pub type Labels = Vec<(&'static str, String)>;
pub type Counters = Family<Labels, Counter>;
/// Gauges of whole numbers.
pub type Gauges = Family<Labels, Gauge>;
pub type FloatCounters = Family<Labels, Counter<f64, AtomicU64>>;
pub type FloatGauges = Family<Labels, Gauge<f64, AtomicU64>>;
pub type Histograms = Family<Labels, Histogram, Buckets>;
pub type SetHistograms = Family<Labels, SetHistogram>;

/// The upper bounds of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(pub &'static [f64]);

/// Returns bounds that begin with `first`, each `factor` times the one before.
pub const fn exponential<const N: usize>(first: f64, factor: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut i = 1;
    while i < N {
        bounds[i] = bounds[i - 1] * factor;
        i += 1;
    }
    bounds
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// A histogram whose values are counted elsewhere and set before each scrape: the sum, and the bounds with their counts.
#[derive(Clone, Debug, Default)]
pub struct SetHistogram(Arc<Mutex<(f64, Vec<(f64, u64)>)>>);

impl SetHistogram {
    pub fn set(&self, sum: f64, buckets: Vec<(f64, u64)>) {
        *self.0.lock() = (sum, buckets);
    }
}

impl TypedMetric for SetHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for SetHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (sum, buckets) = &*self.0.lock();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Updates metrics that depend on the time. Returns false when it need not be called any more.
type Refresh = Box<dyn Fn() -> bool + Send>;

/// All metrics of a process.
#[derive(Default)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Families by name, each with the type of the first request for it.
    families: Mutex<BTreeMap<&'static str, Box<dyn Any + Send>>>,
    refreshes: Mutex<Vec<Refresh>>,
    /// Counters whose names do not end in `_total`.
    bare: Mutex<BTreeSet<&'static str>>,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("families", &self.families.lock().keys()).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Returns the family of that name; parts of a process that ask for the same name share it.
    fn family<F: Metric + Clone>(&self, name: &'static str, shown: &str, help: &str, make: impl FnOnce() -> F) -> F {
        let mut families = self.families.lock();
        let family = families.entry(name).or_insert_with(|| {
            let family = make();
            self.registry.lock().register(shown, help, family.clone());
            Box::new(family)
        });
        family.downcast_ref::<F>().cloned().unwrap_or_else(|| panic!("metric {name} is of another type"))
    }

    /// Returns a family of counters. `name` is the full name in the text, mostly with the suffix `_total`.
    pub fn counters(&self, name: &'static str, help: &str) -> Counters {
        self.family(name, self.without_suffix(name), help, Counters::default)
    }

    /// Strips `_total`, since the encoder adds it.
    fn without_suffix(&self, name: &'static str) -> &'static str {
        name.strip_suffix("_total").unwrap_or_else(|| {
            self.bare.lock().insert(name);
            name
        })
    }

    /// Returns a family of counters with fractions.
    pub fn float_counters(&self, name: &'static str, help: &str) -> FloatCounters {
        self.family(name, self.without_suffix(name), help, FloatCounters::default)
    }

    pub fn gauges(&self, name: &'static str, help: &str) -> Gauges {
        self.family(name, name, help, Gauges::default)
    }

    pub fn float_gauges(&self, name: &'static str, help: &str) -> FloatGauges {
        self.family(name, name, help, FloatGauges::default)
    }

    pub fn histograms(&self, name: &'static str, help: &str, buckets: &'static [f64]) -> Histograms {
        self.family(name, name, help, || Histograms::new_with_constructor(Buckets(buckets)))
    }

    pub fn set_histograms(&self, name: &'static str, help: &str) -> SetHistograms {
        self.family(name, name, help, SetHistograms::default)
    }

    /// Calls `refresh` before each scrape, until it returns false.
    pub fn before_encoding(&self, refresh: impl Fn() -> bool + Send + 'static) {
        self.refreshes.lock().push(Box::new(refresh));
    }

    /// Returns all metrics in Prometheus' text format 0.0.4, as Kubernetes' components do.
    pub fn encode(&self) -> String {
        // Held until the end, so that a concurrent scrape waits for consistent values.
        let mut refreshes = self.refreshes.lock();
        refreshes.retain(|refresh| refresh());
        let mut open_metrics = String::new();
        text::encode(&mut open_metrics, &self.registry.lock()).expect("writing to a String cannot fail");
        to_text_format(&open_metrics, &self.bare.lock())
    }
}

/// The media type of `Metrics::encode`.
pub const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts OpenMetrics to the older format. OpenMetrics names a counter's family without `_total`, has units, and ends
/// with a mark; the older format does not.
fn to_text_format(open_metrics: &str, bare: &BTreeSet<&str>) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((kind, rest)) = line.strip_prefix("# ").and_then(|line| line.split_once(' ')) else {
            let line = &*without_total(line, bare);
            match line.split_once('{') {
                // Without labels there are no braces.
                Some((name, rest)) if rest.starts_with('}') => push_line(&mut out, &[name, &rest[1..]]),
                _ if line != "# EOF" => push_line(&mut out, &[&with_go_bound(line)]),
                _ => {}
            }
            continue;
        };
        // The help line comes before the type line, which knows whether the name needs its suffix.
        let type_line = if kind == "TYPE" { Some(line) } else { lines.peek().copied() };
        let is_counter = type_line.is_some_and(|line| line.starts_with("# TYPE ") && line.ends_with(" counter"));
        let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let suffix = if is_counter && !bare.contains(name) { "_total" } else { "" };
        match kind {
            "HELP" => push_line(&mut out, &["# HELP ", name, suffix, " ", text.strip_suffix('.').unwrap_or(text)]),
            "TYPE" => push_line(&mut out, &["# TYPE ", name, suffix, " ", text]),
            _ => {}
        }
    }
    out
}

/// Returns the sample line of a counter, without the suffix if its name has none.
fn without_total<'a>(line: &'a str, bare: &BTreeSet<&str>) -> Cow<'a, str> {
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    match line[..end].strip_suffix("_total").filter(|name| bare.contains(name)) {
        Some(name) => Cow::Owned(format!("{name}{}", &line[end..])),
        None => Cow::Borrowed(line),
    }
}

/// Rewrites the bound of a bucket as Go does, with as few digits as possible: `le="1"`.
fn with_go_bound(line: &str) -> Cow<'_, str> {
    match line.split_once(".0\"} ") {
        Some((head, tail)) if head.contains("_bucket{") && head.contains("le=\"") => {
            Cow::Owned(format!("{head}\"}} {tail}"))
        }
        _ => Cow::Borrowed(line),
    }
}

fn push_line(out: &mut String, parts: &[&str]) {
    out.extend(parts.iter().copied());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_follows_from_time_is_looked_at_last() {
        let metrics = Metrics::default();
        let age = metrics.gauges("age_seconds", "Age").get_or_create_owned(&vec![]);
        let looks = Arc::new(AtomicU64::new(0));
        let seen = looks.clone();
        metrics.before_encoding(move || {
            let look = seen.fetch_add(1, Ordering::Relaxed) + 1;
            age.set(look as i64);
            look < 2
        });
        let shown = [metrics.encode(), metrics.encode(), metrics.encode()];
        let ages = shown.map(|text| text.lines().last().unwrap().to_owned());
        assert_eq!(ages, ["age_seconds 1", "age_seconds 2", "age_seconds 2"]);
    }

    #[test]
    fn families_are_shared_by_name_and_shown_in_the_text_format() {
        let metrics = Metrics::default();
        let labels = vec![("name", "deployment".to_owned())];
        metrics.counters("workqueue_adds_total", "Adds handled").get_or_create(&labels).inc();
        metrics.counters("workqueue_adds_total", "Adds handled").get_or_create(&labels).inc();
        metrics.counters("attempts", "Tries").get_or_create(&labels).inc();
        metrics.gauges("workqueue_depth", "Depth").get_or_create(&labels).set(3);
        metrics.histograms("wait_seconds", "Waiting", &[0.1, 1.0]).get_or_create(&vec![]).observe(0.5);
        let expected = r#"# HELP workqueue_adds_total Adds handled
# TYPE workqueue_adds_total counter
workqueue_adds_total{name="deployment"} 2
# HELP attempts Tries
# TYPE attempts counter
attempts{name="deployment"} 1
# HELP workqueue_depth Depth
# TYPE workqueue_depth gauge
workqueue_depth{name="deployment"} 3
# HELP wait_seconds Waiting
# TYPE wait_seconds histogram
wait_seconds_sum 0.5
wait_seconds_count 1
wait_seconds_bucket{le="0.1"} 0
wait_seconds_bucket{le="1"} 1
wait_seconds_bucket{le="+Inf"} 1
"#;
        assert_eq!(metrics.encode(), expected);
    }
}
