//! Builds the autoscalers, rules and pods of this controller's tests.
//!
//! Corresponds to the testCase structs of pkg/controller/podautoscaler's tests.

use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::autoscaling::v2::{
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior,
};
use proto::kinds::api::core::v1::{Container, Pod, ResourceRequirements};
use proto::kinds::apimachinery::api::resource::Quantity;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns rules without a window, with policies of type, value and period.
pub fn rules(policies: &[(&str, i32, i32)]) -> HPAScalingRules {
    let policy = |&(type_, value, period_seconds): &(&str, i32, i32)| HPAScalingPolicy {
        period_seconds,
        type_: type_.to_owned(),
        value,
    };
    HPAScalingRules {
        policies: Some(policies.iter().map(policy).collect()),
        stabilization_window_seconds: Some(0),
        ..HPAScalingRules::default()
    }
}

pub fn behavior(up: HPAScalingRules, down: HPAScalingRules) -> HorizontalPodAutoscalerBehavior {
    HorizontalPodAutoscalerBehavior { scale_up: Some(up), scale_down: Some(down) }
}

/// Returns a pod that runs and has been ready for long, whose containers request CPU; an empty text is no request.
pub fn requesting(name: &str, containers: &[(&str, &str)]) -> Pod {
    let mut pod = fixture::pod(name);
    fixture::set_phase(&mut pod, "Running");
    fixture::set_ready(&mut pod, fixture::at(0));
    pod.status.get_or_insert_default().start_time = Some(fixture::time(0));
    pod.metadata.labels = Some(fixture::labels(&[("app", "web")]));
    let container = |&(name, cpu): &(&str, &str)| {
        let requests: BTreeMap<String, Quantity> = Some(cpu)
            .filter(|cpu| !cpu.is_empty())
            .map(|cpu| ("cpu".to_owned(), Quantity(cpu.to_owned())))
            .into_iter()
            .collect();
        Container {
            name: name.to_owned(),
            resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
            ..Container::default()
        }
    };
    pod.spec.get_or_insert_default().containers = containers.iter().map(container).collect();
    pod
}

/// Returns an autoscaler of the deployment `web` between 1 and 10 pods, with these members of its spec.
pub fn autoscaler(more: Value) -> HorizontalPodAutoscaler {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let mut autoscaler = HorizontalPodAutoscaler::decode_value(json!({"metadata": {}, "spec": spec})).unwrap();
    autoscaler.metadata = fixture::meta("web");
    autoscaler
}
