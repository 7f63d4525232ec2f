//! VolumeBinding chooses the volumes of a pod's claims together with its node.
//!
//! A claim of a class with `volumeBindingMode: WaitForFirstConsumer` has no volume before its pod has a node. The filter
//! (`node_volumes`) asks for each node whether a volume is there, or can be made there, and keeps the answer for the cycle.
//! Reserve keeps what the filter found for the chosen node (`assumed`), and PreBind (`bind`) writes it and waits until the
//! controllers have bound the claims. What a pod's claims need is read once a cycle (`pod_claims`).
//! Corresponds to pkg/scheduler/framework/plugins/volumebinding.

mod assumed;
mod bind;
#[cfg(test)]
mod bind_tests;
mod node_volumes;
mod pod_claims;
mod score;
#[cfg(test)]
mod tests;

use crate::storage::{self, Storage};
use assumed::Assumed;
use async_trait::async_trait;
use client::{Client, Lister};
use component_base::env::Env;
use component_base::metrics::Counters;
use component_helpers::volumes::pod_volumes;
use node_volumes::NodeVolumes;
use parking_lot::Mutex;
use pod_claims::PodClaims;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::args::VolumeBindingArgs;
use scheduling_framework::node_judge::{FilterByNumber, RejectedByReason};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, Plugin, PreBind, PreBindPreFlight, PreFilter, PreFilterResult,
    PreScore, PreScoreResult, Rejection, Reserve, Score,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "VolumeBinding";

/// What the plugin keeps for one scheduling cycle, under its name. Corresponds to stateData.
#[derive(Clone)]
struct CycleData {
    wanted: PodClaims,
    /// What the filter found, by node. Clones of the state share it, since it does not depend on the pods of a node.
    by_node: Arc<Mutex<BTreeMap<String, NodeVolumes>>>,
}

impl CycleData {
    /// Returns the volumes that the pod gets on a node. There are none for a node that the filter did not accept.
    fn found(&self, node: &str) -> NodeVolumes {
        self.by_node.lock().get(node).cloned().unwrap_or_default()
    }
}

/// The caches that the plugin reads, and what it has assumed beyond them. Clones share both.
#[derive(Clone)]
pub struct Sources {
    pub pods: Lister<Pod>,
    pub nodes: Lister<Node>,
    pub storage: Storage,
    assumed: Assumed,
}

impl Sources {
    pub fn new(pods: Lister<Pod>, nodes: Lister<Node>, storage: Storage) -> Self {
        Self { pods, nodes, storage, assumed: Assumed::default() }
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.storage.claims.get(namespace, name).map(|claim| self.assumed.claim(claim))
    }

    fn volumes_of_class(&self, class: &str) -> Vec<Arc<PersistentVolume>> {
        self.storage.volumes_of_class(class).into_iter().map(|volume| self.assumed.volume(volume)).collect()
    }
}

#[derive(Clone)]
pub struct VolumeBinding {
    pub args: VolumeBindingArgs,
    pub sources: Sources,
    /// Writes the choices; `None` where nothing is bound.
    pub writer: Option<Writer>,
}

/// What the plugin writes with.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    env: Env,
    failures: Counters,
}

impl Writer {
    pub fn new(client: &Client) -> Self {
        let help = "[ALPHA] Volume scheduling stage error count";
        let failures = client.env().metrics().counters("scheduler_volume_scheduling_stage_error_total", help);
        Self { client: client.clone(), env: client.env().clone(), failures }
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        storage::may_bring_volume_in_reach(pod, event)
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        if pod_volumes::with_claims(&pod.pod).next().is_none() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, CycleData { wanted: pod_claims::read(&self.sources, pod)?, by_node: Arc::default() });
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let (Some(data), Some(node)) = (state.read::<CycleData>(NAME), &node.node) else { return Ok(()) };
        let found = node_volumes::find(&data.wanted, node).map_err(rejection)?;
        if !found.is_empty() {
            data.by_node.lock().insert(node.name().to_owned(), found);
        }
        Ok(())
    }

    /// Looks at no node for claims that are bound to volumes which every node can reach.
    fn by_number<'a>(
        &'a self,
        state: &'a CycleState,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
    ) -> Option<FilterByNumber<'a>> {
        let data = state.read::<CycleData>(NAME)?;
        data.wanted.fits_everywhere().then(|| FilterByNumber::of_words([], |_, _| RejectedByReason::default()))
    }
}

impl PreScore for VolumeBinding {
    fn pre_score(&self, state: &mut CycleState, _: &PodInfo, _: &Snapshot, _: &FeasibleNodes<'_>) -> PreScoreResult {
        match (&self.args.shape, state.read::<CycleData>(NAME)) {
            (Some(_), Some(_)) => PreScoreResult::Score,
            _ => PreScoreResult::Skip,
        }
    }
}

impl Score for VolumeBinding {
    fn score(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        match (&self.args.shape, state.read::<CycleData>(NAME)) {
            (Some(shape), Some(data)) => score::score(shape, &data.found(node.name())),
            _ => 0,
        }
    }
}

impl Reserve for VolumeBinding {
    /// Keeps the choice for the node, so that no other pod takes the same volumes.
    fn reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        if let Some(data) = state.read::<CycleData>(NAME) {
            self.sources.assumed.assume(pod.uid(), node, &data.found(node));
        }
        Ok(())
    }

    fn unreserve(&self, _state: &CycleState, pod: &PodInfo, _node: &str) {
        self.sources.assumed.release(pod.uid());
    }
}

#[async_trait]
impl PreBind for VolumeBinding {
    fn pre_bind_pre_flight(&self, state: &CycleState, _pod: &PodInfo, node: &str) -> PreBindPreFlight {
        match state.read::<CycleData>(NAME) {
            Some(data) if !data.found(node).is_empty() => PreBindPreFlight::Run,
            _ => PreBindPreFlight::Skip,
        }
    }

    async fn pre_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), String> {
        let (Some(data), Some(writer)) = (state.read::<CycleData>(NAME), &self.writer) else { return Ok(()) };
        let timeout = Duration::from_secs(self.args.bind_timeout_seconds.unsigned_abs());
        let Writer { client, env, failures } = writer;
        let bound = bind::bind(client, env, &self.sources, pod, node, &data.found(node), timeout).await;
        if bound.is_err() {
            failures.get_or_create(&vec![("operation", "bind".to_owned())]).inc();
        }
        bound?;
        self.sources.assumed.release(pod.uid());
        Ok(())
    }
}

fn rejection(reasons: Vec<&'static str>) -> Rejection {
    let reasons = reasons.into_iter().map(Into::into).collect();
    Rejection { plugin: NAME, resolvable: false, reasons }
}
