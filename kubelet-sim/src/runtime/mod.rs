//! The processes and volumes of containers that somebody looks at: a client of `kubectl exec`, `logs` or `attach`, or the
//! node itself, when nothing less tells how the container ends.
//!
//! Corresponds to a container runtime. A container's processes are made when they are first needed, and run from the
//! container's start up to the present time: the same start gives the same outputs. Read `container` (what a process can
//! see), then `switch` (how containers reach each other) and `live` (containers that the node looks at).
//!
//! Deviation: what `kubectl exec` has written is lost when kubelet-sim restarts, or when very many containers were
//! looked at since, but for what it wrote to claims. After a restart, a container's processes run again from their start up to
//! the present; what they wrote to claims then is not written again.

pub mod file_modes;
pub mod run;
pub mod identity;
pub mod control_group;
pub mod container;
pub mod traffic;
pub mod gateway;
pub mod switch;
pub mod live;
pub mod hooks;

use crate::runtime::gateway::Gateway;
use crate::runtime::traffic::Traffic;
use crate::volumes::store::VolumeStore;
use component_helpers::volumes::volume_files;
use file_tree::volume::Volume;
use parking_lot::Mutex;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use userland::process::processes::Processes;

/// Containers whose processes are remembered; those looked at first are forgotten.
const MAX_CONTAINERS: usize = 256;
/// Connected runs that are remembered of one run.
const MAX_PEERS: usize = 64;

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    pub pod_uid: String,
    pub container: String,
    pub number: i32,
    pub started_at: Timestamp,
}

/// The processes of one run. Several streams may look at them.
pub type SharedProcesses = Arc<Mutex<Processes>>;

#[derive(Default)]
pub struct Runtime {
    state: Mutex<State>,
    pub traffic: Traffic,
    /// The volumes behind claims.
    pub persistent: VolumeStore,
    started_at: Timestamp,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<RunKey, Known>,
    order: VecDeque<RunKey>,
    /// Volumes by the pod's uid and their name.
    volumes: BTreeMap<(String, String), Volume>,
    /// The name of the files of the volume behind each claim, by namespace and name.
    claims: BTreeMap<(String, String), String>,
    /// The processes to which those of a run are connected.
    peers: BTreeMap<RunKey, Vec<Peer>>,
    /// Until when the processes of a run ran that were forgotten.
    ran_until: BTreeMap<RunKey, Timestamp>,
    /// The connections of a run to the API server.
    gateways: BTreeMap<RunKey, Vec<Arc<Gateway>>>,
}

/// A run to which another one is connected.
#[derive(Clone)]
pub struct Peer {
    pub node: String,
    pub key: RunKey,
    pub processes: SharedProcesses,
}

/// The processes of a run, and when its volumes were last brought up to date.
struct Known {
    processes: SharedProcesses,
    mounted_at: Timestamp,
    /// True once a client has run a command beside them, which may have changed anything.
    is_touched: bool,
}

impl Runtime {
    /// Makes a runtime that keeps the files of claims below a folder; in memory without one. `started_at` is the time at which
    /// this process began.
    pub fn new(volume_dir: Option<PathBuf>, started_at: Timestamp) -> Self {
        // Runs begin at whole seconds, too.
        let started_at = Timestamp::from_second(started_at.as_second()).unwrap_or(started_at);
        Self { persistent: VolumeStore::new(volume_dir), started_at, ..Self::default() }
    }

    /// Returns until when a run has written its files already: an earlier process ran it, or this one has forgotten it since.
    /// Its processes are then run again from their start, to find out where they are.
    pub fn replayed_until(&self, key: &RunKey) -> Timestamp {
        let forgotten = self.state.lock().ran_until.get(key).copied();
        let of_earlier = Some(self.started_at).filter(|started_at| key.started_at < *started_at);
        forgotten.into_iter().chain(of_earlier).max().unwrap_or(Timestamp::MIN)
    }

    /// Returns the processes of a run; starts them when they are not known yet. Its volumes are up to date at `now`.
    pub fn processes(&self, key: RunKey, now: Timestamp, start: impl FnOnce() -> Processes) -> SharedProcesses {
        let mut state = self.state.lock();
        if let Some(known) = state.runs.get_mut(&key) {
            known.mounted_at = now;
            return known.processes.clone();
        }
        let processes = Arc::new(Mutex::new(start()));
        state.runs.insert(key.clone(), Known { processes: processes.clone(), mounted_at: now, is_touched: false });
        state.order.push_back(key);
        while state.order.len() > MAX_CONTAINERS {
            let Some(oldest) = state.order.pop_front() else { break };
            state.forget(&oldest, now);
        }
        processes
    }

    /// Returns the processes of a run if they are known and its volumes were brought up to date after `since`.
    pub fn known(&self, key: &RunKey, since: Timestamp) -> Option<SharedProcesses> {
        let state = self.state.lock();
        state.runs.get(key).filter(|known| known.mounted_at >= since).map(|known| known.processes.clone())
    }

    /// Records that a client runs a command beside the processes of a run.
    pub fn touch(&self, key: &RunKey) {
        if let Some(known) = self.state.lock().runs.get_mut(key) {
            known.is_touched = true;
        }
    }

    pub fn is_touched(&self, key: &RunKey) -> bool {
        self.state.lock().runs.get(key).is_some_and(|known| known.is_touched)
    }

    /// Keeps the processes of a run until they are released, however many containers are looked at.
    pub fn keep(&self, key: &RunKey) {
        self.state.lock().order.retain(|other| other != key);
    }

    /// Lets the processes of a run that was kept be forgotten like all others: its log is still read.
    pub fn unkeep(&self, key: RunKey) {
        let mut state = self.state.lock();
        if state.runs.contains_key(&key) && !state.order.contains(&key) {
            state.order.push_back(key);
        }
    }

    /// Records to which PersistentVolume a claim is bound. Its files outlast the claim.
    pub fn record_claim(&self, namespace: &str, claim: &str, volume: &PersistentVolume) {
        let key = (namespace.to_owned(), claim.to_owned());
        self.state.lock().claims.insert(key, volume_files::name_of(volume));
    }

    /// Returns the name of the files of the volume that a claim is bound to.
    pub fn files_of_claim(&self, namespace: &str, claim: &str) -> Option<String> {
        self.state.lock().claims.get(&(namespace.to_owned(), claim.to_owned())).cloned()
    }

    /// Records that the processes of a run are connected to others.
    pub fn connect(&self, key: &RunKey, peer: Peer) {
        let mut state = self.state.lock();
        let peers = state.peers.entry(key.clone()).or_default();
        if !peers.iter().any(|known| known.key == peer.key) {
            peers.push(peer);
        }
        if peers.len() > MAX_PEERS {
            peers.remove(0);
        }
    }

    /// Returns the processes to which those of a run are connected.
    pub fn peers(&self, key: &RunKey) -> Vec<Peer> {
        self.state.lock().peers.get(key).cloned().unwrap_or_default()
    }

    /// Records that the processes of a run are connected to the API server.
    pub fn open_gateway(&self, key: &RunKey, gateway: Gateway) {
        self.state.lock().gateways.entry(key.clone()).or_default().push(Arc::new(gateway));
    }

    pub fn close_gateway(&self, key: &RunKey, gateway: &Arc<Gateway>) {
        if let Some(open) = self.state.lock().gateways.get_mut(key) {
            open.retain(|other| !Arc::ptr_eq(other, gateway));
        }
    }

    /// Returns the connections of a run to the API server.
    pub fn gateways(&self, key: &RunKey) -> Vec<Arc<Gateway>> {
        self.state.lock().gateways.get(key).cloned().unwrap_or_default()
    }

    /// Forgets everything of a pod.
    pub fn release(&self, pod_uid: &str) {
        self.traffic.release(pod_uid);
        let mut state = self.state.lock();
        state.runs.retain(|key, _| key.pod_uid != pod_uid);
        state.ran_until.retain(|key, _| key.pod_uid != pod_uid);
        state.peers.retain(|key, _| key.pod_uid != pod_uid);
        state.gateways.retain(|key, _| key.pod_uid != pod_uid);
        state.peers.values_mut().for_each(|peers| peers.retain(|peer| peer.key.pod_uid != pod_uid));
        state.order.retain(|key| key.pod_uid != pod_uid);
        state.volumes.retain(|(of, _), _| of != pod_uid);
    }

    /// Returns a volume of a pod, which its containers share.
    pub fn volume(&self, pod_uid: &str, name: &str, make: impl FnOnce() -> Volume) -> Volume {
        let key = (pod_uid.to_owned(), name.to_owned());
        self.state.lock().volumes.entry(key).or_insert_with(make).clone()
    }
}

impl State {
    /// Forgets the processes of a run. The volumes stay as long as the pod: its next run finds its files there.
    fn forget(&mut self, key: &RunKey, now: Timestamp) {
        if self.runs.remove(key).is_some() {
            self.ran_until.insert(key.clone(), now);
        }
        self.peers.remove(key);
        self.gateways.remove(key);
    }
}
