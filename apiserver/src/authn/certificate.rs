//! Client certificates: the common name is the user, organisations are groups.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/x509.

use super::UserInfo;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The caller that a verified leaf certificate (DER) names; the error says what it lacks.
pub fn user_of(der: &[u8]) -> Result<UserInfo, String> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("client certificate: {e}"))?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next().and_then(|cn| cn.as_str().ok()).unwrap_or_default();
    if name.is_empty() {
        return Err("client certificate: its subject has no common name".into());
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok().map(str::to_owned)).collect();
    let fingerprint = {
        use sha2::{Digest, Sha256};
        Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut user = UserInfo { name: name.to_owned(), groups, ..UserInfo::default() };
    let credential = "authentication.kubernetes.io/credential-id".to_owned();
    user.extra.insert(credential, vec![format!("X509SHA256={fingerprint}")]);
    Ok(user)
}
