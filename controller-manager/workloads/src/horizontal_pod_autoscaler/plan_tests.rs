//! Plans of rounds, as text.
//!
//! Corresponds to pkg/controller/podautoscaler/horizontal_test.go.

use super::fixture::autoscaler;
use super::history::History;
use super::plan::{Observed, Target, plan, plan_failed_resize};
use super::recommendation::{Recommendation, Verdict};
use super::target::Scale;
use client::{Action, Plan};
use controller_base::autoscaler_options::AutoscalerOptions;
use controller_base::fixture::at;
use controller_base::options::Settings;
use expect_test::{Expect, expect};
use proto::Gvr;
use proto::Kind;
use proto::kinds::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricStatus};
use serde_json::{Value, json};
use std::sync::Arc;

fn options() -> AutoscalerOptions {
    Settings::default().autoscaling
}

fn target(wanted: i32, verdict: Verdict) -> Result<Target, String> {
    let object = json!({
        "metadata": {"name": "web", "resourceVersion": "7"},
        "spec": {"replicas": wanted}, "status": {"replicas": wanted, "selector": "app=web"},
    });
    let gvr = Gvr::new("apps", "v1", "deployments");
    let scale = Scale { gvr, namespace: "default".to_owned(), name: "web".to_owned(), object };
    let warnings = match &verdict {
        Verdict::Unknown { reason, message, .. } => vec![(*reason, message.clone())],
        Verdict::Size { .. } => Vec::new(),
    };
    let recommendation = Some(Recommendation { warnings, statuses: Some(vec![MetricStatus::default()]), verdict });
    Ok(Target { scale, recommendation, history: History::default() })
}

fn size(replicas: i32) -> Verdict {
    Verdict::Size { replicas, metric: "cpu resource utilization (percentage of request)".to_owned() }
}

fn observed(spec: Value, target: Result<Target, String>) -> Observed {
    Observed { autoscaler: Arc::new(autoscaler(spec)), target }
}

fn planned(observed: &Observed) -> Plan {
    plan(observed, &options(), at(100))
}

/// Prints a plan, with the conditions of the status in lines of their own.
fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for action in &plan.actions {
        let Action::UpdateStatus { object, .. } = action else {
            text += &format!("{action}\n");
            continue;
        };
        let status = &object["status"];
        text += &format!("status: {} -> {}", status["currentReplicas"], status["desiredReplicas"]);
        text += if status["lastScaleTime"].is_null() { "\n" } else { ", resized\n" };
        for condition in status["conditions"].as_array().unwrap() {
            let field = |name: &str| condition[name].as_str().unwrap().to_owned();
            text += &format!("  {}={} {}: {}\n", field("type"), field("status"), field("reason"), field("message"));
        }
    }
    text
}

fn check(observed: &Observed, expected: Expect) {
    let plan = planned(observed);
    assert_eq!(plan.requeue_after, Some(options().sync_period()));
    expected.assert_eq(&shown(&plan));
}

#[test]
fn a_target_grows() {
    check(
        &observed(json!({}), target(2, size(4))),
        expect![[r#"
            put deployments.apps/scale default/web {"metadata":{"name":"web","resourceVersion":"7"},"spec":{"replicas":4},"status":{"replicas":2,"selector":"app=web"}}
            event Normal SuccessfulRescale HorizontalPodAutoscaler default/web: New size: 4; reason: cpu resource utilization (percentage of request) above target
            status: 2 -> 4, resized
              AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 4
              ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
              ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range
        "#]],
    );
}

#[test]
fn a_target_shrinks_as_far_as_it_may() {
    check(
        &observed(json!({"minReplicas": 2}), target(3, size(0))),
        expect![[r#"
            put deployments.apps/scale default/web {"metadata":{"name":"web","resourceVersion":"7"},"spec":{"replicas":2},"status":{"replicas":3,"selector":"app=web"}}
            event Normal SuccessfulRescale HorizontalPodAutoscaler default/web: New size: 2; reason: All metrics below target
            status: 3 -> 2, resized
              AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 2
              ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
              ScalingLimited=True TooFewReplicas: the desired replica count is less than the minimum replica count
        "#]],
    );
}

#[test]
fn a_target_out_of_its_bounds_comes_back_without_metrics() {
    let first = |spec: Value, wanted: i32| {
        let target = Target { recommendation: None, ..target(wanted, size(5)).unwrap() };
        let plan = planned(&observed(spec, Ok(target)));
        plan.actions
            .into_iter()
            .filter_map(|action| match action {
                Action::Event(event) => Some(event.message),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let above = "New size: 10; reason: Current number of replicas above Spec.MaxReplicas";
    assert_eq!(first(json!({}), 11), [above]);
    let below = "New size: 3; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(first(json!({"minReplicas": 3}), 2), [below]);
}

#[test]
fn a_target_without_pods_is_switched_off() {
    check(
        &observed(json!({}), target(0, size(4))),
        expect![[r#"
            status: null -> 0
              AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
              ScalingActive=False ScalingDisabled: scaling is disabled since the replica count of the target is zero
        "#]],
    );
}

#[test]
fn a_target_that_may_have_no_pods_comes_back() {
    check(
        &observed(json!({"minReplicas": 0}), target(0, size(1))),
        expect![[r#"
            put deployments.apps/scale default/web {"metadata":{"name":"web","resourceVersion":"7"},"spec":{"replicas":1},"status":{"replicas":0,"selector":"app=web"}}
            event Normal SuccessfulRescale HorizontalPodAutoscaler default/web: New size: 1; reason: cpu resource utilization (percentage of request) above target
            status: null -> 1, resized
              AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 1
              ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
              ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range
        "#]],
    );
}

#[test]
fn without_a_scale_nothing_happens() {
    check(
        &observed(json!({}), Err("deployments.apps \"web\" not found".to_owned())),
        expect![[r#"
            event Warning FailedGetScale HorizontalPodAutoscaler default/web: deployments.apps "web" not found
            status: null -> 0
              AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps "web" not found
        "#]],
    );
}

#[test]
fn without_metrics_nothing_happens() {
    let gone = Verdict::Unknown {
        reason: "FailedGetResourceMetric",
        message: "the HPA was unable to compute the replica count: gone".to_owned(),
        error: "invalid metrics (1 invalid out of 1), first error is: gone".to_owned(),
    };
    check(
        &observed(json!({}), target(3, gone)),
        expect![[r#"
            event Warning FailedGetResourceMetric HorizontalPodAutoscaler default/web: the HPA was unable to compute the replica count: gone
            event Warning FailedComputeMetricsReplicas HorizontalPodAutoscaler default/web: invalid metrics (1 invalid out of 1), first error is: gone
            status: 3 -> 0
              AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
              ScalingActive=False FailedGetResourceMetric: the HPA was unable to compute the replica count: gone
        "#]],
    );
}

#[test]
fn an_ambiguous_selector_is_told() {
    let error = "pods by selector app=web are controlled by multiple HPAs: [default/a default/web]";
    let mut target = target(3, size(5)).unwrap();
    target.recommendation = Some(Recommendation::without_pods("AmbiguousSelector", error));
    check(
        &observed(json!({}), Ok(target.clone())),
        expect![[r#"
            event Warning AmbiguousSelector HorizontalPodAutoscaler default/web: pods by selector app=web are controlled by multiple HPAs: [default/a default/web]
            event Warning FailedComputeMetricsReplicas HorizontalPodAutoscaler default/web: pods by selector app=web are controlled by multiple HPAs: [default/a default/web]
            status: 3 -> 0
              AbleToScale=True SucceededGetScale: the HPA controller was able to get the target's current scale
              ScalingActive=False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [default/a default/web]
        "#]],
    );
    target.recommendation = Some(Recommendation::without_pods("SelectorRequired", "selector is required"));
    let text = shown(&planned(&observed(json!({}), Ok(target))));
    assert!(
        text.contains("ScalingActive=False InvalidSelector: the HPA target's scale is missing a selector"),
        "{text}"
    );
}

#[test]
fn a_size_that_could_not_be_written_is_told() {
    let observed = observed(json!({}), target(2, size(4)));
    let plan = plan_failed_resize(&observed, &options(), "quota exceeded", at(100));
    expect![[r#"
        event Warning FailedRescale HorizontalPodAutoscaler default/web: New size: 4; reason: cpu resource utilization (percentage of request) above target; error: quota exceeded
        status: 2 -> 0
          AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the target scale: quota exceeded
          ScalingActive=True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)
          ScalingLimited=False DesiredWithinRange: the desired count is within the acceptable range
    "#]]
    .assert_eq(&shown(&plan));
}

#[test]
fn an_unchanged_state_writes_nothing() {
    let mut observed = observed(json!({}), target(3, size(3)));
    let plan = planned(&observed);
    let [Action::UpdateStatus { object, .. }] = plan.actions.as_slice() else { panic!("{plan}") };
    observed.autoscaler = Arc::new(HorizontalPodAutoscaler::decode_value(object.clone()).unwrap());
    assert_eq!(planned(&observed).actions, []);
}
