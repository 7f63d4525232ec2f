//! `Inspection`, the access of pages and signals to the scheduler that leads at present.

use super::comparison::{Comparison, Known};
use super::dump::{self, NodeDump, QueueDump};
use super::state_metrics;
use crate::queue::SchedulingQueue;
use crate::queue::held::HeldPod;
use crate::scheduler::{Scheduler, node_name};
use component_base::env::Env;
use component_base::lifecycle::SignalListener;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use scheduler_explanation::document::{Held, HeldList};
use scheduler_explanation::{Attempts, Limits, Recorder, recorder};
use scheduler_reference::Cluster;
use std::sync::{Arc, Weak};
use tokio::time::Instant;

pub struct Inspection {
    /// Dangling while another instance leads.
    scheduler: Mutex<Weak<Scheduler>>,
    /// `None` if nothing is recorded. It outlives a change of the leader.
    pub recorder: Option<Arc<Recorder>>,
    /// Receives the attempts of the scheduler: the recorder, unless somebody else does.
    pub attempts: Option<Arc<dyn Attempts>>,
}

impl Inspection {
    /// Keeps this many attempts; none for zero.
    pub fn new(attempts: usize) -> Arc<Self> {
        let limits = Limits { attempts, bytes: recorder::DEFAULT_MAX_BYTES };
        let recorder = (attempts > 0).then(|| Arc::new(Recorder::new(limits)));
        let attempts = recorder.clone().map(|recorder| recorder as Arc<dyn Attempts>);
        Arc::new(Self { scheduler: Mutex::default(), recorder, attempts })
    }

    /// Explains nothing, because somebody else receives the attempts.
    pub fn observed(attempts: Arc<dyn Attempts>) -> Arc<Self> {
        Arc::new(Self { scheduler: Mutex::default(), recorder: None, attempts: Some(attempts) })
    }

    /// Shows this scheduler from now on, also in the metrics.
    pub fn set(&self, scheduler: &Arc<Scheduler>) {
        state_metrics::follow(scheduler.env(), scheduler);
        *self.scheduler.lock() = Arc::downgrade(scheduler);
    }

    fn of_scheduler<T>(&self, look: impl FnOnce(&Scheduler) -> T) -> Option<T> {
        let scheduler = self.scheduler.lock().upgrade()?;
        Some(look(&scheduler))
    }

    pub fn nodes(&self) -> Option<Vec<NodeDump>> {
        self.of_scheduler(|scheduler| {
            let nominated = scheduler.queue.with(|queue, _| queue.nominated.clone());
            dump::nodes(&scheduler.cache.lock(), &nominated)
        })
    }

    pub fn queue(&self) -> Option<QueueDump> {
        self.of_scheduler(|scheduler| scheduler.queue.with(|queue, _| dump::queue(queue)))
    }

    /// Returns the pods that PreEnqueue holds, or the one with this key.
    pub fn held(&self, key: &str) -> Option<HeldList> {
        self.of_scheduler(|scheduler| {
            let wall = scheduler.env().wall();
            let held = |queue: &mut SchedulingQueue, now: Instant| {
                let wanted = queue.held().filter(|held| key.is_empty() || held.queued.info.key == key);
                wanted.map(|held| document(&held, now, wall)).collect()
            };
            HeldList { items: scheduler.queue.with(held) }
        })
    }

    /// Returns the present objects besides nodes and pods.
    pub fn surroundings(&self) -> Option<Cluster> {
        self.of_scheduler(|scheduler| scheduler.surroundings.cluster())
    }

    pub fn pods(&self) -> Option<Vec<Arc<Pod>>> {
        self.of_scheduler(|scheduler| scheduler.pods.list())
    }

    pub fn compare(&self) -> Option<Comparison> {
        self.of_scheduler(|scheduler| Comparison::between(&actual(scheduler), &cached(scheduler)))
    }

    /// Logs the state and its differences.
    pub fn log(&self) {
        let (Some(nodes), Some(queue), Some(differences)) = (self.nodes(), self.queue(), self.compare()) else {
            return tracing::info!("nothing to dump: this instance does not schedule");
        };
        differences.log();
        let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        tracing::info!("Dump of cached NodeInfo nodes=\n{}", nodes.join("\n\n"));
        let pods: Vec<String> = queue.pods.iter().map(ToString::to_string).collect();
        tracing::info!("Dump of scheduling queue summary={:?} pods=\n{}", queue.summary, pods.join("\n"));
    }

    /// Logs the state at each SIGUSR2.
    pub async fn follow_signals(self: Arc<Self>, env: Env) {
        let mut signals = match SignalListener::user_defined_2() {
            Ok(signals) => signals,
            Err(error) => return tracing::warn!("SIGUSR2 will not dump anything: {error}"),
        };
        while signals.next(&env).await {
            self.log();
        }
    }
}

fn document(held: &HeldPod<'_>, now: Instant, wall: Timestamp) -> Held {
    let (queued, waited) = (held.queued, now.saturating_duration_since(held.since));
    let rejection = held.rejection.as_ref();
    Held {
        pod: queued.info.key.clone(),
        uid: queued.info.uid().to_owned(),
        profile: held.profile.to_owned(),
        since: (wall - waited).to_string(),
        for_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        plugin: rejection.map(|rejection| rejection.plugin.to_owned()).unwrap_or_default(),
        reasons: rejection.iter().flat_map(|it| &it.reasons).map(|reason| reason.to_string()).collect(),
        waits_for: held.waits_for.clone(),
        attempts: queued.attempts,
    }
}

/// Returns the nodes of the informer, and its pods but those that wait for another scheduler.
fn actual(scheduler: &Scheduler) -> Known {
    let pods = scheduler.pods.list();
    let concerns = |pod: &&Arc<Pod>| !node_name(pod).is_empty() || scheduler.is_ours(pod);
    Known {
        nodes: scheduler.nodes.list().iter().map(|node| node.name().to_owned()).collect(),
        pods: pods.iter().filter(concerns).map(|pod| pod.uid().to_owned()).collect(),
    }
}

/// Returns the nodes of the cache, and its pods with those of the queue and in a cycle.
fn cached(scheduler: &Scheduler) -> Known {
    let mut known = Known::default();
    for (name, node) in scheduler.cache.lock().nodes() {
        known.nodes.insert(name.clone());
        known.pods.extend(node.pods.iter().map(|pod| pod.uid().to_owned()));
    }
    known.pods.extend(scheduler.queue.with(|queue, _| queue.uids()));
    known
}
