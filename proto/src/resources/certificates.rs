//! certificates.k8s.io: requests for signed certificates, and certificates to trust.
//!
//! Corresponds to pkg/registry/certificates/rest.

use super::columns::read::{int_at, items, str_at};
use super::columns::{age, name, string, text};
use super::fields::{SelectableField, UnknownField};
use super::row::Group;
use super::{Column, Conversion, Resource};
use crate::meta::time;
use serde_json::{Value, json};

const CERTIFICATES: Group = Group { name: "certificates.k8s.io", version: "v1", package: "io.k8s.api.certificates.v1" };
const BETA: Group =
    Group { name: "certificates.k8s.io", version: "v1beta1", package: "io.k8s.api.certificates.v1beta1" };
const ALPHA: Group =
    Group { name: "certificates.k8s.io", version: "v1alpha1", package: "io.k8s.api.certificates.v1alpha1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        CERTIFICATES
            .cluster("certificatesigningrequests", "CertificateSigningRequest")
            .short("csr")
            .part("approval")
            .status()
            .columns(columns())
            .selectable(vec![SelectableField::at("spec.signerName")], UnknownField::Plain),
        BETA.cluster("clustertrustbundles", "ClusterTrustBundle")
            .gated("ClusterTrustBundle")
            .columns(vec![
                name(),
                text("SignerName", "The signer whose certificates these are.", "/spec/signerName").or("<none>"),
            ])
            .selectable(vec![SelectableField::at("spec.signerName")], UnknownField::Plain)
            .also(&ALPHA, Conversion::Same),
        BETA.namespaced("podcertificaterequests", "PodCertificateRequest")
            .gated("PodCertificateRequest")
            .status()
            .columns(vec![
                name(),
                text("PodName", "The pod that gets the certificate.", "/spec/podName"),
                text("ServiceAccountName", "The service account of the pod.", "/spec/serviceAccountName"),
                text("NodeName", "The node of the pod.", "/spec/nodeName"),
                text("SignerName", "The signer that is asked.", "/spec/signerName"),
                string("State", "How far the request has come.", |o, _| json!(state(o))),
            ])
            .selectable(
                ["spec.signerName", "spec.podName", "spec.nodeName"].map(SelectableField::at).into(),
                UnknownField::Plain,
            ),
    ]
}

/// Returns `Pending`, `Issued`, `Denied` or `Failed`.
fn state(request: &Value) -> &str {
    let conditions = items(request, "/status/conditions").iter();
    let mut ends = conditions.filter(|it| it["status"] == "True").map(|condition| str_at(condition, "/type"));
    ends.find(|kind| ["Issued", "Denied", "Failed"].contains(kind)).unwrap_or("Pending")
}

fn columns() -> Vec<Column> {
    vec![
        name(),
        age(),
        text("SignerName", "Who is asked to sign.", "/spec/signerName").or("<none>"),
        text("Requestor", "Who asks.", "/spec/username"),
        string("RequestedDuration", "How long the certificate should last.", |o, _| {
            json!(match o.pointer("/spec/expirationSeconds") {
                Some(_) => time::human_duration(int_at(o, "/spec/expirationSeconds")),
                None => "<none>".to_owned(),
            })
        }),
        string("Condition", "How far the request has come.", |o, _| json!(progress(o))),
    ]
}

/// Returns `Pending`, `Approved,Issued`, `Denied`, …
fn progress(request: &Value) -> String {
    let has = |kind: &str| items(request, "/status/conditions").iter().any(|condition| condition["type"] == kind);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if str_at(request, "/status/certificate").is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}
