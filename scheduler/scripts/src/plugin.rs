//! `Script`, the plugin of a script: Filter, Score and QueueSort, as far as the script defines them.
//!
//! A script that fails rejects its pod: PreFilter, Filter and, after Score, Reserve return the message, so that it is in the
//! pod's event, and the pod waits for its back-off. After the first failure in a cycle the script is not called again.

use crate::machine::Machine;
use parking_lot::Mutex;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::args::ScriptArgs;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, Plugin, Points, PreFilter, PreFilterResult, QueueSort,
    QueuedPodInfo, Rejection, Reserve, Score,
};
use std::sync::{Arc, OnceLock};

/// Name of a script that the configuration contains, in messages.
const INLINE: &str = "source";

pub struct Script {
    name: &'static str,
    machine: Mutex<Machine>,
}

/// The message of the script that failed in this cycle.
#[derive(Clone, Default)]
struct Failure(Arc<OnceLock<String>>);

impl Script {
    /// Reads and loads the script.
    pub fn new(name: &'static str, args: &ScriptArgs) -> Result<Self, String> {
        let (shown, source) = match (&args.path, &args.source) {
            (Some(path), _) => {
                let source =
                    std::fs::read_to_string(path).map_err(|error| format!("reading script {path}: {error}"))?;
                (path.as_str(), source)
            }
            (None, Some(source)) => (INLINE, source.clone()),
            (None, None) => return Err("path or source is required".to_owned()),
        };
        Ok(Self { name, machine: Mutex::new(Machine::load(shown, &source, &args.limits)?) })
    }

    /// Returns the extension points of the script's functions.
    pub fn points(self) -> Points {
        let functions = self.machine.lock().functions().clone();
        let plugin = Arc::new(self);
        let mut points = Points::of(&plugin).pre_filter(&plugin);
        if functions.filter.is_some() {
            points = points.filter(&plugin);
        }
        if functions.score.is_some() {
            points = points.score(&plugin).reserve(&plugin);
        }
        if functions.less.is_some() {
            points = points.queue_sort(&plugin);
        }
        points
    }

    fn failure<'a>(&self, state: &'a CycleState) -> Option<&'a Failure> {
        state.read::<Failure>(self.name)
    }

    /// Returns the rejection of a pod whose script has failed in this cycle.
    fn failed(&self, state: &CycleState) -> Option<Rejection> {
        let message = self.failure(state)?.0.get()?;
        Some(Rejection::unresolvable(self.name, message.clone()))
    }

    /// Keeps a message for the rest of the cycle, and logs it.
    fn fail(&self, state: &CycleState, pod: &PodInfo, message: String) -> Rejection {
        tracing::warn!(pod = pod.key, "the script failed: {message}");
        if let Some(failure) = self.failure(state) {
            let _ = failure.0.set(message.clone()); // the first one stays
        }
        Rejection::unresolvable(self.name, message)
    }
}

impl Plugin for Script {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true for changes of what a script can read.
    fn may_become_schedulable(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        !matches!(
            event,
            ClusterEvent::ClaimChanged(_)
                | ClusterEvent::VolumesChanged
                | ClusterEvent::ResourceClaimChanged { .. }
                | ClusterEvent::DevicesChanged
        )
    }
}

impl PreFilter for Script {
    /// Rejects a pod that the script cannot compare, even with itself. It is behind all others in the queue until then.
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        state.write(self.name, Failure::default());
        let mut machine = self.machine.lock();
        machine.retain(snapshot);
        match machine.less(pod, pod) {
            Ok(_) => Ok(PreFilterResult::AllNodes),
            Err(message) => Err(self.fail(state, pod, message)),
        }
    }
}

impl Filter for Script {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if let Some(rejection) = self.failed(state) {
            return Err(rejection);
        }
        match self.machine.lock().filter(pod, node) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(Rejection::unschedulable(self.name, reason)),
            Err(message) => Err(self.fail(state, pod, message)),
        }
    }
}

impl Score for Script {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        if self.failed(state).is_some() {
            return 0;
        }
        self.machine.lock().score(pod, node).unwrap_or_else(|message| {
            self.fail(state, pod, message);
            0
        })
    }

    fn normalize(&self, state: &CycleState, pod: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        if self.failed(state).is_none()
            && let Err(message) = self.machine.lock().normalize(pod, scores)
        {
            self.fail(state, pod, message);
        }
        if self.failed(state).is_some() {
            scores.fill(0); // Reserve rejects the pod
        }
    }
}

impl Reserve for Script {
    /// Rejects a pod whose scores failed, because its node was chosen without them.
    fn reserve(&self, state: &mut CycleState, _: &PodInfo, _: &str) -> Result<(), Rejection> {
        self.failed(state).map_or(Ok(()), Err)
    }

    fn unreserve(&self, _: &CycleState, _: &PodInfo, _: &str) {}
}

impl QueueSort for Script {
    fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String> {
        self.machine.lock().less(&a.pod_info, &b.pod_info)
    }
}
