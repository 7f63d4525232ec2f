//! The tasks of a node: register, renew the lease, report the status, and fall back to a range of its own.
//!
//! Corresponds to pkg/kubelet/kubelet_node_status.go and k8s.io/component-helpers/apimachinery/lease.

use crate::config::Settings;
use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::rival;
use crate::{lease, node};
use client::{Error, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use component_base::rng::Random;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, NodeStatus};
use proto::kinds::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A task of one node; the number is the index of its kubelet in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTask {
    Register(usize),
    RenewLease(usize),
    ReportStatus(usize),
    /// Take a range of its own for pods, if the node still has none.
    FallBack(usize),
    /// Check what is left of memory, disk and processes.
    CheckPressure(usize),
    /// Read the manifests of static pods.
    ReadManifests(usize),
    /// Take the step of the stage that the node is in.
    PlayStage(usize),
    /// Offer the devices of the machine.
    PublishDevices(usize),
    /// Stop the next pods of a machine that shuts down.
    ShutDown(usize),
    /// Delete the Node of a machine that has left.
    Leave(usize),
}

/// How long a node waits for a podCIDR: the time in which a controller manager takes over from one that died (its lease
/// lasts 15 s, and is read every 2 s), and a little for the work.
const FALL_BACK_AFTER: SignedDuration = SignedDuration::from_secs(20);

impl NodeTask {
    pub fn index(self) -> usize {
        match self {
            NodeTask::Register(index)
            | NodeTask::RenewLease(index)
            | NodeTask::ReportStatus(index)
            | NodeTask::FallBack(index)
            | NodeTask::CheckPressure(index)
            | NodeTask::ReadManifests(index)
            | NodeTask::PlayStage(index)
            | NodeTask::PublishDevices(index)
            | NodeTask::ShutDown(index)
            | NodeTask::Leave(index) => index,
        }
    }
}

impl NodeTask {
    /// True when the task needs the API server.
    pub fn is_remote(self) -> bool {
        use NodeTask::{PlayStage, PublishDevices, Register, RenewLease, ReportStatus};
        matches!(self, Register(_) | RenewLease(_) | ReportStatus(_) | PlayStage(_) | PublishDevices(_))
    }
}

impl fmt::Display for NodeTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeTask::Register(index) => write!(f, "register {index}"),
            NodeTask::RenewLease(index) => write!(f, "lease {index}"),
            NodeTask::ReportStatus(index) => write!(f, "status {index}"),
            NodeTask::FallBack(index) => write!(f, "fallback {index}"),
            NodeTask::CheckPressure(index) => write!(f, "pressure {index}"),
            NodeTask::ReadManifests(index) => write!(f, "manifests {index}"),
            NodeTask::PlayStage(index) => write!(f, "stage {index}"),
            NodeTask::PublishDevices(index) => write!(f, "devices {index}"),
            NodeTask::ShutDown(index) => write!(f, "shutdown {index}"),
            NodeTask::Leave(index) => write!(f, "leave {index}"),
        }
    }
}

/// Creates the node, or finds the one of an earlier run and corrects its labels. Returns it as the API server has it
/// now.
pub async fn register(kubelet: &SimulatedKubelet, env: &Env) -> Result<Node, Error> {
    let nodes = kubelet.client.api::<Node>("");
    let name = &kubelet.machine.name;
    let initial = kubelet.initial_node(env);
    let registered = match nodes.create(&initial).await {
        Err(error) if error.is_already_exists() => {
            let found = nodes.get(name).await?;
            match node::metadata_patch(&kubelet.machine, &found) {
                Some(patch) => nodes.patch(name, &Patch::Strategic(patch), &PatchOptions::default()).await?,
                None => found,
            }
        }
        created => {
            let created = created?;
            kubelet.is_new.store(true, Ordering::Release);
            record_transitions(kubelet, &NodeStatus::default(), initial.status.as_ref());
            created
        }
    };
    record_normal(kubelet, "Starting", "Starting kubelet.");
    Ok(registered)
}

/// Returns how long the node still has to wait before it takes a range of its own. The time counts from the node's
/// creation, so that an agent that restarts on an old node has its range at once.
pub fn fall_back_after(node: &Node, now: Timestamp) -> Duration {
    let created = node.metadata.creation_timestamp.as_ref().map_or(now, |created| created.0);
    Duration::try_from(FALL_BACK_AFTER - now.duration_since(created)).unwrap_or(Duration::ZERO)
}

/// Takes the machine's own range for its pods, with a warning. Returns true when pods can go on.
///
/// Deviation: a kubelet assigns no addresses; its network plugin does, and without a podCIDR many plugins use a range
/// of their own. A simulated node that gets no podCIDR within 20 s takes a part of `--fallback-pod-cidr`.
pub fn fall_back(kubelet: &SimulatedKubelet) -> bool {
    if kubelet.has_range() {
        return false;
    }
    let falls_back = kubelet.fall_back();
    let instead = match kubelet.machine.fallback_pod_range.filter(|_| falls_back) {
        Some(range) => format!("Pods get addresses of {range}"),
        None => "--fallback-pod-cidr has no range for it either: its pods wait".to_owned(),
    };
    let why = "The node has been given no podCIDR; the controller manager gives one with --allocate-node-cidrs";
    record_warning(kubelet, "CIDRNotAvailable", &format!("{why}. {instead}."));
    falls_back
}

fn record_transitions(kubelet: &SimulatedKubelet, before: &NodeStatus, after: Option<&NodeStatus>) {
    for reason in after.map(|after| node::transitions(before, after)).unwrap_or_default() {
        record_normal(kubelet, reason, &format!("Node {} status is now: {reason}", kubelet.machine.name));
    }
}

fn record_normal(kubelet: &SimulatedKubelet, reason: &str, message: &str) {
    kubelet.recorder.event(&regarding(kubelet), EventType::Normal, reason, message);
}

/// Records what the machine's shutdown does.
pub fn record_shutdown(kubelet: &SimulatedKubelet, message: &str) {
    record_normal(kubelet, "NodeShutdown", message);
}

pub fn record_warning(kubelet: &SimulatedKubelet, reason: &str, message: &str) {
    tracing::warn!(node = kubelet.machine.name, "{message}");
    kubelet.recorder.event(&regarding(kubelet), EventType::Warning, reason, message);
}

/// Refers to the node in events. A kubelet uses the node's name as its uid, because it sends events before it knows the
/// uid.
fn regarding(kubelet: &SimulatedKubelet) -> Regarding {
    let name = kubelet.machine.name.clone();
    Regarding { kind: "Node".to_owned(), uid: name.clone(), name, ..Regarding::default() }
}

/// Renews the known lease. Without one, finds the lease of an earlier run or creates the first.
pub async fn renew_lease(kubelet: &SimulatedKubelet, settings: &Settings, env: &Env) -> Result<(), Error> {
    let leases = kubelet.client.api::<Lease>(lease::NAMESPACE);
    let name = &kubelet.machine.name;
    let node_uid = kubelet.node_uid();
    let known = match kubelet.lease() {
        Some(lease) => Some(lease),
        None if kubelet.is_new.swap(false, Ordering::AcqRel) => None,
        None => match leases.get(name).await {
            Ok(found) => {
                let rival = kubelet.renewals.lock().observe(&found);
                warn_of_rival(kubelet, rival, env);
                Some(found)
            }
            // Without its Node, which would own the lease, it would be deleted again and again.
            Err(error) if error.is_not_found() && node_uid.is_empty() => return Ok(()),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        },
    };
    let renewed =
        lease::renewed(known.as_ref(), name, &node_uid, settings.node_lease_duration, kubelet.power.wall(env));
    kubelet.renewals.lock().tries(&renewed);
    let written = if known.is_some() { leases.update(&renewed).await } else { leases.create(&renewed).await };
    if written.is_ok() {
        kubelet.renewals.lock().succeeded();
    }
    // After an error the known lease may be out of date: it is read again the next time.
    kubelet.set_lease(written.as_ref().ok().cloned());
    written.map(|_| ())
}

/// Logs that another agent runs this node, if it does and this was not logged a short time ago.
fn warn_of_rival(kubelet: &SimulatedKubelet, rival: Option<String>, env: &Env) {
    if let Some(message) = rival.filter(|_| kubelet.renewals.lock().may_warn(env.wall())) {
        tracing::warn!(node = kubelet.machine.name, "{message}");
    }
}

/// Reports the status when it has changed or a report is due. `stored` is the node as the cache has it.
pub async fn report_status(
    kubelet: &SimulatedKubelet,
    stored: &Node,
    settings: &Settings,
    env: &Env,
    random: &Random,
) -> Result<(), Error> {
    let present = stored.status.clone().unwrap_or_default();
    let wanted = node::status(&kubelet.machine, &kubelet.observed(), &present, kubelet.power.wall(env));
    warn_of_rival(kubelet, rival::other_machine(&present, &wanted), env);
    let every = settings.node_status_report_frequency;
    let changed = node::differs(&present, &wanted);
    if !changed && !kubelet.report_is_due(env, every) {
        return Ok(());
    }
    let of = |status: &NodeStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    if let Some(patch) = node::status_patch(&of(&present), &of(&wanted)) {
        let nodes = kubelet.client.api::<Node>("");
        nodes.patch_status(&kubelet.machine.name, &Patch::Strategic(patch), &PatchOptions::default()).await?;
    }
    record_transitions(kubelet, &present, Some(&wanted));
    if let Some(boot_id) = node::rebooted(&present, &wanted) {
        let name = &kubelet.machine.name;
        record_warning(kubelet, "Rebooted", &format!("Node {name} has been rebooted, boot id: {boot_id}"));
    }
    kubelet.reported(env, changed, every, random);
    Ok(())
}
