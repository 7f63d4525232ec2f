//! Draws metrics, behaviours and clocks, and checks that a target stays within its bounds and policies.
//!
//! Corresponds to no test of Kubernetes; the properties are those of its documentation.

use super::behavior::{Bounds, Change};
use super::fixture::{behavior, rules};
use super::history::History;
use controller_base::fixture::at;
use proptest::prelude::*;
use proto::kinds::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};
use std::time::Duration;

/// A change of size: the time, the size before and after it.
type Resize = (i64, i32, i32);

fn any_rules() -> impl Strategy<Value = HPAScalingRules> {
    let policy = (prop_oneof![Just("Pods"), Just("Percent")], 1..200_i32, 1..200_i32);
    let select = prop_oneof![Just(None), Just(Some("Max")), Just(Some("Min")), Just(Some("Disabled"))];
    (proptest::collection::vec(policy, 1..4), proptest::option::of(0..300_i32), select).prop_map(
        |(policies, window, select)| HPAScalingRules {
            stabilization_window_seconds: window,
            select_policy: select.map(str::to_owned),
            ..rules(&policies)
        },
    )
}

fn any_behavior() -> impl Strategy<Value = Option<HorizontalPodAutoscalerBehavior>> {
    proptest::option::of((any_rules(), any_rules()).prop_map(|(up, down)| behavior(up, down)))
}

/// Returns the size of a target at the beginning of a period, by all changes.
fn size_at_start(resizes: &[Resize], period_s: i32, wanted: i32, now: i64) -> i32 {
    let in_period = resizes.iter().find(|(at, ..)| now - at < i64::from(period_s));
    in_period.map_or(wanted, |(_, before, _)| *before)
}

/// Returns true if at least one policy allows the change, or all, as the rules select.
fn is_allowed(rules: &HPAScalingRules, resizes: &[Resize], from: i32, to: i32, now: i64) -> bool {
    let allows = |policy: &proto::kinds::api::autoscaling::v2::HPAScalingPolicy| {
        let before = size_at_start(resizes, policy.period_seconds, from, now);
        let is_percent = policy.type_ == "Percent";
        let most =
            if is_percent { f64::from(before) * f64::from(policy.value) / 100.0 } else { f64::from(policy.value) };
        let change = f64::from(if to > from { to - before } else { before - to });
        // Sizes are whole, and rounded so that more changes. As in Kubernetes, a product of floats that is a hair above a
        // whole number counts as the next one: 100 × 1.09 gives 110.
        change <= (most + 1e-6).ceil()
    };
    let mut policies = rules.policies.iter().flatten();
    match rules.select_policy.as_deref() {
        Some("Disabled") => false,
        Some("Min") => policies.all(allows),
        _ => policies.any(allows),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_round_leaves_the_bounds_or_breaks_a_policy(
        behavior in any_behavior(),
        (min, max) in (0..20_i32, 1..200_i32).prop_map(|(min, more)| (min, min + more)),
        start in 0..220_i32,
        rounds in proptest::collection::vec((1..60_i64, -10..2000_i32), 1..60),
    ) {
        let bounds = Bounds { min, max };
        let mut history = History::default();
        let mut resizes: Vec<Resize> = Vec::new();
        let mut wanted = start.clamp(min, max);
        let mut now = 0;
        for (pause, recommended) in rounds {
            now += pause;
            let recommended = recommended.max(0);
            let downscale_window = Duration::from_secs(60);
            history.begin(wanted, at(now));
            let change = Change { wanted, bounds, behavior: behavior.as_ref(), downscale_window, history: &history, now: at(now) };
            let limited = change.limited(recommended);
            let next = limited.replicas;
            prop_assert!((min..=max).contains(&next), "{next} is not in {min}..={max}");
            // The size moves towards the highest or lowest recommendation, and never away from all of them.
            prop_assert!(next <= wanted || recommended > wanted || behavior.is_none(), "grows without a reason");
            prop_assert!(next >= wanted || recommended < wanted, "shrinks without a reason");
            if let Some(behavior) = &behavior && next != wanted {
                let rules = if next > wanted { &behavior.scale_up } else { &behavior.scale_down };
                let rules = rules.as_ref().unwrap();
                prop_assert!(is_allowed(rules, &resizes, wanted, next, now), "{wanted} to {next} by {rules:?} after {resizes:?} at {now}");
            }
            history.recommend(recommended, at(now));
            if next != wanted {
                history.resized(wanted, next, at(now));
                resizes.push((now, wanted, next));
                wanted = next;
            }
        }
    }

    #[test]
    fn a_history_that_is_merged_says_the_same(
        rounds in proptest::collection::vec((1..60_i64, 0..4_i32), 1..80),
        window in 0..600_u64,
    ) {
        let mut history = History::default();
        let mut all = Vec::new();
        let mut now = 0;
        for (pause, recommended) in rounds {
            now += pause;
            history.recommend(recommended, at(now));
            all.push((now, recommended));
            let recent: Vec<i32> = all.iter().filter(|(at, _)| now - at < i64::try_from(window).unwrap()).map(|(_, size)| *size).collect();
            let kept: Vec<i32> = history.recommended_within(Duration::from_secs(window), at(now)).collect();
            prop_assert_eq!(recent.iter().max(), kept.iter().max());
            prop_assert_eq!(recent.iter().min(), kept.iter().min());
        }
    }
}
