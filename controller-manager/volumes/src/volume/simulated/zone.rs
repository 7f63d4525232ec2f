//! The zone of a volume: that of the node which the scheduler chose, or one by the claim's name.
//!
//! Corresponds to GenerateAccessibilityRequirements in pkg/controller/topology.go of the external-provisioner.

use proto::Kind;
use proto::kinds::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaim, VolumeNodeAffinity,
};
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::node_labels::ZONE;

/// Returns the zone of a claim's volume; `None` for a volume that every node reaches. `zones` are the class's parameter; its
/// allowed topologies choose among them, or are the zones if there is no such parameter.
pub fn of(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    zones: &[String],
    node: Option<&Node>,
) -> Result<Option<String>, String> {
    let allowed = allowed(class);
    if zones.is_empty() && allowed.is_empty() {
        return Ok(None);
    }
    let mut zones: Vec<&String> = match (zones.is_empty(), allowed.is_empty()) {
        (true, _) => allowed.iter().collect(),
        (false, true) => zones.iter().collect(),
        (false, false) => zones.iter().filter(|zone| allowed.contains(zone)).collect(),
    };
    zones.sort();
    zones.dedup();
    if let Some(node) = node {
        let of_node = node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE));
        zones.retain(|zone| Some(*zone) == of_node);
    }
    let count = u32::try_from(zones.len()).unwrap_or(u32::MAX);
    match count {
        0 => Err("error generating accessibility requirements: no available topology found".to_owned()),
        _ => Ok(Some(zones[(position(claim.name()) % count) as usize].clone())),
    }
}

fn allowed(class: &StorageClass) -> Vec<String> {
    let terms = class.allowed_topologies.iter().flatten();
    let expressions = terms.flat_map(|term| term.match_label_expressions.iter().flatten());
    expressions.filter(|expression| expression.key == ZONE).flat_map(|expression| expression.values.clone()).collect()
}

/// Returns a number by the claim's name. The claims of one StatefulSet get consecutive numbers, and so different zones.
fn position(name: &str) -> u32 {
    let (base, ordinal) = match name.rsplit_once('-').map(|(base, ordinal)| (base, ordinal.parse::<u32>())) {
        Some((base, Ok(ordinal))) => (base, ordinal),
        _ => (name, 0),
    };
    // FNV-1a.
    let hash = base.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.wrapping_add(ordinal)
}

/// Returns the affinity of a volume to the nodes of a zone.
pub fn affinity(zone: String) -> VolumeNodeAffinity {
    let requirement =
        NodeSelectorRequirement { key: ZONE.to_owned(), operator: "In".to_owned(), values: Some(vec![zone]) };
    let term = NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
    VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms: vec![term] }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::{claim, class};
    use controller_base::fixture::{labels, node};
    use proto::kinds::api::core::v1::{TopologySelectorLabelRequirement, TopologySelectorTerm};
    use std::collections::BTreeSet;

    fn zones(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn volumes_spread_over_the_zones_or_follow_the_node() {
        let plain = class("c", super::super::PROVISIONER);
        let abc = zones(&["a", "b", "c"]);
        assert_eq!(of(&claim("data", None), &plain, &[], None), Ok(None));
        let chosen = ["data-web-0", "data-web-1", "data-web-2"]
            .map(|name| of(&claim(name, None), &plain, &abc, None).unwrap().unwrap());
        assert_eq!(BTreeSet::from(chosen).len(), 3);
        let mut there = node("n");
        there.metadata.labels = Some(labels(&[(ZONE, "b")]));
        assert_eq!(of(&claim("data", None), &plain, &abc, Some(&there)), Ok(Some("b".to_owned())));
        assert!(of(&claim("data", None), &plain, &zones(&["a"]), Some(&there)).is_err());
        let expression = TopologySelectorLabelRequirement { key: ZONE.to_owned(), values: zones(&["c", "d"]) };
        let term = TopologySelectorTerm { match_label_expressions: Some(vec![expression]) };
        let narrow = StorageClass { allowed_topologies: Some(vec![term]), ..plain };
        assert_eq!(of(&claim("data", None), &narrow, &abc, None), Ok(Some("c".to_owned())));
        assert!(of(&claim("data", None), &narrow, &zones(&["a"]), None).is_err());
    }
}
