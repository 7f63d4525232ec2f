//! Node selectors: matches `nodeSelector` and node affinity of a pod against nodes.
//!
//! Corresponds to k8s.io/component-helpers/scheduling/corev1/nodeaffinity.

use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};
use std::collections::{BTreeMap, BTreeSet};

/// The only field that `matchFields` may name.
const NAME_FIELD: &str = "metadata.name";

/// Returns whether a node satisfies the `nodeSelector` and the required node affinity of a pod.
pub fn required_matches(spec: &PodSpec, node: &Node) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    selected && required_affinity(spec).is_none_or(|selector| selector_matches(selector, node))
}

pub fn required_affinity(spec: &PodSpec) -> Option<&NodeSelector> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

/// Returns whether any term of a selector matches a node. A term without requirements matches none.
pub fn selector_matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

pub fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let field = |requirement: &NodeSelectorRequirement| match requirement.key.as_str() {
        NAME_FIELD => Some(node.name()),
        _ => None,
    };
    expressions.iter().all(|e| requirement_matches(e, labels.get(&e.key).map(String::as_str)))
        && fields.iter().all(|f| requirement_matches(f, field(f)))
}

fn requirement_matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    let compares = |holds: fn(i64, i64) -> bool| match (value.and_then(number), values.first().and_then(|v| number(v)))
    {
        (Some(value), Some(bound)) => holds(value, bound),
        _ => false,
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.iter().any(|v| v == value)),
        "NotIn" => value.is_none_or(|value| !values.iter().any(|v| v == value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compares(|value, bound| value > bound),
        "Lt" => compares(|value, bound| value < bound),
        _ => false,
    }
}

/// Returns the nodes that the required affinity names by `metadata.name`, if every term names some. The affinity of
/// DaemonSet pods does, so that the scheduler need not look at other nodes. The set is empty if all terms contradict
/// themselves.
pub fn named_nodes(spec: &PodSpec) -> Option<BTreeSet<String>> {
    let terms = &required_affinity(spec)?.node_selector_terms;
    let mut names = BTreeSet::new();
    for term in terms {
        let fields = term.match_fields.iter().flatten();
        let by_name = fields.filter(|field| field.key == NAME_FIELD && field.operator == "In");
        let in_all = by_name.map(|field| field.values.iter().flatten().cloned().collect::<BTreeSet<String>>());
        names.extend(in_all.reduce(|names, others| &names & &others)?);
    }
    (!terms.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node() -> Node {
        let labels = json!({"zone": "a", "cores": "8", "arch": "arm64"});
        Node::decode_value(json!({"metadata": {"name": "n1", "labels": labels}})).unwrap()
    }

    fn matches(term: Value) -> bool {
        term_matches(&serde_json::from_value(term).unwrap(), &node())
    }

    #[test]
    fn every_operator() {
        for (requirement, expected) in [
            (json!({"key": "zone", "operator": "In", "values": ["a", "b"]}), true),
            (json!({"key": "zone", "operator": "In", "values": ["b"]}), false),
            (json!({"key": "none", "operator": "In", "values": ["b"]}), false),
            (json!({"key": "zone", "operator": "NotIn", "values": ["b"]}), true),
            (json!({"key": "none", "operator": "NotIn", "values": ["b"]}), true),
            (json!({"key": "zone", "operator": "Exists"}), true),
            (json!({"key": "zone", "operator": "DoesNotExist"}), false),
            (json!({"key": "cores", "operator": "Gt", "values": ["4"]}), true),
            (json!({"key": "cores", "operator": "Lt", "values": ["8"]}), false),
            (json!({"key": "zone", "operator": "Gt", "values": ["4"]}), false),
            (json!({"key": "zone", "operator": "Like", "values": ["a"]}), false),
        ] {
            assert_eq!(matches(json!({"matchExpressions": [requirement]})), expected, "{requirement}");
        }
        assert!(matches(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})));
        assert!(!matches(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]})));
        assert!(!matches(json!({})), "nothing asked for matches nothing");
    }

    #[test]
    fn daemon_pods_name_their_node() {
        let by_name =
            |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        let spec = |terms: Value| -> PodSpec {
            serde_json::from_value(json!({"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}))
            .unwrap()
        };
        assert_eq!(named_nodes(&spec(json!([by_name("b"), by_name("a")]))), Some(["a".into(), "b".into()].into()));
        let by_label = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        assert_eq!(named_nodes(&spec(json!([by_name("b"), by_label]))), None);
    }
}
