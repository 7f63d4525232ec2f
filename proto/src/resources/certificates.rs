//! certificates.k8s.io: requests for signatures.
//!
//! Corresponds to pkg/registry/certificates/rest.

use super::Resource;
use super::fields::{SelectableField, UnknownField};
use super::row::Group;

const CERTIFICATES: Group = Group { name: "certificates.k8s.io", version: "v1", package: "io.k8s.api.certificates.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        CERTIFICATES
            .cluster("certificatesigningrequests", "CertificateSigningRequest")
            .short("csr")
            .part("approval")
            .status()
            .selectable(vec![SelectableField::at("spec.signerName")], UnknownField::Plain),
    ]
}
