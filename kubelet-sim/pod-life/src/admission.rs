//! Admission of pods by a node: the last check of a pod that was bound to it.
//!
//! Corresponds to pkg/kubelet/lifecycle/predicate.go. The scheduler has checked the same, but its cache may have lagged
//! behind, and a pod may name its node without a scheduler. A critical pod may end others to have room; corresponds to
//! pkg/kubelet/preemption.

use crate::critical::{is_critical, is_static};
use crate::preemption::{self, Candidate};
use crate::qos::qos_class;
use component_helpers::scheduling::node_selector;
use component_helpers::scheduling::requests::{Resources, pod_requests};
use component_helpers::scheduling::tolerations::untolerated;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodSpec};
use proto::meta::node_labels;
use std::collections::{BTreeMap, BTreeSet};

/// The operating system of every simulated machine.
const OS: &str = "linux";
const ANY_ADDRESS: &str = "0.0.0.0";

/// Why the node does not admit a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub reason: String,
    pub message: String,
}

impl Rejection {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into() }
    }

    fn predicate(name: &str, message: &str) -> Self {
        Self::new(name, format!("Predicate {name} failed: {message}"))
    }

    fn insufficient(lack: &Lack) -> Self {
        let Lack { resource, requested, used, capacity } = lack;
        let numbers = format!("requested: {requested}, used: {used}, capacity: {capacity}");
        Self::new(&format!("OutOf{resource}"), format!("Node didn't have enough resource: {resource}, {numbers}"))
    }
}

/// A resource of which the node has too little for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lack {
    resource: String,
    requested: i64,
    used: i64,
    capacity: i64,
}

impl Lack {
    fn missing(&self) -> (String, i64) {
        (self.resource.clone(), self.requested - (self.capacity - self.used))
    }
}

/// What a node says to a pod that was bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    Rejected(Rejection),
    /// The pod is critical: it is admitted once other pods have gone. These, by namespace and name, have to go now.
    WaitsFor(Vec<String>),
}

/// Why a node does not give a pod other resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResizeRefusal {
    /// The node could not, even if it were empty.
    Infeasible(String),
    /// Other pods use them at present.
    Deferred(String),
}

/// A port of the node that a pod uses: protocol, address, number.
type HostPort = (String, String, i32);

/// The pods that a node has admitted and that have not ended, with what they hold. Rebuilt from the pods when the agent
/// starts.
#[derive(Debug, Default)]
pub struct AdmittedPods {
    by_uid: BTreeMap<String, Held>,
    used: Resources,
}

/// One pod, with the resources and ports that it holds.
#[derive(Debug)]
struct Held {
    candidate: Candidate,
    ports: BTreeSet<HostPort>,
    /// True when it ends so that a critical pod has room.
    is_preempted: bool,
}

impl Held {
    fn of(pod: &Pod, spec: &PodSpec) -> Self {
        let candidate = Candidate {
            key: pod.key(),
            qos: qos_class(pod),
            priority: spec.priority,
            is_critical: is_critical(pod),
            requests: pod_requests(spec),
        };
        Self { candidate, ports: host_ports(spec), is_preempted: false }
    }
}

impl AdmittedPods {
    /// Admits the pod if it fits beside the others. Admitting it again changes nothing. A critical pod that lacks nothing
    /// but resources waits until other pods have made room.
    pub fn admit(&mut self, pod: &Pod, node: &Node, allocatable: &Resources) -> Verdict {
        let Some(spec) = pod.spec.as_ref().filter(|_| !self.by_uid.contains_key(pod.uid())) else {
            return Verdict::Admitted;
        };
        if let Err(rejection) = fits_system(pod, spec) {
            return Verdict::Rejected(rejection);
        }
        let lacks = self.lacks(&pod_requests(spec), allocatable);
        let others = self.other_rejections(pod, spec, node);
        if lacks.is_empty() && others.is_empty() {
            self.add(pod);
            return Verdict::Admitted;
        }
        if !is_critical(pod) || !others.is_empty() {
            let lacks = lacks.iter().map(Rejection::insufficient);
            // A critical pod could have room made for it: resources are not what it is rejected for.
            let first = if is_critical(pod) { others.into_iter().next() } else { lacks.chain(others).next() };
            return Verdict::Rejected(first.expect("there is a reason"));
        }
        self.preempt(pod, spec, &lacks)
    }

    /// Chooses the pods that have to go for a critical one.
    fn preempt(&mut self, pod: &Pod, spec: &PodSpec, lacks: &[Lack]) -> Verdict {
        if self.by_uid.values().any(|held| held.is_preempted) {
            return Verdict::WaitsFor(Vec::new());
        }
        let missing: Vec<(String, i64)> = lacks.iter().map(Lack::missing).collect();
        let preemptor = Held::of(pod, spec).candidate;
        let candidates: Vec<&Candidate> = self.by_uid.values().map(|held| &held.candidate).collect();
        match preemption::victims(&preemptor, &candidates, &missing) {
            Err(error) => {
                let message = format!("Unexpected error while attempting to recover from admission failure: {error}");
                Verdict::Rejected(Rejection::new("UnexpectedAdmissionError", message))
            }
            Ok(keys) => {
                for held in self.by_uid.values_mut().filter(|held| keys.contains(&held.candidate.key)) {
                    held.is_preempted = true;
                }
                Verdict::WaitsFor(keys)
            }
        }
    }

    /// Records a pod without a check: one that the node admitted before the agent started.
    pub fn add(&mut self, pod: &Pod) {
        let Some(spec) = pod.spec.as_ref().filter(|_| !self.by_uid.contains_key(pod.uid())) else { return };
        let held = Held::of(pod, spec);
        self.used += &held.candidate.requests;
        self.by_uid.insert(pod.uid().to_owned(), held);
    }

    /// Gives an admitted pod the resources that its spec asks for now, if they fit beside the other pods.
    pub fn resize(&mut self, pod: &Pod, allocatable: &Resources) -> Result<(), ResizeRefusal> {
        let Some(spec) = &pod.spec else { return Ok(()) };
        let requests = pod_requests(spec);
        for name in ["memory", "cpu"] {
            let (requested, capacity) = (requests.get(name), allocatable.get(name));
            if requested > capacity {
                let message = format!("{name}, requested: {requested}, capacity: {capacity}");
                return Err(ResizeRefusal::Infeasible(format!("Node didn't have enough capacity: {message}")));
            }
        }
        let mut held = self.by_uid.remove(pod.uid()).unwrap_or_else(|| Held::of(pod, &PodSpec::default()));
        self.used -= &held.candidate.requests;
        let lacks = self.lacks(&requests, allocatable);
        if lacks.is_empty() {
            held.candidate.requests = requests;
        }
        self.used += &held.candidate.requests;
        self.by_uid.insert(pod.uid().to_owned(), held);
        match lacks.first() {
            None => Ok(()),
            Some(lack) => Err(ResizeRefusal::Deferred(Rejection::insufficient(lack).message)),
        }
    }

    pub fn release(&mut self, uid: &str) {
        if let Some(held) = self.by_uid.remove(uid) {
            self.used -= &held.candidate.requests;
        }
    }

    /// Returns the reasons against the pod besides a lack of resources, in the kubelet's order.
    fn other_rejections(&self, pod: &Pod, spec: &PodSpec, node: &Node) -> Vec<Rejection> {
        let mut rejections = Vec::new();
        if !node_selector::required_matches(spec, node) {
            let message = "node(s) didn't match Pod's node affinity/selector";
            rejections.push(Rejection::predicate("NodeAffinity", message));
        }
        let wanted = host_ports(spec);
        let taken = self.by_uid.values().flat_map(|held| &held.ports);
        if taken.into_iter().any(|taken| wanted.iter().any(|port| collide(port, taken))) {
            let message = "node(s) didn't have free ports for the requested pod ports";
            rejections.push(Rejection::predicate("NodePorts", message));
        }
        let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten()).filter(|t| t.effect == "NoExecute");
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        if !is_static(pod) && untolerated(tolerations, taints).is_some() {
            rejections.push(Rejection::predicate("TaintToleration", "node(s) had untolerated taint(s)"));
        }
        rejections
    }

    /// Returns what is missing for these requests.
    fn lacks(&self, requests: &Resources, allocatable: &Resources) -> Vec<Lack> {
        let scalars = requests.scalar.keys().map(String::as_str);
        // An extended resource that the node does not have is not counted here.
        let known = scalars.filter(|name| !is_extended(name) || allocatable.scalar.contains_key(*name));
        let lack = |name: &str| {
            let (requested, used, capacity) = (requests.get(name), self.used.get(name), allocatable.get(name));
            let resource = name.to_owned();
            (requested > 0 && requested > capacity - used).then_some(Lack { resource, requested, used, capacity })
        };
        ["pods", "cpu", "memory", "ephemeral-storage"].into_iter().chain(known).filter_map(lack).collect()
    }
}

/// Checks that the machine can run the pod's programs.
fn fits_system(pod: &Pod, spec: &PodSpec) -> Result<(), Rejection> {
    if pod.metadata.labels.as_ref().and_then(|l| l.get(node_labels::OS)).is_some_and(|os| os != OS) {
        let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
        return Err(Rejection::new("PodOSSelectorNodeLabelDoesNotMatch", message));
    }
    if spec.os.as_ref().is_some_and(|os| os.name != OS) {
        let message = "Failed to admit pod as the OS field doesn't match node OS";
        return Err(Rejection::new("PodOSNotSupported", message));
    }
    Ok(())
}

/// Prefix of the resources that stand for the devices of a DeviceClass.
const OF_DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// True for a vendor's resource or a class of devices, and false for another one that Kubernetes defines.
fn is_extended(name: &str) -> bool {
    name.starts_with(OF_DEVICE_CLASS) || (name.contains('/') && !name.contains("kubernetes.io/"))
}

fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let some = |text: &Option<String>, default: &str| match text.as_deref() {
        None | Some("") => default.to_owned(),
        Some(text) => text.to_owned(),
    };
    let taken = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some((some(&port.protocol, "TCP"), some(&port.host_ip, ANY_ADDRESS), number))
    });
    taken.collect()
}

/// True when two pods cannot have both ports. The wildcard address collides with every address.
fn collide(one: &HostPort, other: &HostPort) -> bool {
    let same_address = one.1 == other.1 || one.1 == ANY_ADDRESS || other.1 == ANY_ADDRESS;
    one.0 == other.0 && one.2 == other.2 && same_address
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(uid: &str, spec: Value) -> Pod {
        Pod::decode_value(json!({"metadata": {"name": uid, "namespace": "shop", "uid": uid}, "spec": spec})).unwrap()
    }

    fn asking(uid: &str, requests: Value) -> Pod {
        pod(uid, json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}))
    }

    fn node() -> Node {
        Node::decode_value(json!({
            "metadata": {"name": "node-0", "labels": {"kubernetes.io/os": "linux", "disk": "ssd"}},
            "spec": {"taints": [{"key": "soft", "effect": "NoSchedule"}, {"key": "hard", "effect": "NoExecute"}]},
        }))
        .unwrap()
    }

    fn allocatable() -> Resources {
        let quantities =
            json!({"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "3", "x.io/gpu": "1"});
        Resources::of(Some(&serde_json::from_value(quantities).unwrap()))
    }

    fn tolerant(mut spec: Value) -> Value {
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        spec
    }

    fn refused(admitted: &mut AdmittedPods, pod: &Pod) -> Option<(String, String)> {
        match admitted.admit(pod, &node(), &allocatable()) {
            Verdict::Rejected(rejection) => Some((rejection.reason, rejection.message)),
            Verdict::Admitted => None,
            Verdict::WaitsFor(keys) => panic!("waits for {keys:?}"),
        }
    }

    #[test]
    fn a_node_says_what_it_lacks() {
        let container = json!({"containers": [{"name": "c"}]});
        let with = |field: &str, value: Value| {
            let mut spec = tolerant(container.clone());
            spec[field] = value;
            spec
        };
        let asking = |requests: Value| with("containers", json!([{"name": "c", "resources": {"requests": requests}}]));
        let port = |port: Value| with("containers", json!([{"name": "c", "ports": [port]}]));
        let not_enough = "Node didn't have enough resource:";
        for (spec, reason, message) in [
            (
                asking(json!({"cpu": "1500m"})),
                "OutOfcpu",
                format!("{not_enough} cpu, requested: 1500, used: 1000, capacity: 2000"),
            ),
            (
                asking(json!({"memory": "5Gi", "cpu": "1"})),
                "OutOfmemory",
                format!("{not_enough} memory, requested: 5368709120, used: 0, capacity: 4294967296"),
            ),
            (
                asking(json!({"ephemeral-storage": "11Gi"})),
                "OutOfephemeral-storage",
                format!("{not_enough} ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"),
            ),
            (
                asking(json!({"x.io/gpu": "2"})),
                "OutOfx.io/gpu",
                format!("{not_enough} x.io/gpu, requested: 2, used: 0, capacity: 1"),
            ),
            (
                with("nodeSelector", json!({"disk": "hdd"})),
                "NodeAffinity",
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector".to_owned(),
            ),
            (
                port(json!({"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"})),
                "NodePorts",
                "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports".to_owned(),
            ),
            (
                container.clone(),
                "TaintToleration",
                "Predicate TaintToleration failed: node(s) had untolerated taint(s)".to_owned(),
            ),
            (
                with("os", json!({"name": "windows"})),
                "PodOSNotSupported",
                "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
            ),
        ] {
            let mut admitted = AdmittedPods::default();
            let first = json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}],
                "resources": {"requests": {"cpu": "1"}}}]});
            assert_eq!(refused(&mut admitted, &pod("first", tolerant(first))), None);
            assert_eq!(refused(&mut admitted, &pod("p", spec)), Some((reason.to_owned(), message)));
        }
    }

    #[test]
    fn what_a_pod_held_is_free_when_it_has_gone() {
        let mut admitted = AdmittedPods::default();
        let tolerant = |pod: Pod| {
            let spec = serde_json::to_value(pod.spec.unwrap()).unwrap();
            self::pod(pod.metadata.uid.as_deref().unwrap(), tolerant(spec))
        };
        let big = |uid: &str| tolerant(asking(uid, json!({"cpu": "2"})));
        assert_eq!(refused(&mut admitted, &big("a")), None);
        assert_eq!(refused(&mut admitted, &big("a")), None, "asked again");
        assert_eq!(refused(&mut admitted, &big("b")).unwrap().0, "OutOfcpu");
        admitted.release("a");
        assert_eq!(refused(&mut admitted, &big("b")), None);
        // A pod of an earlier run is there whatever it takes.
        admitted.add(&big("c"));
        admitted.add(&tolerant(asking("d", json!({}))));
        let last = refused(&mut admitted, &tolerant(asking("e", json!({"cpu": "1"})))).unwrap();
        assert_eq!(last.1, "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3");
    }

    #[test]
    fn a_pod_keeps_what_it_has_until_it_gets_more() {
        let mut admitted = AdmittedPods::default();
        let of = |uid: &str, cpu: &str| asking(uid, json!({"cpu": cpu}));
        admitted.add(&of("a", "500m"));
        admitted.add(&of("b", "1"));
        let infeasible = "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000".to_owned();
        assert_eq!(admitted.resize(&of("a", "3"), &allocatable()), Err(ResizeRefusal::Infeasible(infeasible)));
        let deferred = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000".to_owned();
        assert_eq!(admitted.resize(&of("a", "1500m"), &allocatable()), Err(ResizeRefusal::Deferred(deferred)));
        assert_eq!(admitted.resize(&of("a", "1"), &allocatable()), Ok(()));
        let full = "Node didn't have enough resource: cpu, requested: 1001, used: 1000, capacity: 2000".to_owned();
        assert_eq!(admitted.resize(&of("b", "1001m"), &allocatable()), Err(ResizeRefusal::Deferred(full)));
        admitted.release("a");
        assert_eq!(admitted.resize(&of("b", "2"), &allocatable()), Ok(()));
    }

    #[test]
    fn a_critical_pod_waits_until_others_have_made_room() {
        let mut admitted = AdmittedPods::default();
        let tolerant_asking = |cpu: &str, priority: i32| {
            let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
            tolerant(json!({"containers": [container], "priority": priority}))
        };
        for (name, cpu) in [("a", "1500m"), ("b", "500m")] {
            assert_eq!(refused(&mut admitted, &pod(name, tolerant_asking(cpu, 0))), None);
        }
        let critical = pod("critical", tolerant_asking("400m", 2_000_000_000));
        let mut admit = |pod: &Pod| admitted.admit(pod, &node(), &allocatable());
        assert_eq!(admit(&critical), Verdict::WaitsFor(vec!["shop/b".to_owned()]));
        assert_eq!(admit(&critical), Verdict::WaitsFor(Vec::new()), "it has been told to go");
        admitted.release("b");
        let mut admit = |pod: &Pod| admitted.admit(pod, &node(), &allocatable());
        assert_eq!(admit(&critical), Verdict::Admitted);
        let Verdict::Rejected(rejection) = admit(&pod("large", tolerant_asking("1900m", 2_000_000_000))) else {
            panic!("it is admitted")
        };
        assert_eq!(
            (rejection.reason.as_str(), rejection.message.as_str()),
            (
                "UnexpectedAdmissionError",
                "Unexpected error while attempting to recover from admission failure: no set of running pods found to \
                 reclaim resources: [(res: cpu, q: 300), ]"
            )
        );
        let mut misplaced = tolerant_asking("1900m", 2_000_000_000);
        misplaced["nodeSelector"] = json!({"disk": "hdd"});
        let Verdict::Rejected(rejection) = admit(&pod("misplaced", misplaced)) else { panic!("it is admitted") };
        assert_eq!(rejection.reason, "NodeAffinity");
    }

    #[test]
    fn a_resource_that_the_node_does_not_know_is_not_its_business() {
        // The second stands for devices of a class, which the scheduler has allocated.
        for resource in ["y.io/fpga", "deviceclass.resource.kubernetes.io/fpga"] {
            let spec = tolerant(json!({"containers": [{"name": "c", "resources": {"requests": {resource: "1"}}}]}));
            assert_eq!(refused(&mut AdmittedPods::default(), &pod("p", spec)), None, "{resource}");
        }
    }
}
