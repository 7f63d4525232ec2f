//! The tasks of a node: register, renew the lease, report the status, and fall back to a range of its own.
//!
//! Corresponds to pkg/kubelet/kubelet_node_status.go and k8s.io/component-helpers/apimachinery/lease.

use crate::config::Settings;
use crate::fleet::row::NodeRow;
use crate::{lease, node};
use client::{Error, EventType, Patch, PatchOptions, Regarding};
use component_base::env::Env;
use component_base::rng::Random;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, NodeStatus};
use proto::kinds::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// A task of one node; the number is the index of its row in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeTask {
    Register(usize),
    RenewLease(usize),
    ReportStatus(usize),
    /// Take a range of its own for pods, if the node still has none.
    FallBack(usize),
}

/// How long a node waits for a podCIDR: the time in which a controller manager takes over from one that died (its lease
/// lasts 15 s, and is read every 2 s), and a little for the work.
const FALL_BACK_AFTER: SignedDuration = SignedDuration::from_secs(20);

impl NodeTask {
    pub fn row(self) -> usize {
        match self {
            NodeTask::Register(row)
            | NodeTask::RenewLease(row)
            | NodeTask::ReportStatus(row)
            | NodeTask::FallBack(row) => row,
        }
    }
}

impl fmt::Display for NodeTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeTask::Register(row) => write!(f, "register {row}"),
            NodeTask::RenewLease(row) => write!(f, "lease {row}"),
            NodeTask::ReportStatus(row) => write!(f, "status {row}"),
            NodeTask::FallBack(row) => write!(f, "fallback {row}"),
        }
    }
}

/// Creates the node, or finds the one of an earlier run and corrects its labels. Returns it as the API server has it
/// now.
pub async fn register(row: &NodeRow, env: &Env) -> Result<Node, Error> {
    let nodes = row.client.api::<Node>("");
    let name = &row.machine.name;
    let initial = row.initial_node(env);
    let registered = match nodes.create(&initial).await {
        Err(error) if error.is_already_exists() => {
            let found = nodes.get(name).await?;
            match node::metadata_patch(&row.machine, &found) {
                Some(patch) => nodes.patch(name, &Patch::Strategic(patch), &PatchOptions::default()).await?,
                None => found,
            }
        }
        created => {
            let created = created?;
            record_transitions(row, &NodeStatus::default(), initial.status.as_ref());
            created
        }
    };
    record_normal(row, "Starting", "Starting kubelet.");
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
pub fn fall_back(row: &NodeRow) -> bool {
    if row.has_range() {
        return false;
    }
    let falls_back = row.fall_back();
    let instead = match row.machine.fallback_pod_range.filter(|_| falls_back) {
        Some(range) => format!("Pods get addresses of {range}"),
        None => "--fallback-pod-cidr has no range for it either: its pods wait".to_owned(),
    };
    let why = "The node has been given no podCIDR; the controller manager gives one with --allocate-node-cidrs";
    record_warning(row, "CIDRNotAvailable", &format!("{why}. {instead}."));
    falls_back
}

fn record_transitions(row: &NodeRow, before: &NodeStatus, after: Option<&NodeStatus>) {
    for reason in after.map(|after| node::transitions(before, after)).unwrap_or_default() {
        record_normal(row, reason, &format!("Node {} status is now: {reason}", row.machine.name));
    }
}

fn record_normal(row: &NodeRow, reason: &str, message: &str) {
    row.recorder.event(&regarding(row), EventType::Normal, reason, message);
}

fn record_warning(row: &NodeRow, reason: &str, message: &str) {
    tracing::warn!(node = row.machine.name, "{message}");
    row.recorder.event(&regarding(row), EventType::Warning, reason, message);
}

/// Refers to the node in events. A kubelet uses the node's name as its uid, because it sends events before it knows the
/// uid.
fn regarding(row: &NodeRow) -> Regarding {
    let name = row.machine.name.clone();
    Regarding { kind: "Node".to_owned(), uid: name.clone(), name, ..Regarding::default() }
}

/// Renews the known lease. Without one, finds the lease of an earlier run or creates the first.
pub async fn renew_lease(row: &NodeRow, settings: &Settings, env: &Env) -> Result<(), Error> {
    let leases = row.client.api::<Lease>(lease::NAMESPACE);
    let name = &row.machine.name;
    let known = match row.lease() {
        Some(lease) => Some(lease),
        None => match leases.get(name).await {
            Ok(found) => Some(found),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        },
    };
    let renewed = lease::renewed(known.as_ref(), name, &row.node_uid(), settings.node_lease_duration, env.wall());
    let written = if known.is_some() { leases.update(&renewed).await } else { leases.create(&renewed).await };
    // After an error the known lease may be out of date: it is read again the next time.
    row.set_lease(written.as_ref().ok().cloned());
    written.map(|_| ())
}

/// Reports the status when it has changed or a report is due. `stored` is the node as the cache has it.
pub async fn report_status(
    row: &NodeRow,
    stored: &Node,
    settings: &Settings,
    env: &Env,
    random: &Random,
) -> Result<(), Error> {
    let present = stored.status.clone().unwrap_or_default();
    let wanted = node::status(&row.machine, &row.observed(), &present, env.wall());
    let every = settings.node_status_report_frequency;
    let changed = node::differs(&present, &wanted);
    if !changed && !row.report_is_due(env, every) {
        return Ok(());
    }
    let of = |status: &NodeStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    if let Some(patch) = node::status_patch(&of(&present), &of(&wanted)) {
        let nodes = row.client.api::<Node>("");
        nodes.patch_status(&row.machine.name, &Patch::Strategic(patch), &PatchOptions::default()).await?;
    }
    record_transitions(row, &present, Some(&wanted));
    row.reported(env, changed, every, random);
    Ok(())
}
