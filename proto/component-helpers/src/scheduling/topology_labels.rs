//! The labels of a node's place that its pods have, too.
//!
//! Corresponds to plugin/pkg/admission/podtopologylabels.

use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::{REGION, ZONE};

/// The keys of the labels that a pod gets from its node when it is bound.
pub const TOPOLOGY_LABELS: [&str; 2] = [ZONE, REGION];

/// Returns the labels of the node that the pods bound to it get.
pub fn topology_labels(node: &Node) -> impl Iterator<Item = (&'static str, &String)> {
    let labels = node.metadata.labels.as_ref();
    TOPOLOGY_LABELS.into_iter().filter_map(move |key| Some((key, labels?.get(key)?)))
}
