//! `Template`, what the pods of a benchmark ask for, with the objects that each of them needs.
//!
//! Corresponds to test/integration/scheduler_perf/templates.

use proto::meta::node_labels::{HOSTNAME, ZONE};
use serde_json::{Value, json};

/// The namespace of pods that run before the measurement.
pub const BEFORE: &str = "sched-0";
/// The namespace of measured pods.
pub const MEASURED: &str = "sched-1";
/// The node of the pods of a DaemonSet.
pub const DAEMON_NODE: &str = "scheduler-perf-node";
pub const CLAIM_TEMPLATE: &str = "test-claim-template";
pub const CSI_DRIVER: &str = "ebs.csi.aws.com";
const PODS_PER_GANG: usize = 3;
/// More CPUs than any node has.
const LARGE_CPU: &str = "9";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// CPU and memory.
    Default,
    /// Most of a node, together with three others.
    LowPriority,
    /// Room that only pods of lower priority can make.
    HighPriority,
    /// More than any node has, at a high priority.
    HighPriorityLargeCpu,
    /// One of two zones by node affinity.
    NodeAffinity,
    /// The zone of pods like it.
    PodAffinity,
    /// A node without pods like it.
    PodAntiAffinity,
    /// Rather the node of pods like it.
    PreferredPodAffinity,
    /// Rather a node without pods like it.
    PreferredPodAntiAffinity,
    /// The zones evenly.
    TopologySpreading,
    /// Rather the zones evenly.
    PreferredTopologySpreading,
    /// Selected by a Service, whose pods are spread by default.
    OfService,
    /// One node by name, as the DaemonSet controller asks for it.
    DaemonSet,
    /// A Secret as a volume.
    Secret,
    /// A bound claim of a volume in the cloud.
    InTreeVolume,
    /// A bound claim of a volume of a CSI driver.
    CsiVolume,
    /// A device for a claim from a template.
    DeviceClaim,
    /// All three pods of a gang, or none.
    Gang,
}

/// Returns the name of the gang to which a pod with this number belongs.
fn gang(number: usize) -> String {
    format!("gang-{}", number / PODS_PER_GANG)
}

impl Template {
    /// Returns a number of pods that leaves no gang incomplete, which would wait for ever.
    pub fn whole(self, count: usize) -> usize {
        if self == Self::Gang { count.next_multiple_of(PODS_PER_GANG) } else { count }
    }

    pub fn pod(self, name: &str, number: usize) -> Value {
        let (cpu, priority) = match self {
            Self::LowPriority => ("900m", None),
            Self::HighPriority => ("3", Some(10)),
            Self::HighPriorityLargeCpu => (LARGE_CPU, Some(10)),
            _ => ("100m", None),
        };
        let requests = json!({"cpu": cpu, "memory": "500Mi"});
        let container =
            json!({"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}});
        let labels = match self {
            Self::PodAffinity | Self::TopologySpreading | Self::PreferredTopologySpreading => json!({"color": "blue"}),
            Self::PodAntiAffinity => json!({"color": "green"}),
            Self::PreferredPodAffinity => json!({"color": "red"}),
            Self::PreferredPodAntiAffinity => json!({"color": "yellow"}),
            Self::OfService => json!({"app": "service"}),
            _ => json!({}),
        };
        let mut spec = json!({
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0, "containers": [container],
        });
        if let Some(priority) = priority {
            spec["priority"] = json!(priority);
        }
        let selector = json!({"matchLabels": labels});
        let term = |key: &str| json!({"labelSelector": selector, "topologyKey": key, "namespaces": [BEFORE, MEASURED]});
        let required = |term: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let preferred = |term: Value| {
            let weighted = json!({"weight": 1, "podAffinityTerm": term});
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [weighted]})
        };
        let by_node = |terms: Value| {
            let terms = json!({"nodeSelectorTerms": [terms]});
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
        };
        let spread = |when: &str| json!([{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]);
        match self {
            Self::Default | Self::LowPriority | Self::HighPriority | Self::HighPriorityLargeCpu | Self::OfService => {}
            Self::NodeAffinity => {
                let zones = json!({"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]});
                spec["affinity"] = by_node(json!({"matchExpressions": [zones]}));
            }
            Self::DaemonSet => {
                let name = json!({"key": "metadata.name", "operator": "In", "values": [DAEMON_NODE]});
                spec["affinity"] = by_node(json!({"matchFields": [name]}));
            }
            Self::PodAffinity => spec["affinity"] = json!({"podAffinity": required(term(ZONE))}),
            Self::PodAntiAffinity => spec["affinity"] = json!({"podAntiAffinity": required(term(HOSTNAME))}),
            Self::PreferredPodAffinity => spec["affinity"] = json!({"podAffinity": preferred(term(HOSTNAME))}),
            Self::PreferredPodAntiAffinity => spec["affinity"] = json!({"podAntiAffinity": preferred(term(HOSTNAME))}),
            Self::TopologySpreading => spec["topologySpreadConstraints"] = spread("DoNotSchedule"),
            Self::PreferredTopologySpreading => spec["topologySpreadConstraints"] = spread("ScheduleAnyway"),
            Self::Secret => spec["volumes"] = json!([{"name": "secret", "secret": {"secretName": "secret"}}]),
            Self::InTreeVolume | Self::CsiVolume => {
                spec["volumes"] = json!([{"name": "vol", "persistentVolumeClaim": {"claimName": name}}]);
            }
            Self::DeviceClaim => {
                spec["resourceClaims"] = json!([{"name": "resource", "resourceClaimTemplateName": CLAIM_TEMPLATE}]);
                spec["containers"][0]["resources"]["claims"] = json!([{"name": "resource"}]);
            }
            Self::Gang => spec["schedulingGroup"] = json!({"podGroupName": gang(number)}),
        }
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec})
    }

    /// Returns the collections and objects that have to be there before the pod.
    pub fn needs(self, namespace: &str, name: &str, number: usize) -> Vec<(String, Value)> {
        let source = match self {
            Self::InTreeVolume => json!({"awsElasticBlockStore": {"volumeID": name}}),
            Self::CsiVolume => json!({"csi": {"driver": CSI_DRIVER, "volumeHandle": name}}),
            Self::Gang if number.is_multiple_of(PODS_PER_GANG) => {
                let spec = json!({"schedulingPolicy": {"gang": {"minCount": PODS_PER_GANG}}});
                let api_version = "scheduling.k8s.io/v1alpha2";
                let group = json!({"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": gang(number)}, "spec": spec});
                return vec![(format!("/apis/{api_version}/namespaces/{namespace}/podgroups"), group)];
            }
            _ => return Vec::new(),
        };
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
        });
        spec.as_object_mut().expect("just made").extend(source.as_object().cloned().unwrap_or_default());
        let volume_name = format!("{namespace}-{name}");
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let volume =
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume_name}, "spec": spec});
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "annotations": bound},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume_name,
                "storageClassName": "",
            },
        });
        let claims = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        vec![("/api/v1/persistentvolumes".to_owned(), volume), (claims, claim)]
    }
}
