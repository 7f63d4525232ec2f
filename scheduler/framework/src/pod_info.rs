//! `PodInfo`, a pod with the values that scheduling reads often, computed once.
//!
//! Corresponds to framework.PodInfo of pkg/scheduler.

use component_helpers::scheduling::requests::{self, Resources};
use component_helpers::scheduling::topology_labels::topology_labels;
use component_helpers::volumes::pod_volumes;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodAffinityTerm, PodSpec};
use proto::meta::label_selector;
use proto::meta::selector::{Operator, Requirement, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A host port that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: String,
    pub port: i32,
    /// Host address; `0.0.0.0` stands for all addresses.
    pub ip: String,
}

impl HostPort {
    /// Returns true if both ports are on the same address, or one of them is on all addresses.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ALL || other.ip == ALL)
    }
}

/// A parsed term of pod affinity or anti-affinity.
#[derive(Clone, Debug, PartialEq)]
pub struct AffinityTerm {
    pub topology_key: String,
    /// Selector of pod labels.
    pub selector: Selector,
    pub namespaces: BTreeSet<String>,
    /// Selector of namespace labels; `None` selects no namespace.
    pub namespace_selector: Option<Selector>,
}

#[derive(Clone, Debug)]
pub struct PodInfo {
    pub pod: Arc<Pod>,
    /// The labels that the pod will have once it is bound to the node on which it is assumed; `None` if they are its own.
    assumed_labels: Option<Arc<BTreeMap<String, String>>>,
    pub key: String,
    pub priority: i32,
    pub requests: Resources,
    /// Requests with defaults for containers without any; used for scoring.
    pub non_zero_requests: Resources,
    pub host_ports: Vec<HostPort>,
    pub required_affinity: Vec<AffinityTerm>,
    pub required_anti_affinity: Vec<AffinityTerm>,
    pub preferred_affinity: Vec<(i64, AffinityTerm)>,
    pub preferred_anti_affinity: Vec<(i64, AffinityTerm)>,
    /// Keys of the PersistentVolumeClaims of its volumes.
    pub claim_keys: Vec<String>,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

impl PodInfo {
    pub fn new(pod: Arc<Pod>) -> Self {
        let spec = pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let affinity = spec.affinity.as_ref();
        let with = affinity.and_then(|a| a.pod_affinity.as_ref());
        let without = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let term = |term: &PodAffinityTerm| AffinityTerm::new(term, &pod);
        let requests = requests::scheduling_requests(&pod);
        Self {
            assumed_labels: None,
            key: pod.key(),
            claim_keys: pod_volumes::claim_keys(&pod),
            priority: spec.priority.unwrap_or(0),
            non_zero_requests: requests::scheduling_non_zero_requests(&pod, &requests),
            requests,
            host_ports: host_ports(spec),
            required_affinity: with
                .iter()
                .flat_map(|a| a.required_during_scheduling_ignored_during_execution.iter().flatten().map(term))
                .collect(),
            required_anti_affinity: without
                .iter()
                .flat_map(|a| a.required_during_scheduling_ignored_during_execution.iter().flatten().map(term))
                .collect(),
            preferred_affinity: with
                .iter()
                .flat_map(|a| a.preferred_during_scheduling_ignored_during_execution.iter().flatten())
                .map(|weighted| (weighted.weight.into(), term(&weighted.pod_affinity_term)))
                .collect(),
            preferred_anti_affinity: without
                .iter()
                .flat_map(|a| a.preferred_during_scheduling_ignored_during_execution.iter().flatten())
                .map(|weighted| (weighted.weight.into(), term(&weighted.pod_affinity_term)))
                .collect(),
            pod,
        }
    }

    pub fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().unwrap_or(&NO_SPEC)
    }

    pub fn uid(&self) -> &str {
        self.pod.uid()
    }

    pub fn namespace(&self) -> &str {
        self.pod.namespace()
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.assumed_labels.as_deref().or(self.pod.metadata.labels.as_ref()).unwrap_or(&NO_LABELS)
    }

    /// Returns the pod with the labels of its node that the API server adds when it binds the pod; `None` if it adds none. So a
    /// confirmed binding changes nothing that counts. Deviation: in Kubernetes an assumed pod gets the labels of
    /// its node's place with the confirmation.
    pub fn assumed_on(&self, node: &Node) -> Option<Self> {
        let mut added = topology_labels(node).filter(|(key, value)| self.labels().get(*key) != Some(*value)).peekable();
        added.peek()?;
        let mut labels = self.labels().clone();
        labels.extend(added.map(|(key, value)| (key.to_owned(), value.clone())));
        Some(Self { assumed_labels: Some(Arc::new(labels)), ..self.clone() })
    }

    /// Returns the pod as an object, with the labels by which others count it.
    pub fn labelled(&self) -> Arc<Pod> {
        let Some(labels) = &self.assumed_labels else { return self.pod.clone() };
        let mut pod = Pod::clone(&self.pod);
        pod.metadata.labels = Some((**labels).clone());
        Arc::new(pod)
    }

    /// Returns the name of the pod's node; empty until it is bound.
    pub fn node_name(&self) -> &str {
        self.spec().node_name.as_deref().unwrap_or_default()
    }

    /// Returns the node to which preemption has nominated the pod; empty for most pods.
    pub fn nominated_node_name(&self) -> &str {
        self.pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref()).unwrap_or_default()
    }

    /// Returns the key of the PodGroup to which the pod belongs: `NAMESPACE/NAME`.
    pub fn pod_group_key(&self) -> Option<String> {
        let group = self.spec().scheduling_group.as_ref()?.pod_group_name.as_ref()?;
        Some(format!("{}/{group}", self.namespace()))
    }

    pub fn has_affinity(&self) -> bool {
        !(self.required_affinity.is_empty() && self.preferred_affinity.is_empty() && !self.has_anti_affinity())
    }

    fn has_anti_affinity(&self) -> bool {
        !(self.required_anti_affinity.is_empty() && self.preferred_anti_affinity.is_empty())
    }
}

impl AffinityTerm {
    fn new(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
        // An invalid selector selects nothing. The API server does not admit any.
        let parsed = label_selector::from_typed(term.label_selector.as_ref()).unwrap_or_else(|_| Selector::nothing());
        let keys = |keys: &Option<Vec<String>>| keys.clone().unwrap_or_default();
        let selector = with_label_keys(&parsed, labels, &keys(&term.match_label_keys), Operator::In);
        let selector = with_label_keys(&selector, labels, &keys(&term.mismatch_label_keys), Operator::NotIn);
        let namespace_selector = term.namespace_selector.as_ref();
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(pod.namespace().to_owned());
        }
        Self {
            topology_key: term.topology_key.clone(),
            selector,
            namespaces,
            namespace_selector: namespace_selector
                .map(|selector| label_selector::from_typed(Some(selector)).unwrap_or_else(|_| Selector::nothing())),
        }
    }

    /// Returns true if the term may match this pod. The labels of its namespace are not known.
    pub fn may_match(&self, pod: &PodInfo) -> bool {
        let namespace = self.namespaces.contains(pod.namespace()) || self.namespace_selector.is_some();
        namespace && self.selector.matches(pod.labels())
    }

    /// Returns true if the term matches this pod. `namespace_labels` are those of the pod's namespace.
    pub fn matches(&self, pod: &PodInfo, namespace_labels: &BTreeMap<String, String>) -> bool {
        let namespace = self.namespaces.contains(pod.namespace())
            || self.namespace_selector.as_ref().is_some_and(|selector| selector.matches(namespace_labels));
        namespace && self.selector.matches(pod.labels())
    }
}

/// Adds `matchLabelKeys` to a selector: the pod's own values of these labels. The API server writes them into the
/// selector of new pods. Pods that an older server has stored lack them.
pub fn with_label_keys(
    selector: &Selector,
    labels: &BTreeMap<String, String>,
    keys: &[String],
    operator: Operator,
) -> Selector {
    if selector.is_nothing() || keys.is_empty() {
        return selector.clone();
    }
    let own = keys.iter().filter_map(|key| {
        let values = BTreeSet::from([labels.get(key)?.clone()]);
        Some(Requirement { key: key.clone(), operator, values })
    });
    Selector::new(selector.requirements().iter().cloned().chain(own).collect())
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let or = |text: &Option<String>, default: &str| match text.as_deref() {
                None | Some("") => default.to_owned(),
                Some(text) => text.to_owned(),
            };
            let number = port.host_port.filter(|number| *number > 0)?;
            Some(HostPort { protocol: or(&port.protocol, "TCP"), port: number, ip: or(&port.host_ip, "0.0.0.0") })
        })
        .collect()
}
