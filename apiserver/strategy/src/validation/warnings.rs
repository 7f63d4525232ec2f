//! Returns warnings about fields that are valid but deprecated or ambiguous, for kinds other than pods.
//!
//! Corresponds to WarningsOnCreate of the strategies, and to warnings.go of pkg/api/{persistentvolume,
//! persistentvolumeclaim,storage} and pkg/apis/networking.

use super::pod::warnings::{deprecated_label, deprecated_label_warning, fraction};
use crate::write_context::WriteContext;
use field_checks::at::At;
use ipnet::IpNet;

type Context<'c> = WriteContext<'c>;

pub fn ingress(_context: &Context<'_>, ingress: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let is_deprecated = ingress.down("metadata.annotations").key(ANNOTATION).is_set()
        && !ingress.down("spec.ingressClassName").is_set()
        && old.is_none();
    let why = || format!("annotation {ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead");
    is_deprecated.then(why).into_iter().collect()
}

pub fn network_policy(_context: &Context<'_>, policy: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let spec = policy.field("spec");
    let peers = [("ingress", "from"), ("egress", "to")];
    let peers = peers.into_iter().flat_map(|(rules, peers)| {
        spec.field(rules)
            .items()
            .flat_map(move |rule| rule.field(peers).items().collect::<Vec<_>>())
            .collect::<Vec<_>>()
    });
    let blocks = peers.map(|peer| peer.field("ipBlock"));
    blocks
        .flat_map(|block| std::iter::once(block.field("cidr")).chain(block.field("except").items()))
        .filter_map(|at| cidr(&at))
        .collect()
}

/// Returns a warning if an address range has bits set beyond its prefix: a single address may be meant.
fn cidr(at: &At<'_>) -> Option<String> {
    let range: IpNet = at.text().parse().ok()?;
    let one = IpNet::new(range.addr(), range.max_prefix_len()).ok()?;
    (range.addr() != range.network()).then(|| {
        let (path, trunc) = (&at.path, range.trunc());
        let text = at.text();
        format!(r#"{path}: CIDR value {text:?} is ambiguous in this context (should be "{trunc}" or "{one}"?)"#)
    })
}

/// Annotations of volumes and claims that a field has replaced: key, version that deprecated it, field.
const DEPRECATED_ANNOTATIONS: [(&str, &str, &str); 2] = [
    ("volume.beta.kubernetes.io/storage-class", "v1.8", "storageClassName"),
    ("volume.beta.kubernetes.io/mount-options", "v1.31", "mountOptions"),
];

/// Volume sources that no longer work.
const NON_FUNCTIONAL_SOURCES: [(&str, &str); 6] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn deprecated_annotations<'a>(object: &At<'a>) -> impl Iterator<Item = String> + use<'a> {
    let annotations = object.down("metadata.annotations");
    DEPRECATED_ANNOTATIONS.into_iter().filter_map(move |(key, since, field)| {
        let at = annotations.key(key);
        at.is_set().then(|| format!("{}: deprecated since {since}; use {field:?} attribute instead", at.path))
    })
}

pub fn volume(_context: &Context<'_>, volume: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let spec = volume.field("spec");
    let mut found = Vec::new();
    for term in spec.down("nodeAffinity.required.nodeSelectorTerms").items() {
        for expression in term.field("matchExpressions").items() {
            deprecated_label(&expression.field("key"), &mut found);
        }
    }
    found.extend(deprecated_annotations(volume));
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if reclaim.text() == "Recycle" {
        let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        found.push(format!("{}: {why}", reclaim.path));
    }
    let used = NON_FUNCTIONAL_SOURCES.iter().filter(|(source, _)| spec.field(source).is_set());
    found.extend(used.map(|(source, why)| format!("{}: {why}", spec.path_of(source))));
    found
}

pub fn claim(_context: &Context<'_>, claim: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let mut found: Vec<String> = deprecated_annotations(claim).take(1).collect();
    found.extend(fraction(&claim.down("spec.resources.requests").key("storage")));
    found
}

pub fn storage_class(_context: &Context<'_>, class: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let terms = class.field("allowedTopologies").items();
    let keys = terms.flat_map(|term| term.field("matchLabelExpressions").items()).map(|label| label.field("key"));
    keys.filter_map(|key| Some(format!("{}: {}", key.path, deprecated_label_warning(key.text())?))).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::warnings;
    use serde_json::{Value, json};

    fn of(kind: (&str, &str), metadata: Value, rest: Value) -> String {
        let mut object = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": "a"}});
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        for (key, value) in rest.as_object().unwrap() {
            object[key] = value.clone();
        }
        warnings(object).join("\n")
    }

    #[test]
    fn deprecated_fields_and_annotations_have_a_warning() {
        let class = json!({"annotations": {"kubernetes.io/ingress.class": "nginx"}});
        let backend = json!({"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}});
        assert_eq!(
            of(("networking.k8s.io/v1", "Ingress"), class, backend),
            r#"annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead"#
        );
        let annotated = || json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "slow"}});
        assert_eq!(
            of(
                ("v1", "PersistentVolume"),
                annotated(),
                json!({"spec": {"persistentVolumeReclaimPolicy": "Recycle", "rbd": {}}})
            ),
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead\n\
             spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.\n\
             spec.rbd: deprecated in v1.28, non-functional in v1.31+"
        );
        assert_eq!(
            of(
                ("v1", "PersistentVolumeClaim"),
                annotated(),
                json!({"spec": {"resources": {"requests": {"storage": "1500m"}}}})
            ),
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead\n\
             spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"
        );
        let zones =
            json!([{"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}]);
        assert_eq!(
            of(
                ("storage.k8s.io/v1", "StorageClass"),
                json!({}),
                json!({"provisioner": "a", "allowedTopologies": zones})
            ),
            "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        );
    }

    #[test]
    fn a_range_that_may_be_one_address_has_a_warning() {
        let block = |cidr: &str| json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": cidr}}]}]}});
        let policy = ("networking.k8s.io/v1", "NetworkPolicy");
        assert_eq!(of(policy, json!({}), block("10.0.0.0/8")), "");
        assert_eq!(
            of(policy, json!({}), block("10.0.0.1/8")),
            r#"spec.egress[0].to[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#
        );
    }

    #[test]
    fn names_that_are_no_dns_label_have_a_warning() {
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        let dotted = json!({"name": "a.b"});
        let expected = "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
        let of_many = format!("metadata.name: this is used in Pod names and hostnames, {expected}");
        for (kind, spec) in [
            (("apps/v1", "Deployment"), json!({"template": template})),
            (("apps/v1", "ReplicaSet"), json!({"template": template})),
            (("v1", "ReplicationController"), json!({"template": template})),
            (("batch/v1", "Job"), json!({"template": template})),
            (("batch/v1", "CronJob"), json!({"jobTemplate": {"spec": {"template": template}}})),
        ] {
            assert_eq!(of(kind, dotted.clone(), json!({"spec": spec})), of_many, "{kind:?}");
        }
        let of_one = format!("metadata.name: this is used in the Pod's hostname, {expected}");
        assert_eq!(of(("v1", "Pod"), dotted, json!({"spec": template["spec"]})), of_one);
    }
}
