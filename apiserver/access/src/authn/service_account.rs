//! Tokens of service accounts: signed by this server, bound to an account and perhaps to a pod, a node or a secret.
//!
//! Corresponds to pkg/serviceaccount and pkg/registry/core/serviceaccount/storage/token.go.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cacher::lookup::{Lookup, ObjectKey};
use component_base::json_web_token::SigningKey;
use jiff::Timestamp;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use parking_lot::Mutex;
use proto::{Object, Status};
use request::UserInfo;
use request::user_info::SERVICE_ACCOUNT_PREFIX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The token is older than was asked for from then on, and still good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
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

/// A key that tokens may be signed with.
struct Verifier {
    algorithm: Algorithm,
    key: DecodingKey,
    jwk: Jwk,
}

/// Signs and verifies.
pub struct ServiceAccountTokens {
    pub issuer: String,
    /// Whose tokens are accepted; the first is our own.
    issuers: Vec<String>,
    /// Whether what a token is bound to has to be there still.
    looks_up: bool,
    /// What a token without an audience of its own is for.
    pub api_audiences: Vec<String>,
    algorithm: Algorithm,
    key_id: String,
    signing: EncodingKey,
    /// The signing key's first.
    verifiers: Vec<Verifier>,
    verified: Mutex<BTreeMap<[u8; 32], Claims>>,
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccountTokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl ServiceAccountTokens {
    /// From a PEM text with a private key: ECDSA on P-256, or RSA. Tokens of `further` keys are accepted too, and of
    /// every issuer; the first is our own.
    pub fn new(
        private_pem: &str,
        further: &[String],
        issuers: &[String],
        api_audiences: Vec<String>,
    ) -> Result<Self, KeyError> {
        let (algorithm, signing) = private_key(private_pem)?;
        let mut verifiers = vec![Verifier::of_private(algorithm, &signing)?];
        for pem in further {
            for key in keys(pem)? {
                let verifier = Verifier::of_pem(&key)?;
                if verifiers.iter().all(|known| known.key_id() != verifier.key_id()) {
                    verifiers.push(verifier);
                }
            }
        }
        Ok(Self {
            issuer: issuers.first().cloned().unwrap_or_default(),
            issuers: issuers.to_vec(),
            looks_up: true,
            api_audiences,
            algorithm,
            key_id: verifiers[0].key_id().to_owned(),
            signing,
            verifiers,
            verified: Mutex::default(),
        })
    }

    pub fn lookup(self, looks_up: bool) -> Self {
        Self { looks_up, ..self }
    }

    /// Whether what a token is bound to has to be there still.
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    /// The claims of a token that one of our keys signed, whatever they are.
    pub fn verified<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        self.verifiers.iter().find_map(|verifier| verifier.claims(token))
    }

    /// Of the keys that are accepted; the first signs.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.verifiers.iter().map(Verifier::key_id)
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
        let claims: Claims = self.verified(token)?;
        if !self.issuers.contains(&claims.iss) {
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
        if self.looks_up {
            check_bound(&claims.bound, now_s, objects).await?;
        }
        Ok(Some((user_of(&claims), shared)))
    }

    /// `/.well-known/openid-configuration`
    pub fn openid_configuration(&self, jwks_uri: &str) -> Value {
        let algorithms: BTreeSet<String> =
            self.verifiers.iter().map(|known| format!("{:?}", known.algorithm)).collect();
        json!({
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// `/openid/v1/jwks`
    pub fn jwks(&self) -> Value {
        json!({"keys": self.verifiers.iter().map(|verifier| &verifier.jwk).collect::<Vec<_>>()})
    }
}

impl Verifier {
    fn of_private(algorithm: Algorithm, key: &EncodingKey) -> Result<Self, KeyError> {
        let jwk = Jwk::from_encoding_key(key, algorithm)
            .map_err(|e| KeyError(format!("neither an ECDSA P-256 nor an RSA private key: {e}")))?;
        Self::of_jwk(algorithm, jwk)
    }

    /// A private or a public key.
    fn of_pem(pem: &str) -> Result<Self, KeyError> {
        if let Ok((algorithm, key)) = private_key(pem) {
            return Self::of_private(algorithm, &key);
        }
        let unusable = || KeyError("neither an ECDSA P-256 nor an RSA key in PEM".to_owned());
        let (algorithm, key) = DecodingKey::from_ec_pem(pem.as_bytes())
            .map(|key| (Algorithm::ES256, key))
            .or_else(|_| DecodingKey::from_rsa_pem(pem.as_bytes()).map(|key| (Algorithm::RS256, key)))
            .map_err(|_| unusable())?;
        Self::of_jwk(algorithm, Jwk::from_decoding_key(&key, Some(algorithm)).map_err(|_| unusable())?)
    }

    fn of_jwk(algorithm: Algorithm, mut jwk: Jwk) -> Result<Self, KeyError> {
        let key = DecodingKey::from_jwk(&jwk).map_err(|e| KeyError(e.to_string()))?;
        let public = serde_json::to_vec(&jwk.algorithm).expect("a key is plain data");
        jwk.common.key_id = Some(URL_SAFE_NO_PAD.encode(Sha256::digest(&public)));
        jwk.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Signature);
        Ok(Self { algorithm, key, jwk })
    }

    fn key_id(&self) -> &str {
        self.jwk.common.key_id.as_deref().unwrap_or_default()
    }

    fn claims<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let mut rules = Validation::new(self.algorithm);
        // The crate would read the wall clock; `Env`'s time is compared later.
        rules.validate_exp = false;
        rules.validate_nbf = false;
        rules.validate_aud = false;
        rules.required_spec_claims.clear();
        jsonwebtoken::decode::<T>(token, &self.key, &rules).ok().map(|decoded| decoded.claims)
    }
}

fn private_key(pem: &str) -> Result<(Algorithm, EncodingKey), KeyError> {
    let SigningKey { algorithm, key } = SigningKey::from_pem(pem).map_err(|error| KeyError(error.to_string()))?;
    Ok((algorithm, key))
}

/// The keys of a file, each a PEM text of its own. openssl writes a key's curve in front of it.
fn keys(pem: &str) -> Result<Vec<String>, KeyError> {
    let blocks = pem::parse_many(pem).map_err(|error| KeyError(error.to_string()))?;
    let keys: Vec<String> = blocks.iter().filter(|block| block.tag() != "EC PARAMETERS").map(pem::encode).collect();
    if keys.is_empty() {
        return Err(KeyError("data does not contain any valid RSA or ECDSA public keys".to_owned()));
    }
    Ok(keys)
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
    /// When its use is to be warned of, where that is before its end.
    pub warn_after_s: Option<i64>,
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
                warnafter: issue.warn_after_s.map(|after_s| now_s + after_s),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::{fixtures, pki};

    fn tokens(key: &str, further: &[String], issuers: &[&str]) -> ServiceAccountTokens {
        let issuers: Vec<String> = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
        ServiceAccountTokens::new(key, further, &issuers, vec!["api".to_owned()]).unwrap()
    }

    fn token_of(tokens: &ServiceAccountTokens) -> String {
        let issue = Issue {
            namespace: "default",
            account: Reference::default(),
            pod: None,
            node: None,
            secret: None,
            audiences: vec!["api".to_owned()],
            expiration_s: 600,
            warn_after_s: None,
            token_id: "t".to_owned(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        tokens.issue(issue).unwrap()
    }

    #[test]
    fn tokens_of_earlier_keys_and_issuers_are_known() {
        let (old, other) = (pki::signing_key().unwrap(), pki::signing_key().unwrap());
        let new = fixtures::SERVICE_ACCOUNT_KEY;
        let former = tokens(&old, &[], &["one"]);
        let token = token_of(&former);
        let both = format!("{other}\n{old}");
        for (further, issuers, is_known) in [
            (vec![], &["two", "one"][..], false),
            (vec![other.clone()], &["two", "one"], false),
            (vec![other.clone(), old.clone()], &["two", "one"], true),
            (vec![both], &["two", "one"], true),
            (vec![old.clone()], &["two"], false),
        ] {
            let present = tokens(new, &further, issuers);
            assert_eq!(present.claims(&token).is_some(), is_known, "{} {issuers:?}", further.len());
            assert_eq!(present.claims(&token_of(&present)).map(|claims| claims.iss).as_deref(), Some("two"));
        }
        let present = tokens(new, &[old, new.to_owned()], &["two"]);
        assert_eq!(present.jwks()["keys"].as_array().map(Vec::len), Some(2));
        let parameters_alone = fixtures::EC_KEYS[1].split("-----BEGIN EC PRIVATE").next().unwrap();
        for unusable in ["-----BEGIN X-----\n-----END X-----\n", "", parameters_alone] {
            assert!(ServiceAccountTokens::new(new, &[unusable.into()], &[], vec![]).is_err(), "{unusable}");
        }
    }

    #[test]
    fn a_key_signs_and_verifies_in_each_of_its_forms() {
        for (forms, algorithm) in [(fixtures::RSA_KEYS, Algorithm::RS256), (fixtures::EC_KEYS, Algorithm::ES256)] {
            let [plain, older] = forms.map(|pem| tokens(pem, &[], &["one"]));
            assert_eq!((plain.algorithm, older.algorithm), (algorithm, algorithm));
            assert_eq!(plain.jwks(), older.jwks());
            assert!(plain.claims(&token_of(&older)).is_some());
            // As one of `--service-account-key-file`, which holds private keys as well as public ones.
            for pem in forms {
                let other = tokens(fixtures::SERVICE_ACCOUNT_KEY, &[pem.to_owned()], &["one"]);
                assert!(other.claims(&token_of(&older)).is_some());
            }
        }
    }
}
