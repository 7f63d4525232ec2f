//! Authenticates by client certificate: the common name is the user, organizations are the groups.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/x509.

use parking_lot::Mutex;
use request::UserInfo;
use std::collections::BTreeMap;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The most parsed certificates that are cached.
const REMEMBERED: usize = 4096;

/// The authenticator, with a cache of parsed certificates.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<BTreeMap<Vec<u8>, UserInfo>>);

impl Certificates {
    /// Returns the user of a verified leaf certificate (DER), or `None` when it names no user.
    pub fn user_of(&self, leaf: &[u8]) -> Option<UserInfo> {
        let mut known = self.0.lock();
        if let Some(user) = known.get(leaf) {
            return Some(user.clone());
        }
        let user = user_of(leaf).ok()?;
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(leaf.to_vec(), user.clone());
        Some(user)
    }
}

/// Parses the user of a verified leaf certificate (DER); the error says what is missing.
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
