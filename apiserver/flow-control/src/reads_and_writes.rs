//! `ReadsAndWrites`: histograms of executing and waiting requests, read-only and mutating, weighted by time.
//!
//! Corresponds to the watermarks of k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go.

use super::occupancy::OverTime;
use parking_lot::Mutex;
use std::time::Duration;

/// Upper bounds, as kube-apiserver's, relative to a limit. Under fairness both kinds share the seats, and the limit is 1.
const PARTS: &[f64] = &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Waiting,
    Executing,
}

/// For each phase, the histogram of read-only and that of mutating requests.
pub type ByPhase = [[OverTime; 2]; 2];

#[derive(Debug)]
pub struct ReadsAndWrites(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Duration,
    over_time: ByPhase,
}

impl Default for ReadsAndWrites {
    fn default() -> Self {
        let new = || OverTime::new(PARTS);
        Self(Mutex::new(State { since: Duration::ZERO, over_time: [[new(), new()], [new(), new()]] }))
    }
}

impl State {
    /// Adds the time until `now` at the current values.
    fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        self.over_time.as_flattened_mut().iter_mut().for_each(|over_time| over_time.last(elapsed));
    }
}

impl ReadsAndWrites {
    pub fn begin(&self, now: Duration, phase: Phase, is_write: bool) {
        self.change(now, phase, is_write, 1.0);
    }

    pub fn end(&self, now: Duration, phase: Phase, is_write: bool) {
        self.change(now, phase, is_write, -1.0);
    }

    fn change(&self, now: Duration, phase: Phase, is_write: bool, by: f64) {
        let mut state = self.0.lock();
        state.advance(now);
        state.over_time[phase as usize][usize::from(is_write)].value += by;
    }

    pub fn look<R>(&self, now: Duration, look: impl FnOnce(&ByPhase) -> R) -> R {
        let mut state = self.0.lock();
        state.advance(now);
        look(&state.over_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_counts() {
        let at = Duration::from_nanos;
        let known = ReadsAndWrites::default();
        known.begin(at(5), Phase::Waiting, true);
        known.end(at(7), Phase::Waiting, true);
        known.begin(at(7), Phase::Executing, true);
        known.begin(at(10), Phase::Executing, true);
        known.end(at(20), Phase::Executing, true);
        let nonzero = |over_time: &OverTime| over_time.buckets().filter(|(_, ns)| *ns > 0).collect::<Vec<_>>();
        let told = known.look(at(30), |all| [&all[0][0], &all[0][1], &all[1][0], &all[1][1]].map(nonzero));
        let nothing = vec![(0.0, 30)];
        let executing = vec![(0.0, 7), (1.0, 13), (f64::MAX, 10)];
        assert_eq!(told, [nothing.clone(), vec![(0.0, 28), (1.0, 2)], nothing, executing]);
    }
}
