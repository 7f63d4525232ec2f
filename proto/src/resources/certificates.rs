//! certificates.k8s.io: requests for signed certificates.
//!
//! Corresponds to pkg/registry/certificates/rest.

use super::columns::read::{int_at, items, str_at};
use super::columns::{age, name, string, text};
use super::fields::{SelectableField, UnknownField};
use super::row::Group;
use super::{Column, Resource};
use crate::meta::time;
use serde_json::{Value, json};

const CERTIFICATES: Group = Group { name: "certificates.k8s.io", version: "v1", package: "io.k8s.api.certificates.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        CERTIFICATES
            .cluster("certificatesigningrequests", "CertificateSigningRequest")
            .short("csr")
            .part("approval")
            .status()
            .columns(columns())
            .selectable(vec![SelectableField::at("spec.signerName")], UnknownField::Plain),
    ]
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
