//! The part of NodeRestriction about PodCertificateRequests: a kubelet asks only for the pods that it runs.
//!
//! Corresponds to admitPodCertificateRequest in plugin/pkg/admission/noderestriction.

use crate::plugins::pod_parts::{is_mirror, text};
use crate::{Attributes, Operation};
use cacher::lookup::ObjectKey;
use proto::Status;

/// Checks that a new request agrees with a pod on the node. `operation` is the word for messages.
pub fn check(attributes: &Attributes<'_>, node: &str, operation: &str) -> Result<(), Status> {
    if attributes.operation != Operation::Create {
        return Err(attributes.forbidden(format_args!("unexpected operation {operation}")));
    }
    let request = attributes.new_object();
    let spec = |field: &str| text(request, &format!("/spec/{field}"));
    if spec("nodeName") != node {
        return Err(attributes.forbidden(format_args!(
            "PodCertificateRequest.Spec.NodeName={:?}, which is not the requesting node {node:?}",
            spec("nodeName")
        )));
    }
    let find = |resource: &str, name: &str| {
        let object = attributes.lookup.get(ObjectKey::new("", resource, attributes.namespace, name))?;
        object.map(|object| object.peek()).ok_or_else(|| Status::not_found("", resource, name))
    };
    let named =
        |what: &str| format!("PodCertificateRequest for pod \"{}/{}\" {what}", attributes.namespace, spec("podName"));
    let pod = find("pods", spec("podName"))?;
    let account = text(&pod, "/spec/serviceAccountName");
    for (what, given, found) in [
        ("pod UID", spec("podUID"), text(&pod, "/metadata/uid")),
        ("node name", spec("nodeName"), text(&pod, "/spec/nodeName")),
        ("serviceAccountName", spec("serviceAccountName"), account),
    ] {
        if given != found {
            let why = named(&format!("contains {what} ({given:?}) which differs from running pod {found:?}"));
            return Err(attributes.forbidden(why));
        }
    }
    if is_mirror(&pod) {
        return Err(attributes.forbidden(named("is for a mirror pod")));
    }
    let account = find("serviceaccounts", account)?;
    let (given, found) = (spec("serviceAccountUID"), text(&account, "/metadata/uid"));
    if given != found {
        let why = named(&format!("contains serviceAccountUID ({given:?}) that differs from {found:?}"));
        return Err(attributes.forbidden(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::plugins::nodes::node_restriction::NodeRestriction;
    use crate::testing::Write;
    use serde_json::{Value, json};

    /// Returns the error that node `n` gets for a request with these fields.
    async fn told(changes: &[(&str, &str)]) -> String {
        let mut spec = json!({
            "podName": "web", "podUID": "p1", "nodeName": "n", "serviceAccountName": "default", "serviceAccountUID": "s1",
        });
        for (field, value) in changes {
            spec[*field] = json!(value);
        }
        let named = |name: &str, uid: &str| json!({"name": name, "namespace": "shop", "uid": uid});
        let pod = json!({"metadata": named("web", "p1"), "spec": {"nodeName": "n", "serviceAccountName": "default"}});
        let account: Value = json!({"metadata": named("default", "s1")});
        let request = json!({"metadata": {"name": "r", "namespace": "shop"}, "spec": spec});
        let write = Write::create("certificates.k8s.io", "podcertificaterequests", request);
        let write = write.by("system:node:n", &["system:nodes"]);
        let seen = write.beside("", "pods", pod).beside("", "serviceaccounts", account).run(&NodeRestriction).await;
        let message = seen.message();
        message.split_once("is forbidden: ").map_or(message, |(_, why)| why).to_owned()
    }

    #[tokio::test]
    async fn a_node_asks_for_its_own_pods() {
        let named = "PodCertificateRequest for pod \"shop/web\" contains";
        for (changes, expected) in [
            (&[][..], String::new()),
            (
                &[("nodeName", "m")],
                "PodCertificateRequest.Spec.NodeName=\"m\", which is not the requesting node \"n\"".to_owned(),
            ),
            (&[("podName", "other")], "pods \"other\" not found".to_owned()),
            (&[("podUID", "p2")], format!("{named} pod UID (\"p2\") which differs from running pod \"p1\"")),
            (&[("serviceAccountUID", "s2")], format!("{named} serviceAccountUID (\"s2\") that differs from \"s1\"")),
        ] {
            assert_eq!(told(changes).await, expected, "{changes:?}");
        }
    }
}
