//! `Token` reads a secret of type `bootstrap.kubernetes.io/token`.
//!
//! Corresponds to k8s.io/cluster-bootstrap/util/secrets.

use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Secret;

pub const NAMESPACE: &str = "kube-system";
pub const NAME_PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// A bootstrap token in its secret.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a>(pub &'a Secret);

impl<'a> Token<'a> {
    /// Returns true if a secret has the type and namespace of a bootstrap token.
    pub fn is_token(secret: &Secret) -> bool {
        secret.namespace() == NAMESPACE && secret.type_.as_deref() == Some(TYPE)
    }

    fn text(self, key: &str) -> &'a str {
        let bytes = self.0.data.as_ref().and_then(|data| data.get(key));
        bytes.and_then(|bytes| std::str::from_utf8(&bytes.0).ok()).unwrap_or_default()
    }

    /// Returns the expiration time, if there is one. A token whose time cannot be parsed has expired.
    pub fn expires_at(self) -> Option<Timestamp> {
        match self.text("expiration") {
            "" => None,
            text => Some(text.parse().unwrap_or(Timestamp::MIN)),
        }
    }

    /// Returns the token's id and secret if it may sign `cluster-info` now.
    pub fn for_signing(self, now: Timestamp) -> Option<(&'a str, &'a str)> {
        let (id, secret) = (self.text("token-id"), self.text("token-secret"));
        let has_own_name = self.0.name().strip_prefix(NAME_PREFIX) == Some(id);
        let is_valid = !id.is_empty()
            && !secret.is_empty()
            && has_own_name
            && !self.0.is_deleting()
            && self.expires_at().is_none_or(|end| end > now)
            && self.text("usage-bootstrap-signing") == "true";
        is_valid.then_some((id, secret))
    }
}

#[cfg(test)]
pub mod fixture {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::ByteString;

    /// Returns a secret as kubeadm writes it.
    pub fn secret(id: &str, more: &[(&str, &str)]) -> Secret {
        let plain = [("token-id", id), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-signing", "true")];
        let mut data: std::collections::BTreeMap<String, ByteString> = Default::default();
        for (key, value) in plain.iter().chain(more) {
            data.insert((*key).to_owned(), ByteString(value.as_bytes().to_vec()));
        }
        let mut metadata = fixture::meta(&format!("{NAME_PREFIX}{id}"));
        metadata.namespace = Some(NAMESPACE.to_owned());
        Secret { metadata, data: Some(data), type_: Some(TYPE.to_owned()), ..Secret::default() }
    }
}
