//! Builds the AllocationResult of a claim: its devices, their configuration, and the nodes that have them.
//!
//! Corresponds to the end of Allocate of the structured allocator, and to createNodeSelector.

use crate::demand::{Demand, Target};
use crate::pool::Reach;
use crate::search::{Found, Placed};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use proto::kinds::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
};
use std::collections::BTreeMap;

/// Returns the allocation of each claim. Devices that claims share have an empty share id.
pub fn build(found: &Found<'_>, reach: &Reach, node: &Node) -> Vec<AllocationResult> {
    let claims = found.demands.iter().zip(&found.placed).enumerate();
    claims
        .map(|(number, (demand, placed))| {
            let chosen: Vec<&Target<'_>> = demand
                .requests
                .iter()
                .enumerate()
                .filter_map(|(request, targets)| {
                    targets.get(found.alternatives.get(&(number, request)).copied().unwrap_or(0))
                })
                .collect();
            let results = placed.iter().map(|placed| result(demand, placed, reach)).collect();
            let config = config(demand, &chosen);
            AllocationResult {
                devices: Some(DeviceAllocationResult {
                    config: Some(config).filter(|config| !config.is_empty()),
                    results: Some(results),
                }),
                node_selector: node_selector(placed, reach, node),
                allocation_timestamp: None,
            }
        })
        .collect()
}

/// Gives each share of a device an id of its own.
pub fn assign_share_ids(allocation: &mut AllocationResult, new_id: &mut dyn FnMut() -> String) {
    let results = allocation.devices.iter_mut().flat_map(|devices| devices.results.iter_mut().flatten());
    for result in results {
        if result.share_id.as_deref() == Some("") {
            result.share_id = Some(new_id());
        }
    }
}

fn result(demand: &Demand<'_>, placed: &Placed, reach: &Reach) -> DeviceRequestAllocationResult {
    let request = &demand.requests[placed.request][placed.alternative].request;
    let device = &reach.candidates[placed.candidate].device;
    let consumed = placed.consumed.as_ref().filter(|consumed| !consumed.is_empty());
    let consumed = consumed.map(|all| all.iter().map(|(name, amount)| (name.clone(), (*amount).into())).collect());
    DeviceRequestAllocationResult {
        request: request.full_name(),
        driver: device.id.driver.to_string(),
        pool: device.id.pool.to_string(),
        device: device.id.device.to_string(),
        admin_access: request.has_admin_access.then_some(true),
        tolerations: Some(request.tolerations.to_vec()).filter(|tolerations| !tolerations.is_empty()),
        binding_conditions: device.spec().binding_conditions.clone(),
        binding_failure_conditions: device.spec().binding_failure_conditions.clone(),
        consumed_capacity: consumed,
        share_id: placed.consumed.as_ref().map(|_| String::new()),
    }
}

/// Returns the configurations of the chosen classes and of the claim. One that is about all requests names none.
fn config(demand: &Demand<'_>, chosen: &[&Target<'_>]) -> Vec<DeviceAllocationConfiguration> {
    let entry = |source: &str, opaque: &Option<OpaqueDeviceConfiguration>, requests: Vec<String>| {
        let requests = Some(requests).filter(|names| !names.is_empty() && names.len() != demand.requests.len());
        DeviceAllocationConfiguration { opaque: opaque.clone(), requests, source: source.to_owned() }
    };
    let mut of_class: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut classes: Vec<&Target<'_>> = Vec::new();
    for target in chosen {
        let requests = of_class.entry(target.class.name()).or_default();
        if requests.is_empty() {
            classes.push(target);
        }
        requests.push(target.request.full_name());
    }
    let mut config = Vec::new();
    for target in classes {
        let requests = of_class.remove(target.class.name()).unwrap_or_default();
        for one in target.class.spec.config.iter().flatten() {
            config.push(entry("FromClass", &one.opaque, requests.clone()));
        }
    }
    let devices = demand.claim.spec.devices.as_ref();
    for one in devices.iter().flat_map(|devices| devices.config.iter().flatten()) {
        let requests = one.requests.clone().unwrap_or_default();
        if chosen.iter().any(|target| target.request.is_among(&requests)) {
            config.push(entry("FromClaim", &one.opaque, requests));
        }
    }
    config
}

/// Returns the nodes on which all devices can be used; `None` for every node.
fn node_selector(placed: &[Placed], reach: &Reach, node: &Node) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for device in placed.iter().map(|placed| &reach.candidates[placed.candidate].device) {
        let (own, slice) = (device.spec(), device.slice());
        let (name, selector) = match slice.per_device_node_selection {
            Some(true) => (&own.node_name, &own.node_selector),
            _ => (&slice.node_name, &slice.node_selector),
        };
        if name.is_some() || own.binds_to_node == Some(true) {
            return Some(only(node.name()));
        }
        // The API server admits one term.
        if let Some(needed) = selector.as_ref().and_then(|selector| selector.node_selector_terms.first()) {
            add_requirements(&mut term.match_fields, &needed.match_fields);
            add_requirements(&mut term.match_expressions, &needed.match_expressions);
        }
    }
    let is_open = term.match_fields.is_none() && term.match_expressions.is_none();
    (!is_open).then(|| NodeSelector { node_selector_terms: vec![term] })
}

fn only(node: &str) -> NodeSelector {
    let requirement = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![requirement]), match_expressions: None };
    NodeSelector { node_selector_terms: vec![term] }
}

/// Adds the requirements that are not there yet.
fn add_requirements(to: &mut Option<Vec<NodeSelectorRequirement>>, from: &Option<Vec<NodeSelectorRequirement>>) {
    for requirement in from.iter().flatten() {
        let present = to.get_or_insert_default();
        if !present.contains(requirement) {
            present.push(requirement.clone());
        }
    }
}
