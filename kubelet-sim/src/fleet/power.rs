//! `MachinePower`: what a machine is told to be, and what has become of it.

use crate::machines::shutdown::ShutdownGroup;
use crate::machines::state::{MachineState, Power};
use client::link::Link;
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The power, the network and the clock of one machine.
#[derive(Debug, Default)]
pub struct MachinePower {
    known: Mutex<Known>,
    /// The machine's way to the API server.
    link: Link,
}

#[derive(Debug, Default)]
struct Known {
    state: MachineState,
    /// True once the state was read for the first time; a restart that it asks for then was done long ago.
    is_adopted: bool,
    /// Since when the machine is off.
    off_at: Option<Timestamp>,
    shutdown: Option<Shutdown>,
    /// The pods that the machine knew when its link was cut, by namespace and name.
    known_pods: BTreeMap<String, Arc<Pod>>,
}

/// A shutdown that is under way.
#[derive(Debug, Default)]
struct Shutdown {
    /// The pods that are stopped now, and until when they are waited for.
    present: Option<(Vec<Arc<Pod>>, Instant)>,
    /// Uids of pods whose time was over.
    given_up: Vec<String>,
}

impl MachinePower {
    pub fn state(&self) -> MachineState {
        self.known.lock().state.clone()
    }

    /// Tells the machine what it is from now on. `pods` are those that are bound to it.
    pub fn set_state(&self, state: MachineState, pods: impl FnOnce() -> Vec<Arc<Pod>>) {
        self.link.set_cut(state.is_partitioned);
        let mut known = self.known.lock();
        if !state.is_partitioned {
            known.known_pods.clear();
        } else if !known.state.is_partitioned {
            known.known_pods = pods().into_iter().map(|pod| (pod.key(), pod)).collect();
        }
        known.state = state;
    }

    pub fn adopt(&self) {
        self.known.lock().is_adopted = true;
    }

    pub fn is_adopted(&self) -> bool {
        self.known.lock().is_adopted
    }

    pub fn is_on(&self) -> bool {
        self.known.lock().off_at.is_none()
    }

    /// Returns a pod as the machine knows it: while its link is cut, as it was before; `None` if it came later.
    pub fn pod_as_known(&self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        if self.link.is_cut() { self.known.lock().known_pods.get(&pod.key()).cloned() } else { Some(pod) }
    }

    /// Returns the machine's way to the API server, which is cut while the machine is partitioned.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// True when the machine is on and its network is connected.
    pub fn is_reachable(&self) -> bool {
        let power = self.known.lock();
        power.off_at.is_none() && !power.state.is_partitioned
    }

    /// Returns the time as the machine's clock shows it.
    pub fn wall(&self, env: &Env) -> Timestamp {
        let now = env.wall();
        now.checked_add(self.known.lock().state.clock_skew).unwrap_or(now)
    }

    /// Returns how many times as long everything takes.
    pub fn slowdown(&self) -> f64 {
        self.known.lock().state.slowdown
    }

    pub fn cut(&self, now: Timestamp) {
        let mut power = self.known.lock();
        power.off_at.get_or_insert(now);
        power.shutdown = None;
    }

    /// Turns the machine on. Returns since when it was off; `None` when it was on.
    ///
    /// It knows the pods that the API server tells it of: none while its link is cut.
    pub fn turn_on(&self) -> Option<Timestamp> {
        let mut known = self.known.lock();
        known.known_pods.clear();
        known.off_at.take()
    }

    /// True when the machine shuts down or has done so.
    pub fn is_shutting_down(&self) -> bool {
        self.known.lock().shutdown.is_some()
    }

    /// Begins to shut down. Returns false when that is under way already.
    pub fn begin_shutdown(&self) -> bool {
        let mut power = self.known.lock();
        let begins = power.shutdown.is_none() && power.state.power == Power::ShuttingDown;
        if begins {
            power.shutdown = Some(Shutdown::default());
        }
        begins
    }

    pub fn cancel_shutdown(&self) {
        self.known.lock().shutdown = None;
    }

    /// Returns the group of pods to stop next; `None` while the present one is waited for, and at the end.
    pub fn next_group(
        &self,
        groups: Vec<ShutdownGroup>,
        now: Instant,
        has_ended: impl Fn(&Pod) -> bool,
    ) -> Option<ShutdownGroup> {
        let mut power = self.known.lock();
        let shutdown = power.shutdown.as_mut()?;
        if let Some((pods, until)) = &shutdown.present {
            if now < *until && !pods.iter().all(|pod| has_ended(pod)) {
                return None;
            }
            let uids = pods.iter().map(|pod| pod.uid().to_owned());
            shutdown.given_up.extend(uids);
            shutdown.present = None;
        }
        let is_left = |pod: &Arc<Pod>| !shutdown.given_up.iter().any(|uid| uid == pod.uid());
        let group = groups.into_iter().find_map(|group| {
            let pods: Vec<Arc<Pod>> = group.pods.into_iter().filter(is_left).collect();
            (!pods.is_empty()).then_some(ShutdownGroup { pods, ..group })
        })?;
        shutdown.present = Some((group.pods.clone(), now + group.period));
        Some(group)
    }

    pub fn waits_for_group(&self) -> bool {
        self.known.lock().shutdown.as_ref().is_some_and(|shutdown| shutdown.present.is_some())
    }
}

/// Makes a time longer by a factor.
pub fn slower(time: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(time)
}
