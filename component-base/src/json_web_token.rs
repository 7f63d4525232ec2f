//! `SigningKey`: a private key that signs JSON web tokens.
//!
//! Corresponds to JWTTokenGenerator in pkg/serviceaccount.

use crate::private_key::{PrivateKey, PrivateKeyError};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

/// Issuer of the tokens in Secrets, whatever `--service-account-issuer` says.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

#[derive(Clone)]
pub struct SigningKey {
    pub algorithm: Algorithm,
    pub key: EncodingKey,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads a private key (ECDSA on P-256, or RSA) from a PEM text.
    pub fn from_pem(pem: &str) -> Result<Self, PrivateKeyError> {
        let key = PrivateKey::from_pem(pem)?;
        Ok(match key.pkcs1_der() {
            Some(der) => Self { algorithm: Algorithm::RS256, key: EncodingKey::from_rsa_der(der) },
            None => Self { algorithm: Algorithm::ES256, key: EncodingKey::from_ec_der(key.pkcs8_der()) },
        })
    }

    pub fn sign(&self, claims: &impl Serialize) -> Result<String, String> {
        let header = Header { typ: None, ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).map_err(|error| error.to_string())
    }
}
