//! NodeRestriction: a kubelet may change only its own Node and the pods bound to it, and of these only some fields.
//!
//! Corresponds to plugin/pkg/admission/noderestriction. Off by default, as there; clusters turn it on.

use super::pod_certificate_request;
use crate::plugins::pod_parts::{MIRROR_ANNOTATION, is_mirror, items, names_config_map, names_secret, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::meta::node_labels;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

const NODE_LEASES: &str = "kube-node-lease";
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";
/// Labels in Kubernetes' own domains that a kubelet may set.
const KUBELET_LABELS: &[&str] = &[
    node_labels::HOSTNAME,
    node_labels::OS,
    node_labels::ARCH,
    node_labels::BETA_OS,
    node_labels::BETA_ARCH,
    node_labels::BETA_INSTANCE_TYPE,
    node_labels::INSTANCE_TYPE,
    node_labels::ZONE,
    node_labels::REGION,
    node_labels::BETA_ZONE,
    node_labels::BETA_REGION,
];
const KUBELET_LABEL_DOMAINS: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

pub struct NodeRestriction;

#[async_trait]
impl AdmissionPlugin for NodeRestriction {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let attributes = &*attributes;
        let Some(node) = attributes.user.node_name() else { return Ok(()) };
        let (group, resource): (&str, &str) = (&attributes.served.group, &attributes.served.resource);
        match (group, resource) {
            ("", "pods") => pod(attributes, node),
            ("", "nodes") => own_node(attributes, node),
            ("", "persistentvolumeclaims") => claim(attributes, node),
            ("", "serviceaccounts") => token(attributes, node),
            ("coordination.k8s.io", "leases") => lease(attributes, node),
            ("storage.k8s.io", "csinodes") if attributes.shown_name() != node => {
                Err(attributes.forbidden("can only access CSINode with the same name as the requesting node"))
            }
            ("resource.k8s.io", "resourceslices") => slice(attributes, node),
            ("certificates.k8s.io", "podcertificaterequests") => {
                pod_certificate_request::check(attributes, node, word(attributes.operation))
            }
            _ => Ok(()),
        }
    }
}

fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn pod(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let operation = word(attributes.operation);
    match (attributes.subresource, attributes.operation) {
        ("", Operation::Create) => mirror_pod(attributes, node),
        ("", Operation::Delete) => match text(attributes.old(), "/spec/nodeName") == node {
            true => Ok(()),
            false => Err(attributes
                .forbidden(format_args!("node {node:?} can only delete pods with spec.nodeName set to itself"))),
        },
        ("", _) => Err(attributes.forbidden(format_args!(
            "unexpected operation {operation:?}, node {node:?} can only create and delete mirror pods"
        ))),
        ("status", Operation::Update) => pod_status(attributes, node),
        ("status", _) => Err(attributes.forbidden(format_args!("unexpected operation {operation:?}"))),
        ("eviction", Operation::Create) => {
            let pod = existing_pod(attributes, attributes.shown_name())?;
            match text(&pod, "/spec/nodeName") == node {
                true => Ok(()),
                false => Err(attributes
                    .forbidden(format_args!("node {node} can only evict pods with spec.nodeName set to itself"))),
            }
        }
        ("eviction", _) => Err(attributes.forbidden(format_args!("unexpected operation {operation}"))),
        (subresource, _) => Err(attributes.forbidden(format_args!(
            "unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed"
        ))),
    }
}

fn existing_pod(attributes: &Attributes<'_>, name: &str) -> Result<Arc<Value>, Status> {
    let pod = attributes.lookup.get(ObjectKey::new("", "pods", attributes.namespace, name))?;
    pod.map(|pod| pod.peek()).ok_or_else(|| Status::not_found("", "pods", name))
}

/// Checks a pod that a node creates: it must be a mirror pod, without references to API objects.
fn mirror_pod(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let pod = attributes.new_object();
    let refuse = |why: String| Err(attributes.forbidden(why));
    let only = |what: &str| refuse(format!("node {node:?} can only create pods with {what} set to itself"));
    if !is_mirror(pod) {
        return refuse(format!(
            "pod does not have {MIRROR_ANNOTATION:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    if text(pod, "/spec/nodeName") != node {
        return only("spec.nodeName");
    }
    let owners: Vec<&Value> = items(pod, "/metadata/ownerReferences").collect();
    let owner = match owners.as_slice() {
        [] => return only("an owner reference"),
        [owner] => *owner,
        _ => return only("a single owner reference"),
    };
    if (text(owner, "/apiVersion"), text(owner, "/kind"), text(owner, "/name")) != ("v1", "Node", node) {
        return only("an owner reference");
    }
    if owner["controller"] != true {
        return only("a controller owner reference");
    }
    if owner["blockOwnerDeletion"] == true {
        return refuse(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let Some(object) = attributes.lookup.get(ObjectKey::cluster("", "nodes", node))? else {
        return Err(Status::not_found("", "nodes", node));
    };
    let (given, uid) = (text(owner, "/uid"), object.index.uid.as_str());
    if given != uid {
        return refuse(format!("node {node} UID mismatch: expected {given} got {uid}"));
    }
    match api_reference(pod) {
        Some(what) => refuse(format!("node {node:?} can not create pods that reference {what}")),
        None => Ok(()),
    }
}

fn api_reference(pod: &Value) -> Option<&'static str> {
    let volumes = || items(pod, "/spec/volumes");
    let projects =
        |kind: &str| volumes().flat_map(|v| items(v, "/projected/sources")).any(|source| source.get(kind).is_some());
    let names_account =
        !text(pod, "/spec/serviceAccountName").is_empty() || !text(pod, "/spec/serviceAccount").is_empty();
    [
        (names_account, "a service account"),
        (names_secret(pod), "secrets"),
        (names_config_map(pod), "configmaps"),
        (projects("clusterTrustBundle"), "clustertrustbundles"),
        (volumes().any(|v| v.get("persistentVolumeClaim").is_some()), "persistentvolumeclaims"),
        (items(pod, "/spec/resourceClaims").next().is_some(), "resourceclaim"),
    ]
    .into_iter()
    .find(|(refers, _)| *refers)
    .map(|(_, what)| what)
}

fn pod_status(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let (old, new) = (attributes.old(), attributes.new_object());
    if text(old, "/spec/nodeName") != node {
        return Err(attributes.forbidden(format_args!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        )));
    }
    if !modified_labels(old, new).is_empty() {
        return Err(attributes.forbidden(format_args!("node {node:?} cannot update labels through pod status")));
    }
    let claims = |pod: &Value| -> Vec<Value> { items(pod, "/status/resourceClaimStatuses").cloned().collect() };
    if claims(old) != claims(new) {
        return Err(attributes.forbidden(format_args!("node {node:?} cannot update resource claim statues")));
    }
    Ok(())
}

fn own_node(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let (old, new) = (attributes.old(), attributes.new_object());
    let name = attributes.shown_name();
    if name != node {
        return Err(attributes.forbidden(format_args!("node {node:?} is not allowed to modify node {name:?}")));
    }
    let config = |object: &Value| object.pointer("/spec/configSource").filter(|v| !v.is_null()).cloned();
    let modified = modified_labels(old, new);
    let labels = forbidden_labels(&modified);
    match attributes.operation {
        Operation::Create if config(new).is_some() => Err(attributes
            .forbidden(format_args!("node {node:?} is not allowed to create pods with a non-nil configSource"))),
        Operation::Create if !labels.is_empty() => Err(attributes.forbidden(format_args!(
            "node {node:?} is not allowed to set the following labels: {}",
            labels.join(", ")
        ))),
        Operation::Update if config(new).is_some() && config(new) != config(old) => Err(attributes.forbidden(
            format_args!("node {node:?} is not allowed to update configSource to a new non-nil configSource"),
        )),
        Operation::Update if !items(new, "/spec/taints").eq(items(old, "/spec/taints")) => {
            Err(attributes.forbidden(format_args!("node {node:?} is not allowed to modify taints")))
        }
        Operation::Update if !labels.is_empty() => {
            Err(attributes.forbidden(format_args!("is not allowed to modify labels: {}", labels.join(", "))))
        }
        _ => Ok(()),
    }
}

/// Returns the keys of labels that were added, removed or changed.
fn modified_labels(old: &Value, new: &Value) -> BTreeSet<String> {
    let labels = |object: &Value| -> Map<String, Value> {
        object.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (old, new) = (labels(old), labels(new));
    old.keys().chain(new.keys()).filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn forbidden_labels(modified: &BTreeSet<String>) -> Vec<&str> {
    let is_in = |domain: &str, of: &str| domain == of || domain.ends_with(&format!(".{of}"));
    let is_forbidden = |key: &&str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_kubernetes = is_in(domain, "kubernetes.io") || is_in(domain, "k8s.io");
        let is_kubelets = KUBELET_LABELS.contains(key) || KUBELET_LABEL_DOMAINS.iter().any(|of| is_in(domain, of));
        is_in(domain, RESTRICTED_LABELS) || (is_kubernetes && !is_kubelets)
    };
    modified.iter().map(String::as_str).filter(is_forbidden).collect()
}

/// Checks a claim: a node may update only the status of a resize.
fn claim(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    if attributes.subresource != "status" {
        return Err(attributes.forbidden("may only update PVC status"));
    }
    if attributes.operation != Operation::Update {
        return Err(attributes.forbidden(format_args!("unexpected operation {:?}", word(attributes.operation))));
    }
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        for (parent, keys) in [
            ("/metadata", &["resourceVersion", "managedFields"][..]),
            ("/status", &["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"]),
        ] {
            if let Some(parent) = claim.pointer_mut(parent).and_then(Value::as_object_mut) {
                parent.retain(|key, _| !keys.contains(&key.as_str()));
            }
        }
        claim
    };
    match rest(attributes.old()) == rest(attributes.new_object()) {
        true => Ok(()),
        false => Err(attributes.forbidden(format_args!(
            "node {node:?} is not allowed to update fields other than status.capacity and status.conditions"
        ))),
    }
}

/// Checks a TokenRequest: the token must be bound to a pod on this node.
fn token(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    if attributes.operation != Operation::Create || attributes.subresource != "token" {
        return Ok(());
    }
    let Some(bound) = attributes.new_object().pointer("/spec/boundObjectRef").filter(|bound| {
        text(bound, "/apiVersion") == "v1" && text(bound, "/kind") == "Pod" && !text(bound, "/name").is_empty()
    }) else {
        return Err(attributes.forbidden("node requested token not bound to a pod"));
    };
    let uid = text(bound, "/uid");
    if uid.is_empty() {
        return Err(attributes.forbidden("node requested token with a pod binding without a uid"));
    }
    let pod = existing_pod(attributes, text(bound, "/name"))?;
    if text(&pod, "/metadata/uid") != uid {
        return Err(attributes.forbidden(format_args!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        )));
    }
    if text(&pod, "/spec/nodeName") != node {
        return Err(attributes.forbidden("node requested token bound to a pod scheduled on a different node"));
    }
    Ok(())
}

fn lease(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    if attributes.namespace != NODE_LEASES {
        return Err(
            attributes.forbidden(format_args!("can only access leases in the {NODE_LEASES:?} system namespace"))
        );
    }
    if attributes.shown_name() != node {
        return Err(attributes.forbidden("can only access node lease with the same name as the requesting node"));
    }
    Ok(())
}

fn slice(attributes: &Attributes<'_>, node: &str) -> Result<(), Status> {
    let named = |slice: &Value| text(slice, "/spec/nodeName") == node;
    match attributes.operation {
        Operation::Create if !named(attributes.new_object()) => {
            Err(attributes.forbidden("can only create ResourceSlice with the same NodeName as the requesting node"))
        }
        Operation::Update if !named(attributes.old()) => {
            Err(attributes.forbidden("can only update ResourceSlice with the same NodeName as the requesting node"))
        }
        Operation::Delete if !named(attributes.old()) => {
            Err(attributes.forbidden("can only delete ResourceSlice with the same NodeName as the requesting node"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    /// Returns the error that node `n` gets.
    async fn told(write: Write) -> String {
        let node = json!({"metadata": {"name": "n", "uid": "u1"}});
        let here = json!({"metadata": {"name": "here", "namespace": "a", "uid": "p1"}, "spec": {"nodeName": "n"}});
        let there = json!({"metadata": {"name": "there", "namespace": "a", "uid": "p2"}, "spec": {"nodeName": "m"}});
        let write = write.by("system:node:n", &["system:nodes"]);
        let write = write.beside("", "nodes", node).beside("", "pods", here).beside("", "pods", there);
        let seen = write.run(&NodeRestriction).await;
        let message = seen.message();
        message.split_once("is forbidden: ").map_or(message, |(_, why)| why).to_owned()
    }

    fn mirror(change: &[(&str, Value)]) -> Write {
        let mut pod = json!({
            "metadata": {
                "name": "p", "namespace": "a", "annotations": {MIRROR_ANNOTATION: "x"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1", "controller": true}],
            },
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
        });
        for (pointer, value) in change {
            let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
            pod.pointer_mut(parent).expect("a parent")[key] = value.clone();
        }
        Write::create("", "pods", pod)
    }

    #[tokio::test]
    async fn nodes_make_only_mirrors_of_their_files() {
        let only = "node \"n\" can only create pods with";
        let not = "node \"n\" can not create pods that reference";
        for (change, why) in [
            (vec![], String::new()),
            (
                vec![("/metadata/annotations", json!({}))],
                format!("pod does not have {MIRROR_ANNOTATION:?} annotation, node \"n\" can only create mirror pods"),
            ),
            (vec![("/spec/nodeName", json!("m"))], format!("{only} spec.nodeName set to itself")),
            (vec![("/metadata/ownerReferences", json!([]))], format!("{only} an owner reference set to itself")),
            (
                vec![("/metadata/ownerReferences/0/name", json!("m"))],
                format!("{only} an owner reference set to itself"),
            ),
            (
                vec![("/metadata/ownerReferences/0/controller", json!(false))],
                format!("{only} a controller owner reference set to itself"),
            ),
            (vec![("/metadata/ownerReferences/0/uid", json!("u2"))], "node n UID mismatch: expected u2 got u1".into()),
            (vec![("/spec/serviceAccountName", json!("default"))], format!("{not} a service account")),
            (vec![("/spec/volumes", json!([{"secret": {}}]))], format!("{not} secrets")),
            (vec![("/spec/volumes", json!([{"configMap": {}}]))], format!("{not} configmaps")),
            (vec![("/spec/volumes", json!([{"persistentVolumeClaim": {}}]))], format!("{not} persistentvolumeclaims")),
        ] {
            assert_eq!(told(mirror(&change)).await, why);
        }
        let seen = mirror(&[("/spec/nodeName", json!("m"))]).run(&NodeRestriction).await;
        assert_eq!(seen.message(), "", "only nodes are restricted");
    }

    #[tokio::test]
    async fn nodes_touch_their_own_pods() {
        let pod = |node: &str, labels: Value| json!({"metadata": {"name": "p", "namespace": "a", "labels": labels}, "spec": {"nodeName": node}});
        let update = |old: Value, new: Value| Write::update("", "pods", old, new).subresource("status");
        let (own, other) = (pod("n", json!({})), pod("m", json!({})));
        for (write, why) in [
            (Write::delete("", "pods", own.clone()), ""),
            (
                Write::delete("", "pods", other.clone()),
                "node \"n\" can only delete pods with spec.nodeName set to itself",
            ),
            (update(own.clone(), own.clone()), ""),
            (
                update(other.clone(), other),
                "node \"n\" can only update pod status for pods with spec.nodeName set to itself",
            ),
            (update(own.clone(), pod("n", json!({"a": "b"}))), "node \"n\" cannot update labels through pod status"),
            (
                Write::update("", "pods", own.clone(), own.clone()),
                "unexpected operation \"UPDATE\", node \"n\" can only create and delete mirror pods",
            ),
            (
                Write::create("", "pods", own).subresource("binding"),
                "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
            ),
        ] {
            assert_eq!(told(write).await, why);
        }
    }

    #[tokio::test]
    async fn nodes_change_little_of_themselves() {
        let node = |name: &str, labels: Value, taints: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}});
        let plain = || node("n", json!({}), json!([]));
        let update = |labels: Value, taints: Value| Write::update("", "nodes", plain(), node("n", labels, taints));
        for (write, why) in [
            (Write::create("", "nodes", node("n", json!({"kubernetes.io/hostname": "n", "mine": "x"}), json!([]))), ""),
            (
                Write::create("", "nodes", node("m", json!({}), json!([]))),
                "node \"n\" is not allowed to modify node \"m\"",
            ),
            (
                Write::create(
                    "",
                    "nodes",
                    node("n", json!({"a.kubernetes.io/x": "", "node-restriction.kubernetes.io/y": ""}), json!([])),
                ),
                "node \"n\" is not allowed to set the following labels: a.kubernetes.io/x, node-restriction.kubernetes.io/y",
            ),
            (update(json!({"k8s.io/role": "x"}), json!([])), "is not allowed to modify labels: k8s.io/role"),
            (update(json!({}), json!([{"key": "a"}])), "node \"n\" is not allowed to modify taints"),
            (update(json!({"node.kubernetes.io/any": "x"}), json!([])), ""),
        ] {
            assert_eq!(told(write).await, why);
        }
    }

    #[tokio::test]
    async fn nodes_get_tokens_of_pods_they_run() {
        let ask = |bound: Value| {
            let request = json!({"metadata": {"name": "bot", "namespace": "a"}, "spec": {"boundObjectRef": bound}});
            Write::create("", "serviceaccounts", request).subresource("token")
        };
        let pod = |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
        for (bound, why) in [
            (pod("here", "p1"), ""),
            (json!({}), "node requested token not bound to a pod"),
            (pod("here", ""), "node requested token with a pod binding without a uid"),
            (
                pod("here", "p9"),
                "the UID in the bound object reference (p9) does not match the UID in record. The object might have been deleted and then recreated",
            ),
            (pod("there", "p2"), "node requested token bound to a pod scheduled on a different node"),
            (pod("gone", "p3"), "pods \"gone\" not found"),
        ] {
            assert_eq!(told(ask(bound)).await, why);
        }
    }

    #[tokio::test]
    async fn nodes_keep_their_lease() {
        let lease = |name: &str, namespace: &str| {
            Write::create("coordination.k8s.io", "leases", json!({"metadata": {"name": name, "namespace": namespace}}))
        };
        assert_eq!(told(lease("n", NODE_LEASES)).await, "");
        assert_eq!(told(lease("n", "a")).await, r#"can only access leases in the "kube-node-lease" system namespace"#);
        assert_eq!(
            told(lease("m", NODE_LEASES)).await,
            "can only access node lease with the same name as the requesting node"
        );
    }
}
