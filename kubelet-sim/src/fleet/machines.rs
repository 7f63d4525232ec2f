//! Acts on machines as the ConfigMap `orrery-fleet` and the failure models say: nodes join and leave, lose their power,
//! are cut off, and come back.
//!
//! A process with the identity of one node acts on its own machine alone. Nodes neither join nor leave it: one that is
//! removed is off, and its Node stays until somebody deletes it, because a node may not delete itself.

use super::kubelet::SimulatedKubelet;
use super::node_tasks::{self, NodeTask};
use super::watched::FollowedMap;
use super::{BY_NODE, Fleet, pressure};
use crate::certificate::CertificateManager;
use crate::machines::failures::FailureSchedule;
use crate::machines::fleet_map::{self, FleetMap};
use crate::machines::shutdown;
use crate::machines::state::{MachineState, Power};
use crate::plan::NodePlan;
use client::{DeleteOptions, Event, ReconcileError, Regarding};
use parking_lot::Mutex;
use pod_life::conditions;
use pod_life::notes::{NodeTermination, Outage};
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Node, Pod};
use proto::meta::node_labels::ZONE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a machine that shuts down looks whether its pods have ended.
const SHUTDOWN_POLL: Duration = Duration::from_millis(500);

const MAP: FollowedMap = FollowedMap {
    namespace: fleet_map::NAMESPACE,
    name: fleet_map::NAME,
    on_event: Fleet::on_fleet_map,
    on_read: Fleet::adopt_machines,
};

/// What the fleet knows about its machines besides their kubelets.
pub struct Machines {
    /// What users want.
    map: Mutex<FleetMap>,
    failures: Mutex<FailureSchedule>,
    /// When the schedule of failures began.
    failures_since: Mutex<Instant>,
    failures_changed: Notify,
    /// Numbers of machines by name. A machine that comes back has its old number.
    numbers: Mutex<BTreeMap<String, u32>>,
    /// Held while machines are changed.
    changing: Mutex<()>,
}

impl Machines {
    pub fn new(fleet_starts_with: &[NodePlan], failures: FailureSchedule, now: Instant) -> Self {
        let number = |plan: &NodePlan| (plan.machine.name.clone(), plan.number);
        Self {
            map: Mutex::default(),
            failures: Mutex::new(failures),
            failures_since: Mutex::new(now),
            failures_changed: Notify::new(),
            numbers: Mutex::new(fleet_starts_with.iter().map(number).collect()),
            changing: Mutex::default(),
        }
    }
}

impl Fleet {
    /// Follows the ConfigMap and lets machines fail, until the environment shuts down. Returns once the ConfigMap has
    /// been read; machines that are off do not even start then.
    pub(super) async fn follow_machines(self: &Arc<Self>, wait: Duration) {
        for (_, kubelet) in self.members.present() {
            self.machines.failures.lock().add_node(&kubelet.machine.name, zone_of(&kubelet), Duration::ZERO);
        }
        self.follow_map(&MAP, wait).await;
        self.apply_machines();
        self.env.spawn(self.clone().run_failures());
    }

    /// Lets machines restart from now on when the ConfigMap says so. What it said before was done long ago.
    fn adopt_machines(&self) {
        self.members.present().iter().for_each(|(_, kubelet)| kubelet.power.adopt());
    }

    fn on_fleet_map(&self, event: &Event<ConfigMap>) {
        let map = event.object();
        let (read, problems) = match event {
            Event::Deleted(_) => (FleetMap::default(), Vec::new()),
            Event::Added(map) | Event::Updated { new: map, .. } => FleetMap::read(map),
        };
        let has_same_failures = read.failures == self.machines.map.lock().failures;
        *self.machines.map.lock() = read;
        if !has_same_failures {
            self.restart_failures();
        }
        self.report(&Regarding::of(&**map), "InvalidFleet", &problems);
        self.apply_machines();
        self.adopt_machines();
    }

    /// Begins a new schedule of failures: those of the flags, and those of the ConfigMap.
    fn restart_failures(&self) {
        let models = self.settings.failure_models.iter().chain(&self.machines.map.lock().failures).cloned().collect();
        let mut schedule = FailureSchedule::new(models, failure_draws(&self.env));
        for (_, kubelet) in self.members.present() {
            schedule.add_node(&kubelet.machine.name, zone_of(&kubelet), Duration::ZERO);
        }
        *self.machines.failures_since.lock() = self.env.now();
        *self.machines.failures.lock() = schedule;
        self.machines.failures_changed.notify_one();
    }

    /// Lets failures begin and end when they are due.
    async fn run_failures(self: Arc<Self>) {
        let shutdown = self.env.shutdown().clone();
        loop {
            let next = self.machines.failures.lock().next_at();
            let since = *self.machines.failures_since.lock();
            let due = async {
                match next {
                    Some(at) => self.env.sleep((since + at).saturating_duration_since(self.env.now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.machines.failures_changed.notified() => continue,
                () = due => {}
            }
            let now = self.env.now().saturating_duration_since(since);
            if self.machines.failures.lock().advance(now) {
                self.apply_machines();
            }
        }
    }

    /// Brings the fleet and its machines to what users and failures say.
    fn apply_machines(&self) {
        let _changing = self.machines.changing.lock();
        if self.settings.own_node().is_none() {
            self.join_and_leave();
        }
        let map = self.machines.map.lock().clone();
        let failures = self.machines.failures.lock();
        let present = failures.present();
        let states: Vec<(usize, Arc<SimulatedKubelet>, MachineState)> = self
            .members
            .present()
            .into_iter()
            .map(|(at, kubelet)| {
                let name = &kubelet.machine.name;
                let failed = failures.state_of(&present, name, zone_of(&kubelet));
                let state = map.machines.get(name).map_or_else(|| failed.clone(), |wanted| wanted.and(&failed));
                (at, kubelet, state)
            })
            .collect();
        drop(failures);
        for (at, kubelet, state) in states {
            self.change_machine(at, &kubelet, state);
        }
    }

    /// Lets nodes join that templates of the ConfigMap ask for, and nodes leave that nobody asks for.
    fn join_and_leave(&self) {
        let map = self.machines.map.lock().clone();
        let is_removed = |name: &str| map.machines.get(name).is_some_and(|state| state.power == Power::Removed);
        let number = |name: &str| self.machines.numbers.lock().get(name).copied();
        let mut wanted = BTreeSet::new();
        // Of several fleets, the first one has the nodes of templates.
        let templates = if self.settings.first_node == 0 { map.templates.as_slice() } else { &[] };
        for plan in NodePlan::all(&self.settings).into_iter().chain(NodePlan::of_templates(templates, &self.settings)) {
            let name = plan.machine.name.clone();
            if is_removed(&name) || !wanted.insert(name.clone()) || self.members.has(&name) {
                continue;
            }
            let number = number(&name).unwrap_or_else(|| {
                let mut numbers = self.machines.numbers.lock();
                let next = numbers.values().max().map_or(self.settings.first_node, |last| last + 1);
                numbers.insert(name.clone(), next);
                next
            });
            self.join(plan.numbered(number));
        }
        for (at, kubelet) in self.members.present() {
            if !wanted.contains(&kubelet.machine.name) {
                self.leave(at, &kubelet);
            }
        }
    }

    fn join(&self, plan: NodePlan) {
        let kubelet = SimulatedKubelet::new(&self.client, &self.recorder, plan, self.env.wall());
        let (name, zone) = (kubelet.machine.name.clone(), zone_of(&kubelet).to_owned());
        tracing::info!(node = name, "a machine joins");
        kubelet.power.adopt();
        let at = self.members.join(kubelet);
        let since = *self.machines.failures_since.lock();
        let now = self.env.now().saturating_duration_since(since);
        self.machines.failures.lock().add_node(&name, &zone, now);
        self.machines.failures_changed.notify_one();
        if let Some(node) = self.node(&name) {
            self.observe_node(at, &node);
        }
        self.resume(at);
        self.register(at);
    }

    /// Lets a machine leave for good. Its Node goes too, as when a cloud controller finds that a machine has gone.
    fn leave(&self, at: usize, kubelet: &SimulatedKubelet) {
        tracing::info!(node = kubelet.machine.name, "a machine leaves");
        kubelet.power.cut(self.env.wall());
        self.end_processes(kubelet);
        self.members.leave(&kubelet.machine.name);
        self.node_queue.add(NodeTask::Leave(at));
    }

    /// Deletes the Node of a machine that has left.
    pub(super) async fn delete_node(&self, kubelet: &SimulatedKubelet) -> Result<(), ReconcileError> {
        let name = &kubelet.machine.name;
        if self.members.has(name) {
            return Ok(()); // It has come back.
        }
        match self.client.api::<Node>("").delete(name, &DeleteOptions::default()).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn change_machine(&self, at: usize, kubelet: &SimulatedKubelet, state: MachineState) {
        let (before, was_on, reached) = (kubelet.power.state(), kubelet.power.is_on(), kubelet.power.is_reachable());
        if before == state {
            return;
        }
        tracing::info!(node = kubelet.machine.name, ?state, "a machine changes");
        kubelet.power.set_state(state.clone(), || self.pods.by_index(BY_NODE, &kubelet.machine.name));
        let restarts = was_on && kubelet.power.is_adopted() && state.restart != before.restart;
        match state.power {
            Power::Off | Power::Removed if was_on => self.cut_power(kubelet),
            Power::Off | Power::Removed => {}
            Power::Running if !was_on => return self.boot(at, kubelet),
            _ if restarts => {
                self.cut_power(kubelet);
                return self.boot(at, kubelet);
            }
            Power::ShuttingDown if was_on && before.power != Power::ShuttingDown => {
                self.node_queue.add(NodeTask::ShutDown(at));
            }
            Power::Running if before.power == Power::ShuttingDown => {
                kubelet.power.cancel_shutdown();
                node_tasks::record_shutdown(kubelet, "Shutdown manager detected shutdown cancellation");
                self.node_queue.add(NodeTask::ReportStatus(at));
            }
            Power::ShuttingDown | Power::Running => {}
        }
        if state.clock_skew != before.clock_skew {
            self.resume(at); // What is due depends on the clock.
        }
        if state.disk_fill != before.disk_fill {
            kubelet.fill_disk(state.disk_fill);
            kubelet.checks_pressure.store(true, Ordering::Release);
            self.node_queue.add(NodeTask::CheckPressure(at));
        }
        if !reached && kubelet.power.is_reachable() {
            kubelet.recorder.send_held();
            self.resume(at);
            let is_registered = !kubelet.node_uid().is_empty();
            let first = if is_registered { NodeTask::RenewLease(at) } else { NodeTask::Register(at) };
            self.node_queue.add(first);
            if is_registered {
                self.node_queue.add(NodeTask::ReportStatus(at));
            }
        }
    }

    fn cut_power(&self, kubelet: &SimulatedKubelet) {
        kubelet.power.cut(self.env.wall());
        self.end_processes(kubelet);
    }

    /// Ends the processes of all containers on a machine.
    fn end_processes(&self, kubelet: &SimulatedKubelet) {
        self.pods.by_index(BY_NODE, &kubelet.machine.name).iter().for_each(|pod| self.runtime.release(pod.uid()));
        let static_pods = self.static_pods.of_node(&kubelet.machine.name);
        static_pods.iter().for_each(|known| self.runtime.release(known.pod.uid()));
    }

    /// Starts a machine that was off. Its pods go on with new sandboxes.
    fn boot(&self, at: usize, kubelet: &SimulatedKubelet) {
        let on_at = self.env.wall();
        let pods = self.pods.by_index(BY_NODE, &kubelet.machine.name);
        let Some(off_at) = kubelet.boot(on_at, &pods) else { return };
        let static_pods = self.static_pods.of_node(&kubelet.machine.name).into_iter().map(|known| known.pod);
        for pod in pods.into_iter().chain(static_pods) {
            self.memory.record_outage(&pod, Outage { off_at, on_at });
        }
        self.resume(at);
        self.register(at);
        if kubelet.disk_filled_bytes() > 0 {
            self.watch_pressure(at);
        }
    }

    /// Lets all pods of a node go on.
    fn resume(&self, at: usize) {
        let kubelet = self.members.at(at);
        let pods = self.pods_on(&kubelet.machine.name);
        if pods.iter().any(|pod| pressure::is_watched(pod)) {
            self.watch_pressure(at);
        }
        pods.iter().for_each(|pod| self.pod_queue.add(pod.key()));
        let static_pods = self.static_pods.of_node(&kubelet.machine.name);
        static_pods.iter().for_each(|known| self.pod_queue.add(known.pod.key()));
    }

    /// Registers a node: at once, or as soon as it has a certificate.
    pub(super) fn register(&self, at: usize) {
        let kubelet = self.members.at(at);
        let node_queue = self.node_queue.clone();
        let register = move || node_queue.add(NodeTask::Register(at));
        match (&self.settings.bootstrap, &kubelet.renewal) {
            (Some(bootstrap), Some(renewal)) if !kubelet.has_certificate.swap(true, Ordering::AcqRel) => {
                let manager = CertificateManager {
                    env: self.env.clone(),
                    bootstrap: bootstrap.clone(),
                    node: kubelet.machine.name.clone(),
                    renewal: renewal.clone(),
                    random: self.env.random(&format!("kubelet-sim/certificate/{}", kubelet.machine.name)),
                };
                self.env.spawn(manager.run(register));
            }
            _ => register(),
        }
    }

    /// Stops the pods of a machine group by group, and then its power. Returns when to look again.
    pub(super) fn shut_down(&self, at: usize, kubelet: &SimulatedKubelet) -> Option<Duration> {
        let name = &kubelet.machine.name;
        if kubelet.power.state().power != Power::ShuttingDown {
            return None;
        }
        let pods: Vec<Arc<Pod>> = self.pods_on(name).into_iter().filter(|pod| !self.has_ended(pod)).collect();
        let begins = kubelet.power.begin_shutdown();
        if begins {
            node_tasks::record_shutdown(kubelet, "Shutdown manager detected shutdown event");
            self.node_queue.add(NodeTask::ReportStatus(at));
        }
        let groups = shutdown::plan(&self.settings.shutdown_groups(), &pods);
        match kubelet.power.next_group(groups, self.env.now(), |pod| self.has_ended(pod)) {
            Some(group) => {
                for pod in &group.pods {
                    let termination = NodeTermination {
                        asked_at: kubelet.power.wall(&self.env),
                        grace: shutdown::grace_of(pod, group.period),
                        reason: shutdown::REASON,
                        message: shutdown::MESSAGE.to_owned(),
                        disruption: Some(shutdown::MESSAGE.to_owned()),
                    };
                    self.memory.terminate(pod, termination);
                    self.pod_queue.add(pod.key());
                }
                Some(SHUTDOWN_POLL)
            }
            None if kubelet.power.waits_for_group() => Some(SHUTDOWN_POLL),
            // The machine lives long enough for its kubelet to report the shutdown.
            None if begins => Some(SHUTDOWN_POLL),
            None => {
                self.cut_power(kubelet);
                None
            }
        }
    }

    fn has_ended(&self, pod: &Pod) -> bool {
        conditions::is_terminal(&self.memory.status_of(pod).0)
    }

    /// True when the node is of this fleet, and requests reach its kubelet and its pods.
    pub fn is_reachable(&self, node: &str) -> bool {
        self.members.named(node).is_some_and(|kubelet| kubelet.power.is_reachable())
    }
}

fn zone_of(kubelet: &SimulatedKubelet) -> &str {
    kubelet.machine.labels.get(ZONE).map(String::as_str).unwrap_or_default()
}

/// Returns the draws of failures, each stream by its name.
pub fn failure_draws(
    env: &component_base::env::Env,
) -> impl Fn(&str) -> component_base::rng::Random + Send + Sync + 'static {
    let env = env.clone();
    move |stream| env.random(&format!("kubelet-sim/failures/{stream}"))
}
