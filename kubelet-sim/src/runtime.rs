//! The processes and volumes of containers that somebody has looked at: by `kubectl exec`, `logs` or `attach`.
//!
//! Corresponds to a container runtime. A container's processes are made when they are first needed, and run from the
//! container's start up to the present time: the same start gives the same outputs.
//!
//! Deviation: what `kubectl exec` has written is lost when kubelet-sim restarts, or when very many containers were
//! looked at since.

use parking_lot::Mutex;
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use userland::process::processes::Processes;
use userland::tree::volume::Volume;

/// Containers whose processes are remembered; those looked at first are forgotten.
const MAX_CONTAINERS: usize = 256;

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
}

#[derive(Default)]
struct State {
    runs: BTreeMap<RunKey, SharedProcesses>,
    order: VecDeque<RunKey>,
    /// Volumes by the pod's uid and their name.
    volumes: BTreeMap<(String, String), Volume>,
}

impl Runtime {
    /// Returns the processes of a run; starts them when they are not known yet.
    pub fn processes(&self, key: RunKey, start: impl FnOnce() -> Processes) -> SharedProcesses {
        let mut state = self.state.lock();
        if let Some(known) = state.runs.get(&key) {
            return known.clone();
        }
        let started = Arc::new(Mutex::new(start()));
        state.runs.insert(key.clone(), started.clone());
        state.order.push_back(key);
        while state.order.len() > MAX_CONTAINERS {
            let Some(oldest) = state.order.pop_front() else { break };
            state.runs.remove(&oldest);
            if !state.runs.keys().any(|key| key.pod_uid == oldest.pod_uid) {
                state.volumes.retain(|(pod_uid, _), _| *pod_uid != oldest.pod_uid);
            }
        }
        started
    }

    /// Returns a volume of a pod, which its containers share.
    pub fn volume(&self, pod_uid: &str, name: &str, make: impl FnOnce() -> Volume) -> Volume {
        let key = (pod_uid.to_owned(), name.to_owned());
        self.state.lock().volumes.entry(key).or_insert_with(make).clone()
    }
}
