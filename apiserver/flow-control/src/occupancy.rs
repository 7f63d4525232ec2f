//! `Occupancy`: histograms of how full a priority level is, weighted by time.
//!
//! Each bucket counts for how long a value lay in it, so that a lasting value counts more than a brief one. Corresponds to
//! the timing histograms of k8s.io/component-base/metrics and their use in k8s.io/apiserver/pkg/util/flowcontrol/metrics.

use std::time::Duration;

/// Upper bounds, as kube-apiserver's: of requests relative to the capacity, of seats in use relative to the level's, and of
/// wanted seats relative to the level's.
const REQUESTS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const SEATS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// A histogram of a value over time; it counts nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    bounds: &'static [f64],
    /// The time in each bucket; the last bucket has no upper bound.
    times: Vec<Duration>,
    sum: f64,
    pub(super) value: f64,
}

impl OverTime {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, times: vec![Duration::ZERO; bounds.len() + 1], sum: 0.0, value: 0.0 }
    }

    /// Adds `elapsed` at the current value.
    pub(super) fn last(&mut self, elapsed: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < self.value);
        self.times[bucket] += elapsed;
        self.sum += self.value * elapsed.as_nanos() as f64;
    }

    /// Returns the buckets with their upper bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::MAX]);
        bounds.zip(self.times.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// The requests and seats at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub executing: usize,
    pub waiting: usize,
    pub seats_in_use: usize,
    pub seats_wanted: usize,
}

/// The limits that the histograms are relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The nominal seats of the level.
    pub seats: usize,
    pub queues: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    since: Duration,
    usage: Usage,
    capacity: Capacity,
    pub executing: OverTime,
    pub waiting: OverTime,
    pub seats: OverTime,
    pub demand: OverTime,
}

impl Occupancy {
    pub fn new(capacity: Capacity) -> Self {
        Self {
            since: Duration::ZERO,
            usage: Usage::default(),
            capacity,
            executing: OverTime::new(REQUESTS),
            waiting: OverTime::new(REQUESTS),
            seats: OverTime::new(SEATS),
            demand: OverTime::new(DEMAND),
        }
    }

    /// Sets the usage from `now` on.
    pub fn set(&mut self, now: Duration, usage: Usage) {
        self.advance(now);
        self.usage = usage;
        self.weigh();
    }

    /// Sets the capacity from `now` on.
    pub fn resize(&mut self, now: Duration, capacity: Capacity) {
        self.advance(now);
        self.capacity = capacity;
        self.weigh();
    }

    fn weigh(&mut self) {
        let part = |of: usize, all: usize| of as f64 / all.max(1) as f64;
        let Self { usage, capacity, .. } = *self;
        self.executing.value = part(usage.executing, capacity.seats);
        self.waiting.value = part(usage.waiting, capacity.queues);
        self.seats.value = part(usage.seats_in_use, capacity.seats);
        self.demand.value = part(usage.seats_wanted, capacity.seats);
    }

    /// Adds the time until `now` at the current values.
    pub fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        for over_time in [&mut self.executing, &mut self.waiting, &mut self.seats, &mut self.demand] {
            over_time.last(elapsed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonzero(over_time: &OverTime) -> Vec<(f64, u64)> {
        over_time.buckets().filter(|(_, ns)| *ns > 0).collect()
    }

    #[test]
    fn what_lasts_counts() {
        let at = Duration::from_nanos;
        let mut level = Occupancy::new(Capacity { seats: 10, queues: 100 });
        level.set(at(5), Usage { executing: 4, waiting: 0, seats_in_use: 8, seats_wanted: 8 });
        level.set(at(15), Usage { executing: 5, waiting: 50, seats_in_use: 10, seats_wanted: 70 });
        level.advance(at(45));
        assert_eq!(nonzero(&level.executing), [(0.0, 5), (0.5, 40)]);
        assert_eq!(nonzero(&level.waiting), [(0.0, 15), (0.5, 30)]);
        assert_eq!(nonzero(&level.seats), [(0.0, 5), (0.8, 10), (1.0, 30)]);
        assert_eq!(nonzero(&level.demand), [(0.2, 5), (0.8, 10), (f64::MAX, 30)]);
        assert_eq!((level.executing.sum(), level.demand.sum()), (0.4 * 10.0 + 0.5 * 30.0, 0.8 * 10.0 + 7.0 * 30.0));
        // Time does not run backwards, and the capacity may change.
        level.advance(at(20));
        level.resize(at(45), Capacity { seats: 5, queues: 0 });
        level.advance(at(46));
        assert_eq!(nonzero(&level.executing), [(0.0, 5), (0.5, 40), (1.0, 1)]);
        assert_eq!(nonzero(&level.waiting), [(0.0, 15), (0.5, 30), (f64::MAX, 1)]);
    }
}
