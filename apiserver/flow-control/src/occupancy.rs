//! `Occupancy`: how full a priority level is, as long as it is so.
//!
//! Of each value it is known for how long it was within each bucket's bound, so that what lasts counts more than what is
//! looked at often. Corresponds to the timing histograms of k8s.io/component-base/metrics and their use in
//! k8s.io/apiserver/pkg/util/flowcontrol/metrics.

use std::time::Duration;

/// Upper bounds, as kube-apiserver's: of parts of what there is room for, of parts of the seats, of wanted seats to own ones.
const REQUESTS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const SEATS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// A histogram of a value over time; it counts nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    bounds: &'static [f64],
    /// For how long the value lay in each bucket; the last one has no bound.
    times: Vec<Duration>,
    sum: f64,
    pub(super) value: f64,
}

impl OverTime {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, times: vec![Duration::ZERO; bounds.len() + 1], sum: 0.0, value: 0.0 }
    }

    /// It was as it is for so long.
    pub(super) fn last(&mut self, elapsed: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < self.value);
        self.times[bucket] += elapsed;
        self.sum += self.value * elapsed.as_nanos() as f64;
    }

    /// The buckets with their bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::MAX]);
        bounds.zip(self.times.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub fn sum(&self) -> f64 {
        self.sum
    }
}

/// How much there is at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub executing: usize,
    pub waiting: usize,
    pub seats_in_use: usize,
    pub seats_wanted: usize,
}

/// How much there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of the level by its shares.
    pub seats: usize,
    pub queues: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    since: Duration,
    load: Load,
    room: Room,
    pub executing: OverTime,
    pub waiting: OverTime,
    pub seats: OverTime,
    pub demand: OverTime,
}

impl Occupancy {
    pub fn new(room: Room) -> Self {
        Self {
            since: Duration::ZERO,
            load: Load::default(),
            room,
            executing: OverTime::new(REQUESTS),
            waiting: OverTime::new(REQUESTS),
            seats: OverTime::new(SEATS),
            demand: OverTime::new(DEMAND),
        }
    }

    /// From now on there is so much.
    pub fn set(&mut self, now: Duration, load: Load) {
        self.advance(now);
        self.load = load;
        self.weigh();
    }

    /// From now on there is room for so much.
    pub fn resize(&mut self, now: Duration, room: Room) {
        self.advance(now);
        self.room = room;
        self.weigh();
    }

    fn weigh(&mut self) {
        let part = |of: usize, all: usize| of as f64 / all.max(1) as f64;
        let Self { load, room, .. } = *self;
        self.executing.value = part(load.executing, room.seats);
        self.waiting.value = part(load.waiting, room.queues);
        self.seats.value = part(load.seats_in_use, room.seats);
        self.demand.value = part(load.seats_wanted, room.seats);
    }

    /// Until now it was as it is.
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
        let mut level = Occupancy::new(Room { seats: 10, queues: 100 });
        level.set(at(5), Load { executing: 4, waiting: 0, seats_in_use: 8, seats_wanted: 8 });
        level.set(at(15), Load { executing: 5, waiting: 50, seats_in_use: 10, seats_wanted: 70 });
        level.advance(at(45));
        assert_eq!(nonzero(&level.executing), [(0.0, 5), (0.5, 40)]);
        assert_eq!(nonzero(&level.waiting), [(0.0, 15), (0.5, 30)]);
        assert_eq!(nonzero(&level.seats), [(0.0, 5), (0.8, 10), (1.0, 30)]);
        assert_eq!(nonzero(&level.demand), [(0.2, 5), (0.8, 10), (f64::MAX, 30)]);
        assert_eq!((level.executing.sum(), level.demand.sum()), (0.4 * 10.0 + 0.5 * 30.0, 0.8 * 10.0 + 7.0 * 30.0));
        // Time does not run back, and what there is room for may change.
        level.advance(at(20));
        level.resize(at(45), Room { seats: 5, queues: 0 });
        level.advance(at(46));
        assert_eq!(nonzero(&level.executing), [(0.0, 5), (0.5, 40), (1.0, 1)]);
        assert_eq!(nonzero(&level.waiting), [(0.0, 15), (0.5, 30), (f64::MAX, 1)]);
    }
}
