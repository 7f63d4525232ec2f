//! The requests of pods and the resources of nodes, in whole numbers.
//!
//! Corresponds to k8s.io/component-helpers/resource.PodRequests and to framework.Resource of pkg/scheduler.

use proto::kinds::api::core::v1::{Container, PodSpec, ResourceRequirements};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};

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

    /// Replaces the amounts that the requests of the pod as a whole contain.
    fn override_by(&mut self, other: &BTreeMap<String, WireQuantity>) {
        let amounts = Self::of(Some(other));
        for name in other.keys() {
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

impl AddAssign<&Resources> for Resources {
    fn add_assign(&mut self, other: &Resources) {
        self.milli_cpu += other.milli_cpu;
        self.memory += other.memory;
        self.ephemeral_storage += other.ephemeral_storage;
        self.pods += other.pods;
        // An amount of zero has no entry, so that equal resources compare as equal.
        for (name, amount) in other.scalar.iter().filter(|(_, amount)| **amount != 0) {
            *self.scalar.entry(name.clone()).or_insert(0) += amount;
        }
    }
}

impl SubAssign<&Resources> for Resources {
    fn sub_assign(&mut self, other: &Resources) {
        self.milli_cpu -= other.milli_cpu;
        self.memory -= other.memory;
        self.ephemeral_storage -= other.ephemeral_storage;
        self.pods -= other.pods;
        for (name, amount) in &other.scalar {
            let mine = self.scalar.entry(name.clone()).or_insert(0);
            *mine -= amount;
            if *mine == 0 {
                self.scalar.remove(name);
            }
        }
    }
}

/// Returns the requests of a pod: the sum of app containers and sidecars, or the larger need of an init container.
pub fn pod_requests(spec: &PodSpec) -> Resources {
    requests_with(spec, &|container| requests_of(container.resources.as_ref()))
}

/// Returns the requests of a pod, with an assumed use for containers that have no request for CPU or memory.
pub fn pod_non_zero_requests(spec: &PodSpec) -> Resources {
    requests_with(spec, &|container| {
        let mut requests = requests_of(container.resources.as_ref());
        let asks =
            |name| container.resources.as_ref().and_then(|r| r.requests.as_ref()).is_some_and(|r| r.contains_key(name));
        if !asks("cpu") {
            requests.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if !asks("memory") {
            requests.memory = DEFAULT_MEMORY_BYTES;
        }
        requests
    })
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Resources {
    Resources::of(resources.and_then(|r| r.requests.as_ref()))
}

fn requests_with(spec: &PodSpec, of: &dyn Fn(&Container) -> Resources) -> Resources {
    let mut running = Resources::default();
    for container in &spec.containers {
        running += &of(container);
    }
    // Init containers run one after another, each beside the sidecars that started before it.
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
    if let Some(requests) = spec.resources.as_ref().and_then(|r| r.requests.as_ref()) {
        running.override_by(requests);
    }
    running += &Resources::of(spec.overhead.as_ref());
    running.pods = 1;
    running
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
        let spec: PodSpec = serde_json::from_value(json!({"containers": [{"name": "a"}, container("0")]})).unwrap();
        let requests = pod_non_zero_requests(&spec);
        assert_eq!((requests.milli_cpu, requests.memory), (DEFAULT_MILLI_CPU, 2 * DEFAULT_MEMORY_BYTES));
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
