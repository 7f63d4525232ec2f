//! A row of the fleet: one simulated node, with what its agent keeps in memory.
//!
//! Corresponds to the fields of pkg/kubelet.Kubelet. All of it is found again from the API server after a restart.

use crate::addresses::PodAddresses;
use crate::config::Settings;
use crate::images;
use crate::machine::Machine;
use crate::node::Observed;
use client::{Client, Recorder};
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::{Node, Pod};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::time::Instant;

pub struct NodeRow {
    pub machine: Machine,
    /// Writes as this node: `system:node:NAME` in `system:nodes`.
    pub client: Client,
    pub recorder: Recorder,
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
    reported_at: Option<Instant>,
}

impl NodeRow {
    pub fn new(fleet: &Client, recorder: &Recorder, settings: &Settings, number: u32) -> Self {
        let machine = Machine::new(settings, number);
        let client = fleet.impersonating(&format!("system:node:{}", machine.name), &["system:nodes"]);
        let recorder = recorder.on_behalf_of(&client, &machine.name);
        Self { machine, client, recorder, state: Mutex::default() }
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
            for name in image.names.iter().flatten() {
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

    /// Notes the address that a pod of an earlier run of this process has.
    pub fn recover_address(&self, pod: &Pod) {
        let status = pod.status.as_ref();
        let address = status.and_then(|s| s.pod_ip.as_ref()).and_then(|ip| ip.parse::<Ipv4Addr>().ok());
        if let (Some(address), Some(addresses)) = (address, &mut self.state.lock().addresses) {
            addresses.take(pod.uid(), address);
        }
    }

    pub fn allocate_address(&self, pod_uid: &str) -> Option<IpAddr> {
        self.state.lock().addresses.as_mut()?.allocate(pod_uid).map(IpAddr::V4)
    }

    pub fn release_address(&self, pod_uid: &str) {
        if let Some(addresses) = &mut self.state.lock().addresses {
            addresses.release(pod_uid);
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
        self.state.lock().reported_at.is_none_or(|at| env.now() - at >= every)
    }

    pub fn reported(&self, env: &Env) {
        self.state.lock().reported_at = Some(env.now());
    }
}
