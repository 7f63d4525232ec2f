//! Authenticates OpenID Connect tokens: JSON Web Tokens of other issuers, whose claims are mapped to a user.
//!
//! Reading order: [`options`] and [`configuration`] read which issuers are accepted, [`keys`] fetches an issuer's public
//! keys, and [`claims`] maps a token's claims to a user. Corresponds to
//! k8s.io/apiserver/plugin/pkg/authenticator/token/oidc.

pub mod options;
pub mod configuration;
pub mod keys;
pub mod claims;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::ClaimRules;
use component_base::env::Env;
use component_base::metrics::Histograms;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use keys::{Issuer, IssuerKeys};
use request::UserInfo;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A token may be used this long before its `nbf`, because clocks differ.
const EARLY_S: i64 = 300;
const SECONDS: &[f64] = &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096];

/// One accepted issuer, the audiences and algorithms of its tokens, and the rules for their claims.
#[derive(Debug)]
pub struct Settings {
    pub issuer: Issuer,
    pub audiences: Vec<String>,
    pub algorithms: Vec<Algorithm>,
    pub rules: ClaimRules,
}

#[derive(Debug)]
pub struct JwtAuthenticator {
    env: Env,
    settings: Settings,
    keys: IssuerKeys,
    durations: Histograms,
    issuer_hash: String,
}

impl JwtAuthenticator {
    pub fn url(&self) -> &str {
        &self.settings.issuer.url
    }

    pub fn new(env: &Env, settings: Settings) -> Self {
        let digest = Sha256::digest(&settings.issuer.url);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            env: env.clone(),
            keys: IssuerKeys::new(env, settings.issuer.clone()),
            settings,
            durations: env.metrics().histograms(
                "apiserver_authentication_jwt_authenticator_latency_seconds",
                "Time of authentication by tokens of an issuer by result",
                SECONDS,
            ),
            issuer_hash: format!("sha256:{hex}"),
        }
    }

    /// Authenticates a token; `Ok(None)` when another issuer made it.
    pub async fn authenticate(&self, token: &str) -> Result<Option<UserInfo>, String> {
        if unverified(token).is_none_or(|claims| claims["iss"] != self.settings.issuer.url.as_str()) {
            return Ok(None);
        }
        let began = self.env.now();
        let outcome = self.user_of(token).await;
        let result = if outcome.is_ok() { "success" } else { "failure" };
        let labels = vec![("jwt_issuer_hash", self.issuer_hash.clone()), ("result", result.to_owned())];
        self.durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
        outcome.map(Some)
    }

    async fn user_of(&self, token: &str) -> Result<UserInfo, String> {
        let claims = self.verified(token).await.map_err(|why| format!("oidc: verify token: {why}"))?;
        self.check_times(&claims).map_err(|why| format!("oidc: verify token: {why}"))?;
        let audiences = audiences(&claims["aud"]);
        if !audiences.iter().any(|audience| self.settings.audiences.contains(audience)) {
            let quoted = |list: &[String]| list.iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join(" ");
            let (wanted, got) = (quoted(&self.settings.audiences), quoted(&audiences));
            return Err(format!("oidc: verify token: oidc: expected audience in [{wanted}] got [{got}]"));
        }
        self.settings.rules.user_of(&claims)
    }

    /// Verifies a token's signature and returns its claims. Their times are not checked.
    async fn verified(&self, token: &str) -> Result<Value, String> {
        let malformed = |error: jsonwebtoken::errors::Error| format!("oidc: malformed jwt: {error}");
        let header = jsonwebtoken::decode_header(token).map_err(malformed)?;
        let expected = &self.settings.algorithms;
        if !expected.contains(&header.alg) {
            return Err(format!(
                "oidc: malformed jwt: unexpected signature algorithm {:?}; expected {expected:?}",
                header.alg
            ));
        }
        let kid = header.kid.as_deref();
        let fits = |jwk: &Jwk| kid.is_none_or(|kid| jwk.common.key_id.as_deref().unwrap_or_default() == kid);
        let claims_by =
            |keys: &[Jwk]| keys.iter().filter(|jwk| fits(jwk)).find_map(|jwk| claims_of(token, header.alg, jwk));
        // The issuer may have a new key: fetch again.
        let known = self.keys.known();
        if let Some(claims) = claims_by(&known) {
            return Ok(claims);
        }
        let refreshed = self.keys.refreshed(&known).await;
        let keys = refreshed.map_err(|why| format!("failed to verify signature: fetching keys {why}"))?;
        claims_by(&keys).ok_or_else(|| "failed to verify signature: failed to verify id token signature".to_owned())
    }

    fn check_times(&self, claims: &Value) -> Result<(), String> {
        let now = self.env.wall();
        let seconds = |key: &str| claims[key].as_f64().map(|seconds| seconds as i64);
        let shown = |at_s: i64| jiff::Timestamp::from_second(at_s).map_or(String::new(), |at| at.to_string());
        let expiry_s = seconds("exp").unwrap_or_default();
        if expiry_s <= now.as_second() {
            return Err(format!("oidc: token is expired (Token Expiry: {})", shown(expiry_s)));
        }
        match seconds("nbf") {
            Some(not_before_s) if now.as_second() + EARLY_S < not_before_s => {
                let shown = shown(not_before_s);
                Err(format!("oidc: current time {now} before the nbf (not before) time: {shown}"))
            }
            _ => Ok(()),
        }
    }
}

/// Decodes the claims of a token without verifying its signature.
fn unverified(token: &str) -> Option<Value> {
    let payload = token.split('.').nth(1).filter(|_| token.split('.').count() == 3)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

fn claims_of(token: &str, algorithm: Algorithm, jwk: &Jwk) -> Option<Value> {
    let key = DecodingKey::from_jwk(jwk).ok()?;
    let mut rules = Validation::new(algorithm);
    // The library would compare with the wall clock; `check_times` compares with the time of `Env`.
    rules.validate_exp = false;
    rules.validate_nbf = false;
    rules.validate_aud = false;
    rules.required_spec_claims.clear();
    jsonwebtoken::decode::<Value>(token, &key, &rules).ok().map(|decoded| decoded.claims)
}

fn audiences(claim: &Value) -> Vec<String> {
    match claim {
        Value::String(one) => vec![one.clone()],
        several => several.as_array().into_iter().flatten().filter_map(|a| a.as_str().map(str::to_owned)).collect(),
    }
}

#[cfg(test)]
mod tests;
