//! Plans one round of an autoscaler: the new size of its target, the events about it, and the new status.
//!
//! Corresponds to reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go.

use super::behavior::{Bounds, Change, Limited};
use super::history::History;
use super::recommendation::{Recommendation, Verdict};
use super::status::{ABLE_TO_SCALE, Draft, SCALING_ACTIVE, SCALING_LIMITED};
use super::target::Scale;
use client::Plan;
use controller_base::actions;
use controller_base::autoscaler_options::AutoscalerOptions;
use jiff::Timestamp;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use std::sync::Arc;

/// What one round knows.
#[derive(Clone, Debug)]
pub struct Observed {
    pub autoscaler: Arc<HorizontalPodAutoscaler>,
    /// The reason if the target's scale could not be read.
    pub target: Result<Target, String>,
}

#[derive(Clone, Debug, Default)]
pub struct Target {
    pub scale: Scale,
    /// What the metrics ask for; `None` if the bounds decide without them.
    pub recommendation: Option<Recommendation>,
    pub history: History,
}

/// What a round makes of a target.
#[derive(Debug, PartialEq)]
enum Decision {
    Stay,
    Resize {
        replicas: i32,
        reason: String,
    },
    /// Nobody knows the right size; the text says why.
    Unknown(String),
}

pub fn bounds(autoscaler: &HorizontalPodAutoscaler) -> Bounds {
    Bounds { min: autoscaler.spec.min_replicas.unwrap_or(1), max: autoscaler.spec.max_replicas }
}

/// Returns true if metrics decide about a target of this size. A target without pods, unless its autoscaler shrank it to
/// none, is switched off; outside the bounds the bounds decide.
pub fn needs_metrics(bounds: Bounds, wanted: i32) -> bool {
    (bounds.min..=bounds.max).contains(&wanted)
}

pub fn plan(observed: &Observed, options: &AutoscalerOptions, now: Timestamp) -> Plan {
    let autoscaler = &*observed.autoscaler;
    let mut draft = Draft::of(autoscaler, now);
    let mut plan = Plan { actions: Vec::new(), requeue_after: Some(options.sync_period()) };
    let target = match &observed.target {
        Ok(target) => target,
        Err(error) => {
            let message = format!("the HPA controller was unable to get the target's current scale: {error}");
            draft.set(ABLE_TO_SCALE, false, "FailedGetScale", message);
            plan.push(actions::warning(autoscaler, "FailedGetScale", error));
            plan.actions.extend(draft.update());
            return plan;
        }
    };
    let decision = decide(&mut draft, autoscaler, target, options, now);
    for (reason, message) in target.recommendation.iter().flat_map(|asked| &asked.warnings) {
        plan.push(actions::warning(autoscaler, reason, message));
    }
    match decision {
        Decision::Stay => draft.desire(target.scale.wanted()),
        Decision::Unknown(error) => plan.push(actions::warning(autoscaler, "FailedComputeMetricsReplicas", error)),
        Decision::Resize { replicas, reason } => {
            plan.push(target.scale.resize(replicas));
            plan.push(actions::normal(
                autoscaler,
                "SuccessfulRescale",
                format!("New size: {replicas}; reason: {reason}"),
            ));
            let message = format!("the HPA controller was able to update the target scale to {replicas}");
            draft.set(ABLE_TO_SCALE, true, "SucceededRescale", message);
            draft.desire(replicas);
            draft.resized();
        }
    }
    plan.actions.extend(draft.update());
    plan
}

/// Plans what says that the target could not get its new size.
pub fn plan_failed_resize(observed: &Observed, options: &AutoscalerOptions, error: &str, now: Timestamp) -> Plan {
    let autoscaler = &*observed.autoscaler;
    let mut draft = Draft::of(autoscaler, now);
    let Ok(target) = &observed.target else { return Plan::default() };
    let Decision::Resize { replicas, reason } = decide(&mut draft, autoscaler, target, options, now) else {
        return Plan::default();
    };
    let message = format!("the HPA controller was unable to update the target scale: {error}");
    draft.set(ABLE_TO_SCALE, false, "FailedUpdateScale", message);
    let text = format!("New size: {replicas}; reason: {reason}; error: {error}");
    Plan::of([actions::warning(autoscaler, "FailedRescale", text)].into_iter().chain(draft.update()))
}

/// Decides about a target whose scale is known, and sets the conditions that say why.
fn decide(
    draft: &mut Draft<'_>,
    autoscaler: &HorizontalPodAutoscaler,
    target: &Target,
    options: &AutoscalerOptions,
    now: Timestamp,
) -> Decision {
    let got = "the HPA controller was able to get the target's current scale";
    draft.set(ABLE_TO_SCALE, true, "SucceededGetScale", got);
    let (bounds, wanted) = (bounds(autoscaler), target.scale.wanted());
    draft.observe(wanted, target.recommendation.as_ref().and_then(|asked| asked.statuses.clone()));
    if wanted == 0 && bounds.min != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        draft.set(SCALING_ACTIVE, false, "ScalingDisabled", message);
        return Decision::Stay;
    }
    if wanted > bounds.max {
        let reason = "Current number of replicas above Spec.MaxReplicas".to_owned();
        return Decision::Resize { replicas: bounds.max, reason };
    }
    if wanted < bounds.min {
        let reason = "Current number of replicas below Spec.MinReplicas".to_owned();
        return Decision::Resize { replicas: bounds.min, reason };
    }
    let Some(recommendation) = &target.recommendation else { return Decision::Stay };
    let (recommended, metric) = match &recommendation.verdict {
        Verdict::Size { replicas, metric } => ((*replicas).max(0), metric),
        Verdict::Unknown { reason, message, error } => {
            draft.set(SCALING_ACTIVE, false, reason, message);
            return Decision::Unknown(error.clone());
        }
    };
    let valid = format!("the HPA was able to successfully calculate a replica count from {metric}");
    draft.set(SCALING_ACTIVE, true, "ValidMetricFound", valid);
    let change = Change {
        wanted,
        bounds,
        behavior: autoscaler.spec.behavior.as_ref(),
        downscale_window: options.horizontal_pod_autoscaler_downscale_stabilization,
        history: &target.history,
        now,
    };
    let Limited { replicas, able, is_limited, limit } = change.limited(recommended);
    draft.set(ABLE_TO_SCALE, true, able.0, able.1);
    draft.set(SCALING_LIMITED, is_limited, limit.0, limit.1);
    if replicas == wanted {
        return Decision::Stay;
    }
    let reason = match recommended.cmp(&wanted) {
        std::cmp::Ordering::Greater => format!("{metric} above target"),
        std::cmp::Ordering::Less => "All metrics below target".to_owned(),
        std::cmp::Ordering::Equal => String::new(),
    };
    Decision::Resize { replicas, reason }
}
