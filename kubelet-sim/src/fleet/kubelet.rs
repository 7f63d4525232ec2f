//! `SimulatedKubelet`: one node of the fleet, with the state that its agent keeps in memory.
//!
//! Corresponds to the fields of pkg/kubelet.Kubelet. After a restart, the agent rebuilds all of it from the API server.

use crate::addresses::PodAddresses;
use crate::config::Settings;
use crate::eviction::manager::EvictionManager;
use crate::fleet::power::{MachinePower, slower};
use crate::fleet::rival::Renewals;
use crate::machine::Machine;
use crate::machines::shutdown;
use crate::node::{self, NETWORK_NOT_READY, Observed, StoredImage};
use crate::plan::NodePlan;
use crate::static_pods::source::Source;
use crate::volumes::in_use::VolumesInUse;
use client::{Client, Recorder, Renewal};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::rng::Random;
use component_helpers::scheduling::requests::Resources;
use ipnet::IpNet;
use parking_lot::Mutex;
use pod_life::admission::{AdmittedPods, Rejection, ResizeRefusal, Verdict};
use pod_life::conditions::is_terminal;
use pod_life::image_pulls::{ImagePulls, PlannedPull, PullRequest};
use pod_life::images;
use pod_life::latency::Latency;
use pod_life::lifecycle::Sandbox;
use pod_life::numa::{NumaAllocator, NumaAmount, NumaSettings, TopologyPolicy};
use pod_life::sysctls;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{ContainerStatus, Node, Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The agent of one simulated node.
pub struct SimulatedKubelet {
    pub machine: Machine,
    /// Writes as this node: as `system:node:NAME` in `system:nodes`, by impersonation or by a certificate of its own.
    pub client: Client,
    /// Exchanges the client's certificate; `None` when the node has none of its own.
    pub renewal: Option<Renewal>,
    pub recorder: Recorder,
    /// How long things take on this node.
    latency: Latency,
    allocatable: Resources,
    allowed_unsafe_sysctls: Vec<String>,
    /// How many images are pulled at the same time; 0 sets no limit.
    pulls_at_once: usize,
    /// 0 if the size of an image does not matter.
    image_pull_bytes_per_second: u64,
    disk_filled_bytes: AtomicI64,
    /// True when the volumes in use have changed and the node has not said so yet.
    pub has_volume_change: AtomicBool,
    /// True once its CSINode lists the simulated driver.
    pub has_csi_node: AtomicBool,
    /// True while the node's pressures are checked again and again.
    pub checks_pressure: AtomicBool,
    /// Where its static pods come from.
    pub manifests: Source,
    /// Whether the machine is on, and what happens to it.
    pub power: MachinePower,
    /// True once its certificate is looked after.
    pub has_certificate: AtomicBool,
    /// True once the manifests were read.
    pub has_read_manifests: AtomicBool,
    /// True when the node has just been created, and so has no lease.
    pub is_new: AtomicBool,
    /// The renewals of the lease, which show whether another agent renews it.
    pub renewals: Mutex<Renewals>,
    numa_settings: (NumaSettings, Vec<NumaAmount>),
    state: Mutex<State>,
}

/// The changing state of a node.
#[derive(Default)]
struct State {
    node_uid: String,
    observed: Observed,
    /// The lease as it was last written or read.
    lease: Option<Lease>,
    /// A pool for each IP family; none until the node has its ranges.
    addresses: Vec<PodAddresses>,
    /// Uids of pods whose status shows addresses of a sandbox that has gone.
    lost_sandboxes: BTreeSet<String>,
    admitted: AdmittedPods,
    volumes: VolumesInUse,
    eviction: EvictionManager,
    pulls: ImagePulls,
    numa: NumaAllocator,
    /// Places of manifests, and what is wrong there.
    manifest_problems: Vec<(String, String)>,
    reported_at: Option<Instant>,
    /// Shift of the next periodic report: later when positive, sooner when negative.
    report_shift_s: f64,
}

impl SimulatedKubelet {
    pub fn new(fleet: &Client, recorder: &Recorder, plan: NodePlan, now: Timestamp) -> Self {
        let NodePlan { settings, machine, is_first, .. } = plan;
        let settings = &*settings;
        let (client, renewal) = match &settings.bootstrap {
            None if settings.own_node().is_some() => (fleet.clone(), None),
            None => (fleet.impersonating(&format!("system:node:{}", machine.name), &["system:nodes"]), None),
            Some(bootstrap) => {
                // Anonymous at first: nothing is written before there is a certificate.
                let anonymous = Connection { token: None, token_file: None, ..bootstrap.connection.clone() };
                let client = Client::connect(fleet.env(), &anonymous, "kubelet");
                let (client, renewal) = client.expect("the connection has been tried").renewable();
                (client, Some(renewal))
            }
        };
        let power = MachinePower::default();
        let client = client.over_link(power.link());
        let recorder = recorder.on_behalf_of(&client, &machine.name);
        let allocatable = Resources::of(Some(&machine.allocatable));
        let allowed_unsafe_sysctls = settings.allowed_unsafe_sysctls.clone();
        let manifests = Source::of(settings, &machine.name, is_first);
        let numa_nodes = machine.numa_amounts(settings.numa_nodes, settings.reserved_cpu_count());
        let image = |name: &String| (images::canonical(name), StoredImage::new(images::size_bytes(name), now));
        let observed = Observed { images: machine.images.iter().map(image).collect(), ..Observed::default() };
        let numa_settings = numa_settings(settings);
        let numa = NumaAllocator::new(numa_settings.clone(), numa_nodes.clone());
        Self {
            machine,
            client,
            renewal,
            recorder,
            latency: settings.latency.clone(),
            allocatable,
            allowed_unsafe_sysctls,
            pulls_at_once: settings.pulls_at_once(),
            image_pull_bytes_per_second: settings.image_pull_rate,
            disk_filled_bytes: AtomicI64::new(0),
            has_volume_change: AtomicBool::new(false),
            has_csi_node: AtomicBool::new(false),
            checks_pressure: AtomicBool::new(false),
            manifests,
            power,
            has_certificate: AtomicBool::new(false),
            has_read_manifests: AtomicBool::new(false),
            is_new: AtomicBool::new(false),
            renewals: Mutex::default(),
            numa_settings: (numa_settings, numa_nodes),
            state: Mutex::new(State { numa, observed, ..State::default() }),
        }
    }

    /// Returns how long things take on this node now.
    pub fn latency(&self) -> Latency {
        let (factor, Latency { sandbox, image_pull, container_start, stop, init_run, job_run }) =
            (self.power.slowdown(), &self.latency);
        Latency {
            sandbox: slower(*sandbox, factor),
            image_pull: slower(*image_pull, factor),
            container_start: slower(*container_start, factor),
            stop: slower(*stop, factor),
            init_run: slower(*init_run, factor),
            job_run: slower(*job_run, factor),
        }
    }

    /// Turns the machine on with what is on its disk: `pods` are those that are bound to it. Returns since when it was off;
    /// `None` when it was on.
    pub fn boot(&self, now: Timestamp, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let off_at = self.power.turn_on()?;
        self.reset(now, pods);
        Some(off_at)
    }

    /// Forgets what a kubelet keeps in memory; what is on the disk stays. The pods that were admitted stay admitted.
    fn reset(&self, now: Timestamp, pods: &[Arc<Pod>]) {
        let mut state = self.state.lock();
        let (settings, nodes) = self.numa_settings.clone();
        let mut addresses = std::mem::take(&mut state.addresses);
        addresses.iter_mut().for_each(PodAddresses::release_all);
        let boot_id = images::fingerprint(&["boot", &self.machine.name, &now.to_string()]);
        *state = State {
            node_uid: std::mem::take(&mut state.node_uid),
            observed: Observed {
                boot_id: Some(uuid(&boot_id)),
                pressures: BTreeSet::new(),
                volumes_in_use: Vec::new(),
                ..state.observed.clone()
            },
            volumes: VolumesInUse::after_boot(),
            addresses,
            numa: NumaAllocator::new(settings, nodes),
            ..State::default()
        };
        for pod in pods {
            let Some(status) = pod.status.as_ref().filter(|status| !is_terminal(status)) else { continue };
            if status.start_time.is_some() {
                state.admitted.add(pod);
                let _ = state.numa.admit(pod);
                state.lost_sandboxes.insert(pod.uid().to_owned());
            }
        }
        self.checks_pressure.store(false, Ordering::Release);
        self.has_read_manifests.store(false, Ordering::Release);
    }

    /// Returns the node as the agent registers it.
    pub fn initial_node(&self, env: &Env) -> Node {
        node::registration(&self.machine, &self.observed(), env.wall())
    }

    pub fn observed(&self) -> Observed {
        let is_shutting_down = self.power.is_shutting_down();
        Observed { is_shutting_down, ..self.state.lock().observed.clone() }
    }

    pub fn node_uid(&self) -> String {
        self.state.lock().node_uid.clone()
    }

    /// Forgets a Node that was deleted. A new one of the same name has another uid.
    pub fn forget_node(&self, uid: &str) {
        let mut state = self.state.lock();
        if state.node_uid == uid {
            state.node_uid.clear();
        }
    }

    pub fn lease(&self) -> Option<Lease> {
        self.state.lock().lease.clone()
    }

    /// Remembers the lease for its next renewal, without managed fields: an update that has none leaves them alone.
    pub fn set_lease(&self, mut lease: Option<Lease>) {
        lease.iter_mut().for_each(|lease| lease.metadata.managed_fields = None);
        self.state.lock().lease = lease;
    }

    /// Observes the node as the API server has it. Returns true when it brings new ranges, so that waiting pods can go
    /// on.
    pub fn observe_node(&self, node: &Node, now: Timestamp) -> bool {
        let mut state = self.state.lock();
        state.node_uid = node.uid().to_owned();
        state.volumes.adopt(node.status.iter().flat_map(|status| status.volumes_in_use.iter().flatten()));
        state.observed.volumes_in_use = state.volumes.names();
        // Images that an earlier run of this process pulled are still on the machine.
        for image in node.status.iter().flat_map(|s| s.images.iter().flatten()) {
            if let Some(name) = images::full_name_of(image.names.as_deref().unwrap_or_default()) {
                let stored = StoredImage::new(image.size_bytes.unwrap_or(0), now);
                state.observed.images.entry(name.clone()).or_insert(stored);
            }
        }
        if state.observed.boot_id.is_none() {
            let known = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            state.observed.boot_id = known.map(|info| info.boot_id.clone()).filter(|id| !id.is_empty());
        }
        let ranges = ranges_of(node);
        let is_new = !ranges.is_empty() && state.observed.pod_ranges != ranges;
        if is_new {
            state.use_ranges(ranges);
        }
        is_new
    }

    /// Takes the machine's own range when the control plane has given the node none. Returns true when it did, so that
    /// waiting pods can go on.
    pub fn fall_back(&self) -> bool {
        let mut state = self.state.lock();
        match self.machine.fallback_pod_range {
            Some(range) if state.observed.pod_ranges.is_empty() => state.use_ranges(vec![range.into()]),
            _ => return false,
        }
        true
    }

    /// True when the node has a range for its pods.
    pub fn has_range(&self) -> bool {
        !self.state.lock().observed.pod_ranges.is_empty()
    }

    /// Records what a pod of an earlier run of this process holds: its address, its resources, and the images of its
    /// containers, which the node's status may not list yet.
    pub fn recover(&self, pod: &Pod, now: Timestamp) {
        let Some(status) = &pod.status else { return };
        let mut state = self.state.lock();
        for container in container_statuses(status).filter(|container| !container.image_id.is_empty()) {
            let stored = StoredImage::new(images::size_bytes(&container.image), now);
            state.observed.images.entry(images::canonical(&container.image)).or_insert(stored);
        }
        if is_terminal(status) || status.start_time.is_none() {
            return;
        }
        state.admitted.add(pod);
        // It was admitted, so what it cannot have now it has had before.
        let _ = state.numa.admit(pod);
        if is_on_host(pod) {
            return;
        }
        for address in addresses_of(status) {
            state.addresses.iter_mut().for_each(|addresses| addresses.add(pod.uid(), address));
        }
    }

    /// Admits the pod, or returns why not. `node` is this node as the API server has it.
    pub fn admit(&self, pod: &Pod, node: &Node) -> Verdict {
        if self.power.is_shutting_down() {
            let (reason, message) = (shutdown::REJECTED.to_owned(), shutdown::REJECTED_MESSAGE.to_owned());
            return Verdict::Rejected(Rejection { reason, message });
        }
        let mut state = self.state.lock();
        let allowed = |spec| sysctls::check(spec, &self.allowed_unsafe_sysctls);
        let checks = state.eviction.admit(pod).and_then(|()| pod.spec.as_ref().map_or(Ok(()), allowed));
        if let Err(rejection) = checks {
            return Verdict::Rejected(rejection);
        }
        if let Err(rejection) = state.numa.admit(pod) {
            return Verdict::Rejected(rejection);
        }
        let verdict = state.admitted.admit(pod, node, &self.allocatable);
        if verdict != Verdict::Admitted {
            state.numa.release(pod.uid());
        }
        verdict
    }

    /// Gives the pod the resources that its spec asks for, or returns why not.
    pub fn resize(&self, pod: &Pod) -> Result<(), ResizeRefusal> {
        self.state.lock().admitted.resize(pod, &self.allocatable)
    }

    /// Releases what a pod holds: it was deleted, or none of its containers will run again.
    pub fn release(&self, pod_uid: &str) {
        let mut state = self.state.lock();
        state.admitted.release(pod_uid);
        state.pulls.release(pod_uid);
        state.numa.release(pod_uid);
        state.lost_sandboxes.remove(pod_uid);
        state.addresses.iter_mut().for_each(|addresses| addresses.release(pod_uid));
        state.volumes.release(pod_uid);
        self.note_volumes(&mut state);
    }

    /// Records the attachable volumes that a pod is about to mount.
    pub fn use_volumes(&self, pod_uid: &str, volumes: BTreeSet<String>) {
        let mut state = self.state.lock();
        state.volumes.use_by(pod_uid, volumes);
        self.note_volumes(&mut state);
    }

    /// True if it is known which attachable volumes the pod uses.
    pub fn knows_volumes(&self, pod_uid: &str) -> bool {
        self.state.lock().volumes.knows(pod_uid)
    }

    pub fn has_left_over_volumes(&self) -> bool {
        self.state.lock().volumes.has_left_over()
    }

    /// Forgets the volumes that an earlier run of the agent has reported.
    pub fn drop_left_over_volumes(&self) {
        let mut state = self.state.lock();
        state.volumes.drop_left_over();
        self.note_volumes(&mut state);
    }

    fn note_volumes(&self, state: &mut State) {
        let names = state.volumes.names();
        if state.observed.volumes_in_use != names {
            state.observed.volumes_in_use = names;
            self.has_volume_change.store(true, Ordering::Release);
        }
    }

    /// Returns the uid of the pod that has an address of the node's ranges; `None` when the address is not of this node or
    /// nobody has it.
    pub fn pod_at(&self, address: IpAddr) -> Option<String> {
        self.state.lock().addresses.iter().find_map(|addresses| addresses.pod_at(address))
    }

    /// Returns the network of the pod's sandbox: the addresses that the pod has, or new ones, one of each family.
    pub fn sandbox(&self, pod: &Pod, status: &PodStatus) -> Sandbox {
        let State { addresses, lost_sandboxes, .. } = &mut *self.state.lock();
        let known = if lost_sandboxes.contains(pod.uid()) { Vec::new() } else { addresses_of(status) };
        match (is_on_host(pod), known.as_slice(), addresses.as_mut_slice()) {
            (true, ..) => Sandbox::OnHost,
            (_, [_, ..], _) => Sandbox::Addresses(known),
            _ if pod.is_deleting() => Sandbox::NotNeeded,
            (.., []) => Sandbox::Impossible {
                reason: "NetworkNotReady",
                message: format!("network is not ready: {NETWORK_NOT_READY}"),
            },
            (.., all) => {
                let given: Result<Vec<IpAddr>, Sandbox> =
                    all.iter_mut().map(|one| one.allocate(pod.uid()).ok_or_else(|| no_address(pod, one))).collect();
                match given {
                    Ok(addresses) => Sandbox::Addresses(addresses),
                    Err(impossible) => {
                        all.iter_mut().for_each(|one| one.release(pod.uid()));
                        impossible
                    }
                }
            }
        }
    }

    /// Returns the network that the pod's sandbox has, without giving it any.
    pub fn known_sandbox(&self, pod: &Pod, status: &PodStatus) -> Sandbox {
        if is_on_host(pod) { Sandbox::OnHost } else { Sandbox::Addresses(addresses_of(status)) }
    }

    pub fn has_image(&self, image: &str) -> bool {
        self.state.lock().observed.images.contains_key(&images::canonical(image))
    }

    /// Plans a pull beside the others of the node.
    pub fn plan_pull(&self, request: &PullRequest<'_>, now: Timestamp) -> PlannedPull {
        let takes = match self.image_pull_bytes_per_second {
            0 => request.takes,
            rate => request.takes + Duration::from_secs_f64(images::size_bytes(request.image) as f64 / rate as f64),
        };
        self.state.lock().pulls.plan(&PullRequest { takes, ..request.clone() }, self.pulls_at_once, now)
    }

    pub fn add_image(&self, image: &str, now: Timestamp) {
        let stored = StoredImage::new(images::size_bytes(image), now);
        self.state.lock().observed.images.insert(images::canonical(image), stored);
    }

    /// Returns how much of the disk is filled by nobody's pod.
    pub fn disk_filled_bytes(&self) -> i64 {
        self.disk_filled_bytes.load(Ordering::Relaxed)
    }

    /// Fills a part of the disk, from 0 to 1 of its capacity.
    pub fn fill_disk(&self, part: f64) {
        let bytes = self.machine.capacity_of("ephemeral-storage") as f64 * part.clamp(0.0, 1.0);
        self.disk_filled_bytes.store(bytes as i64, Ordering::Relaxed);
    }

    /// Gives access to what the node observes and decides about its pressures.
    pub fn with_pressure<T>(&self, act: impl FnOnce(&mut Observed, &mut EvictionManager) -> T) -> T {
        let State { observed, eviction, .. } = &mut *self.state.lock();
        let result = act(observed, eviction);
        observed.pressures = eviction.pressures().clone();
        result
    }

    /// True when a report is due although nothing has changed.
    pub fn report_is_due(&self, env: &Env, every: Duration) -> bool {
        let state = self.state.lock();
        let after_s = (every.as_secs_f64() + state.report_shift_s).max(0.0);
        state.reported_at.is_none_or(|at| (env.now() - at).as_secs_f64() >= after_s)
    }

    /// Logs what is wrong with manifests, once for each problem.
    pub fn report_manifests(&self, problems: &[(String, String)]) {
        let mut state = self.state.lock();
        for (place, problem) in problems.iter().filter(|problem| !state.manifest_problems.contains(problem)) {
            tracing::error!(node = self.machine.name, place, problem, "the manifest of a static pod cannot be used");
        }
        state.manifest_problems = problems.to_vec();
    }

    /// Records that the status was reported. After a change, the next report is shifted by up to half a period, so that
    /// nodes that changed together do not report together for ever.
    pub fn reported(&self, env: &Env, changed: bool, every: Duration, random: &Random) {
        let mut state = self.state.lock();
        state.reported_at = Some(env.now());
        state.report_shift_s = if changed { (random.unit() - 0.5) * every.as_secs_f64() } else { 0.0 };
    }
}

/// Writes the first 32 digits of a fingerprint as a uuid.
fn uuid(hex: &str) -> String {
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

impl State {
    fn use_ranges(&mut self, ranges: Vec<IpNet>) {
        self.addresses = ranges.iter().copied().map(PodAddresses::new).collect();
        self.observed.pod_ranges = ranges;
    }
}

/// Reads the flags about NUMA nodes.
fn numa_settings(settings: &Settings) -> NumaSettings {
    let has_option = |name: &str| settings.cpu_manager_policy_options.iter().any(|(k, v)| k == name && v == "true");
    NumaSettings {
        has_static_cpus: settings.cpu_manager_policy == "static",
        has_static_memory: settings.memory_manager_policy == "Static",
        full_cores_only: has_option("full-pcpus-only"),
        policy: match settings.topology_manager_policy.as_str() {
            "best-effort" => TopologyPolicy::BestEffort,
            "restricted" => TopologyPolicy::Restricted,
            "single-numa-node" => TopologyPolicy::SingleNumaNode,
            _ => TopologyPolicy::None,
        },
        by_pod: settings.topology_manager_scope == "pod",
    }
}

/// Returns the node's ranges of pod addresses.
fn ranges_of(node: &Node) -> Vec<IpNet> {
    let Some(spec) = &node.spec else { return Vec::new() };
    let several = spec.pod_cidrs.iter().flatten();
    let several: Vec<IpNet> = several.filter_map(|range| range.parse().ok()).collect();
    if several.is_empty() { spec.pod_cidr.iter().filter_map(|range| range.parse().ok()).collect() } else { several }
}

/// Returns the addresses in a pod's status.
fn addresses_of(status: &PodStatus) -> Vec<IpAddr> {
    let several: Vec<IpAddr> = status.pod_ips.iter().flatten().filter_map(|known| known.ip.parse().ok()).collect();
    if several.is_empty() { status.pod_ip.iter().filter_map(|ip| ip.parse().ok()).collect() } else { several }
}

fn is_on_host(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false)
}

fn container_statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten()
}

/// Reports that all addresses are taken, in the words of containerd and the host-local plugin.
fn no_address(pod: &Pod, addresses: &PodAddresses) -> Sandbox {
    let (first, last) = addresses.bounds();
    let sandbox = images::fingerprint(&["sandbox", pod.uid()]);
    let message = format!(
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
         {sandbox:?}: plugin type=\"bridge\" failed (add): failed to allocate for range 0: no IP addresses available \
         in range set: {first}-{last}"
    );
    Sandbox::Impossible { reason: "FailedCreatePodSandBox", message }
}
