//! The Node authorizer: a node may read its own objects and those that its pods refer to, and nothing else.
//!
//! Corresponds to plugin/pkg/auth/authorizer/node. Kubernetes keeps a graph of these relations; this authorizer searches
//! the pods of the object's namespace for each request of a node, which is rare.

use super::attributes::{Attributes, Decision};
use super::rules::Rule;
use serde_json::Value;

/// The relations between nodes, pods and volumes that the authorizer reads.
pub trait NodeRelations {
    /// Calls `visit` with each pod of the namespace that is bound to the node, until it returns true.
    fn any_pod(&self, node: &str, namespace: &str, visit: &mut dyn FnMut(&Value) -> bool) -> bool;
    /// Returns namespace and name of each claim that is bound to the volume.
    fn claims_of_volume(&self, volume: &str) -> Vec<(String, String)>;
    fn is_attached(&self, attachment: &str, node: &str) -> bool;
}

/// Decides for a node. `rules` are those of ClusterRole `system:node`, to which no binding refers.
pub fn authorize(attributes: &Attributes<'_>, rules: &[Rule], relations: &dyn NodeRelations) -> Decision {
    let Some(node) = attributes.user.node_name() else { return Decision::NoOpinion(String::new()) };
    let refusal = match (attributes.path, attributes.group, attributes.resource) {
        (Some(_), ..) => None,
        (_, "", "secrets" | "configmaps") => Some(read_namespaced(attributes, node, relations)),
        (_, "", "persistentvolumeclaims") if attributes.subresource == "status" => {
            Some(update_claim_status(attributes, node, relations))
        }
        (_, "", "persistentvolumeclaims" | "persistentvolumes")
        | (_, "resource.k8s.io", "resourceclaims")
        | (_, "storage.k8s.io", "volumeattachments") => Some(get_one(attributes, node, relations)),
        (_, "", "serviceaccounts") => Some(service_account(attributes, node, relations)),
        (_, "coordination.k8s.io", "leases") => Some(lease(attributes, node)),
        (_, "storage.k8s.io", "csinodes") => Some(csi_node(attributes, node)),
        (_, "", "nodes") => own_node(attributes, node),
        (_, "", "pods") => pods(attributes, node, relations),
        _ => None,
    };
    match refusal {
        Some(Ok(())) => Decision::Allow(String::new()),
        Some(Err(why)) => Decision::NoOpinion(why),
        None if rules.iter().any(|rule| rule.allows(attributes)) => Decision::Allow(String::new()),
        None => Decision::NoOpinion(String::new()),
    }
}

type Verdict = Result<(), String>;

fn related(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Verdict {
    if attributes.name.is_empty() {
        return Err("No Object name found".into());
    }
    let (namespace, name) = (attributes.namespace, attributes.name);
    let found = match attributes.resource {
        "pods" => relations.any_pod(node, namespace, &mut |pod| pod["metadata"]["name"] == name),
        "volumeattachments" => relations.is_attached(name, node),
        "persistentvolumes" => relations
            .claims_of_volume(name)
            .iter()
            .any(|(namespace, claim)| relations.any_pod(node, namespace, &mut |pod| names_claim(pod, claim))),
        resource => relations.any_pod(node, namespace, &mut |pod| match resource {
            "secrets" => names_secret(pod, name),
            "configmaps" => names_config_map(pod, name),
            "persistentvolumeclaims" => names_claim(pod, name),
            "serviceaccounts" => pod["spec"]["serviceAccountName"] == name,
            "resourceclaims" => names_resource_claim(pod, name),
            _ => false,
        }),
    };
    if found { Ok(()) } else { Err(format!("no relationship found between node '{node}' and this object")) }
}

fn read_namespaced(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Verdict {
    if !matches!(attributes.verb, "get" | "list" | "watch") {
        return Err("can only read resources of this type".into());
    }
    if !attributes.subresource.is_empty() {
        return Err("cannot read subresource".into());
    }
    if attributes.namespace.is_empty() {
        return Err("can only read namespaced object of this type".into());
    }
    related(attributes, node, relations)
}

fn get_one(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Verdict {
    if attributes.verb != "get" {
        return Err("can only get individual resources of this type".into());
    }
    if !attributes.subresource.is_empty() {
        return Err("cannot get subresource".into());
    }
    related(attributes, node, relations)
}

fn update_claim_status(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Verdict {
    if !matches!(attributes.verb, "update" | "patch") {
        return Err("can only get/update/patch this type".into());
    }
    related(attributes, node, relations)
}

fn service_account(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Verdict {
    match (attributes.verb, attributes.subresource) {
        ("create", "token") | ("get", "") => related(attributes, node, relations),
        _ => Err("can only get service accounts and create tokens for individual service accounts".into()),
    }
}

fn lease(attributes: &Attributes<'_>, node: &str) -> Verdict {
    if !matches!(attributes.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a node lease".into());
    }
    if attributes.namespace != "kube-node-lease" {
        return Err("can only access leases in the \"kube-node-lease\" system namespace".into());
    }
    if attributes.verb != "create" && attributes.name != node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

fn csi_node(attributes: &Attributes<'_>, node: &str) -> Verdict {
    if !matches!(attributes.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a CSINode".into());
    }
    if !attributes.subresource.is_empty() {
        return Err("cannot authorize CSINode subresources".into());
    }
    if attributes.verb != "create" && attributes.name != node {
        return Err("can only access CSINode with the same name as the requesting node".into());
    }
    Ok(())
}

fn own_node(attributes: &Attributes<'_>, node: &str) -> Option<Verdict> {
    if !attributes.subresource.is_empty() || !matches!(attributes.verb, "get" | "list" | "watch") {
        return None;
    }
    Some(match attributes.name {
        "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
        name if name == node => Ok(()),
        name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
    })
}

fn pods(attributes: &Attributes<'_>, node: &str, relations: &dyn NodeRelations) -> Option<Verdict> {
    match attributes.verb {
        "get" => Some(related(attributes, node, relations)),
        "list" | "watch" => {
            let own = [format!("spec.nodeName={node}"), format!("spec.nodeName=={node}")];
            if attributes.field_selector.split(',').any(|term| own.iter().any(|o| o == term)) {
                return Some(Ok(()));
            }
            if !attributes.name.is_empty() {
                return Some(related(attributes, node, relations));
            }
            Some(Err("can only list/watch pods with spec.nodeName field selector".into()))
        }
        _ => None,
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    items(pod, "/spec/initContainers")
        .chain(items(pod, "/spec/containers"))
        .chain(items(pod, "/spec/ephemeralContainers"))
}

/// Returns the pod's volume sources, with those inside projected volumes.
fn volume_sources(pod: &Value) -> impl Iterator<Item = &Value> {
    items(pod, "/spec/volumes").flat_map(|v| std::iter::once(v).chain(items(v, "/projected/sources")))
}

fn names_secret(pod: &Value, name: &str) -> bool {
    let is = |value: Option<&Value>| value.and_then(Value::as_str) == Some(name);
    items(pod, "/spec/imagePullSecrets").any(|s| is(s.get("name")))
        || volume_sources(pod).any(|v| {
            is(v.pointer("/secret/secretName"))
                || is(v.pointer("/secret/name"))
                || v.as_object().is_some_and(|source| source.values().any(|s| is(s.pointer("/secretRef/name"))))
        })
        || containers(pod).any(|c| {
            items(c, "/env").any(|e| is(e.pointer("/valueFrom/secretKeyRef/name")))
                || items(c, "/envFrom").any(|e| is(e.pointer("/secretRef/name")))
        })
}

fn names_config_map(pod: &Value, name: &str) -> bool {
    let is = |value: Option<&Value>| value.and_then(Value::as_str) == Some(name);
    volume_sources(pod).any(|v| is(v.pointer("/configMap/name")))
        || containers(pod).any(|c| {
            items(c, "/env").any(|e| is(e.pointer("/valueFrom/configMapKeyRef/name")))
                || items(c, "/envFrom").any(|e| is(e.pointer("/configMapRef/name")))
        })
}

fn names_claim(pod: &Value, name: &str) -> bool {
    let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
    items(pod, "/spec/volumes").any(|v| {
        v.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) == Some(name)
            || (v.get("ephemeral").is_some() && v["name"].as_str().is_some_and(|v| format!("{pod_name}-{v}") == name))
    })
}

fn names_resource_claim(pod: &Value, name: &str) -> bool {
    let is = |value: Option<&Value>| value.and_then(Value::as_str) == Some(name);
    items(pod, "/spec/resourceClaims").any(|c| is(c.get("resourceClaimName")))
        || items(pod, "/status/resourceClaimStatuses").any(|c| is(c.get("resourceClaimName")))
        || is(pod.pointer("/status/extendedResourceClaimStatus/resourceClaimName"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use request::UserInfo;
    use serde_json::json;

    struct OnePod(Value);

    impl NodeRelations for OnePod {
        fn any_pod(&self, node: &str, namespace: &str, visit: &mut dyn FnMut(&Value) -> bool) -> bool {
            self.0["spec"]["nodeName"] == node && self.0["metadata"]["namespace"] == namespace && visit(&self.0)
        }
        fn claims_of_volume(&self, _volume: &str) -> Vec<(String, String)> {
            Vec::new()
        }
        fn is_attached(&self, _attachment: &str, _node: &str) -> bool {
            false
        }
    }

    #[test]
    fn a_node_reads_what_its_pods_name() {
        let pods = OnePod(json!({
            "metadata": {"name": "p", "namespace": "a"},
            "spec": {"nodeName": "n1", "serviceAccountName": "bot", "volumes": [
                {"name": "v", "secret": {"secretName": "s"}},
                {"name": "w", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
            ]},
        }));
        let node = UserInfo::new("system:node:n1", &["system:nodes"]);
        let other = UserInfo::new("system:node:n2", &["system:nodes"]);
        let ask = |user: &UserInfo, verb, resource, subresource, name| {
            let attributes =
                Attributes { namespace: "a", subresource, name, ..Attributes::of_resource(user, verb, "", resource) };
            authorize(&attributes, &[], &pods)
        };
        let allowed = Decision::Allow(String::new());
        assert_eq!(ask(&node, "get", "secrets", "", "s"), allowed);
        assert_eq!(ask(&node, "watch", "configmaps", "", "kube-root-ca.crt"), allowed);
        assert_eq!(ask(&node, "create", "serviceaccounts", "token", "bot"), allowed);
        assert_eq!(ask(&node, "get", "pods", "", "p"), allowed);
        let why = "no relationship found between node 'n2' and this object";
        assert_eq!(ask(&other, "get", "secrets", "", "s"), Decision::NoOpinion(why.into()));
        assert_eq!(ask(&node, "list", "secrets", "", ""), Decision::NoOpinion("No Object name found".into()));
    }
}
