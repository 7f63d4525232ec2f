//! A row of the fleet: one simulated node, with the state that its agent keeps in memory.
//!
//! Corresponds to the fields of pkg/kubelet.Kubelet. After a restart, the agent rebuilds all of it from the API server.

use crate::addresses::PodAddresses;
use crate::config::Settings;
use crate::images;
use crate::machine::Machine;
use crate::node::{self, NETWORK_NOT_READY, Observed};
use crate::pod::admission::{AdmittedPods, Rejection, ResizeRefusal};
use crate::pod::conditions::is_terminal;
use crate::pod::lifecycle::Sandbox;
use crate::pod::sysctls;
use client::{Client, Recorder, Renewal};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::rng::Random;
use ipnet::IpNet;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{ContainerStatus, Node, Pod, PodStatus};
use proto::scheduling::requests::Resources;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// One simulated node of the fleet.
pub struct NodeRow {
    pub machine: Machine,
    /// Writes as this node: as `system:node:NAME` in `system:nodes`, by impersonation or by a certificate of its own.
    pub client: Client,
    /// Exchanges the client's certificate; `None` when the node has none of its own.
    pub renewal: Option<Renewal>,
    pub recorder: Recorder,
    allocatable: Resources,
    allowed_unsafe_sysctls: Vec<String>,
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
    admitted: AdmittedPods,
    reported_at: Option<Instant>,
    /// Shift of the next periodic report: later when positive, sooner when negative.
    report_shift_s: f64,
}

impl NodeRow {
    pub fn new(fleet: &Client, recorder: &Recorder, settings: &Settings, number: u32) -> Self {
        let machine = Machine::new(settings, number);
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
        let recorder = recorder.on_behalf_of(&client, &machine.name);
        let allocatable = Resources::of(Some(&machine.allocatable));
        let allowed_unsafe_sysctls = settings.allowed_unsafe_sysctls.clone();
        Self { machine, client, renewal, recorder, allocatable, allowed_unsafe_sysctls, state: Mutex::default() }
    }

    /// Returns the node as the agent registers it.
    pub fn initial_node(&self, env: &Env) -> Node {
        node::registration(&self.machine, &self.observed(), env.wall())
    }

    pub fn observed(&self) -> Observed {
        self.state.lock().observed.clone()
    }

    pub fn node_uid(&self) -> String {
        self.state.lock().node_uid.clone()
    }

    pub fn lease(&self) -> Option<Lease> {
        self.state.lock().lease.clone()
    }

    pub fn set_lease(&self, lease: Option<Lease>) {
        self.state.lock().lease = lease;
    }

    /// Observes the node as the API server has it. Returns true when it brings new ranges, so that waiting pods can go
    /// on.
    pub fn observe_node(&self, node: &Node) -> bool {
        let mut state = self.state.lock();
        state.node_uid = node.uid().to_owned();
        // Images that an earlier run of this process pulled are still on the machine.
        for image in node.status.iter().flat_map(|s| s.images.iter().flatten()) {
            if let Some(name) = images::full_name_of(image.names.as_deref().unwrap_or_default()) {
                state.observed.images.entry(name.clone()).or_insert(image.size_bytes.unwrap_or(0));
            }
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
    pub fn recover(&self, pod: &Pod) {
        let Some(status) = &pod.status else { return };
        let mut state = self.state.lock();
        for container in container_statuses(status).filter(|container| !container.image_id.is_empty()) {
            let size_bytes = images::size_bytes(&container.image);
            state.observed.images.entry(images::canonical(&container.image)).or_insert(size_bytes);
        }
        if is_terminal(status) || status.start_time.is_none() {
            return;
        }
        state.admitted.add(pod);
        if is_on_host(pod) {
            return;
        }
        for address in addresses_of(status) {
            state.addresses.iter_mut().for_each(|addresses| addresses.add(pod.uid(), address));
        }
    }

    /// Admits the pod, or returns why not. `node` is this node as the API server has it.
    pub fn admit(&self, pod: &Pod, node: &Node) -> Result<(), Rejection> {
        if let Some(spec) = &pod.spec {
            sysctls::check(spec, &self.allowed_unsafe_sysctls)?;
        }
        self.state.lock().admitted.admit(pod, node, &self.allocatable)
    }

    /// Gives the pod the resources that its spec asks for, or returns why not.
    pub fn resize(&self, pod: &Pod) -> Result<(), ResizeRefusal> {
        self.state.lock().admitted.resize(pod, &self.allocatable)
    }

    /// Releases what a pod holds: it was deleted, or none of its containers will run again.
    pub fn release(&self, pod_uid: &str) {
        let mut state = self.state.lock();
        state.admitted.release(pod_uid);
        state.addresses.iter_mut().for_each(|addresses| addresses.release(pod_uid));
    }

    /// Returns the network of the pod's sandbox: the addresses that the pod has, or new ones, one of each family.
    pub fn sandbox(&self, pod: &Pod, status: &PodStatus) -> Sandbox {
        let (known, addresses) = (addresses_of(status), &mut self.state.lock().addresses);
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

    pub fn add_image(&self, image: &str) {
        self.state.lock().observed.images.insert(images::canonical(image), images::size_bytes(image));
    }

    /// True when a report is due although nothing has changed.
    pub fn report_is_due(&self, env: &Env, every: Duration) -> bool {
        let state = self.state.lock();
        let after_s = (every.as_secs_f64() + state.report_shift_s).max(0.0);
        state.reported_at.is_none_or(|at| (env.now() - at).as_secs_f64() >= after_s)
    }

    /// Records that the status was reported. After a change, the next report is shifted by up to half a period, so that
    /// nodes that changed together do not report together for ever.
    pub fn reported(&self, env: &Env, changed: bool, every: Duration, random: &Random) {
        let mut state = self.state.lock();
        state.reported_at = Some(env.now());
        state.report_shift_s = if changed { (random.unit() - 0.5) * every.as_secs_f64() } else { 0.0 };
    }
}

impl State {
    fn use_ranges(&mut self, ranges: Vec<IpNet>) {
        self.addresses = ranges.iter().copied().map(PodAddresses::new).collect();
        self.observed.pod_ranges = ranges;
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
