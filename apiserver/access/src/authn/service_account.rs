//! Signs and authenticates service account tokens, each bound to an account and perhaps to a Pod, Node or Secret.
//!
//! Corresponds to pkg/serviceaccount and pkg/registry/core/serviceaccount/storage/token.go.

use cacher::lookup::{Lookup, ObjectKey};
use component_base::json_web_token::{SigningKey, key_id};
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

/// Time for which a token stays valid after the deletion of an object that it is bound to.
const DELETION_LEEWAY_S: i64 = 60;
/// The most tokens whose verified claims are cached, so that not every request verifies a signature.
const REMEMBERED_TOKENS: usize = 4096;

/// A service account key is unusable.
#[derive(Debug, thiserror::Error)]
#[error("service account key: {0}")]
pub struct KeyError(String);

/// Name and uid of an object that a token is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// The private claims, below `kubernetes.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivateClaims {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
    pub serviceaccount: Reference,
    /// Time from which use of the still valid token is reported, because it is older than the client asked for.
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
    pub bound: PrivateClaims,
    pub nbf: i64,
    pub sub: String,
}

/// A public key that verifies tokens.
struct Verifier {
    algorithm: Algorithm,
    key: DecodingKey,
    jwk: Jwk,
}

/// Signs and verifies service account tokens.
pub struct ServiceAccountTokens {
    pub issuer: String,
    /// The accepted issuers; the first one signs new tokens.
    issuers: Vec<String>,
    /// `--service-account-lookup`: the objects that a token is bound to must still exist.
    looks_up: bool,
    /// The audiences of a token that is requested without any.
    pub api_audiences: Vec<String>,
    algorithm: Algorithm,
    key_id: String,
    signing: EncodingKey,
    /// The key of the signing key comes first.
    verifiers: Vec<Verifier>,
    verified: Mutex<BTreeMap<[u8; 32], Claims>>,
}

impl std::fmt::Debug for ServiceAccountTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceAccountTokens").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl ServiceAccountTokens {
    /// `private_pem` is a private key: ECDSA on P-256, or RSA. Tokens signed by `further` keys are accepted too, and tokens of
    /// every issuer; the first issuer is the one of new tokens.
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

    /// Tells whether the objects that a token is bound to must still exist.
    pub fn looks_up(&self) -> bool {
        self.looks_up
    }

    /// Returns the claims of a token that one of the keys signed, without checking them.
    pub fn verified<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        self.verifiers.iter().find_map(|verifier| verifier.claims(token))
    }

    /// Returns the ids of the accepted keys; the first one signs.
    pub fn key_ids(&self) -> impl Iterator<Item = &str> {
        self.verifiers.iter().map(Verifier::key_id)
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, Status> {
        let header = Header { kid: Some(self.key_id.clone()), typ: None, ..Header::new(self.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(Status::internal)
    }

    /// Returns the claims of a token of an accepted key and issuer. Times and bound objects are not checked.
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

    /// Authenticates a token; `Ok(None)` when no accepted issuer signed it. The error says why a signed token is invalid.
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
            check_bound_objects(&claims.bound, now_s, objects).await?;
        }
        Ok(Some((user_of(&claims), shared)))
    }

    /// Returns the document at `/.well-known/openid-configuration`.
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

    /// Returns the JSON Web Key Set at `/openid/v1/jwks`.
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

    /// Reads a private or a public key.
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
        jwk.common.key_id = Some(key_id(&jwk));
        jwk.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Signature);
        Ok(Self { algorithm, key, jwk })
    }

    fn key_id(&self) -> &str {
        self.jwk.common.key_id.as_deref().unwrap_or_default()
    }

    fn claims<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let mut rules = Validation::new(self.algorithm);
        // The library would compare with the wall clock; `authenticate` compares with the time of `Env`.
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

/// Splits a file into its keys. `openssl` writes a block with the curve before an EC key, which is skipped.
fn keys(pem: &str) -> Result<Vec<String>, KeyError> {
    let blocks = pem::parse_many(pem).map_err(|error| KeyError(error.to_string()))?;
    let keys: Vec<String> = blocks.iter().filter(|block| block.tag() != "EC PARAMETERS").map(pem::encode).collect();
    if keys.is_empty() {
        return Err(KeyError("data does not contain any valid RSA or ECDSA public keys".to_owned()));
    }
    Ok(keys)
}

/// Formats a list as Go's `%q` does: `["a" "b"]`.
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

/// Checks that the account and all other bound objects exist, have the same uid and were not deleted before the leeway.
async fn check_bound_objects(bound: &PrivateClaims, now_s: i64, objects: &dyn Lookup) -> Result<(), String> {
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
    // The cache may lag behind: an object that is missing there is read from the store.
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

/// The content of a new token, as a TokenRequest asks for it.
pub struct Issue<'a> {
    pub namespace: &'a str,
    pub account: Reference,
    pub pod: Option<Reference>,
    pub node: Option<Reference>,
    pub secret: Option<Reference>,
    pub audiences: Vec<String>,
    pub expiration_s: i64,
    /// Seconds after which use of the token is reported, when that is before it expires.
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
            bound: PrivateClaims {
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
    use component_base::pki;
    use component_base_testing::fixtures;

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
            // `--service-account-key-file` accepts private keys as well as public ones.
            for pem in forms {
                let other = tokens(fixtures::SERVICE_ACCOUNT_KEY, &[pem.to_owned()], &["one"]);
                assert!(other.claims(&token_of(&older)).is_some());
            }
        }
    }
}
