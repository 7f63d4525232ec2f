//! The approving controller approves requests for a kubelet's client certificate if RBAC permits the requester to have
//! one.
//!
//! Corresponds to pkg/controller/certificates/approver.

use super::conditions::{self, APPROVED, DENIED};
use client::reconcile::Reconciler;
use client::{Action, Client, Event, Lister, Plan, ReconcileError};
use component_base::certificate_request::CertificateRequest;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::signers::names::{SignerName, kubelet_client};
use jiff::Timestamp;
use proto::kinds::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::sync::Arc;

/// Requests that are reconciled concurrently, as in kube-controller-manager.
const WORKERS: usize = 5;

struct Controller {
    requests: Lister<CertificateSigningRequest>,
}

/// A permission that lets a request be approved: RBAC grants `create` on a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    pub subresource: &'static str,
    /// Message of the condition `Approved`.
    message: &'static str,
}

const SELF_NODE_CLIENT: Permission = Permission {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE_CLIENT: Permission = Permission {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

#[derive(Debug)]
pub struct Observed {
    pub request: Arc<CertificateSigningRequest>,
    /// The permission that the requester has.
    pub granted: Option<Permission>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<CertificateSigningRequest>, queue| {
        if !matches!(event, Event::Deleted(_)) && !approving_permissions(event.object()).is_empty() {
            queue.add(event.object().key());
        }
    });
    setup.run(queue, WORKERS, Controller { requests: setup.lister() })
}

/// Returns the permissions of which any approves the request, the most specific first. Empty if this controller does
/// not decide about the request.
pub fn approving_permissions(request: &CertificateSigningRequest) -> Vec<Permission> {
    let spec = &request.spec;
    let is_open =
        !conditions::is_issued(request) && ![APPROVED, DENIED].into_iter().any(|type_| conditions::has(request, type_));
    if !is_open || SignerName::of(&spec.signer_name) != Some(SignerName::ApiServerClientKubelet) {
        return Vec::new();
    }
    let Ok(parsed) = CertificateRequest::from_pem(&spec.request.0) else { return Vec::new() };
    if kubelet_client(&parsed.names, spec.usages.as_deref().unwrap_or_default()).is_err() {
        return Vec::new();
    }
    let is_own = spec.username.as_deref() == Some(parsed.names.common_name.as_str());
    is_own.then_some(SELF_NODE_CLIENT).into_iter().chain([NODE_CLIENT]).collect()
}

/// Returns the review that asks whether the requester has a permission.
fn review(spec: &CertificateSigningRequestSpec, permission: Permission) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
            "resourceAttributes": {
                "group": "certificates.k8s.io",
                "version": "*",
                "resource": "certificatesigningrequests",
                "subresource": permission.subresource,
                "verb": "create",
            },
        },
    })
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let Some(permission) = observed.granted else { return Plan::default() };
    let request = &observed.request;
    let approved = conditions::with(request, APPROVED, "AutoApproved", permission.message, now);
    Plan::of([Action::UpdateSubresource {
        gvr: CertificateSigningRequest::gvr(),
        namespace: String::new(),
        name: request.name().to_owned(),
        subresource: "approval".to_owned(),
        body: approved.encode(),
    }])
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let request = self.requests.by_key(key)?;
        (!approving_permissions(&request).is_empty()).then_some(Observed { request, granted: None })
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let reviews = client.dynamic(&Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews"), "");
        for permission in approving_permissions(&observed.request) {
            let answer = reviews.create(&review(&observed.request.spec, permission)).await?;
            if answer["status"]["allowed"] == true {
                return Ok(Some(Observed { granted: Some(permission), ..observed }));
            }
        }
        let name = observed.request.name();
        tracing::info!(request = name, "a kubelet's request whose requester lacks the permission");
        Ok(None)
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::signing::fixture::{node_request, request};
    use controller_base::fixture;

    #[test]
    fn kubelet_requests_are_recognized() {
        let node = node_request("n1");
        assert_eq!(approving_permissions(&node), [NODE_CLIENT]);
        let mut own = node.clone();
        own.spec.username = Some("system:node:n1".to_owned());
        assert_eq!(approving_permissions(&own), [SELF_NODE_CLIENT, NODE_CLIENT]);
        let mut serving = own.clone();
        serving.spec.signer_name = SignerName::KubeletServing.as_str().to_owned();
        let denied = conditions::with(&own, DENIED, "No", "", fixture::at(0));
        for other in [serving, denied, request("ada", SignerName::ApiServerClientKubelet)] {
            assert_eq!(approving_permissions(&other), [], "{:?}", other.spec.signer_name);
        }
    }

    #[test]
    fn permitted_requests_are_approved() {
        let mut observed = Observed { request: Arc::new(node_request("n1")), granted: None };
        assert_eq!(plan(&observed, fixture::at(0)), Plan::default());
        observed.granted = Some(NODE_CLIENT);
        let plan = plan(&observed, fixture::at(0));
        let [Action::UpdateSubresource { subresource, body, .. }] = plan.actions.as_slice() else { panic!("{plan}") };
        assert_eq!(
            (subresource.as_str(), &body["status"]["conditions"][0]["reason"]),
            ("approval", &json!("AutoApproved"))
        );
    }
}
