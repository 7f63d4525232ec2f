//! TopologyPlacementGenerator keeps all pods of a group in one topology domain, if the group asks for it.
//!
//! Corresponds to pkg/scheduler/framework/plugins/topologyaware.

use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::placement::{GroupInCycle, Placement};
use scheduling_framework::{PlacementGenerate, Plugin};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct TopologyPlacementGenerator;

const NAME: &str = "TopologyPlacementGenerator";

impl Plugin for TopologyPlacementGenerator {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PlacementGenerate for TopologyPlacementGenerator {
    fn generate_placements(&self, group: &GroupInCycle<'_>, parent: &Placement) -> Result<Vec<Placement>, String> {
        let state = group.groups.state(group.key);
        let Some(object) = &state.object else { return Err(format!("podgroup {:?} not found", group.key)) };
        let Some(topology_key) = topology_key(object) else { return Ok(vec![parent.clone()]) };
        let required = domain_of_nodes(group, &state.nodes, topology_key)
            .map_err(|why| format!("cannot determine domain for already scheduled pods: {why}"))?;
        let mut domains: BTreeMap<&str, Vec<Arc<NodeInfo>>> = BTreeMap::new();
        for node in &parent.nodes {
            if let Some(domain) = node.label(topology_key).filter(|domain| required.is_none_or(|one| one == *domain)) {
                domains.entry(domain).or_default().push(node.clone());
            }
        }
        Ok(domains.into_iter().map(|(name, nodes)| Placement { name: name.to_owned(), nodes }).collect())
    }
}

/// Returns the label of nodes that names their domain. The API admits one constraint.
fn topology_key(group: &PodGroup) -> Option<&str> {
    let constraints = group.spec.scheduling_constraints.as_ref()?.topology.as_ref()?;
    Some(constraints.first()?.key.as_str())
}

/// Returns the one domain of the nodes; `None` without nodes.
fn domain_of_nodes<'a>(
    group: &GroupInCycle<'a>,
    nodes: &[String],
    topology_key: &str,
) -> Result<Option<&'a str>, String> {
    let mut found = None;
    for name in nodes {
        let node = group.snapshot.get(name).ok_or_else(|| format!("nodeinfo not found for node name {name:?}"))?;
        let domain = node.label(topology_key).ok_or_else(|| format!("no topology domain found on node {name}"))?;
        match found {
            Some(known) if known != domain => {
                return Err(format!("more than 1 domain found for pod group: {known}, {domain}"));
            }
            _ => found = Some(domain),
        }
    }
    Ok(found)
}
