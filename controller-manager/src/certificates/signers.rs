//! The signers that Kubernetes has built in, and what may be asked of each.
//!
//! Corresponds to pkg/apis/certificates helpers and isRequestForSignerFn of pkg/controller/certificates/signer.

use component_base::certificate_request::CertificateRequest;
use std::collections::BTreeSet;

pub const NODES: &str = "system:nodes";
pub const NODE_USER_PREFIX: &str = "system:node:";

const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const CLIENT: &str = "client auth";
const SERVER: &str = "server auth";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignerName {
    ApiServerClient,
    ApiServerClientKubelet,
    KubeletServing,
    LegacyUnknown,
}

impl SignerName {
    pub const ALL: [Self; 4] =
        [Self::KubeletServing, Self::ApiServerClientKubelet, Self::ApiServerClient, Self::LegacyUnknown];

    /// As `spec.signerName` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServerClient => "kubernetes.io/kube-apiserver-client",
            Self::ApiServerClientKubelet => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::KubeletServing => "kubernetes.io/kubelet-serving",
            Self::LegacyUnknown => "kubernetes.io/legacy-unknown",
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signer| signer.as_str() == name)
    }

    /// Why this signer does not sign that.
    pub fn check(self, request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
        match self {
            Self::ApiServerClient => client_usages(usages),
            Self::ApiServerClientKubelet => kubelet_client(request, usages),
            Self::KubeletServing => kubelet_serving(request, usages),
            Self::LegacyUnknown => Ok(()),
        }
    }
}

fn client_usages(usages: &[String]) -> Result<(), String> {
    let optional = [SIGNATURE, ENCIPHERMENT, CLIENT];
    if let Some(other) = usages.iter().find(|usage| !optional.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if usages.iter().any(|usage| usage == CLIENT) {
        Ok(())
    } else {
        Err(format!("missing required usage for client certificate: {CLIENT}"))
    }
}

pub fn kubelet_client(request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    of_nodes(request)?;
    let unwanted = [
        (request.dns_names.len(), "DNS"),
        (request.email_addresses, "Email"),
        (request.ip_addresses, "IP"),
        (request.uris, "URI"),
    ];
    none_of(&unwanted)?;
    of_a_node(request)?;
    exactly(usages, CLIENT)
}

fn kubelet_serving(request: &CertificateRequest, usages: &[String]) -> Result<(), String> {
    of_nodes(request)?;
    if request.dns_names.is_empty() && request.ip_addresses == 0 {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    none_of(&[(request.email_addresses, "Email"), (request.uris, "URI")])?;
    exactly(usages, SERVER)?;
    of_a_node(request)
}

fn of_nodes(request: &CertificateRequest) -> Result<(), String> {
    let is_of_nodes = request.organizations.as_slice() == [NODES.to_owned()];
    if is_of_nodes { Ok(()) } else { Err(format!("subject organization is not {NODES}")) }
}

fn of_a_node(request: &CertificateRequest) -> Result<(), String> {
    let is_of_a_node = request.common_name.starts_with(NODE_USER_PREFIX);
    if is_of_a_node { Ok(()) } else { Err(format!("subject common name does not begin with {NODE_USER_PREFIX}")) }
}

fn none_of(names: &[(usize, &str)]) -> Result<(), String> {
    match names.iter().find(|(count, _)| *count > 0) {
        Some((_, kind)) => Err(format!("{kind} subjectAltNames are not allowed")),
        None => Ok(()),
    }
}

/// Keys of elliptic curves encipher nothing, so that may be left out.
fn exactly(usages: &[String], purpose: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let wanted = BTreeSet::from([SIGNATURE, ENCIPHERMENT, purpose]);
    if given == wanted || given == BTreeSet::from([SIGNATURE, purpose]) {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", wanted.into_iter().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(change: impl FnOnce(&mut CertificateRequest)) -> CertificateRequest {
        let mut request = CertificateRequest::default();
        request.common_name = "system:node:n1".to_owned();
        request.organizations = vec![NODES.to_owned()];
        change(&mut request);
        request
    }

    #[test]
    fn every_signer_has_rules_of_its_own() {
        let (client, serving) = (&[SIGNATURE, CLIENT][..], &[SIGNATURE, ENCIPHERMENT, SERVER][..]);
        let kubelet = SignerName::ApiServerClientKubelet;
        for (signer, request, usages, expected) in [
            (kubelet, node(|_| ()), client, ""),
            (kubelet, node(|r| r.organizations.clear()), client, "subject organization is not system:nodes"),
            (kubelet, node(|r| r.organizations.push("x".into())), client, "subject organization is not system:nodes"),
            (
                kubelet,
                node(|r| r.common_name = "n1".into()),
                client,
                "subject common name does not begin with system:node:",
            ),
            (kubelet, node(|r| r.dns_names.push("n1".into())), client, "DNS subjectAltNames are not allowed"),
            (kubelet, node(|r| r.uris = 1), client, "URI subjectAltNames are not allowed"),
            (kubelet, node(|_| ()), serving, "usages did not match [client auth digital signature key encipherment]"),
            (SignerName::KubeletServing, node(|r| r.ip_addresses = 1), serving, ""),
            (SignerName::KubeletServing, node(|_| ()), serving, "DNS or IP subjectAltName is required"),
            (
                SignerName::KubeletServing,
                node(|r| r.ip_addresses = 1),
                client,
                "usages did not match [digital signature key encipherment server auth]",
            ),
            (SignerName::ApiServerClient, CertificateRequest::default(), client, ""),
            (
                SignerName::ApiServerClient,
                CertificateRequest::default(),
                serving,
                "invalid usage for client certificate: server auth",
            ),
            (
                SignerName::ApiServerClient,
                CertificateRequest::default(),
                &[SIGNATURE],
                "missing required usage for client certificate: client auth",
            ),
            (SignerName::LegacyUnknown, CertificateRequest::default(), &["any"], ""),
        ] {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            let said = signer.check(&request, &usages).err().unwrap_or_default();
            assert_eq!(said, expected, "{signer:?} {request:?} {usages:?}");
        }
        assert_eq!(SignerName::of("kubernetes.io/kubelet-serving"), Some(SignerName::KubeletServing));
        assert_eq!(SignerName::of("example.com/mine"), None);
    }
}
