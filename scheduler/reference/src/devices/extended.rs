//! Extended resources that a DeviceClass backs: a node that counts none of such a resource gives the pod devices instead.

use crate::resources::{Amounts, allocatable, amounts, of};
use crate::{Cluster, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Node, Pod};
use proto::kinds::api::resource::v1::{DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim};

/// Returns the claim of the devices that stand for resources of which the node has none; `None` if there are none.
pub fn claim_on(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<ResourceClaim> {
    let counted = allocatable(node);
    let mut requests = Vec::new();
    for (resource, class) in backed(cluster, pod) {
        if counted.get(resource).copied().unwrap_or(0) == 0 {
            requests.extend(amounts_of(pod, resource).into_iter().map(|amount| (class.to_owned(), amount)));
        }
    }
    if requests.is_empty() {
        return None;
    }
    let request = |(number, (class, amount)): (usize, (String, i64))| DeviceRequest {
        name: format!("r{number}"),
        exactly: Some(ExactDeviceRequest {
            device_class_name: class,
            allocation_mode: Some("ExactCount".to_owned()),
            count: Some(amount),
            ..ExactDeviceRequest::default()
        }),
        first_available: None,
    };
    let requests = requests.into_iter().enumerate().map(request).collect();
    let mut claim = ResourceClaim::default();
    claim.spec.devices = Some(DeviceClaim { requests: Some(requests), ..DeviceClaim::default() });
    Some(claim)
}

/// Returns the resources of a pod that classes back, with the names of the classes.
fn backed<'a>(cluster: &'a Cluster, pod: &'a Pod) -> Vec<(&'a str, &'a str)> {
    let wanted = of(pod).into_iter().filter(|(_, amount)| *amount > 0);
    wanted.filter_map(|(resource, _)| cluster.backing(resource).map(|class| (resource, class.name()))).collect()
}

/// Returns how many devices each container needs that no other one shares. Init containers that end use the devices of later
/// containers. What they need beyond that is used by one after the other.
fn amounts_of(pod: &Pod, resource: &str) -> Vec<i64> {
    let spec = spec(pod);
    let wanted = |container: &Container| {
        let all: Amounts<'_> = amounts(container.resources.as_ref().and_then(|it| it.requests.as_ref()));
        all.get(resource).copied().unwrap_or(0)
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let stays = |container: &Container| container.restart_policy.as_deref() == Some("Always");
    let apps: i64 = spec.containers.iter().map(wanted).sum();
    let beyond = init.iter().enumerate().filter(|(_, container)| !stays(container)).map(|(number, container)| {
        let later: i64 = init[number..].iter().filter(|container| stays(container)).map(wanted).sum();
        wanted(container) - later - apps
    });
    let beyond = beyond.max().unwrap_or(0);
    let lasting = init.iter().filter(|container| stays(container)).chain(&spec.containers).map(wanted);
    lasting.chain([beyond]).filter(|amount| *amount > 0).collect()
}
