//! A row of the fleet: one simulated node, with what its agent keeps in memory.
//!
//! Corresponds to the fields of pkg/kubelet.Kubelet. All of it is found again from the API server after a restart.

use crate::addresses::PodAddresses;
use crate::config::Settings;
use crate::images;
use crate::machine::Machine;
use crate::node::{self, NETWORK_NOT_READY, Observed};
use crate::pod::admission::{Admitted, Rejection};
use crate::pod::conditions::is_terminal;
use crate::pod::lifecycle::Sandbox;
use client::{Client, Recorder};
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{ContainerStatus, Node, Pod, PodStatus};
use proto::scheduling::requests::Resources;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::time::Instant;

pub struct NodeRow {
    pub machine: Machine,
    /// Writes as this node: `system:node:NAME` in `system:nodes`.
    pub client: Client,
    pub recorder: Recorder,
    allocatable: Resources,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    node_uid: String,
    observed: Observed,
    /// As it was last written or read.
    lease: Option<Lease>,
    /// `None` until the node has been given a range.
    addresses: Option<PodAddresses>,
    admitted: Admitted,
    reported_at: Option<Instant>,
    /// How much later than after its period the next report is due; sooner where it is negative.
    report_shift_s: f64,
}

impl NodeRow {
    pub fn new(fleet: &Client, recorder: &Recorder, settings: &Settings, number: u32) -> Self {
        let machine = Machine::new(settings, number);
        let client = fleet.impersonating(&format!("system:node:{}", machine.name), &["system:nodes"]);
        let recorder = recorder.on_behalf_of(&client, &machine.name);
        let allocatable = Resources::of(Some(&machine.allocatable));
        Self { machine, client, recorder, allocatable, state: Mutex::default() }
    }

    /// The node as the agent registers it.
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

    pub fn keep_lease(&self, lease: Option<Lease>) {
        self.state.lock().lease = lease;
    }

    /// Takes over what the API server knows of the node. True if pods that waited for an address may go on now.
    pub fn observe_node(&self, node: &Node) -> bool {
        let mut state = self.state.lock();
        state.node_uid = node.uid().to_owned();
        // Images of an earlier run of this process are still on the machine.
        for image in node.status.iter().flat_map(|s| s.images.iter().flatten()) {
            if let Some(name) = images::of_reported_names(image.names.as_deref().unwrap_or_default()) {
                state.observed.images.entry(name.clone()).or_insert(image.size_bytes.unwrap_or(0));
            }
        }
        // Deviation: a node has pod addresses of one family only, IPv4.
        let range = node.spec.as_ref().and_then(|s| s.pod_cidr.as_ref()).and_then(|cidr| cidr.parse().ok());
        let Some(range) = range else { return false };
        if state.addresses.as_ref().is_some_and(|addresses| addresses.range() == range) {
            return false;
        }
        state.addresses = Some(PodAddresses::new(range));
        state.observed.network_ready = true;
        true
    }

    /// Notes what a pod of an earlier run of this process holds: its address, its place on the node, and the images that
    /// its containers were started from, which the node's status need not have told yet.
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
        state.admitted.take(pod);
        let address = status.pod_ip.as_ref().and_then(|ip| ip.parse::<Ipv4Addr>().ok()).filter(|_| !is_on_host(pod));
        if let (Some(address), Some(addresses)) = (address, &mut state.addresses) {
            addresses.take(pod.uid(), address);
        }
    }

    /// Takes the pod, or says why not. `node` is what the API server knows of this one.
    pub fn admit(&self, pod: &Pod, node: &Node) -> Result<(), Rejection> {
        self.state.lock().admitted.admit(pod, node, &self.allocatable)
    }

    /// The pod has gone, or nothing of it runs any more.
    pub fn release(&self, pod_uid: &str) {
        let mut state = self.state.lock();
        state.admitted.release(pod_uid);
        if let Some(addresses) = &mut state.addresses {
            addresses.release(pod_uid);
        }
    }

    /// The network of the pod's sandbox: the address that it has, or a new one.
    pub fn sandbox(&self, pod: &Pod, status: &PodStatus) -> Sandbox {
        let known = status.pod_ip.as_ref().and_then(|ip| ip.parse().ok());
        match (is_on_host(pod), known, &mut self.state.lock().addresses) {
            (true, ..) => Sandbox::OnHost,
            (_, Some(address), _) => Sandbox::Address(address),
            _ if pod.is_deleting() => Sandbox::NotNeeded,
            (.., None) => Sandbox::Impossible {
                reason: "NetworkNotReady",
                message: format!("network is not ready: {NETWORK_NOT_READY}"),
            },
            (.., Some(addresses)) => match addresses.allocate(pod.uid()) {
                Some(address) => Sandbox::Address(IpAddr::V4(address)),
                None => no_address(pod, addresses),
            },
        }
    }

    pub fn has_image(&self, image: &str) -> bool {
        self.state.lock().observed.images.contains_key(&images::canonical(image))
    }

    pub fn add_image(&self, image: &str) {
        self.state.lock().observed.images.insert(images::canonical(image), images::size_bytes(image));
    }

    /// A report is due although nothing has changed.
    pub fn report_is_due(&self, env: &Env, every: Duration) -> bool {
        let state = self.state.lock();
        let after_s = (every.as_secs_f64() + state.report_shift_s).max(0.0);
        state.reported_at.is_none_or(|at| (env.now() - at).as_secs_f64() >= after_s)
    }

    /// The report after a change comes up to half a period sooner or later, so that nodes that changed together do not
    /// report together ever after.
    pub fn reported(&self, env: &Env, changed: bool, every: Duration, random: &Random) {
        let mut state = self.state.lock();
        state.reported_at = Some(env.now());
        state.report_shift_s = if changed { (random.unit() - 0.5) * every.as_secs_f64() } else { 0.0 };
    }
}

fn is_on_host(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.host_network).unwrap_or(false)
}

fn container_statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten()
}

/// In the words of containerd and the host-local plugin.
fn no_address(pod: &Pod, addresses: &PodAddresses) -> Sandbox {
    let range = addresses.range();
    let first = range.hosts().next().unwrap_or(range.network());
    let last = range.hosts().last().unwrap_or(range.broadcast());
    let sandbox = images::fingerprint(&["sandbox", pod.uid()]);
    let message = format!(
        "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox \
         {sandbox:?}: plugin type=\"bridge\" failed (add): failed to allocate for range 0: no IP addresses available \
         in range set: {first}-{last}"
    );
    Sandbox::Impossible { reason: "FailedCreatePodSandBox", message }
}
