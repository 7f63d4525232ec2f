//! policy: budgets for the disruption of pods.
//!
//! Corresponds to pkg/registry/policy/rest.

use super::Resource;
use super::columns::{age, name, number, string};
use super::row::Group;
use serde_json::{Value, json};

const POLICY: Group = Group { name: "policy", version: "v1", package: "io.k8s.api.policy.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![POLICY.namespaced("poddisruptionbudgets", "PodDisruptionBudget").short("pdb").status().columns(vec![
        name(),
        string("Min Available", "How many pods have to stay.", |o, _| bound(o, "/spec/minAvailable")),
        string("Max Unavailable", "How many pods may be missing.", |o, _| bound(o, "/spec/maxUnavailable")),
        number("Allowed Disruptions", "How many pods may be taken away now.", "/status/disruptionsAllowed"),
        age(),
    ])]
}

/// Shows a number or a percentage.
fn bound(budget: &Value, pointer: &str) -> Value {
    match budget.pointer(pointer) {
        Some(Value::String(percentage)) => json!(percentage),
        Some(Value::Number(number)) => json!(number.to_string()),
        _ => json!("N/A"),
    }
}
