//! `Fleet`: the nodes, the images on their disks, and their failures. Pure.

use crate::life::Start;
use crate::pod::time;
use component_base::rng::Random;
use ipnet::{IpNet, Ipv4Net};
use kubelet_sim::machines::failure_model::FailureModel;
use kubelet_sim::machines::failures::FailureSchedule;
use kubelet_sim::machines::state::{MachineState, Power};
use kubelet_sim::node::{self, Observed, StoredImage};
use kubelet_sim::plan::NodePlan;
use pod_life::image_pulls::{ImagePulls, PullRequest, pull_time};
use pod_life::images;
use pod_life::latency::Latency;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use proto::kinds::jiff::Timestamp;
use proto::meta::node_labels::ZONE;
use proto::meta::node_taints::UNREACHABLE;
use proto::schema::defaults::apply_defaults;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

/// Effects of the taint of a node that nobody reaches.
const EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];

/// What a failure does to a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    #[default]
    Healthy,
    /// It has no power, and has lost what ran.
    Off,
    /// Nobody reaches it, and it does not know.
    CutOff,
}

/// One node.
pub struct Member {
    pub node: Arc<Node>,
    plan: NodePlan,
    zone: String,
    /// When each image is on the disk.
    images: BTreeMap<String, Timestamp>,
    pulls: ImagePulls,
    pub condition: Condition,
    /// Number of failures and repairs so far.
    pub changes: u64,
}

impl Member {
    /// Returns when a container has started that may do so now. Its image is pulled if need be, as the kubelet does.
    pub fn start(&mut self, pod_uid: &str, start: &Start, now: Timestamp) -> Timestamp {
        let settings = &self.plan.settings;
        let name = images::canonical(&start.image);
        let is_there = self.images.get(&name).is_some_and(|at| *at <= now);
        let Some(pull) = pull_time(&start.policy, is_there, settings.latency.image_pull) else {
            return now + settings.latency.container_start;
        };
        let (container, image) = (start.name.as_str(), start.image.as_str());
        let request = PullRequest { pod_uid, container, image, asked_at: now, takes: pull };
        let pulled_at = self.pulls.plan(&request, settings.pulls_at_once(), now).ends_at;
        let started_at = pulled_at + settings.latency.container_start;
        // The kubelet counts an image as there when the container that has asked for it has started.
        let there_at = self.images.entry(name).or_insert(started_at);
        *there_at = started_at.min(*there_at);
        started_at
    }

    /// Forgets the pulls of a pod that has gone.
    pub fn release(&mut self, pod_uid: &str) {
        self.pulls.release(pod_uid);
    }

    pub fn latency(&self) -> &Latency {
        &self.plan.settings.latency
    }

    pub fn is_ready(&self) -> bool {
        let conditions = self.node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// Reports to the API what is on the disk. Returns true if the node has changed.
    pub fn report_images(&mut self, now: Timestamp) -> bool {
        let there = self.images.iter().filter(|(_, at)| **at <= now);
        let stored = there.map(|(name, _)| (name.clone(), StoredImage::new(images::size_bytes(name), now)));
        let observed = Observed { images: stored.collect(), ..ready() };
        let status =
            node::status(&self.plan.machine, &observed, self.node.status.as_ref().unwrap_or(&Default::default()), now);
        let has_changed = self.node.status.as_ref().is_none_or(|old| old.images != status.images);
        if has_changed {
            Arc::make_mut(&mut self.node).status = Some(status);
        }
        has_changed
    }

    /// Lets the control plane note that the node is reached, or not.
    pub fn set_reachable(&mut self, is_reachable: bool, now: Timestamp) {
        let node = Arc::make_mut(&mut self.node);
        let (status, reason) = if is_reachable { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
        for condition in node.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten()) {
            if condition.type_ == "Ready" {
                condition.status = status.to_owned();
                condition.reason = Some(reason.to_owned());
                condition.last_transition_time = Some(time(now));
            }
        }
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.retain(|taint| taint.key != UNREACHABLE);
        if !is_reachable {
            let taint = |effect: &str| Taint {
                key: UNREACHABLE.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(time(now)),
                value: None,
            };
            taints.extend(EFFECTS.map(taint));
        }
    }
}

/// All nodes by name, and when they fail.
pub struct Fleet {
    pub members: BTreeMap<String, Member>,
    failures: FailureSchedule,
}

impl Fleet {
    /// Registers the nodes. `random` returns the draws of a stream that has a name.
    pub fn new(
        plans: Vec<NodePlan>,
        failures: Vec<FailureModel>,
        random: impl Fn(&str) -> Random + Send + Sync + 'static,
        now: Timestamp,
    ) -> Result<Self, String> {
        let mut fleet = Self { members: BTreeMap::new(), failures: FailureSchedule::new(failures, random) };
        for plan in plans {
            fleet.add(plan, Duration::ZERO, now)?;
        }
        Ok(fleet)
    }

    /// Registers a node, and returns its name.
    pub fn add(&mut self, plan: NodePlan, elapsed: Duration, now: Timestamp) -> Result<String, String> {
        let registered = node::registration(&plan.machine, &ready(), now);
        let mut document = registered.encode();
        apply_defaults(&Node::gvk(), &mut document);
        let mut node = Node::decode_value(document).map_err(|error| error.to_string())?;
        node.metadata.uid = Some(format!("node-{}", plan.machine.name));
        node.metadata.creation_timestamp = Some(time(now));
        let zone = plan.machine.labels.get(ZONE).cloned().unwrap_or_default();
        self.failures.add_node(&plan.machine.name, &zone, elapsed);
        let images = plan.machine.images.iter().map(|image| (images::canonical(image), now)).collect();
        let member = Member {
            node: Arc::new(node),
            zone,
            images,
            pulls: ImagePulls::default(),
            condition: Condition::Healthy,
            changes: 0,
            plan,
        };
        let name = member.plan.machine.name.clone();
        self.members.insert(name.clone(), member);
        Ok(name)
    }

    /// Forgets a node that has left.
    pub fn remove(&mut self, name: &str) -> Option<Member> {
        self.members.remove(name)
    }

    /// Returns when the next failure begins or ends.
    pub fn next_failure_at(&self) -> Option<Duration> {
        self.failures.next_at()
    }

    /// Lets failures begin and end that are due. Returns the nodes whose condition has changed.
    pub fn advance(&mut self, elapsed: Duration) -> Vec<String> {
        if !self.failures.advance(elapsed) {
            return Vec::new();
        }
        let present = self.failures.present();
        let mut changed = Vec::new();
        for (name, member) in &mut self.members {
            let condition = condition(&self.failures.state_of(&present, name, &member.zone));
            if condition != member.condition {
                member.condition = condition;
                member.changes += 1;
                changed.push(name.clone());
            }
        }
        changed
    }
}

fn condition(state: &MachineState) -> Condition {
    match state.power {
        Power::Running if state.is_partitioned => Condition::CutOff,
        Power::Running => Condition::Healthy,
        Power::ShuttingDown | Power::Off | Power::Removed => Condition::Off,
    }
}

/// Returns what makes a node ready.
fn ready() -> Observed {
    let range = Ipv4Net::new(Ipv4Addr::new(10, 244, 0, 0), 24).map(IpNet::V4);
    Observed { pod_ranges: range.into_iter().collect(), ..Observed::default() }
}

/// Returns the failures that this model does not know, each with its place. Only crashes and partitions are known.
pub fn unmodelled(failures: &[FailureModel]) -> Vec<String> {
    let healthy = MachineState::default();
    let is_known = |failure: &MachineState| {
        let rest = MachineState { power: healthy.power, is_partitioned: false, ..failure.clone() };
        rest == healthy && matches!(failure.power, Power::Running | Power::Off)
    };
    let unknown = failures.iter().enumerate().filter(|(_, model)| !is_known(&model.failure));
    unknown.map(|(at, _)| format!("machines[{at}].failure: depth `scheduler` knows only crash and partition")).collect()
}
