//! `Ledger`, what is left of each GPU of the nodes. It follows from the nodes and their pods, and from the places that were
//! reserved for pods whose binding is not seen yet.

use component_helpers::gpu_sharing::{GPU_COUNT, GPU_MODEL, GpuNeed, MAX_GPUS, NodeLeft, Task, WHOLE, places};
use parking_lot::Mutex;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of reservations from which on those are sought that the nodes have confirmed: more than bindings are written at once.
const MIN_TO_SETTLE: usize = 128;

/// The GPUs of one node.
#[derive(Debug, Default, PartialEq)]
pub struct NodeGpus {
    pub model: String,
    /// Thousandths that are left of each GPU.
    pub left: Vec<i64>,
}

impl NodeGpus {
    pub fn node_left(&self, milli_cpu: i64) -> NodeLeft<'_> {
        NodeLeft { milli_cpu, model: &self.model, gpus: &self.left }
    }
}

#[derive(Debug, Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    /// GPUs of the nodes at their generations.
    nodes: BTreeMap<String, (u64, Arc<NodeGpus>)>,
    /// Node and places of pods, by their uids.
    reserved: BTreeMap<String, (String, Vec<usize>)>,
    /// Number of reservations at which they are settled next.
    settle_at: usize,
}

impl Ledger {
    /// Returns the GPUs of a node. They are kept until the node changes.
    pub fn gpus(&self, node: &NodeInfo) -> Arc<NodeGpus> {
        let mut book = self.0.lock();
        match book.nodes.get(node.name()) {
            Some((generation, gpus)) if *generation == node.generation && node.generation > 0 => gpus.clone(),
            _ => {
                let gpus = Arc::new(count(node, &book.reserved));
                book.nodes.insert(node.name().to_owned(), (node.generation, gpus.clone()));
                gpus
            }
        }
    }

    /// Reserves GPUs of a node for a pod. `nodes` are those of the cycle, without this pod.
    pub fn reserve(&self, pod: &PodInfo, node: &str, places: Vec<usize>, nodes: &[Arc<NodeInfo>]) {
        let mut book = self.0.lock();
        if book.reserved.len() >= book.settle_at.max(MIN_TO_SETTLE) {
            book.settle(nodes);
        }
        book.nodes.remove(node);
        book.reserved.insert(pod.uid().to_owned(), (node.to_owned(), places));
    }

    pub fn unreserve(&self, pod: &PodInfo, node: &str) {
        let mut book = self.0.lock();
        book.nodes.remove(node);
        book.reserved.remove(pod.uid());
    }
}

impl Book {
    /// Drops reservations that the pods of the nodes have in their annotations now, and those of pods that are gone.
    fn settle(&mut self, nodes: &[Arc<NodeInfo>]) {
        let by_name: BTreeMap<&str, &NodeInfo> = nodes.iter().map(|node| (node.name(), &**node)).collect();
        self.nodes.retain(|name, _| by_name.contains_key(name.as_str()));
        self.reserved.retain(|uid, (node, reserved)| {
            let pod = by_name.get(node.as_str()).and_then(|node| node.pod(uid));
            pod.is_some_and(|pod| places(&pod.pod.metadata) != *reserved)
        });
        self.settle_at = 2 * self.reserved.len();
    }
}

/// Returns the kind of a pod. A pod with unreadable annotations wants no GPU; it is not scheduled.
pub fn task(pod: &PodInfo) -> Task {
    Task { milli_cpu: pod.requests.milli_cpu, gpus: GpuNeed::of(&pod.pod.metadata).unwrap_or_default() }
}

/// Counts what the pods of a node leave. Pods with places come first, by annotation or reservation. The others, which another
/// scheduler has bound, are assumed on the GPUs that fit most tightly, in the order of their uids.
fn count(node: &NodeInfo, reserved: &BTreeMap<String, (String, Vec<usize>)>) -> NodeGpus {
    let gpus = node.allocatable.get(GPU_COUNT).clamp(0, i64::from(MAX_GPUS)) as usize;
    let model = node.label(GPU_MODEL).unwrap_or_default().to_owned();
    let mut left = vec![i64::from(WHOLE); gpus];
    let mut take = |places: &[usize], need: &GpuNeed| {
        for place in places {
            left[*place] -= i64::from(need.milli);
        }
    };
    let mut unplaced = Vec::new();
    let wanting = node.pods.iter().filter_map(|pod| Some((pod, GpuNeed::of(&pod.pod.metadata).ok()??)));
    for (pod, need) in wanting {
        let placed = match reserved.get(pod.uid()) {
            Some((on, places)) if on == node.name() => places.clone(),
            _ => places(&pod.pod.metadata),
        };
        match !placed.is_empty() && placed.iter().all(|place| *place < gpus) {
            true => take(&placed, &need),
            false => unplaced.push(need),
        }
    }
    for need in unplaced {
        for place in need.assumed(&left) {
            left[place] -= i64::from(need.milli);
        }
    }
    NodeGpus { model, left }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{gpu_node, gpu_pod};
    use component_helpers::gpu_sharing::GPU_INDEX;
    use scheduling_framework::cache::{Cache, Snapshot};
    use scheduling_framework::fixture::info;
    use serde_json::json;

    #[test]
    fn what_pods_leave_is_rebuilt_from_them() {
        let (ledger, mut cache, mut snapshot) = (Ledger::default(), Cache::default(), Snapshot::default());
        cache.set_node(gpu_node("n", 3, "T4"));
        let mut left = |cache: &mut Cache, ledger: &Ledger| {
            cache.update(&mut snapshot);
            ledger.gpus(&snapshot.nodes()[0]).left.clone()
        };
        assert_eq!(left(&mut cache, &ledger), [1000, 1000, 1000]);
        // The scheduler has assumed a pod, and written nothing yet.
        let assumed = info(gpu_pod("a", "1", 1, 300));
        cache.assume(assumed.clone(), "n");
        ledger.reserve(&assumed, "n", vec![1], &[]);
        assert_eq!(left(&mut cache, &ledger), [1000, 700, 1000]);
        // Its binding is seen: the annotation counts.
        let mut bound = gpu_pod("a", "1", 1, 300);
        bound["spec"]["nodeName"] = json!("n");
        let mut other = bound.clone();
        bound["metadata"]["annotations"][GPU_INDEX] = json!("1");
        cache.set_pod(info(bound));
        assert_eq!(left(&mut cache, &ledger), [1000, 700, 1000]);
        assert_eq!(
            left(&mut cache, &Ledger::default()),
            [1000, 700, 1000],
            "a scheduler that starts now sees the same"
        );
        // A pod without places is assumed where it fits most tightly.
        other["metadata"]["uid"] = json!("b");
        other["metadata"]["name"] = json!("b");
        cache.set_pod(info(other));
        assert_eq!(left(&mut cache, &ledger), [1000, 400, 1000]);
        cache.remove_pod("a");
        cache.remove_pod("b");
        assert_eq!(left(&mut cache, &ledger), [1000, 1000, 1000]);
    }

    #[test]
    fn reservations_are_dropped_when_the_pods_have_them() {
        let (ledger, mut cache, mut snapshot) = (Ledger::default(), Cache::default(), Snapshot::default());
        cache.set_node(gpu_node("n", 8, ""));
        for at in 0..MIN_TO_SETTLE {
            let pod = info(gpu_pod(&format!("pod-{at}"), "0", 1, 1));
            cache.assume(pod.clone(), "n");
            cache.update(&mut snapshot);
            ledger.reserve(&pod, "n", vec![at % 8], snapshot.nodes());
            if at % 2 == 0 {
                let mut bound = gpu_pod(&format!("pod-{at}"), "0", 1, 1);
                bound["spec"]["nodeName"] = json!("n");
                bound["metadata"]["annotations"][GPU_INDEX] = json!((at % 8).to_string());
                cache.set_pod(info(bound));
            }
        }
        cache.update(&mut snapshot);
        let before = ledger.gpus(&snapshot.nodes()[0]).left.clone();
        assert_eq!(before, [1000 - 16; 8]);
        let last = info(gpu_pod("last", "0", 1, 1));
        ledger.reserve(&last, "n", vec![0], snapshot.nodes());
        assert_eq!(ledger.0.lock().reserved.len(), MIN_TO_SETTLE / 2 + 1);
        assert_eq!(ledger.gpus(&snapshot.nodes()[0]).left, before);
    }
}
