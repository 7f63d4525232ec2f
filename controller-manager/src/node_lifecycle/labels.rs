//! Keeps a node's deprecated labels equal to the current ones.
//!
//! Corresponds to reconcileNodeLabels in pkg/controller/nodelifecycle/node_lifecycle_controller.go.

use client::{Action, Patch};
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::{ARCH, BETA_ARCH, BETA_OS, OS};
use serde_json::{Map, json};

/// Labels, and the deprecated labels with the same value.
const DEPRECATED_LABELS: [(&str, &str); 2] = [(OS, BETA_OS), (ARCH, BETA_ARCH)];

/// Plans to write the deprecated labels that are missing or differ.
pub fn update(node: &Node) -> Option<Action> {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let wanted = DEPRECATED_LABELS.iter().filter_map(|(name, older)| Some((*older, label(name)?)));
    let changed: Map<_, _> = wanted
        .filter(|(older, value)| label(older) != Some(value))
        .map(|(older, value)| (older.to_owned(), json!(value)))
        .collect();
    let patch = Patch::Strategic(json!({"metadata": {"labels": changed}}));
    (!changed.is_empty()).then(|| Action::patch::<Node>("", node.name(), patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn older_labels_follow() {
        let both = [("kubernetes.io/os", "linux"), ("beta.kubernetes.io/os", "linux")];
        let patch =
            |labels: &str| Some(format!("strategic patch nodes node-1 {{\"metadata\":{{\"labels\":{labels}}}}}"));
        let cases: Vec<(&[(&str, &str)], Option<String>)> = vec![
            (&[], None),
            (&both, None),
            (&both[..1], patch(r#"{"beta.kubernetes.io/os":"linux"}"#)),
            (
                &[("kubernetes.io/arch", "arm64"), ("beta.kubernetes.io/arch", "amd64")],
                patch(r#"{"beta.kubernetes.io/arch":"arm64"}"#),
            ),
            (&[("beta.kubernetes.io/os", "linux")], None),
        ];
        for (labels, expected) in cases {
            let mut node = fixture::node("node-1");
            node.metadata.labels = Some(fixture::labels(labels));
            assert_eq!(update(&node).map(|action| action.to_string()), expected, "{labels:?}");
        }
    }
}
