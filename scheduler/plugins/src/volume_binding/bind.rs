//! Writes a pod's choice of volumes, and waits until the controllers have bound its claims.
//!
//! Corresponds to BindPodVolumes, bindAPIUpdate and checkBindings in
//! pkg/scheduler/framework/plugins/volumebinding/binder.go.

use super::Sources;
use super::node_volumes::{NodeVolumes, is_reachable};
use client::{Client, Error};
use component_base::env::Env;
use component_helpers::volumes::annotations::{SELECTED_NODE, annotate, annotation};
use component_helpers::volumes::binding::referring_to;
use component_helpers::volumes::{claims, persistent_volumes};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use scheduling_framework::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at the claims.
const PERIOD: Duration = Duration::from_secs(1);

/// Binds the claims of a pod to volumes on its node, or says why that cannot be. It waits for the controllers until `timeout`.
pub async fn bind(
    client: &Client,
    env: &Env,
    sources: &Sources,
    pod: &PodInfo,
    node: &str,
    chosen: &NodeVolumes,
    timeout: Duration,
) -> Result<(), String> {
    write(client, node, chosen).await.map_err(|error| error.to_string())?;
    let waiting = async {
        loop {
            env.sleep(PERIOD).await;
            if check(sources, pod, node, chosen)? {
                return Ok(());
            }
        }
    };
    let bound = env.timeout(timeout, waiting).await;
    bound
        .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
        .map_err(|why| format!("binding volumes: {why}"))
}

/// Writes the reference of each volume that is there, and asks for those that are to be made.
async fn write(client: &Client, node: &str, chosen: &NodeVolumes) -> Result<(), Error> {
    for (volume, claim) in &chosen.bindings {
        if let Some(bound) = referring_to(volume, claim) {
            client.api::<PersistentVolume>("").update(&bound).await?;
        }
    }
    for claim in &chosen.provisions {
        if annotation(&**claim, SELECTED_NODE) != Some(node) {
            let mut asking = (**claim).clone();
            annotate(&mut asking, SELECTED_NODE, node);
            client.api::<PersistentVolumeClaim>(claim.namespace()).update(&asking).await?;
        }
    }
    Ok(())
}

/// Returns true if the claims are bound. An error means that they will not be, as things are.
fn check(sources: &Sources, pod: &PodInfo, node_name: &str, chosen: &NodeVolumes) -> Result<bool, String> {
    let Some(node) = sources.nodes.get("", node_name) else {
        return Err(format!("failed to get node {node_name:?}: node {node_name:?} not found"));
    };
    if sources.pods.by_key(&pod.key).is_none_or(|present| present.uid() != pod.uid()) {
        return Err(format!("pod does not exist any more: pod {:?} not found", pod.pod.name()));
    }
    for (volume, claim) in &chosen.bindings {
        if !is_bound_to(sources, volume, claim, &node)? {
            return Ok(false);
        }
    }
    for claim in &chosen.provisions {
        if !is_provisioned(sources, claim, &node)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_bound_to(
    sources: &Sources,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    node: &Node,
) -> Result<bool, String> {
    let name = volume.name();
    let Some(bound) = sources.storage.volume(name) else {
        return Err(format!("failed to check binding: could not find v1.PersistentVolume {name:?}"));
    };
    let claim = present(sources, claim).map_err(|why| format!("failed to check binding: {why}"))?;
    if referring_to(volume, &claim).is_some() && bound.resource_version() == volume.resource_version() {
        return Ok(false); // the cache does not show the write yet
    }
    reach(&bound, node)?;
    if persistent_volumes::claim_uid(&bound).is_empty() {
        return Err(format!("ClaimRef got reset for pv {name:?}"));
    }
    Ok(is_fully_bound(&claim))
}

fn is_provisioned(sources: &Sources, claim: &PersistentVolumeClaim, node: &Node) -> Result<bool, String> {
    let present = present(sources, claim).map_err(|why| format!("failed to check provisioning pvc: {why}"))?;
    match annotation(&*present, SELECTED_NODE) {
        Some(selected) if selected == node.name() => {}
        _ if present.resource_version() == claim.resource_version() => return Ok(false),
        _ if present.metadata.annotations.as_ref().is_none_or(BTreeMap::is_empty) => {
            return Err(format!("selectedNode annotation reset for PVC {:?}", claim.name()));
        }
        // The provisioner has given the node back, so that the scheduler chooses again.
        _ => return Err(format!("provisioning failed for PVC {:?}", claim.name())),
    }
    let volume = claims::volume_name(&present);
    if volume.is_empty() {
        return Ok(false);
    }
    let Some(volume) = sources.storage.volume(volume) else { return Ok(false) };
    reach(&volume, node)?;
    Ok(is_fully_bound(&present))
}

fn reach(volume: &PersistentVolume, node: &Node) -> Result<(), String> {
    match is_reachable(volume, node) {
        true => Ok(()),
        false => Err(format!(
            "pv {:?} node affinity doesn't match node {:?}: no matching NodeSelectorTerms",
            volume.name(),
            node.name()
        )),
    }
}

/// Returns the claim as the cache has it.
fn present(sources: &Sources, claim: &PersistentVolumeClaim) -> Result<Arc<PersistentVolumeClaim>, String> {
    let present = sources.storage.claims.by_key(&claim.key()).filter(|present| present.uid() == claim.uid());
    present.ok_or_else(|| format!("could not find v1.PersistentVolumeClaim {:?}", claim.key()))
}

fn is_fully_bound(claim: &PersistentVolumeClaim) -> bool {
    !claims::volume_name(claim).is_empty() && claims::is_bind_completed(claim)
}
