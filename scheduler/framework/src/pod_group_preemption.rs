//! Preemption for a PodGroup as a whole: seeks victims in the whole cluster, without which all its pods fit.
//!
//! Corresponds to the extension point PodGroupPostFilter of k8s.io/kube-scheduler/framework, and to
//! runWorkloadAwarePreemption of pkg/scheduler/schedule_one_podgroup.go.

use crate::cache::Snapshot;
use crate::pod_group_cycle::{PodGroupCycle, PodGroupResult};
use crate::pod_info::PodInfo;
use crate::{Plugin, PodGroups};
use async_trait::async_trait;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A group that does not fit.
pub struct FailedGroup<'a> {
    pub object: Arc<PodGroup>,
    pub groups: &'a PodGroups,
    /// Pods of the group that need nodes.
    pub pods: &'a [Arc<PodInfo>],
    /// Pods of all nodes.
    pub placed: Vec<Arc<PodInfo>>,
}

/// Tries the group on nodes without some of their pods.
#[async_trait]
pub trait FitsWithout: Send {
    /// Returns true if the group would fit without these pods.
    async fn fits_without(&mut self, removed: &[&Arc<PodInfo>]) -> bool;
}

/// Pods that are evicted together for a PodGroup, or not at all.
#[derive(Clone, Debug)]
pub struct GroupCandidate {
    pub pods: Vec<Arc<PodInfo>>,
    pub priority: i32,
    /// Key of their PodGroup, if it is disrupted as a whole.
    pub pod_group: Option<String>,
    /// True if a disruption budget protects one of the pods.
    pub is_protected: bool,
    /// True if the group does not fit beside these pods and those that came before.
    pub is_evicted: bool,
}

/// Runs when a pod group cycle has failed.
#[async_trait]
pub trait PodGroupPostFilter: Plugin {
    /// Returns what was considered, in the order in which it was, with at least one that is evicted, or why no eviction helps.
    async fn pod_group_post_filter(
        &self,
        failed: &FailedGroup<'_>,
        trial: &mut dyn FitsWithout,
    ) -> Result<Vec<GroupCandidate>, String>;
}

impl PodGroupCycle<'_> {
    /// Returns the pods that may be evicted for the group, with those without which it fits, or why there are none.
    pub async fn preempt(&mut self, pods: &[Arc<PodInfo>]) -> Result<Vec<GroupCandidate>, String> {
        let Some(plugin) = self.profile.pod_group_post_filter.first().cloned() else {
            return Err("default preemption plugin is not registered, workload aware preemption is disabled".to_owned());
        };
        let object = self.groups.state(self.key).object;
        let object = object.ok_or_else(|| format!("failed to get pod group object: {:?} not found", self.key))?;
        let constraints = object.spec.scheduling_constraints.as_ref().and_then(|c| c.topology.as_ref());
        if constraints.is_some_and(|topology| !topology.is_empty()) {
            let why = "workload aware preemption is not supported for pod groups with scheduling constraints";
            return Err(why.to_owned());
        }
        let placed: Vec<Arc<PodInfo>> = self.snapshot.nodes().iter().flat_map(|node| node.pods.clone()).collect();
        let failed = FailedGroup { object, groups: self.groups, pods, placed };
        plugin.pod_group_post_filter(&failed, &mut Trial { cycle: self, pods }).await
    }
}

/// The group in a cycle that keeps nothing.
struct Trial<'a, 'b> {
    cycle: &'a mut PodGroupCycle<'b>,
    pods: &'a [Arc<PodInfo>],
}

#[async_trait]
impl FitsWithout for Trial<'_, '_> {
    async fn fits_without(&mut self, removed: &[&Arc<PodInfo>]) -> bool {
        let Trial { cycle, pods } = self;
        let mut by_node: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let nodes = node_names(cycle.snapshot);
        for pod in removed {
            if let Some(node) = nodes.get(pod.uid()) {
                by_node.entry(node.clone()).or_default().push(pod.uid());
            }
        }
        let mut before = Vec::new();
        for (node, uids) in by_node {
            let Some(old) = cycle.snapshot.get(&node).cloned() else { continue };
            let mut changed = (*old).clone();
            uids.iter().for_each(|uid| drop(changed.remove_pod(uid)));
            cycle.snapshot.replace(Arc::new(changed));
            before.push(old);
        }
        let fits = cycle.would_fit(pods).await;
        before.into_iter().for_each(|old| cycle.snapshot.replace(old));
        fits
    }
}

/// Returns the node of each pod by its uid. An assumed pod names no node itself.
fn node_names(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let of_node = snapshot
        .nodes()
        .iter()
        .flat_map(|node| node.pods.iter().map(|pod| (pod.uid().to_owned(), node.name().to_owned())));
    of_node.collect()
}

impl PodGroupResult {
    /// Adds to what is said besides the verdict.
    pub fn add_message(&mut self, message: &str) {
        if !self.message.is_empty() {
            self.message += ", ";
        }
        self.message += message;
    }
}
