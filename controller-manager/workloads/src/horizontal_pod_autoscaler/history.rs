//! `History`: the recent recommendations for one autoscaler, and its recent changes of size.
//!
//! It is kept in the process alone. After a restart, the present size counts as the first recommendation, so that a target
//! does not shrink before its stabilisation window is over. Corresponds to timestampedRecommendation and
//! timestampedScaleEvent in pkg/controller/podautoscaler/horizontal.go.

use controller_base::clock;
use jiff::Timestamp;
use std::time::Duration;

/// Longest window and longest period that the API allows (3600 s and 1800 s): what is older is never asked for.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// A number of pods at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    pods: i32,
    at: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Sizes that the metrics asked for. Of equal ones in a row only the last is kept: it leaves each window last.
    recommended: Vec<Entry>,
    /// Numbers of pods that were added.
    added: Vec<Entry>,
    /// Numbers of pods that were removed.
    removed: Vec<Entry>,
}

impl History {
    /// Begins with the present size, unless there is a recommendation already.
    pub fn begin(&mut self, wanted: i32, now: Timestamp) {
        if self.recommended.is_empty() {
            self.recommended.push(Entry { pods: wanted, at: now });
        }
    }

    pub fn recommend(&mut self, replicas: i32, now: Timestamp) {
        forget(&mut self.recommended, now);
        match self.recommended.last_mut() {
            Some(last) if last.pods == replicas => last.at = now,
            _ => self.recommended.push(Entry { pods: replicas, at: now }),
        }
    }

    /// Remembers a change of size.
    pub fn resized(&mut self, from: i32, to: i32, now: Timestamp) {
        let (changes, pods) = if to > from { (&mut self.added, to - from) } else { (&mut self.removed, from - to) };
        forget(changes, now);
        changes.push(Entry { pods, at: now });
    }

    /// Returns the recommendations of the last `window`.
    pub fn recommended_within(&self, window: Duration, now: Timestamp) -> impl Iterator<Item = i32> {
        within(&self.recommended, window, now)
    }

    /// Returns the size at the beginning of a period that ends now.
    pub fn size_before(&self, period: Duration, wanted: i32, now: Timestamp) -> i32 {
        let sum = |changes| within(changes, period, now).fold(0_i32, i32::saturating_add);
        wanted.saturating_sub(sum(&self.added)).saturating_add(sum(&self.removed))
    }
}

fn within(entries: &[Entry], window: Duration, now: Timestamp) -> impl Iterator<Item = i32> {
    entries.iter().filter(move |entry| clock::since(entry.at, now) < window).map(|entry| entry.pods)
}

/// Drops what is too old. After the clock was set back, entries of the future become entries of the present: otherwise
/// they would count for as long as the clock went back.
fn forget(entries: &mut Vec<Entry>, now: Timestamp) {
    entries.retain(|entry| clock::since(entry.at, now) < KEPT_FOR);
    entries.iter_mut().for_each(|entry| entry.at = entry.at.min(now));
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::at;

    fn recommended(history: &History, window_s: u64, now: i64) -> Vec<i32> {
        history.recommended_within(Duration::from_secs(window_s), at(now)).collect()
    }

    #[test]
    fn a_window_holds_what_is_younger() {
        let mut history = History::default();
        history.begin(4, at(0));
        history.begin(9, at(1));
        for (replicas, second) in [(2, 15), (2, 30), (3, 45)] {
            history.recommend(replicas, at(second));
        }
        assert_eq!(recommended(&history, 60, 45), [4, 2, 3]);
        assert_eq!(recommended(&history, 30, 45), [2, 3], "the later of both twos is 15 s old");
        assert_eq!(recommended(&history, 15, 45), [3]);
        assert_eq!(recommended(&history, 0, 45), [0; 0]);
        history.recommend(1, at(5000));
        assert_eq!(recommended(&history, 3600, 5000), [1]);
        assert_eq!(history.recommended.len(), 1, "nothing that no window can reach is kept");
    }

    #[test]
    fn changes_lead_back_to_the_size_before() {
        let mut history = History::default();
        history.resized(2, 6, at(10));
        history.resized(6, 5, at(20));
        history.resized(5, 8, at(30));
        // At second 35 there are 8 pods: 3 were added 5 s ago, 1 was removed 15 s ago, 4 were added 25 s ago.
        for (period, expected) in [(5, 8), (10, 5), (20, 6), (30, 2)] {
            assert_eq!(history.size_before(Duration::from_secs(period), 8, at(35)), expected, "{period}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_prolongs_no_window() {
        let mut history = History::default();
        history.recommend(9, at(10_000));
        history.recommend(2, at(0));
        assert_eq!(recommended(&history, 60, 59), [9, 2]);
        assert_eq!(recommended(&history, 60, 60), [0; 0]);
    }
}
