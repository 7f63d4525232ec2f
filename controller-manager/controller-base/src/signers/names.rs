//! The built-in signers, and the subject names and key usages that each accepts.
//!
//! Corresponds to pkg/apis/certificates helpers and isRequestForSignerFn of pkg/controller/certificates/signer.

use component_base::certificate_request::RequestedNames;
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

    /// Returns the value of `spec.signerName`.
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

    /// Fails with the reason for which this signer rejects a request.
    pub fn check(self, names: &RequestedNames, usages: &[String]) -> Result<(), String> {
        match self {
            Self::ApiServerClient => client_usages(usages),
            Self::ApiServerClientKubelet => kubelet_client(names, usages),
            Self::KubeletServing => kubelet_serving(names, usages),
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

pub fn kubelet_client(names: &RequestedNames, usages: &[String]) -> Result<(), String> {
    check_organization(names)?;
    let forbidden = [
        (names.dns_names.len(), "DNS"),
        (names.email_addresses, "Email"),
        (names.ip_addresses, "IP"),
        (names.uris, "URI"),
    ];
    check_absent(&forbidden)?;
    check_common_name(names)?;
    check_usages(usages, CLIENT)
}

fn kubelet_serving(names: &RequestedNames, usages: &[String]) -> Result<(), String> {
    check_organization(names)?;
    if names.dns_names.is_empty() && names.ip_addresses == 0 {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    check_absent(&[(names.email_addresses, "Email"), (names.uris, "URI")])?;
    check_usages(usages, SERVER)?;
    check_common_name(names)
}

fn check_organization(names: &RequestedNames) -> Result<(), String> {
    let is_of_nodes = names.organizations.as_slice() == [NODES.to_owned()];
    if is_of_nodes { Ok(()) } else { Err(format!("subject organization is not {NODES}")) }
}

fn check_common_name(names: &RequestedNames) -> Result<(), String> {
    let is_of_a_node = names.common_name.starts_with(NODE_USER_PREFIX);
    if is_of_a_node { Ok(()) } else { Err(format!("subject common name does not begin with {NODE_USER_PREFIX}")) }
}

fn check_absent(counts: &[(usize, &str)]) -> Result<(), String> {
    match counts.iter().find(|(count, _)| *count > 0) {
        Some((_, kind)) => Err(format!("{kind} subjectAltNames are not allowed")),
        None => Ok(()),
    }
}

/// "key encipherment" is optional: keys of elliptic curves cannot do it.
fn check_usages(usages: &[String], purpose: &str) -> Result<(), String> {
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

    fn node(change: impl FnOnce(&mut RequestedNames)) -> RequestedNames {
        let mut names = RequestedNames {
            common_name: "system:node:n1".to_owned(),
            organizations: vec![NODES.to_owned()],
            ..RequestedNames::default()
        };
        change(&mut names);
        names
    }

    #[test]
    fn every_signer_has_rules_of_its_own() {
        let (client, serving) = (&[SIGNATURE, CLIENT][..], &[SIGNATURE, ENCIPHERMENT, SERVER][..]);
        let kubelet = SignerName::ApiServerClientKubelet;
        for (signer, names, usages, expected) in [
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
            (SignerName::ApiServerClient, RequestedNames::default(), client, ""),
            (
                SignerName::ApiServerClient,
                RequestedNames::default(),
                serving,
                "invalid usage for client certificate: server auth",
            ),
            (
                SignerName::ApiServerClient,
                RequestedNames::default(),
                &[SIGNATURE],
                "missing required usage for client certificate: client auth",
            ),
            (SignerName::LegacyUnknown, RequestedNames::default(), &["any"], ""),
        ] {
            let usages: Vec<String> = usages.iter().map(|usage| (*usage).to_owned()).collect();
            let message = signer.check(&names, &usages).err().unwrap_or_default();
            assert_eq!(message, expected, "{signer:?} {names:?} {usages:?}");
        }
        assert_eq!(SignerName::of("kubernetes.io/kubelet-serving"), Some(SignerName::KubeletServing));
        assert_eq!(SignerName::of("example.com/mine"), None);
    }
}
