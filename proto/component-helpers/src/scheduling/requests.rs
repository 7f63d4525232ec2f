//! The requests of pods and the resources of nodes, in whole numbers.
//!
//! Corresponds to k8s.io/component-helpers/resource.PodRequests and to framework.Resource of pkg/scheduler.

use proto::kinds::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus, ResourceRequirements};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};
use std::sync::LazyLock;

/// The assumed use of a container without a CPU request, when nodes are scored.
pub const DEFAULT_MILLI_CPU: i64 = 100;
/// The assumed use of a container without a memory request, when nodes are scored.
pub const DEFAULT_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

/// An amount of each resource: the requests of a pod or of a node's pods, or the resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,
    pub ephemeral_storage: i64,
    /// Number of pods. For a node, the most that it takes.
    pub pods: i64,
    /// Huge pages and extended resources by name.
    pub scalar: BTreeMap<String, i64>,
}

impl Resources {
    pub fn of(quantities: Option<&BTreeMap<String, WireQuantity>>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in quantities.into_iter().flatten() {
            // The API server has validated the amounts.
            let quantity = Quantity::try_from(quantity).unwrap_or(Quantity::ZERO);
            match name.as_str() {
                "cpu" => resources.milli_cpu = quantity.milli_value(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => resources.pods = quantity.value(),
                _ => drop(resources.scalar.insert(name.clone(), quantity.value())),
            }
        }
        resources
    }

    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.milli_cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            "pods" => self.pods,
            _ => self.scalar.get(name).copied().unwrap_or(0),
        }
    }

    /// Returns the resources with an amount above zero, except pods.
    pub fn requested(&self) -> impl Iterator<Item = (&str, i64)> {
        let named = [("cpu", self.milli_cpu), ("memory", self.memory), ("ephemeral-storage", self.ephemeral_storage)];
        let scalar = self.scalar.iter().map(|(name, amount)| (name.as_str(), *amount));
        named.into_iter().chain(scalar).filter(|(_, amount)| *amount > 0)
    }

    /// Returns true if an amount may stand for a larger one. Subtracting from it would give too little.
    pub fn is_saturated(&self) -> bool {
        let named = [self.milli_cpu, self.memory, self.ephemeral_storage];
        named.into_iter().chain(self.scalar.values().copied()).any(|amount| amount == i64::MAX)
    }

    /// Returns whether any amount is larger than that of `other`.
    pub fn exceeds(&self, other: &Self) -> bool {
        self.requested().any(|(name, amount)| amount > other.get(name))
    }

    /// Raises each amount to that of `other`, if that is larger.
    fn raise_to(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let mine = self.scalar.entry(name.clone()).or_insert(0);
            *mine = (*mine).max(*amount);
        }
    }

    /// Replaces the amounts of these resources, as far as a pod as a whole can request them.
    fn override_by(&mut self, names: &BTreeMap<String, WireQuantity>, amounts: &Self) {
        for name in names.keys() {
            match name.as_str() {
                "cpu" => self.milli_cpu = amounts.milli_cpu,
                "memory" => self.memory = amounts.memory,
                _ if name.starts_with("hugepages-") => {
                    self.scalar.insert(name.clone(), amounts.get(name));
                }
                _ => {}
            }
        }
    }
}

/// A sum that is too large is the largest number, so that what asks for it fits nowhere.
///
/// Deviation: Kubernetes takes the lower 64 bits of such a sum. It may be negative, and then the pod fits everywhere.
impl AddAssign<&Resources> for Resources {
    fn add_assign(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        self.pods = self.pods.saturating_add(other.pods);
        // An amount of zero has no entry, so that equal resources compare as equal.
        for (name, amount) in other.scalar.iter().filter(|(_, amount)| **amount != 0) {
            let mine = self.scalar.entry(name.clone()).or_insert(0);
            *mine = mine.saturating_add(*amount);
        }
    }
}

impl SubAssign<&Resources> for Resources {
    fn sub_assign(&mut self, other: &Resources) {
        self.milli_cpu = self.milli_cpu.saturating_sub(other.milli_cpu);
        self.memory = self.memory.saturating_sub(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_sub(other.ephemeral_storage);
        self.pods = self.pods.saturating_sub(other.pods);
        for (name, amount) in &other.scalar {
            let mine = self.scalar.entry(name.clone()).or_insert(0);
            *mine = mine.saturating_sub(*amount);
            if *mine == 0 {
                self.scalar.remove(name);
            }
        }
    }
}

/// Returns the requests that a pod specifies: the sum of app containers and sidecars, or the larger need of an init container.
pub fn pod_requests(spec: &PodSpec) -> Resources {
    Requests { spec, status: &PodStatus::default(), assumed: Assumed::default() }.of_pod()
}

/// Returns the limits of a pod. Overhead counts only for resources with a limit.
pub fn pod_limits(spec: &PodSpec) -> Resources {
    let limits = |resources: Option<&ResourceRequirements>| resources.and_then(|r| r.limits.clone());
    let mut total = sum(spec, |container| Resources::of(limits(container.resources.as_ref()).as_ref()));
    if let Some(of_pod) = limits(spec.resources.as_ref()) {
        total.override_by(&of_pod, &Resources::of(Some(&of_pod)));
    }
    let overhead = spec.overhead.iter().flatten().filter(|(name, _)| total.get(name) != 0);
    let overhead: Quantities = overhead.map(|(name, amount)| (name.clone(), amount.clone())).collect();
    total += &Resources::of(Some(&overhead));
    total
}

/// Adds up the containers of a pod: the sum of app containers and sidecars, or the larger need of an init container. Init
/// containers run one after another, each beside the sidecars that started before it.
fn sum(spec: &PodSpec, of: impl Fn(&Container) -> Resources) -> Resources {
    let mut running = Resources::default();
    for container in &spec.containers {
        running += &of(container);
    }
    let (mut sidecars, mut most) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let mut stage = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            running += &stage;
            sidecars += &stage;
            stage = sidecars.clone();
        } else {
            stage += &sidecars;
        }
        most.raise_to(&stage);
    }
    running.raise_to(&most);
    running
}

/// Returns the requests of a pod for scheduling. While the pod is resized, each container counts with the largest of what
/// is desired, what the node has allocated, and what is in effect. A resize that the node cannot do does not count.
pub fn scheduling_requests(pod: &Pod) -> Resources {
    Requests::of(pod, Assumed::default()).of_pod()
}

/// Returns the requests of a pod for scheduling, with an assumed use for containers that have no request for CPU or memory.
/// Where the pod as a whole has requests, only a resource that nobody requests is assumed. `known` are its
/// `scheduling_requests`.
pub fn scheduling_non_zero_requests(pod: &Pod, known: &Resources) -> Resources {
    let requests = Requests::of(pod, Assumed::default());
    let spec = requests.spec;
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if containers.all(|container| requests.asks(container, "cpu") && requests.asks(container, "memory")) {
        return known.clone();
    }
    let of_pod_level = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    let Some(of_pod_level) = of_pod_level.filter(|all| all.keys().any(|name| is_pod_level(name))) else {
        return Requests::of(pod, Assumed { cpu: true, memory: true }).of_pod();
    };
    let is_named = |name: &str| {
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        of_pod_level.contains_key(name)
            || spec.overhead.as_ref().is_some_and(|overhead| overhead.contains_key(name))
            || containers.any(|container| requests.asks(container, name))
    };
    Requests::of(pod, Assumed { cpu: !is_named("cpu"), memory: !is_named("memory") }).of_pod()
}

type Quantities = BTreeMap<String, WireQuantity>;

fn quantities(container: &Container) -> Option<&Quantities> {
    container.resources.as_ref()?.requests.as_ref()
}

/// Returns true if a pod as a whole can request the resource.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Whether a use is assumed for containers without a request.
#[derive(Clone, Copy, Default)]
struct Assumed {
    cpu: bool,
    memory: bool,
}

/// The parts of a pod from which its requests follow.
struct Requests<'a> {
    spec: &'a PodSpec,
    status: &'a PodStatus,
    assumed: Assumed,
}

impl<'a> Requests<'a> {
    fn of(pod: &'a Pod, assumed: Assumed) -> Self {
        static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);
        static NO_STATUS: LazyLock<PodStatus> = LazyLock::new(PodStatus::default);
        let (spec, status) = (pod.spec.as_ref().unwrap_or(&NO_SPEC), pod.status.as_ref().unwrap_or(&NO_STATUS));
        Self { spec, status, assumed }
    }

    /// Returns true if the node can never do the resize that the specification asks for.
    fn is_resize_infeasible(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        let pending = conditions.find(|condition| condition.type_ == "PodResizePending");
        pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
    }

    fn container_status(&self, name: &str) -> Option<&ContainerStatus> {
        let apps = self.status.container_statuses.iter().flatten();
        apps.chain(self.status.init_container_statuses.iter().flatten()).find(|status| status.name == name)
    }

    /// Returns the desired, the actual and the allocated requests of a container, as far as they count.
    fn parts<'c>(&'c self, container: &'c Container) -> [Option<&'c Quantities>; 3] {
        let desired = quantities(container);
        let status = self.container_status(&container.name).filter(|status| status.resources.is_some());
        let in_effect = status.and_then(|status| status.resources.as_ref()?.requests.as_ref());
        let allocated = status.and_then(|status| status.allocated_resources.as_ref());
        let desired = desired.filter(|_| status.is_none() || !self.is_resize_infeasible());
        [desired, in_effect, allocated]
    }

    /// Returns true if a part of the container's requests names the resource.
    fn asks(&self, container: &Container, name: &str) -> bool {
        self.parts(container).into_iter().flatten().any(|all| all.contains_key(name))
    }

    fn of_container(&self, container: &Container) -> Resources {
        let mut requests = Resources::default();
        for quantities in self.parts(container).into_iter().flatten() {
            requests.raise_to(&Resources::of(Some(quantities)));
        }
        if self.assumed.cpu && !self.asks(container, "cpu") {
            requests.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if self.assumed.memory && !self.asks(container, "memory") {
            requests.memory = DEFAULT_MEMORY_BYTES;
        }
        requests
    }

    /// Replaces the amounts that the pod as a whole requests.
    fn override_by_pod_level(&self, requests: &mut Resources) {
        let Some(desired) = self.spec.resources.as_ref().and_then(|r| r.requests.as_ref()) else { return };
        let in_effect = self.status.resources.as_ref().and_then(|r| r.requests.as_ref());
        let reported = [in_effect, self.status.allocated_resources.as_ref()];
        if reported.iter().all(Option::is_none) || !desired.keys().any(|name| is_pod_level(name)) {
            requests.override_by(desired, &Resources::of(Some(desired)));
            return;
        }
        let is_infeasible = self.is_resize_infeasible();
        let mut amounts = if is_infeasible { Resources::default() } else { Resources::of(Some(desired)) };
        for quantities in reported.into_iter().flatten() {
            // The node reports the overhead as a part of the pod.
            let mut reported = Resources::of(Some(quantities));
            reported -= &Resources::of(self.spec.overhead.as_ref());
            amounts.raise_to(&reported);
        }
        if !is_infeasible {
            requests.override_by(desired, &amounts);
        }
        reported.into_iter().flatten().for_each(|quantities| requests.override_by(quantities, &amounts));
    }

    fn of_pod(&self) -> Resources {
        let mut running = sum(self.spec, |container| self.of_container(container));
        self.override_by_pod_level(&mut running);
        running += &Resources::of(self.spec.overhead.as_ref());
        running.pods = 1;
        running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requests(spec: Value) -> Resources {
        pod_requests(&serde_json::from_value(spec).unwrap())
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_add_up_and_initialization_may_need_more() {
        let apps = json!([container("500m"), container("1")]);
        assert_eq!(requests(json!({"containers": apps})).milli_cpu, 1500);
        assert_eq!(requests(json!({"containers": apps, "initContainers": [container("2")]})).milli_cpu, 2000);
        let cases = [
            // The sidecar runs beside the app containers.
            (json!([sidecar("1")]), 2500),
            // An init container after the sidecar runs beside it; one before it does not.
            (json!([sidecar("1"), container("2")]), 3000),
            (json!([container("2"), sidecar("1")]), 2500),
            (json!([sidecar("1"), container("1"), sidecar("2")]), 4500),
        ];
        for (init, milli_cpu) in cases {
            assert_eq!(requests(json!({"containers": apps, "initContainers": init})).milli_cpu, milli_cpu, "{init}");
        }
    }

    #[test]
    fn pod_level_requests_replace_and_overhead_adds() {
        let spec = json!({
            "containers": [container("1")],
            "resources": {"requests": {"cpu": "4", "ephemeral-storage": "1Gi"}},
            "overhead": {"cpu": "250m", "memory": "64Mi"},
        });
        let requests = requests(spec);
        assert_eq!((requests.milli_cpu, requests.memory, requests.ephemeral_storage), (4250, 64 << 20, 0));
        assert_eq!(requests.pods, 1);
    }

    #[test]
    fn scoring_takes_silence_for_a_little() {
        let of = |spec: Value| {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let requests = scheduling_non_zero_requests(&pod, &scheduling_requests(&pod));
            (requests.milli_cpu, requests.memory)
        };
        let containers = json!([{"name": "a"}, container("0")]);
        assert_eq!(of(json!({"containers": containers})), (DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY_BYTES));
        let with = |requests: Value| json!({"containers": containers, "resources": {"requests": requests}});
        // The pod as a whole has requests: only a resource that neither it nor a container names is assumed.
        assert_eq!(of(with(json!({"memory": "1Gi"}))), (0, 1 << 30));
        assert_eq!(of(with(json!({"cpu": "1"}))), (1000, 2 * DEFAULT_MEMORY_BYTES));
    }

    /// Cases of a resize, as "Resize CPU and Memory Resources assigned to Containers" describes them: the largest of the
    /// desired, the allocated and the actual requests counts, and an infeasible resize does not.
    #[test]
    fn a_resize_counts_with_the_largest_of_desired_allocated_and_actual() {
        let of = |desired: &str, allocated: Value, actual: Value, reason: &str| {
            let mut status = json!({"name": "c"});
            for (field, cpu) in [("allocatedResources", &allocated), ("resources", &actual)] {
                if !cpu.is_null() {
                    let amounts = json!({"cpu": cpu});
                    status[field] = if field == "resources" { json!({"requests": amounts}) } else { amounts };
                }
            }
            let conditions = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
            let status = json!({"containerStatuses": [status], "conditions": conditions});
            let pod = json!({"spec": {"containers": [container(desired)]}, "status": status});
            scheduling_requests(&serde_json::from_value::<Pod>(pod).unwrap()).milli_cpu
        };
        for (desired, allocated, actual, reason, expected) in [
            ("1", Value::Null, Value::Null, "", 1000), // the node has said nothing yet
            ("2", json!("1"), json!("1"), "", 2000),   // more is desired
            ("1", json!("2"), json!("2"), "", 2000),   // less is desired, and the node has not begun
            ("1", json!("1"), json!("2"), "", 2000),   // less is allocated, and not yet in effect
            ("2", json!("2"), json!("1"), "", 2000),   // more is allocated, and not yet in effect
            ("8", json!("1"), json!("1"), "Deferred", 8000), // it may be done later
            ("8", json!("1"), json!("1"), "Infeasible", 1000),
            ("8", json!("1"), json!("2"), "Infeasible", 2000),
        ] {
            assert_eq!(
                of(desired, allocated.clone(), actual.clone(), reason),
                expected,
                "{desired} {allocated} {actual} {reason}"
            );
        }
    }

    #[test]
    fn a_sidecar_is_resized_as_an_app_container_and_a_pod_level_request_too() {
        let reported = |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let status = json!({"containerStatuses": [reported("c", "2")], "initContainerStatuses": [reported("s", "3")]});
        let spec = json!({"containers": [container("1")], "initContainers": [sidecar("1")]});
        let of = |spec: &Value, status: &Value| {
            let pod = json!({"spec": spec, "status": status});
            scheduling_requests(&serde_json::from_value::<Pod>(pod).unwrap()).milli_cpu
        };
        assert_eq!(of(&spec, &status), 5000);
        let whole = json!({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}});
        let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        for (status, expected) in [
            (json!({}), 4250),
            (json!({"resources": {"requests": {"cpu": "5250m"}}}), 5250),
            (json!({"allocatedResources": {"cpu": "2250m"}}), 4250),
            (json!({"allocatedResources": {"cpu": "2250m"}, "conditions": infeasible}), 2250),
        ] {
            assert_eq!(of(&whole, &status), expected, "{status}");
        }
    }

    #[test]
    fn adding_and_taking_away_leaves_nothing_behind() {
        let some = Resources { scalar: [("nvidia.com/gpu".to_owned(), 2)].into(), milli_cpu: 5, ..Default::default() };
        let mut sum = Resources::default();
        sum += &some;
        sum -= &some;
        assert_eq!(sum, Resources::default());
    }
}
