//! `StaticPods`: the static pods of the process, with their statuses.
//!
//! Corresponds to pkg/kubelet/pod.Manager as far as static pods go. The status lives here and not in the mirror pod, so
//! that a pod goes on when its mirror is deleted or the API server is away.

use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All static pods, by namespace and name.
#[derive(Debug, Default)]
pub struct StaticPods(Mutex<BTreeMap<String, StaticPod>>);

/// One static pod.
#[derive(Clone, Debug)]
pub struct StaticPod {
    pub pod: Arc<Pod>,
    pub status: PodStatus,
    pub node: String,
    /// The pod that takes its place once it has ended, because its manifest has changed.
    next: Option<Pod>,
}

impl StaticPods {
    pub fn get(&self, key: &str) -> Option<StaticPod> {
        self.0.lock().get(key).cloned()
    }

    /// Returns the pods of a node.
    pub fn of_node(&self, node: &str) -> Vec<StaticPod> {
        self.0.lock().values().filter(|known| known.node == node).cloned().collect()
    }

    /// Takes over the pods that a node's manifests have now. Those that have gone or changed are asked to end. Returns the
    /// keys of all pods that differ from before.
    pub fn update(&self, node: &str, mut present: BTreeMap<String, Pod>, now: Timestamp) -> BTreeSet<String> {
        let mut table = self.0.lock();
        let mut changed = BTreeSet::new();
        for (key, known) in table.iter_mut().filter(|(_, known)| known.node == node) {
            let wanted = present.remove(key);
            if wanted.as_ref().is_some_and(|wanted| wanted.uid() == known.pod.uid()) && !known.pod.is_deleting() {
                continue;
            }
            if !known.pod.is_deleting() {
                let grace_s =
                    known.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
                let pod = Arc::make_mut(&mut known.pod);
                pod.metadata.deletion_grace_period_seconds = Some(grace_s);
                let grace = std::time::Duration::from_secs(u64::try_from(grace_s).unwrap_or(0));
                pod.metadata.deletion_timestamp = Some(Time(now + grace));
                changed.insert(key.clone());
            }
            known.next = wanted;
        }
        for (key, pod) in present {
            changed.insert(key.clone());
            table.insert(key, StaticPod::new(pod, node));
        }
        changed
    }

    pub fn set_status(&self, key: &str, uid: &str, status: PodStatus) {
        if let Some(known) = self.0.lock().get_mut(key).filter(|known| known.pod.uid() == uid) {
            known.status = status;
        }
    }

    /// Removes a pod that has ended, or puts the one in its place that its manifest describes now.
    pub fn finish(&self, key: &str, uid: &str) {
        let mut table = self.0.lock();
        let Some(known) = table.get_mut(key).filter(|known| known.pod.uid() == uid) else { return };
        match known.next.take() {
            Some(next) => *known = StaticPod::new(next, &known.node),
            None => drop(table.remove(key)),
        }
    }
}

impl StaticPod {
    fn new(pod: Pod, node: &str) -> Self {
        Self { pod: Arc::new(pod), status: PodStatus::default(), node: node.to_owned(), next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn present(pods: &[(&str, &str)]) -> BTreeMap<String, Pod> {
        let pod = |(name, uid): &(&str, &str)| {
            let pod =
                json!({"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": {"containers": []}});
            let pod = Pod::decode_value(pod).unwrap();
            (pod.key(), pod)
        };
        pods.iter().map(pod).collect()
    }

    #[test]
    fn a_changed_manifest_ends_the_pod_before_the_next_one_begins() {
        let table = StaticPods::default();
        let now = Timestamp::UNIX_EPOCH;
        let update = |pods: &[(&str, &str)]| table.update("n", present(pods), now).into_iter().collect::<Vec<_>>();
        let state = |key: &str| table.get(key).map(|known| (known.pod.uid().to_owned(), known.pod.is_deleting()));
        assert_eq!(update(&[("a", "1"), ("b", "1")]), ["default/a", "default/b"]);
        assert_eq!(update(&[("a", "1"), ("b", "1")]), [""; 0]);
        assert_eq!(update(&[("a", "2")]), ["default/a", "default/b"]);
        assert_eq!(state("default/a"), Some(("1".to_owned(), true)));
        assert_eq!(update(&[("a", "3")]), [""; 0], "it is ending already");
        table.finish("default/a", "1");
        table.finish("default/b", "1");
        assert_eq!((state("default/a"), state("default/b")), (Some(("3".to_owned(), false)), None));
        assert_eq!(table.update("other", BTreeMap::new(), now).len(), 0, "another node's pods are left alone");
    }
}
