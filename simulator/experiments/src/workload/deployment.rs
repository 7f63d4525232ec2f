//! Turns the Deployments of a workload into the objects that their user creates, and their loads into changes over time.

use crate::amounts::{CPU, amount};
use crate::draw::Draw;
use crate::files::Files;
use crate::load;
use crate::problem::Problem;
use crate::study::{self, Workload};
use crate::workload::load_file;
use crate::workload::pod::{NAMESPACE, Shape};
use crate::workload::{Arrival, MAX_PODS, PodFacts};
use proto::Kind;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use proto::kinds::api::core::v1::Pod;
use serde_json::{Value, json};
use std::time::Duration;

/// Label with the Deployment that a pod is of.
pub const DEPLOYMENT: &str = "orrery.dev/deployment";

/// A Deployment that exists from the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// `namespace/name`.
    pub name: String,
    pub document: Value,
    /// Its HorizontalPodAutoscaler.
    pub autoscaler: Option<Value>,
    /// What metrics need to know about each pod.
    pub facts: PodFacts,
    pub cpu_limit_milli: Option<i64>,
    /// A pod as the Deployment makes it, without its name.
    pub pod: Pod,
    /// When the load changes, and what it is from then on, in thousandths of a core.
    pub load: Vec<(Duration, i64)>,
}

/// Returns the Deployments of a workload with their loads until `until`, or every mistake.
pub fn deployments(
    workload: &Workload,
    files: &dyn Files,
    until: Duration,
    draw: &mut dyn Draw,
    place: &str,
) -> Result<Vec<Deployment>, Vec<Problem>> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for (index, one) in workload.deployments.iter().enumerate() {
        let path = format!("{place}.deployments[{index}]");
        let steps = match &one.load.csv {
            Some(csv) => load_file::steps(csv, files, &format!("{path}.load.csv")),
            None => Ok(load::steps(&one.load)),
        };
        let changes = steps.map(|steps| load::changes(&one.load, &steps, until, draw));
        match changes.map(|changes| of_study(one, changes)) {
            Ok(Ok(deployment)) => all.push(deployment),
            Ok(Err((field, why))) => problems.push(Problem::new(format!("{path}.{field}"), why)),
            Err(found) => problems.extend(found),
        }
    }
    let most = |one: &study::Deployment| one.autoscaler.as_ref().map_or(one.replicas.unwrap_or(1), |scaler| scaler.max);
    if workload.deployments.iter().map(|one| most(one) as usize).sum::<usize>() > MAX_PODS {
        problems.push(Problem::new(format!("{place}.deployments"), format!("at most {MAX_PODS} pods are possible")));
    }
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

/// Builds a Deployment. A mistake has the field that it is in.
fn of_study(one: &study::Deployment, load: Vec<(Duration, i64)>) -> Result<Deployment, (&'static str, String)> {
    let arrival = arrival(one).map_err(|why| ("spec", why))?;
    let mut template = serde_json::to_value(&arrival.pod).map_err(|error| ("spec", error.to_string()))?;
    template["spec"]["restartPolicy"] = json!("Always");
    if let (Some(limit), Some(container)) = (&one.cpu_limit, template.pointer_mut("/spec/containers/0")) {
        container["resources"]["limits"][CPU] = json!(limit);
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.retain(|field, _| field != "name" && field != "namespace");
    }
    let pod = Pod::decode_value(template.clone()).map_err(|error| ("spec", error.to_string()))?;
    let least = one.autoscaler.as_ref().and_then(|scaler| scaler.min).unwrap_or(1);
    let document = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": one.name, "namespace": NAMESPACE},
        "spec": {
            "replicas": one.replicas.unwrap_or(least),
            "selector": {"matchLabels": {DEPLOYMENT: one.name}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    });
    let name = format!("{NAMESPACE}/{}", one.name);
    let cpu_limit_milli = one.cpu_limit.as_ref().map(|limit| amount(CPU, &limit.quantity));
    let autoscaler = one.autoscaler.as_ref().map(|scaler| autoscaler(&one.name, scaler)).transpose()?;
    Ok(Deployment { name, document, autoscaler, facts: arrival.facts, cpu_limit_milli, pod, load })
}

/// Returns a pod of the Deployment as if it arrived alone.
fn arrival(one: &study::Deployment) -> Result<Arrival, String> {
    let gpus = one.gpus.clone().unwrap_or_default();
    let mut labels = one.labels.clone();
    labels.insert(DEPLOYMENT.to_owned(), one.name.clone());
    let shape = Shape {
        name: one.name.clone(),
        requests: one.requests.iter().map(|(name, of)| (name.clone(), amount(name, &of.quantity))).collect(),
        gpu_count: gpus.count,
        gpu_milli: gpus.milli.unwrap_or(1000),
        gpu_models: gpus.models,
        user: one.user.clone().unwrap_or_default(),
        gang: None,
        priority: one.priority.unwrap_or_default(),
        labels,
        spec: one.spec.clone(),
    };
    shape.arrival(Duration::ZERO, None)
}

fn autoscaler(name: &str, scaler: &study::Autoscaler) -> Result<Value, (&'static str, String)> {
    let target = json!({"type": "Utilization", "averageUtilization": scaler.cpu_utilization});
    let mut document = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaler.min.unwrap_or(1),
            "maxReplicas": scaler.max,
            "metrics": [{"type": "Resource", "resource": {"name": CPU, "target": target}}],
        },
    });
    if let Some(behavior) = &scaler.behavior {
        document["spec"]["behavior"] = behavior.clone();
    }
    HorizontalPodAutoscaler::decode_value(document.clone())
        .map_err(|error| ("autoscaler.behavior", error.to_string()))?;
    Ok(document)
}

/// Returns a pod of each Deployment, to look whether it fits on a node.
pub fn sample_pods(workload: &Workload) -> Vec<Arrival> {
    workload.deployments.iter().filter_map(|one| arrival(one).ok()).collect()
}
