//! `Buckets`, what a histogram of a metrics page has counted within a measurement.

use super::measurement::Latency;

/// The buckets of a histogram in the order of their upper bounds, each with the counts of all before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(pub Vec<(f64, f64)>);

impl Buckets {
    /// Returns the value below which this part of the observations lies. As Prometheus' `histogram_quantile`, it takes the
    /// observations of a bucket as spread evenly between its bounds, and those above the last bound as that bound.
    fn quantile(&self, part: f64) -> Option<f64> {
        let (_, all) = self.0.last().filter(|(_, all)| *all > 0.0)?;
        let wanted = part * all;
        let at = self.0.iter().position(|(_, count)| *count >= wanted)?;
        let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |before| self.0[before]);
        let (upper, count) = self.0[at];
        match upper.is_finite() && count > below {
            true => Some(lower + (upper - lower) * (wanted - below) / (count - below)),
            false => Some(lower),
        }
    }

    /// Returns the quantiles of a histogram of seconds. The longest observation is only known up to its bucket's bound.
    pub fn latency(&self) -> Option<Latency> {
        let ms = |part: f64| self.quantile(part).map(|seconds| (seconds * 1e7).round() / 1e4);
        Some(Latency { p50_ms: ms(0.5)?, p99_ms: ms(0.99)?, max_ms: ms(1.0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let buckets = Buckets(vec![(0.001, 50.0), (0.002, 90.0), (0.004, 100.0), (f64::INFINITY, 100.0)]);
        let latency = buckets.latency().unwrap();
        assert_eq!((latency.p50_ms, latency.p99_ms, latency.max_ms), (1.0, 3.8, 4.0));
        assert!(Buckets(vec![(0.001, 0.0), (f64::INFINITY, 0.0)]).latency().is_none());
        let beyond = Buckets(vec![(0.001, 1.0), (f64::INFINITY, 2.0)]);
        assert_eq!(beyond.quantile(0.9), Some(0.001));
    }
}
