//! `NumaAllocator`: exclusive CPUs and memory on the NUMA nodes of a machine, as far as they decide about admission.
//!
//! Corresponds to pkg/kubelet/cm/{cpumanager,memorymanager,topologymanager} with their static policies. Pods of the class
//! Guaranteed get memory of chosen NUMA nodes, and whole CPUs if they request a whole number.
//!
//! Deviation: which CPUs a container gets is not decided, only how many of each NUMA node. Init containers are not looked
//! at. Devices have no NUMA node.

use crate::admission::Rejection;
use crate::qos::{QosClass, qos_class};
use crate::view::is_sidecar;
use proto::Kind;
use proto::kinds::api::core::v1::{Container, Pod};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// How strictly the resources of a container have to lie together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopologyPolicy {
    #[default]
    None,
    BestEffort,
    /// On as few NUMA nodes as the request needs.
    Restricted,
    /// On one NUMA node.
    SingleNumaNode,
}

/// The managers of a node, as its flags set them up.
#[derive(Clone, Debug, Default)]
pub struct NumaSettings {
    pub has_static_cpus: bool,
    pub has_static_memory: bool,
    /// True when a container gets both threads of a core or none.
    pub full_cores_only: bool,
    pub policy: TopologyPolicy,
    /// True when a pod's containers have to lie together, and not each for itself.
    pub by_pod: bool,
}

/// CPUs with two threads have two CPUs in a core.
const THREADS_PER_CORE: i64 = 2;

/// CPUs and bytes of memory of one NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaAmount {
    pub cpus: i64,
    pub memory_bytes: i64,
}

/// What is left on each NUMA node, and what pods hold.
#[derive(Clone, Debug, Default)]
pub struct NumaAllocator {
    settings: NumaSettings,
    whole: Vec<NumaAmount>,
    free: Vec<NumaAmount>,
    held: BTreeMap<String, Vec<(usize, NumaAmount)>>,
}

impl NumaAllocator {
    /// Makes the allocator of a machine whose NUMA nodes have these amounts for pods.
    pub fn new(settings: NumaSettings, numa_nodes: Vec<NumaAmount>) -> Self {
        Self { settings, free: numa_nodes.clone(), whole: numa_nodes, held: BTreeMap::new() }
    }

    /// Gives a pod what it needs, or returns why not.
    pub fn admit(&mut self, pod: &Pod) -> Result<(), Rejection> {
        if self.held.contains_key(pod.uid()) || qos_class(pod) != QosClass::Guaranteed {
            return Ok(());
        }
        let (before, mut held) = (self.free.clone(), Vec::new());
        for request in self.requests(pod) {
            match self.allocate(request) {
                Ok(parts) => held.extend(parts),
                Err(rejection) => {
                    self.free = before;
                    return Err(rejection);
                }
            }
        }
        if !held.is_empty() {
            self.held.insert(pod.uid().to_owned(), held);
        }
        Ok(())
    }

    pub fn release(&mut self, pod_uid: &str) {
        for (at, amount) in self.held.remove(pod_uid).unwrap_or_default() {
            self.free[at].cpus += amount.cpus;
            self.free[at].memory_bytes += amount.memory_bytes;
        }
    }

    /// Returns what the containers need that are aligned together.
    fn requests(&self, pod: &Pod) -> Vec<NumaAmount> {
        let spec = pod.spec.as_ref();
        let sidecars = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).filter(|c| is_sidecar(c));
        let containers = spec.iter().flat_map(|spec| &spec.containers).chain(sidecars);
        let each: Vec<NumaAmount> = containers.map(|container| self.request(container)).collect();
        match self.settings.by_pod {
            false => each,
            true => vec![NumaAmount {
                cpus: each.iter().map(|amount| amount.cpus).sum(),
                memory_bytes: each.iter().map(|amount| amount.memory_bytes).sum(),
            }],
        }
    }

    fn request(&self, container: &Container) -> NumaAmount {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let amount = |name: &str| requests.and_then(|list| Quantity::parse(&list.get(name)?.0).ok());
        let whole_cpus = amount("cpu").filter(|cpu| cpu.milli_value() % 1000 == 0).map_or(0, |cpu| cpu.value());
        NumaAmount {
            cpus: if self.settings.has_static_cpus { whole_cpus } else { 0 },
            memory_bytes: match self.settings.has_static_memory {
                true => amount("memory").map_or(0, |memory| memory.value()),
                false => 0,
            },
        }
    }

    fn allocate(&mut self, request: NumaAmount) -> Result<Vec<(usize, NumaAmount)>, Rejection> {
        if request == NumaAmount::default() {
            return Ok(Vec::new());
        }
        if self.settings.full_cores_only && request.cpus % THREADS_PER_CORE != 0 {
            let message = format!(
                "SMT Alignment Error: requested {} cpus not multiple cpus per core = {THREADS_PER_CORE}",
                request.cpus
            );
            return Err(rejection("SMTAlignmentError", message));
        }
        let wanted = self.narrowest(&self.whole, request);
        let found = self.narrowest(&self.free, request);
        let is_aligned = match self.settings.policy {
            TopologyPolicy::None | TopologyPolicy::BestEffort => true,
            TopologyPolicy::Restricted => found.as_ref().map(Vec::len) == wanted.as_ref().map(Vec::len),
            TopologyPolicy::SingleNumaNode => found.as_ref().is_some_and(|nodes| nodes.len() == 1),
        };
        if !is_aligned {
            let message = "Resources cannot be allocated with Topology locality".to_owned();
            return Err(rejection("TopologyAffinityError", message));
        }
        let Some(nodes) = found else {
            let available: i64 = self.free.iter().map(|amount| amount.cpus).sum();
            let why = match available < request.cpus {
                true => format!(
                    "not enough cpus available to satisfy request: requested={}, available={available}",
                    request.cpus
                ),
                false => {
                    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is \
                          available"
                        .to_owned()
                }
            };
            return Err(rejection(
                "UnexpectedAdmissionError",
                format!("Allocate failed due to {why}, which is unexpected"),
            ));
        };
        Ok(self.take(&nodes, request))
    }

    /// Takes a request from these nodes, one after the other.
    fn take(&mut self, nodes: &[usize], request: NumaAmount) -> Vec<(usize, NumaAmount)> {
        let mut left = request;
        let mut parts = Vec::new();
        for &at in nodes {
            let free = &mut self.free[at];
            let part =
                NumaAmount { cpus: left.cpus.min(free.cpus), memory_bytes: left.memory_bytes.min(free.memory_bytes) };
            free.cpus -= part.cpus;
            free.memory_bytes -= part.memory_bytes;
            left.cpus -= part.cpus;
            left.memory_bytes -= part.memory_bytes;
            parts.push((at, part));
        }
        parts
    }

    /// Returns the fewest NUMA nodes that have enough together; the first ones among equals.
    fn narrowest(&self, amounts: &[NumaAmount], request: NumaAmount) -> Option<Vec<usize>> {
        let subsets = 1_u32..1 << amounts.len();
        let nodes = |subset: u32| (0..amounts.len()).filter(move |at| subset & (1 << at) != 0);
        let is_enough = |subset: &u32| {
            let cpus: i64 = nodes(*subset).map(|at| amounts[at].cpus).sum();
            let memory: i64 = nodes(*subset).map(|at| amounts[at].memory_bytes).sum();
            cpus >= request.cpus && memory >= request.memory_bytes
        };
        subsets
            .filter(is_enough)
            .min_by_key(|subset| (subset.count_ones(), *subset))
            .map(|subset| nodes(subset).collect())
    }
}

fn rejection(reason: &str, message: String) -> Rejection {
    Rejection { reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const GI: i64 = 1 << 30;

    fn pod(name: &str, containers: &[(&str, &str)]) -> Pod {
        let container = |(cpu, memory): &(&str, &str)| -> Value {
            let amounts = json!({"cpu": cpu, "memory": memory});
            json!({"name": "c", "resources": {"requests": amounts, "limits": amounts}})
        };
        Pod::decode_value(json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"containers": containers.iter().map(container).collect::<Vec<_>>()},
            "status": {"qosClass": "Guaranteed"},
        }))
        .unwrap()
    }

    /// Two NUMA nodes with four CPUs and 8 GiB each, of which two CPUs are reserved.
    fn allocator(settings: NumaSettings) -> NumaAllocator {
        let node = |cpus| NumaAmount { cpus, memory_bytes: 8 * GI };
        NumaAllocator::new(settings, vec![node(2), node(4)])
    }

    fn refused(allocator: &mut NumaAllocator, pod: &Pod) -> String {
        allocator
            .admit(pod)
            .err()
            .map(|rejection| format!("{}: {}", rejection.reason, rejection.message))
            .unwrap_or_default()
    }

    #[test]
    fn without_static_policies_everything_is_shared() {
        let mut allocator = allocator(NumaSettings::default());
        assert_eq!(refused(&mut allocator, &pod("a", &[("64", "1Ti")])), "");
    }

    #[test]
    fn exclusive_cpus_run_out() {
        let settings = NumaSettings { has_static_cpus: true, ..NumaSettings::default() };
        let mut allocator = allocator(settings.clone());
        assert_eq!(
            refused(&mut allocator, &pod("a", &[("3", "1Gi"), ("2500m", "1Gi")])),
            "",
            "a part of a CPU is shared"
        );
        let expected = "UnexpectedAdmissionError: Allocate failed due to not enough cpus available to satisfy request: \
                        requested=4, available=3, which is unexpected";
        assert_eq!(refused(&mut allocator, &pod("b", &[("4", "1Gi")])), expected);
        allocator.release("a");
        assert_eq!(refused(&mut allocator, &pod("b", &[("4", "1Gi")])), "");
        let mut allocator = self::allocator(NumaSettings { full_cores_only: true, ..settings });
        let expected = "SMTAlignmentError: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2";
        assert_eq!(refused(&mut allocator, &pod("a", &[("3", "1Gi")])), expected);
    }

    #[test]
    fn memory_runs_out() {
        let mut allocator = allocator(NumaSettings { has_static_memory: true, ..NumaSettings::default() });
        assert_eq!(refused(&mut allocator, &pod("a", &[("1", "12Gi")])), "");
        let expected = "UnexpectedAdmissionError: Allocate failed due to [memorymanager] failed to get the default NUMA \
                        affinity, no NUMA nodes with enough memory is available, which is unexpected";
        assert_eq!(refused(&mut allocator, &pod("b", &[("1", "5Gi")])), expected);
    }

    #[test]
    fn a_policy_decides_how_close_resources_have_to_lie() {
        let misplaced = "TopologyAffinityError: Resources cannot be allocated with Topology locality";
        let cases = [("4", "1Gi"), ("5", "1Gi"), ("2", "12Gi")];
        for (policy, by_pod, expected) in [
            (TopologyPolicy::BestEffort, false, ["", "", ""]),
            (TopologyPolicy::Restricted, false, ["", "", ""]),
            (TopologyPolicy::SingleNumaNode, false, ["", misplaced, misplaced]),
        ] {
            let settings =
                NumaSettings { has_static_cpus: true, has_static_memory: true, policy, by_pod, full_cores_only: false };
            let found = cases.map(|request| refused(&mut allocator(settings.clone()), &pod("a", &[request])));
            assert_eq!(found, expected, "{policy:?}");
        }
        // Two CPUs are free on either node, so three lie apart although one node could hold them.
        let settings =
            NumaSettings { has_static_cpus: true, policy: TopologyPolicy::Restricted, ..NumaSettings::default() };
        let mut apart = allocator(settings.clone());
        assert_eq!(refused(&mut apart, &pod("first", &[("2", "1Gi")])), "");
        assert_eq!(refused(&mut apart, &pod("second", &[("2", "1Gi")])), "");
        assert_eq!(refused(&mut apart, &pod("third", &[("3", "1Gi")])), misplaced);
        let two = [("3", "1Gi"), ("2", "1Gi")];
        let single = NumaSettings { policy: TopologyPolicy::SingleNumaNode, ..settings };
        assert_eq!(refused(&mut allocator(single.clone()), &pod("a", &two)), "");
        assert_eq!(refused(&mut allocator(NumaSettings { by_pod: true, ..single }), &pod("a", &two)), misplaced);
    }
}
