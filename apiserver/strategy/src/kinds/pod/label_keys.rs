//! `matchLabelKeys` and `mismatchLabelKeys`: label keys whose values a selector takes from the pod itself.
//!
//! The values are written into the selector when the pod is created, so that the scheduler only reads the selector.
//! Corresponds to applyMatchLabelKeysAndMismatchLabelKeys in pkg/registry/core/pod/strategy.go.

use serde_json::{Value, json};

/// Writes the values of the pod's own labels into the selectors that name their keys.
pub fn apply(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod["spec"].as_object_mut() else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else { continue };
        for term in items(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            add_requirements(term, &labels);
        }
        for preferred in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                add_requirements(term, &labels);
            }
        }
    }
    for constraint in spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut).into_iter().flatten() {
        add_requirements(constraint, &labels);
    }
}

fn items<'v>(affinity: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    affinity.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn add_requirements(term: &mut Value, labels: &Value) {
    let requirements: Vec<Value> = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")]
        .into_iter()
        .flat_map(|(keys, operator)| {
            let keys = term.get(keys).and_then(Value::as_array).cloned().unwrap_or_default();
            keys.into_iter().filter_map(move |key| {
                let value = labels.get(key.as_str()?)?;
                Some(json!({"key": key, "operator": operator, "values": [value]}))
            })
        })
        .collect();
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if requirements.is_empty() {
        return;
    }
    let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
    if let Some(expressions) = expressions.as_array_mut() {
        expressions.extend(requirements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_take_the_pods_own_labels() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["hash", "none"], "mismatchLabelKeys": ["tenant"]});
        let spread =
            json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["hash"]});
        let without_selector = json!({"topologyKey": "zone", "matchLabelKeys": ["hash"]});
        let mut pod = json!({
            "metadata": {"labels": {"hash": "1", "tenant": "t"}},
            "spec": {
                "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}},
                "topologySpreadConstraints": [spread, without_selector],
            },
        });
        apply(&mut pod);
        let hash = json!({"key": "hash", "operator": "In", "values": ["1"]});
        let tenant = json!({"key": "tenant", "operator": "NotIn", "values": ["t"]});
        let preferred = "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
        let term = pod.pointer(preferred).unwrap();
        assert_eq!(term["labelSelector"], json!({"matchExpressions": [hash, tenant]}));
        let constraints = &pod["spec"]["topologySpreadConstraints"];
        assert_eq!(constraints[0]["labelSelector"], json!({"matchLabels": {"a": "b"}, "matchExpressions": [hash]}));
        assert_eq!(constraints[1], without_selector, "without a selector the keys select nothing");
    }
}
