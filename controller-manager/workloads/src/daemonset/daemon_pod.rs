//! The pod of a DaemonSet for one node: its labels, its tolerations, and the affinity that binds it to the node.
//!
//! Corresponds to CreatePodTemplate, AddOrUpdateDaemonPodTolerations, ReplaceDaemonSetPodNodeNameNodeAffinity and
//! GetTargetNodeName in pkg/controller/daemon/util/daemonset_util.go.

use super::observe;
use crate::controller_revision::CONTROLLER_REVISION_HASH;
use component_helpers::scheduling::node_selector::required_affinity;
use controller_base::pod;
use controller_base::pod_template::pod_from_template;
use proto::kinds::api::apps::v1::DaemonSet;
use proto::kinds::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration};
use proto::meta::node_taints;

/// Annotation of a DaemonSet: how often its template has changed. The API server counts.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// Label of a pod with the count when it was created. Old clients read it.
const POD_TEMPLATE_GENERATION: &str = "pod-template-generation";
/// The field that `matchFields` names.
const NAME_FIELD: &str = "metadata.name";

/// Taints that every pod of a DaemonSet tolerates, each with its effect. Such a pod stays on a node that has become
/// unreachable, and starts on one that is short of something or cordoned.
const TOLERATED: [(&str, &str); 6] = [
    (node_taints::NOT_READY, "NoExecute"),
    (node_taints::UNREACHABLE, "NoExecute"),
    (node_taints::DISK_PRESSURE, "NoSchedule"),
    (node_taints::MEMORY_PRESSURE, "NoSchedule"),
    (node_taints::PID_PRESSURE, "NoSchedule"),
    (node_taints::UNSCHEDULABLE, "NoSchedule"),
];
/// Tolerated by pods in the node's own network, which do not wait for the pod network.
const TOLERATED_IN_HOST_NETWORK: (&str, &str) = (node_taints::NETWORK_UNAVAILABLE, "NoSchedule");

/// Returns the tolerations of a DaemonSet's pods: those of the template, and those that this controller adds.
pub fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let host_network = spec.host_network.unwrap_or(false).then_some(TOLERATED_IN_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(host_network) {
        add_or_update(&mut tolerations, key, effect);
    }
    tolerations
}

/// Adds the toleration of a taint. One that is there already, such as one with `tolerationSeconds`, is replaced.
fn add_or_update(tolerations: &mut Vec<Toleration>, key: &str, effect: &str) {
    let wanted = Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        value: None,
        toleration_seconds: None,
    };
    let is_same = |other: &Toleration| {
        other.key == wanted.key
            && other.operator == wanted.operator
            && other.effect == wanted.effect
            && other.value.as_deref().unwrap_or_default().is_empty()
    };
    let mut is_present = false;
    for toleration in tolerations.iter_mut().filter(|toleration| is_same(toleration)) {
        *toleration = wanted.clone();
        is_present = true;
    }
    if !is_present {
        tolerations.push(wanted);
    }
}

/// Returns a pod of the revision with this hash, for no node yet.
pub fn of_revision(set: &DaemonSet, hash: &str) -> Pod {
    let mut pod = pod_from_template(&observe::spec(set).template, set);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(CONTROLLER_REVISION_HASH.to_owned(), hash.to_owned());
    if let Some(generation) = template_generation(set) {
        labels.insert(POD_TEMPLATE_GENERATION.to_owned(), generation.to_string());
    }
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    pod
}

/// Returns a pod like this one whose required node affinity is satisfied by the node alone. It replaces that of the
/// template, which the node satisfies.
pub fn for_node(pod: &Pod, node: &str) -> Pod {
    let mut pod = pod.clone();
    let by_name = NodeSelectorRequirement {
        key: NAME_FIELD.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let term = NodeSelectorTerm { match_fields: Some(vec![by_name]), match_expressions: None };
    let affinity = pod.spec.get_or_insert_default().affinity.get_or_insert_default();
    let affinity = affinity.node_affinity.get_or_insert_default();
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}

/// Returns the node that a pod is on or, before it is scheduled, the one that its affinity names.
pub fn target_node(pod: &Pod) -> Option<&str> {
    let assigned = pod::node_name(pod);
    if !assigned.is_empty() {
        return Some(assigned);
    }
    let terms = &required_affinity(pod::spec(pod)?)?.node_selector_terms;
    let fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.into_iter().find(|field| field.key == NAME_FIELD && field.operator == "In")?;
    match named.values.as_deref() {
        Some([node]) => Some(node),
        _ => None,
    }
}

/// Returns true if a pod has the present template of its DaemonSet, whose revision has this hash.
pub fn is_updated(pod: &Pod, hash: &str, set: &DaemonSet) -> bool {
    let label = |key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let has_generation = || {
        let generation = template_generation(set).map(|generation| generation.to_string());
        generation.is_some_and(|generation| label(POD_TEMPLATE_GENERATION) == Some(&generation))
    };
    label(CONTROLLER_REVISION_HASH).is_some_and(|label| label == hash) || has_generation()
}

fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(TEMPLATE_GENERATION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::daemon_set;
    use super::*;
    use controller_base::fixture;
    use serde_json::json;

    fn spec(value: serde_json::Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn summary(tolerations: &[Toleration]) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let one = |toleration: &Toleration| {
            let key = text(&toleration.key).replace("node.kubernetes.io/", "");
            let seconds = toleration.toleration_seconds.map(|seconds| format!(" {seconds}s")).unwrap_or_default();
            format!("{key}:{}{seconds}", text(&toleration.effect))
        };
        tolerations.iter().map(one).collect()
    }

    #[test]
    fn pods_tolerate_what_befalls_nodes() {
        let common = [
            "not-ready:NoExecute",
            "unreachable:NoExecute",
            "disk-pressure:NoSchedule",
            "memory-pressure:NoSchedule",
            "pid-pressure:NoSchedule",
            "unschedulable:NoSchedule",
        ];
        assert_eq!(summary(&tolerations(&spec(json!({"containers": []})))), common);
        let on_host = summary(&tolerations(&spec(json!({"containers": [], "hostNetwork": true}))));
        assert_eq!(on_host, [&common[..], &["network-unavailable:NoSchedule"]].concat());
        let brief = json!({
            "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3,
        });
        let other = json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"});
        let own = summary(&tolerations(&spec(json!({"containers": [], "tolerations": [brief, other]}))));
        let expected = ["unreachable:NoExecute", "gpu:NoSchedule", "not-ready:NoExecute"];
        assert_eq!(own, [&expected[..], &common[2..]].concat(), "replaced where it stood");
    }

    #[test]
    fn a_pod_is_labelled_and_bound_to_its_node() {
        let mut set = daemon_set("logs", "nginx:1");
        fixture::annotate(&mut set, &[(TEMPLATE_GENERATION, "7")]);
        let affinity = json!({"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
            },
        }});
        let spec = set.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        spec.affinity = Some(serde_json::from_value(affinity).unwrap());
        let pod = for_node(&of_revision(&set, "abc"), "node-3");
        assert_eq!(pod.metadata.generate_name.as_deref(), Some("logs-"));
        let expected = [("app", "web"), ("controller-revision-hash", "abc"), ("pod-template-generation", "7")];
        assert_eq!(pod.metadata.labels, Some(fixture::labels(&expected)));
        let affinity = serde_json::to_value(pod.spec.as_ref().unwrap().affinity.as_ref().unwrap()).unwrap();
        let required = json!({
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}],
        });
        assert_eq!(affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"], required);
        assert!(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
        assert_eq!(target_node(&pod), Some("node-3"));
    }

    #[test]
    fn the_node_of_a_pod_is_assigned_or_named() {
        let mut pod = for_node(&fixture::pod("a"), "n");
        pod.spec.as_mut().unwrap().node_name = Some("m".to_owned());
        assert_eq!(target_node(&pod), Some("m"));
        assert_eq!(target_node(&fixture::pod("a")), None);
        let named = |fields: serde_json::Value| {
            let mut pod = fixture::pod("a");
            let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
            let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            pod.spec.as_mut().unwrap().affinity = Some(serde_json::from_value(affinity).unwrap());
            target_node(&pod).map(str::to_owned)
        };
        assert_eq!(named(json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}])), Some("n".to_owned()));
        assert_eq!(named(json!([{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}])), None);
        assert_eq!(named(json!([{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}])), None);
    }

    #[test]
    fn a_pod_is_updated_by_its_hash_or_its_generation() {
        let mut set = daemon_set("logs", "nginx:1");
        fixture::annotate(&mut set, &[(TEMPLATE_GENERATION, "2")]);
        for (hash, generation, expected) in
            [("abc", "1", true), ("abc", "2", true), ("old", "2", true), ("old", "1", false), ("", "", false)]
        {
            let mut pod = fixture::pod("a");
            let labels = [(CONTROLLER_REVISION_HASH, hash), (POD_TEMPLATE_GENERATION, generation)];
            pod.metadata.labels = Some(fixture::labels(&labels));
            assert_eq!(is_updated(&pod, "abc", &set), expected, "{hash:?} {generation:?}");
        }
    }
}
