//! `NodeGroups`: which nodes an autoscaler orders for pods that find no place, and which idle ones it gives back. Pure.
//!
//! Corresponds to the Cluster Autoscaler, with its periods. A scan looks at the pods that the scheduler could not place:
//!
//! ```text
//! each waiting pod, oldest first   → the first node that is there or ordered and has room for it
//!                                  → else a new node of the cheapest group whose nodes take it
//! each idle node                   → leaves after `scale_down_after`, while its group has more than `min`
//! ```
//!
//! Room is what requests, `nodeSelector`, required node affinity and taints say, as in `NodeResourcesFit`, `NodeAffinity` and
//! `TaintToleration`. Affinity between pods, spreading and shares of one GPU are not looked at.

use super::pod_state::PodState;
use super::setup::{NodeGroup, Setup, read_template};
use component_helpers::scheduling::node_selector::required_matches;
use component_helpers::scheduling::requests::{Resources, pod_requests};
use component_helpers::scheduling::tolerations::untolerated;
use kubelet_sim::node::{self, Observed};
use kubelet_sim::plan::NodePlan;
use kubelet_sim::template::NodeTemplate;
use proto::kinds::api::core::v1::{Node, Pod, PodSpec};
use proto::kinds::jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time between two scans, as `--scan-interval`.
const SCAN: Duration = Duration::from_secs(10);

/// What is to happen to machines now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Orders {
    /// Templates of the nodes that start.
    pub join: Vec<Value>,
    /// Names of the nodes that leave.
    pub leave: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    /// It starts at this time.
    Ordered(Duration),
    Joining,
    /// It is ready.
    Present,
    /// It was ready, and will be again.
    Lost,
    Leaving,
}

struct Machine {
    node: Node,
    allocatable: Resources,
    group: Option<usize>,
    document: Value,
    presence: Presence,
    pods: BTreeSet<String>,
    idle_since: Duration,
}

struct Wanted {
    number: u64,
    spec: PodSpec,
    requests: Resources,
    on: Option<usize>,
}

/// The nodes of a cluster, the pods on them, and those that wait.
pub struct NodeGroups {
    groups: Vec<NodeGroup>,
    machines: Vec<Machine>,
    by_name: BTreeMap<String, usize>,
    pods: BTreeMap<String, Wanted>,
    /// Number of pods so far, by which they are ordered.
    remembered: u64,
    /// Pods for which the scheduler found no node, by age.
    waiting: BTreeMap<u64, String>,
    scan_at: Option<Duration>,
}

impl NodeGroups {
    /// Knows the nodes of a setup, whose templates are those that are there from the start.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        let mut known = Self {
            groups: setup.groups.clone(),
            machines: Vec::new(),
            by_name: BTreeMap::new(),
            pods: BTreeMap::new(),
            remembered: 0,
            waiting: BTreeMap::new(),
            scan_at: None,
        };
        let settings = setup.nodes();
        let first: BTreeSet<&str> = setup.templates.iter().map(|template| template.node_name.as_str()).collect();
        let mut in_groups = Vec::new();
        for (group, document) in
            setup.groups.iter().enumerate().flat_map(|(at, group)| group.nodes.iter().map(move |it| (at, it)))
        {
            in_groups.push((read_template(document)?, group, document));
        }
        let names: BTreeSet<String> = in_groups.iter().map(|(template, ..)| template.node_name.clone()).collect();
        let fixed = setup.templates.iter().filter(|template| !names.contains(&template.node_name));
        for template in fixed {
            known.add(template, &settings, None, Value::Null, Presence::Present);
        }
        for (template, group, document) in &in_groups {
            let is_first = first.contains(template.node_name.as_str());
            let presence = if is_first { Presence::Present } else { Presence::Absent };
            known.add(template, &settings, Some(*group), (*document).clone(), presence);
        }
        Ok(known)
    }

    fn add(
        &mut self,
        template: &NodeTemplate,
        settings: &kubelet_sim::Settings,
        group: Option<usize>,
        document: Value,
        presence: Presence,
    ) {
        for plan in NodePlan::of_templates(std::slice::from_ref(template), settings) {
            let node = node::registration(&plan.machine, &Observed::default(), Timestamp::UNIX_EPOCH);
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
            self.by_name.insert(plan.machine.name.clone(), self.machines.len());
            self.machines.push(Machine {
                allocatable: Resources::of(allocatable),
                node,
                group,
                document: document.clone(),
                presence,
                pods: BTreeSet::new(),
                idle_since: Duration::ZERO,
            });
        }
    }

    /// Notes a pod that a user creates.
    pub fn remember(&mut self, pod: &Pod) {
        self.remembered += 1;
        let number = self.remembered;
        let spec = pod.spec.clone().unwrap_or_default();
        let mut requests = pod_requests(&spec);
        requests.pods = 1;
        self.pods.insert(pod_key(pod), Wanted { number, spec, requests, on: None });
    }

    /// Notes a pod that somebody else has created from a template, if it is new.
    pub fn remember_named(&mut self, key: &str, template: &Pod) {
        if self.pods.contains_key(key) {
            return;
        }
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let mut pod = template.clone();
        (pod.metadata.namespace, pod.metadata.name) = (Some(namespace.to_owned()), Some(name.to_owned()));
        self.remember(&pod);
    }

    pub fn see_node(&mut self, name: &str, is_ready: bool, now: Duration) {
        let Some(machine) = self.by_name.get(name).and_then(|at| self.machines.get_mut(*at)) else { return };
        match (is_ready, machine.presence) {
            (true, Presence::Joining | Presence::Lost) => {
                machine.presence = Presence::Present;
                machine.idle_since = now;
                // The scheduler gets the time until the next scan to use it.
                self.wake(now);
            }
            (false, Presence::Present) => machine.presence = Presence::Lost,
            (false, Presence::Leaving) => machine.presence = Presence::Absent,
            _ => {}
        }
    }

    /// Takes a write to a pod; `None` deletes it.
    pub fn see_pod(&mut self, key: &str, state: Option<&PodState>, now: Duration) {
        let Some(wanted) = self.pods.get_mut(key) else { return };
        let has_ended = state.is_none_or(|state| matches!(state.phase.as_str(), "Succeeded" | "Failed"));
        let on = state.and_then(|state| self.by_name.get(state.node.as_ref()?)).copied().filter(|_| !has_ended);
        if on != wanted.on {
            for (at, is_on) in [(wanted.on, false), (on, true)] {
                let Some(machine) = at.and_then(|at| self.machines.get_mut(at)) else { continue };
                if is_on {
                    machine.pods.insert(key.to_owned());
                } else if machine.pods.remove(key) && machine.pods.is_empty() {
                    machine.idle_since = now;
                }
            }
            wanted.on = on;
        }
        let waits = on.is_none() && !has_ended && state.is_some_and(|state| state.unscheduled.is_some());
        match waits {
            true if self.waiting.insert(wanted.number, key.to_owned()).is_none() => self.wake(now),
            true => {}
            false => drop(self.waiting.remove(&wanted.number)),
        }
        if state.is_none() {
            self.pods.remove(key);
        }
    }

    fn wake(&mut self, now: Duration) {
        if self.scan_at.is_none_or(|at| at <= now) {
            self.scan_at = Some(next_scan(now));
        }
    }

    /// Returns when `act` has something to do.
    pub fn next_at(&self) -> Option<Duration> {
        let starts = self.machines.iter().filter_map(|machine| match machine.presence {
            Presence::Ordered(at) => Some(at),
            _ => None,
        });
        let scan = self.scan_at.filter(|_| !self.waiting.is_empty());
        let leaves = self.idle().map(|(_, at)| at);
        starts.chain(scan).chain(leaves).min()
    }

    /// True while a node is on its way.
    pub fn is_waiting(&self) -> bool {
        self.machines.iter().any(|machine| matches!(machine.presence, Presence::Ordered(_) | Presence::Joining))
    }

    /// Returns the nodes that may leave, and when they do.
    fn idle(&self) -> impl Iterator<Item = (usize, Duration)> {
        let mut spare: Vec<usize> =
            self.groups.iter().enumerate().map(|(at, group)| self.size_of(at).saturating_sub(group.min)).collect();
        let mut idle: Vec<(Duration, usize, usize)> = Vec::new();
        for (at, machine) in self.machines.iter().enumerate() {
            let Some(group) =
                machine.group.filter(|_| machine.presence == Presence::Present && machine.pods.is_empty())
            else {
                continue;
            };
            let after = self.groups[group].scale_down_after;
            idle.push((ceil_to_scan(machine.idle_since + after), at, group));
        }
        idle.sort_unstable();
        idle.retain(|(_, _, group)| {
            let has_spare = spare[*group] > 0;
            spare[*group] -= usize::from(has_spare);
            has_spare
        });
        idle.into_iter().map(|(at, machine, _)| (machine, at))
    }

    /// Returns the number of nodes that a group has or has ordered.
    fn size_of(&self, group: usize) -> usize {
        let counts = |machine: &&Machine| {
            machine.group == Some(group) && !matches!(machine.presence, Presence::Absent | Presence::Leaving)
        };
        self.machines.iter().filter(counts).count()
    }

    /// Returns what is to happen now.
    pub fn act(&mut self, now: Duration) -> Orders {
        let mut orders = Orders::default();
        if self.scan_at.is_some_and(|at| at <= now) {
            self.place_waiting(now);
            self.scan_at = (!self.waiting.is_empty()).then(|| next_scan(now));
        }
        let leaving: Vec<usize> = self.idle().filter(|(_, at)| *at <= now).map(|(machine, _)| machine).collect();
        for at in leaving {
            self.machines[at].presence = Presence::Leaving;
            orders.leave.push(self.name(at).to_owned());
        }
        for machine in &mut self.machines {
            if matches!(machine.presence, Presence::Ordered(at) if at <= now) {
                machine.presence = Presence::Joining;
                orders.join.push(machine.document.clone());
            }
        }
        orders
    }

    fn name(&self, at: usize) -> &str {
        self.machines[at].node.metadata.name.as_deref().unwrap_or_default()
    }

    /// Gives each waiting pod room on a node, and orders nodes for those that find none.
    fn place_waiting(&mut self, now: Duration) {
        let mut left: Vec<Option<Resources>> = self.machines.iter().map(|machine| self.left_on(machine)).collect();
        let waiting: Vec<String> = self.waiting.values().cloned().collect();
        for wanted in waiting.iter().filter_map(|key| self.pods.get(key)) {
            let fits = |at: usize, left: &Resources| {
                !wanted.requests.exceeds(left) && left.pods > 0 && accepts(&self.machines[at].node, &wanted.spec)
            };
            let room = left
                .iter()
                .enumerate()
                .find_map(|(at, left)| left.as_ref().is_some_and(|left| fits(at, left)).then_some(at));
            let chosen = room.or_else(|| {
                let absent = self.machines.iter().enumerate().filter(|(at, machine)| {
                    machine.presence == Presence::Absent && left[*at].is_none() && fits(*at, &machine.allocatable)
                });
                let price =
                    |at: usize| self.machines[at].group.map_or(f64::MAX, |group| self.groups[group].price_per_hour);
                absent.map(|(at, _)| at).min_by(|a, b| price(*a).total_cmp(&price(*b)))
            });
            let Some(at) = chosen else { continue };
            let rest = left[at].get_or_insert_with(|| self.machines[at].allocatable.clone());
            *rest -= &wanted.requests;
        }
        for (at, left) in left.into_iter().enumerate() {
            let machine = &mut self.machines[at];
            let Some(left) = left else { continue };
            match (machine.presence, machine.group) {
                (Presence::Absent, Some(group)) => {
                    machine.presence = Presence::Ordered(now + self.groups[group].provision_delay);
                }
                // A pod is about to come, so the node is not idle.
                (Presence::Present, Some(_)) if machine.pods.is_empty() && left != machine.allocatable => {
                    machine.idle_since = now
                }
                _ => {}
            }
        }
    }

    /// Returns what a node has left for pods; `None` if it takes none.
    fn left_on(&self, machine: &Machine) -> Option<Resources> {
        if !matches!(machine.presence, Presence::Present | Presence::Joining | Presence::Ordered(_)) {
            return None;
        }
        let mut left = machine.allocatable.clone();
        for wanted in machine.pods.iter().filter_map(|key| self.pods.get(key)) {
            left -= &wanted.requests;
        }
        Some(left)
    }
}

fn pod_key(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or("default");
    format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default())
}

fn accepts(node: &Node, spec: &PodSpec) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let hard = taints.filter(|taint| taint.effect != "PreferNoSchedule");
    required_matches(spec, node) && untolerated(spec.tolerations.as_deref().unwrap_or_default(), hard).is_none()
}

/// Returns the first scan after a time.
fn next_scan(now: Duration) -> Duration {
    ceil_to_scan(now + Duration::from_nanos(1))
}

fn ceil_to_scan(at: Duration) -> Duration {
    let scan_ns = SCAN.as_nanos();
    let scans = at.as_nanos().div_ceil(scan_ns);
    SCAN * u32::try_from(scans).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
