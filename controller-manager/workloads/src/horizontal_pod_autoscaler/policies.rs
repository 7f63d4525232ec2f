//! `Rules`: how fast and after which delay a target may change its size in one direction.
//!
//! Corresponds to HPAScalingRules of autoscaling/v2, and to calculateScaleUpLimitWithScalingRules and
//! calculateScaleDownLimitWithBehaviors in pkg/controller/podautoscaler/horizontal.go.

use super::history::History;
use jiff::Timestamp;
use proto::kinds::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules};
use std::time::Duration;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// The rules for one direction. Those that the API server has not filled in get its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    direction: Direction,
    pub window: Duration,
    selection: Selection,
    policies: Vec<HPAScalingPolicy>,
}

/// Which of several policies counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selection {
    /// The one that allows the largest change.
    Max,
    Min,
    /// No change in this direction at all.
    Disabled,
}

impl Rules {
    pub fn new(direction: Direction, rules: Option<&HPAScalingRules>, default_window: Duration) -> Self {
        let seconds = rules.and_then(|rules| rules.stabilization_window_seconds);
        let policies = rules.and_then(|rules| rules.policies.clone()).filter(|policies| !policies.is_empty());
        let selection = match rules.and_then(|rules| rules.select_policy.as_deref()) {
            Some("Disabled") => Selection::Disabled,
            Some("Min") => Selection::Min,
            _ => Selection::Max,
        };
        Self {
            direction,
            window: seconds.map_or(default_window, seconds_of),
            selection,
            policies: policies.unwrap_or_else(|| default_policies(direction)),
        }
    }

    /// Returns the largest size that a target may get now, or the smallest on the way down.
    pub fn limit(&self, wanted: i32, history: &History, now: Timestamp) -> i32 {
        let size = |policy| self.size_by(policy, wanted, history, now);
        let allowed = self.policies.iter().map(size);
        let limit = match (self.selection, self.direction) {
            (Selection::Disabled, _) => None,
            (Selection::Max, Direction::Up) | (Selection::Min, Direction::Down) => allowed.max(),
            (Selection::Min, Direction::Up) | (Selection::Max, Direction::Down) => allowed.min(),
        };
        // A target that has changed faster than its policies allow, as after an edit of them, stays as it is.
        match self.direction {
            Direction::Up => limit.unwrap_or(wanted).max(wanted),
            Direction::Down => limit.unwrap_or(wanted).min(wanted),
        }
    }

    /// Returns the size that one policy allows. It counts from the size at the beginning of its period.
    fn size_by(&self, policy: &HPAScalingPolicy, wanted: i32, history: &History, now: Timestamp) -> i32 {
        let before = history.size_before(seconds_of(policy.period_seconds), wanted, now);
        let is_percent = policy.type_ == "Percent";
        let fraction = f64::from(policy.value) / 100.0;
        match self.direction {
            // Rounded up, so that a small percentage of few pods still allows one more.
            Direction::Up if is_percent => (f64::from(before) * (1.0 + fraction)).ceil() as i32,
            Direction::Up => before.saturating_add(policy.value),
            Direction::Down if is_percent => (f64::from(before) * (1.0 - fraction)) as i32,
            Direction::Down => before.saturating_sub(policy.value),
        }
    }
}

fn seconds_of(seconds: i32) -> Duration {
    Duration::from_secs(seconds.try_into().unwrap_or(0))
}

fn default_policies(direction: Direction) -> Vec<HPAScalingPolicy> {
    let policy = |type_: &str, value| HPAScalingPolicy { period_seconds: 15, type_: type_.to_owned(), value };
    match direction {
        Direction::Up => vec![policy("Pods", 4), policy("Percent", 100)],
        Direction::Down => vec![policy("Percent", 100)],
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::rules;
    use super::*;
    use controller_base::fixture::at;

    /// Runs rounds of 60 s that each ask for a very different size, and returns the sizes.
    fn sizes(direction: Direction, rules: &HPAScalingRules, from: i32, rounds: usize) -> Vec<i32> {
        let rules = Rules::new(direction, Some(rules), Duration::ZERO);
        let (mut history, mut size) = (History::default(), from);
        (0..rounds)
            .map(|round| {
                let now = at(60 * i64::try_from(round).unwrap());
                let next = rules.limit(size, &history, now);
                history.resized(size, next, now);
                size = next;
                next
            })
            .collect()
    }

    /// The example of Kubernetes' documentation: 4 pods or 10 percent a minute, whichever is more.
    ///
    /// ```text
    ///   80 × 0.9 = 72    72 × 0.9 = 64.8 → 64    64 × 0.9 = 57.6 → 57    57 × 0.9 = 51.3 → 51    51 × 0.9 = 45.9 → 45
    ///   45 × 0.9 = 40.5 → 40    40 × 0.9 = 36 = 40 - 4    36 - 4 = 32
    /// ```
    #[test]
    fn the_larger_of_two_policies_counts_on_the_way_down() {
        let both = rules(&[("Pods", 4, 60), ("Percent", 10, 60)]);
        assert_eq!(sizes(Direction::Down, &both, 80, 8), [72, 64, 57, 51, 45, 40, 36, 32]);
        let smaller = HPAScalingRules { select_policy: Some("Min".to_owned()), ..both.clone() };
        // 80 - 4 = 76    76 - 4 = 72 …
        assert_eq!(sizes(Direction::Down, &smaller, 80, 3), [76, 72, 68]);
        let none = HPAScalingRules { select_policy: Some("Disabled".to_owned()), ..both };
        assert_eq!(sizes(Direction::Down, &none, 80, 2), [80, 80]);
    }

    #[test]
    fn the_way_up_is_rounded_up() {
        // 1 × 1.1 = 1.1 → 2    2 × 1.1 = 2.2 → 3 …
        assert_eq!(sizes(Direction::Up, &rules(&[("Percent", 10, 60)]), 1, 3), [2, 3, 4]);
        // As floats, 100 × 1.09 is a hair above 109, and 110 after rounding. Kubernetes computes the same.
        assert_eq!(sizes(Direction::Up, &rules(&[("Percent", 9, 60)]), 100, 1), [110]);
        // 900 percent: times ten each minute.
        assert_eq!(sizes(Direction::Up, &rules(&[("Percent", 900, 60)]), 1, 4), [10, 100, 1000, 10_000]);
        // By default 4 more, or twice as many.
        let default = HPAScalingRules::default();
        assert_eq!(sizes(Direction::Up, &default, 1, 4), [5, 10, 20, 40]);
    }

    #[test]
    fn a_period_counts_all_changes_in_it() {
        let rules = Rules::new(Direction::Up, Some(&rules(&[("Pods", 4, 60)])), Duration::ZERO);
        let mut history = History::default();
        history.resized(2, 5, at(0));
        // 3 of the 4 pods of this minute are there already: 5 - 3 + 4 = 6.
        assert_eq!(rules.limit(5, &history, at(30)), 6);
        assert_eq!(rules.limit(5, &history, at(60)), 9);
        history.resized(5, 4, at(61));
        // The pod that was removed in this minute may come back: 4 + 1 + 4 = 9.
        assert_eq!(rules.limit(4, &history, at(62)), 9);
    }

    #[test]
    fn huge_numbers_stay_numbers() {
        let rules = Rules::new(Direction::Up, Some(&rules(&[("Pods", i32::MAX, 60)])), Duration::ZERO);
        assert_eq!(rules.limit(100_000, &History::default(), at(0)), i32::MAX);
    }
}
