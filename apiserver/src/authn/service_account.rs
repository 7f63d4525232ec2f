//! Tokens of service accounts: signed by this server, bound to an account and perhaps to a pod, a node or a secret.
//!
//! Corresponds to pkg/serviceaccount and pkg/registry/core/serviceaccount/storage/token.go.

use super::UserInfo;
use super::user_info::SERVICE_ACCOUNT_PREFIX;
use crate::admission::{Lookup, ObjectKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use parking_lot::Mutex;
use proto::{Object, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// How long a token outlives the deletion of what it is bound to.
const DELETION_LEEWAY_S: i64 = 60;
/// Verified signatures that are remembered, so that a caller's every request does not cost one more.
const REMEMBERED_TOKENS: usize = 4096;

/// The signing key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("service account key: {0}")]
pub struct KeyError(String);

/// An object that a token names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The private part of the claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bound {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub iss: String,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub bound: Bound,
    pub nbf: i64,
    pub sub: String,
}

/// Signs and verifies.
pub struct ServiceAccountTokens {
    pub issuer: String,
    /// What a token without an audience of its own is for.
    pub api_audiences: Vec<String>,
    algorithm: Algorithm,
    key_id: String,
    signing: EncodingKey,
    verifying: DecodingKey,
    jwk: Jwk,
    verified: Mutex<BTreeMap<[u8; 32], Claims>>,
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccountTokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl ServiceAccountTokens {
    /// From a PEM text with a private key: ECDSA on P-256, or RSA.
    pub fn new(private_pem: &str, issuer: &str, api_audiences: Vec<String>) -> Result<Self, KeyError> {
        let bytes = private_pem.as_bytes();
        let (algorithm, signing) = match EncodingKey::from_ec_pem(bytes) {
            Ok(key) => (Algorithm::ES256, key),
            Err(_) => {
                let key = EncodingKey::from_rsa_pem(bytes)
                    .map_err(|e| KeyError(format!("neither an ECDSA P-256 nor an RSA private key in PEM: {e}")))?;
                (Algorithm::RS256, key)
            }
        };
        let mut jwk = Jwk::from_encoding_key(&signing, algorithm).map_err(|e| KeyError(e.to_string()))?;
        let verifying = DecodingKey::from_jwk(&jwk).map_err(|e| KeyError(e.to_string()))?;
        let public = serde_json::to_vec(&jwk.algorithm).expect("a key is plain data");
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(&public));
        jwk.common.key_id = Some(key_id.clone());
        jwk.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Signature);
        Ok(Self {
            issuer: issuer.to_owned(),
            api_audiences,
            algorithm,
            key_id,
            signing,
            verifying,
            jwk,
            verified: Mutex::default(),
        })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, Status> {
        let header = Header { kid: Some(self.key_id.clone()), typ: None, ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(Status::internal)
    }

    /// The claims of a token that this server signed; times and bound objects are not looked at.
    fn claims(&self, token: &str) -> Option<Claims> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.verified.lock().get(&hash) {
            return Some(claims.clone());
        }
        let mut rules = Validation::new(self.algorithm);
        // The crate would read the wall clock; `Env`'s time is compared below.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        rules.validate_aud = false;
        rules.required_spec_claims.clear();
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verifying, &rules).ok()?.claims;
        if claims.iss != self.issuer {
            return None;
        }
        let mut verified = self.verified.lock();
        if verified.len() >= REMEMBERED_TOKENS {
            verified.clear();
        }
        verified.insert(hash, claims.clone());
        Some(claims)
    }

    /// `Ok(None)`: not one of ours. The error says why a token of ours is not good (any more).
    pub async fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &dyn Lookup,
    ) -> Result<Option<(UserInfo, Vec<String>)>, String> {
        let Some(claims) = self.claims(token) else { return Ok(None) };
        let wanted = if audiences.is_empty() { &self.api_audiences } else { audiences };
        let shared: Vec<String> = claims.aud.iter().filter(|a| wanted.contains(a)).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "token audiences {:?} is invalid for the target audiences {:?}",
                Quoted(&claims.aud),
                Quoted(wanted)
            ));
        }
        let now_s = now.as_second();
        if now_s >= claims.exp {
            return Err("service account token has expired".into());
        }
        if now_s < claims.nbf {
            return Err("service account token is not valid yet".into());
        }
        check_bound(&claims.bound, now_s, objects).await?;
        Ok(Some((user_of(&claims), shared)))
    }

    /// `/.well-known/openid-configuration`
    pub fn openid_configuration(&self, jwks_uri: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [format!("{:?}", self.algorithm)],
        })
    }

    /// `/openid/v1/jwks`
    pub fn jwks(&self) -> Value {
        json!({"keys": [self.jwk]})
    }
}

/// Go's `%q` of a list: `["a" "b"]`.
struct Quoted<'a>(&'a [String]);

impl std::fmt::Debug for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let items: Vec<String> = self.0.iter().map(|a| format!("{a:?}")).collect();
        write!(f, "[{}]", items.join(" "))
    }
}

fn user_of(claims: &Claims) -> UserInfo {
    let bound = &claims.bound;
    let mut user = UserInfo::service_account(&bound.namespace, &bound.serviceaccount.name, &bound.serviceaccount.uid);
    let mut extra = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    };
    extra("credential-id", &format!("JTI={}", claims.jti));
    if let Some(pod) = &bound.pod {
        extra("pod-name", &pod.name);
        extra("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        extra("node-name", &node.name);
        extra("node-uid", &node.uid);
    }
    user
}

/// The account and what else the token is bound to must exist, be the same, and not be long deleted.
async fn check_bound(bound: &Bound, now_s: i64, objects: &dyn Lookup) -> Result<(), String> {
    let namespace = bound.namespace.as_str();
    check_object("serviceaccounts", "service account", namespace, &bound.serviceaccount, now_s, objects).await?;
    if let Some(secret) = &bound.secret {
        check_object("secrets", "secret", namespace, secret, now_s, objects).await?;
    }
    if let Some(pod) = &bound.pod {
        check_object("pods", "pod", namespace, pod, now_s, objects).await?;
    } else if let Some(node) = &bound.node {
        check_object("nodes", "node", "", node, now_s, objects).await?;
    }
    Ok(())
}

async fn check_object(
    resource: &str,
    what: &str,
    namespace: &str,
    reference: &Reference,
    now_s: i64,
    objects: &dyn Lookup,
) -> Result<(), String> {
    let invalid = || format!("service account token has been invalidated: {what} {}", reference.name);
    let is_same = |object: &Object| object.index.uid == reference.uid;
    let key = ObjectKey::new("", resource, namespace, &reference.name);
    // The cache may lag behind: what it does not know, the store is asked for.
    let mut found = objects.get(key).map_err(|e| e.message)?;
    if !found.as_deref().is_some_and(is_same) {
        found = objects.get_live(key).await.map_err(|e| e.message)?;
    }
    let object = found.filter(|object| is_same(object)).ok_or_else(invalid)?;
    if !object.index.deleting {
        return Ok(());
    }
    let deleted: Option<Timestamp> =
        object.peek().pointer("/metadata/deletionTimestamp").and_then(Value::as_str).and_then(|t| t.parse().ok());
    match deleted {
        Some(at) if at.as_second() + DELETION_LEEWAY_S < now_s => Err(invalid()),
        _ => Ok(()),
    }
}

/// What a TokenRequest asks for.
pub struct Issue<'a> {
    pub namespace: &'a str,
    pub account: Reference,
    pub pod: Option<Reference>,
    pub node: Option<Reference>,
    pub secret: Option<Reference>,
    pub audiences: Vec<String>,
    pub expiration_s: i64,
    pub token_id: String,
    pub now: Timestamp,
}

impl ServiceAccountTokens {
    pub fn issue(&self, issue: Issue<'_>) -> Result<String, Status> {
        let now_s = issue.now.as_second();
        self.sign(&Claims {
            aud: issue.audiences,
            exp: now_s + issue.expiration_s,
            iat: now_s,
            iss: self.issuer.clone(),
            jti: issue.token_id,
            nbf: now_s,
            sub: format!("{SERVICE_ACCOUNT_PREFIX}{}:{}", issue.namespace, issue.account.name),
            bound: Bound {
                namespace: issue.namespace.to_owned(),
                node: issue.node,
                pod: issue.pod,
                secret: issue.secret,
                serviceaccount: issue.account,
            },
        })
    }
}
