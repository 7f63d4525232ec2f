//! The PodGroups of a trial: which pods ask for one, and how many pods each waits for. Pure.

use super::{Submission, namespace};
use component_base::options::feature_gates::GateValues;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Annotation with the number of a gang's pods.
const SIZE: &str = "orrery.dev/gang";
/// Gates of PodGroups, and the version of the API that they are in.
const GATES: [&str; 2] = ["GenericWorkload", "GangScheduling"];
pub const API: &str = "scheduling.k8s.io/v1alpha2";

/// Names of PodGroups with their namespace, and the number of pods that must fit at the same time.
pub type Gangs = BTreeMap<(String, String), usize>;

/// Returns the groups that pods name. A group whose pods do not say its size waits for all of them.
pub fn of(submissions: &[Submission]) -> Gangs {
    let mut gangs = Gangs::new();
    for pod in submissions.iter().map(|one| &one.pod) {
        let Some(key) = group_of(pod) else { continue };
        let counted = gangs.entry(key).or_default();
        let told = pod["metadata"]["annotations"][SIZE].as_str().and_then(|size| size.parse().ok());
        *counted = told.unwrap_or(*counted + 1);
    }
    gangs
}

/// Returns the namespace and the name of the group that a pod names.
pub fn group_of(pod: &Value) -> Option<(String, String)> {
    let name = pod["spec"]["schedulingGroup"]["podGroupName"].as_str()?;
    Some((namespace(pod).to_owned(), name.to_owned()))
}

/// Returns a PodGroup as a user creates it, with the priority class of its pods. A server without the gate for it drops the class.
pub fn pod_group(namespace: &str, name: &str, size: usize, class: Option<String>) -> Value {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": size}}});
    if let Some(class) = class {
        spec["priorityClassName"] = json!(class);
    }
    json!({"apiVersion": API, "kind": "PodGroup", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// Returns these gates, with those on that a cluster with PodGroups needs.
pub fn with_gates(gates: &GateValues, has_gangs: bool) -> GateValues {
    let needed: &[&str] = if has_gangs { &GATES } else { &[] };
    let mut gates = gates.clone();
    gates.extend(needed.iter().map(|gate| ((*gate).to_owned(), true)));
    gates
}

/// Returns true if the API server serves PodGroups with these gates.
pub fn are_served(gates: &GateValues) -> bool {
    gates.get(GATES[0]) == Some(&true)
}
