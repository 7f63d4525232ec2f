//! `SigningKey`: a private key that signs JSON web tokens.
//!
//! Corresponds to JWTTokenGenerator in pkg/serviceaccount.

use crate::private_key::{PrivateKey, PrivateKeyError};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Issuer of the tokens in Secrets, whatever `--service-account-issuer` says.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Returns the id of a public key (`kid`), which tokens and the key set of the API server name.
pub fn key_id(public: &Jwk) -> String {
    let material = serde_json::to_vec(&public.algorithm).expect("a key is plain data");
    URL_SAFE_NO_PAD.encode(Sha256::digest(material))
}

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

    /// Signs claims. The token names its key.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String, String> {
        let public = Jwk::from_encoding_key(&self.key, self.algorithm).map_err(|error| error.to_string())?;
        let header = Header { typ: None, kid: Some(key_id(&public)), ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.key).map_err(|error| error.to_string())
    }
}
