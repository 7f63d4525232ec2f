//! `Limited`: the size that a target gets, after recent recommendations, policies and bounds have limited a
//! recommendation.
//!
//! First the stabilisation windows damp it: a target grows to the lowest size that was recommended within the window of
//! scale-up, and shrinks to the highest within that of scale-down.
//!
//! ```text
//!   present size 4, recommended in the last 5 minutes: 5, 6, 3, now 2
//!   window of scale-down 5 minutes:  the highest is 6, so nothing shrinks, and 4 stays
//!   window of scale-down 0:          2
//! ```
//!
//! Then the policies limit how fast it changes, and `minReplicas` and `maxReplicas` how far. Corresponds to
//! normalizeDesiredReplicas and normalizeDesiredReplicasWithBehaviors in pkg/controller/podautoscaler/horizontal.go.

use super::history::History;
use super::policies::{Direction, Rules};
use jiff::Timestamp;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use std::time::Duration;

/// Reason and message of a condition.
pub type Why = (&'static str, &'static str);

const READY: Why = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Why = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Why = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN_RANGE: Why = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_LIMIT: Why = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: Why =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: Why = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Why = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

/// The factor and the least size that a target without `behavior` may grow to in one round.
const GROWTH_FACTOR: i32 = 2;
const GROWTH_LEAST: i32 = 4;

/// The sizes between which a target stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    pub replicas: i32,
    /// Reason and message of `AbleToScale`.
    pub able: Why,
    /// True if the size differs from the stabilised one.
    pub is_limited: bool,
    /// Reason and message of `ScalingLimited`.
    pub limit: Why,
}

/// A target's size, what limits its change, and how it got there.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The present size, which is within the bounds.
    pub wanted: i32,
    pub bounds: Bounds,
    pub behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
    /// Window of scale-down where `behavior` names none.
    pub downscale_window: Duration,
    pub history: &'a History,
    pub now: Timestamp,
}

impl Change<'_> {
    /// Limits a recommendation.
    pub fn limited(&self, recommended: i32) -> Limited {
        let Some(behavior) = self.behavior else { return self.limited_by_default(recommended) };
        let up = Rules::new(Direction::Up, behavior.scale_up.as_ref(), Duration::ZERO);
        let down = Rules::new(Direction::Down, behavior.scale_down.as_ref(), self.downscale_window);
        let lowest = self.recommended_within(up.window).fold(recommended, i32::min);
        let highest = self.recommended_within(down.window).fold(recommended, i32::max);
        let stabilized = self.wanted.max(lowest).min(highest);
        let able = match (stabilized == recommended, recommended >= self.wanted) {
            (true, _) => READY,
            (false, true) => UP_STABILIZED,
            (false, false) => DOWN_STABILIZED,
        };
        let (replicas, limit) = if stabilized > self.wanted {
            self.capped(stabilized, up.limit(self.wanted, self.history, self.now))
        } else if stabilized < self.wanted {
            self.floored(stabilized, down.limit(self.wanted, self.history, self.now))
        } else {
            (stabilized, WITHIN_RANGE)
        };
        Limited { replicas, able, is_limited: replicas != stabilized, limit }
    }

    /// Limits the recommendation for an autoscaler without `behavior`, by the rules from before there was one.
    fn limited_by_default(&self, recommended: i32) -> Limited {
        let stabilized = self.recommended_within(self.downscale_window).fold(recommended, i32::max);
        let able = if stabilized == recommended { READY } else { DOWN_STABILIZED };
        let (replicas, limit) = if stabilized < self.bounds.min {
            (self.bounds.min, TOO_FEW)
        } else {
            self.capped(stabilized, self.wanted.saturating_mul(GROWTH_FACTOR).max(GROWTH_LEAST))
        };
        Limited { replicas, able, is_limited: replicas != stabilized, limit }
    }

    fn recommended_within(&self, window: Duration) -> impl Iterator<Item = i32> {
        self.history.recommended_within(window, self.now)
    }

    fn capped(&self, replicas: i32, fastest: i32) -> (i32, Why) {
        let (most, why) = if self.bounds.max > fastest { (fastest, UP_LIMIT) } else { (self.bounds.max, TOO_MANY) };
        if replicas > most { (most, why) } else { (replicas, WITHIN_RANGE) }
    }

    fn floored(&self, replicas: i32, fastest: i32) -> (i32, Why) {
        let (least, why) = if self.bounds.min < fastest { (fastest, DOWN_LIMIT) } else { (self.bounds.min, TOO_FEW) };
        if replicas < least { (least, why) } else { (replicas, WITHIN_RANGE) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{behavior, rules};
    use super::*;
    use controller_base::fixture::at;

    const BOUNDS: Bounds = Bounds { min: 2, max: 10 };

    /// Returns the limited size of a target of 4 pods at second 300, and the reasons of both conditions.
    fn limited(
        recommended: i32,
        earlier: &[(i32, i64)],
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
    ) -> (i32, &'static str, &'static str) {
        let mut history = History::default();
        earlier.iter().for_each(|(replicas, second)| history.recommend(*replicas, at(*second)));
        let change = Change {
            wanted: 4,
            bounds: BOUNDS,
            behavior,
            downscale_window: Duration::from_secs(120),
            history: &history,
            now: at(300),
        };
        let Limited { replicas, able, is_limited, limit } = change.limited(recommended);
        assert_eq!(is_limited, limit != WITHIN_RANGE);
        (replicas, able.0, limit.0)
    }

    #[test]
    fn without_behavior() {
        let (ready, stabilized, within) = ("ReadyForNewScale", "ScaleDownStabilized", "DesiredWithinRange");
        let cases: [(i32, &[(i32, i64)], (i32, &str, &str)); 8] = [
            (4, &[], (4, ready, within)),
            (6, &[], (6, ready, within)),
            // At most twice as many: 2 × 4 = 8.
            (9, &[], (8, ready, "ScaleUpLimit")),
            (1, &[], (2, ready, "TooFewReplicas")),
            // Of the recommendations of the last 120 s the highest counts.
            (3, &[(5, 200), (4, 290)], (5, stabilized, within)),
            (3, &[(5, 179), (3, 290)], (3, ready, within)),
            (3, &[(9, 200)], (8, stabilized, "ScaleUpLimit")),
            (0, &[(1, 299)], (2, stabilized, "TooFewReplicas")),
        ];
        for (recommended, earlier, expected) in cases {
            assert_eq!(limited(recommended, earlier, None), expected, "{recommended} after {earlier:?}");
        }
    }

    #[test]
    fn with_windows_in_both_directions() {
        let (ready, within) = ("ReadyForNewScale", "DesiredWithinRange");
        let mut windows = behavior(rules(&[("Pods", 100, 60)]), rules(&[("Pods", 100, 60)]));
        windows.scale_up.as_mut().unwrap().stabilization_window_seconds = Some(60);
        windows.scale_down.as_mut().unwrap().stabilization_window_seconds = Some(180);
        let cases: [(i32, &[(i32, i64)], (i32, &str, &str)); 7] = [
            // Grows to the lowest of the last 60 s.
            (9, &[(7, 250), (8, 290)], (7, "ScaleUpStabilized", within)),
            (9, &[(5, 240), (8, 290)], (8, "ScaleUpStabilized", within)),
            // The lowest is below the present size: it neither grows nor shrinks.
            (9, &[(3, 290)], (4, "ScaleUpStabilized", within)),
            // Shrinks to the highest of the last 180 s.
            (2, &[(3, 121)], (3, "ScaleDownStabilized", within)),
            (2, &[(3, 120)], (2, ready, within)),
            (2, &[(7, 200)], (4, "ScaleDownStabilized", within)),
            (12, &[], (10, ready, "TooManyReplicas")),
        ];
        for (recommended, earlier, expected) in cases {
            assert_eq!(limited(recommended, earlier, Some(&windows)), expected, "{recommended} after {earlier:?}");
        }
    }

    #[test]
    fn with_policies() {
        let slow = behavior(rules(&[("Pods", 1, 60)]), rules(&[("Percent", 25, 60)]));
        let ready = "ReadyForNewScale";
        assert_eq!(limited(9, &[], Some(&slow)), (5, ready, "ScaleUpLimit"));
        // 4 × 0.75 = 3.
        assert_eq!(limited(2, &[], Some(&slow)), (3, ready, "ScaleDownLimit"));
        let fast = behavior(rules(&[("Percent", 900, 60)]), rules(&[("Percent", 100, 60)]));
        assert_eq!(limited(99, &[], Some(&fast)), (10, ready, "TooManyReplicas"));
        assert_eq!(limited(0, &[], Some(&fast)), (2, ready, "TooFewReplicas"));
        let mut fixed = fast.clone();
        fixed.scale_down.as_mut().unwrap().select_policy = Some("Disabled".to_owned());
        assert_eq!(limited(2, &[], Some(&fixed)), (4, ready, "ScaleDownLimit"));
        // Without a window of its own, scale-down has that of the flag: 120 s.
        let mut of_flag = fast;
        of_flag.scale_down.as_mut().unwrap().stabilization_window_seconds = None;
        assert_eq!(limited(2, &[(4, 200)], Some(&of_flag)), (4, "ScaleDownStabilized", "DesiredWithinRange"));
    }
}
