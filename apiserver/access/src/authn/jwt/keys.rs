//! `IssuerKeys`: the public keys of an issuer, from its discovery document and key set.
//!
//! They are fetched when the first token needs them, and again when a token names an unknown key. The rate is limited, so
//! that tokens with made-up key names cannot make this server flood the issuer. Corresponds to github.com/coreos/go-oidc.

use arc_swap::ArcSwap;
use client::Client;
use component_base::env::Env;
use component_base::http::{Body, read_all};
use component_base::kubeconfig::Connection;
use http::{Request, Uri};
use jsonwebtoken::jwk::Jwk;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The least time between two attempts to fetch keys.
const FETCH_AGAIN: Duration = Duration::from_secs(10);
const FETCH_LIMIT: Duration = Duration::from_secs(10);
const MAX_PAGE_BYTES: usize = 1 << 20;
const USER_AGENT: &str = "kube-apiserver-orrery";

/// An issuer, and how to reach it.
#[derive(Clone, Debug, Default)]
pub struct Issuer {
    pub url: String,
    /// URL of the discovery document; empty for the standard path below `url`.
    pub discovery_url: String,
    /// Certificate authority of the issuer's serving certificate.
    pub ca_pem: Option<String>,
}

pub struct IssuerKeys {
    env: Env,
    issuer: Issuer,
    known: ArcSwap<Vec<Jwk>>,
    /// Time and error of the last attempt. Locked during a fetch, so that concurrent callers wait for the same one.
    last: Mutex<Option<(Instant, String)>>,
}

impl std::fmt::Debug for IssuerKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerKeys").field("issuer", &self.issuer.url).finish_non_exhaustive()
    }
}

impl IssuerKeys {
    pub fn new(env: &Env, issuer: Issuer) -> Self {
        Self { env: env.clone(), issuer, known: ArcSwap::default(), last: Mutex::default() }
    }

    pub fn known(&self) -> Arc<Vec<Jwk>> {
        self.known.load_full()
    }

    /// Fetches the keys again, unless they already differ from `than` or the last attempt was too recent.
    pub async fn refreshed(&self, than: &Arc<Vec<Jwk>>) -> Result<Arc<Vec<Jwk>>, String> {
        let mut last = self.last.lock().await;
        let known = self.known();
        if !Arc::ptr_eq(&known, than) {
            return Ok(known);
        }
        let now = self.env.now();
        if let Some((at, error)) = last.as_ref().filter(|(at, _)| now - *at < FETCH_AGAIN) {
            let _ = at;
            return if error.is_empty() { Ok(known) } else { Err(error.clone()) };
        }
        // Recorded before the fetch: a cancelled caller does not let the next one fetch at once.
        *last = Some((now, "oidc: authenticator not initialized".to_owned()));
        let fetched = self.env.timeout(FETCH_LIMIT, self.fetch()).await;
        let fetched = fetched.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        *last = Some((now, fetched.as_ref().err().cloned().unwrap_or_default()));
        let keys = Arc::new(fetched.inspect_err(|error| {
            tracing::error!(issuer = %self.issuer.url, %error, "the keys of an issuer cannot be fetched");
        })?);
        self.known.store(keys.clone());
        Ok(keys)
    }

    async fn fetch(&self) -> Result<Vec<Jwk>, String> {
        let Issuer { url, discovery_url, .. } = &self.issuer;
        let below = || format!("{}/.well-known/openid-configuration", url.trim_end_matches('/'));
        let page = self.get(&if discovery_url.is_empty() { below() } else { discovery_url.clone() }).await?;
        if page["issuer"] != url.as_str() {
            let got = page["issuer"].as_str().unwrap_or_default();
            return Err(format!(
                "oidc: issuer URL provided to client ({url:?}) did not match the issuer URL returned by provider ({got:?})"
            ));
        }
        let keys = page["jwks_uri"].as_str().ok_or("oidc: the discovery page names no jwks_uri")?;
        let set = self.get(keys).await?;
        let keys = set["keys"].as_array().ok_or("oidc: the key set has no keys")?;
        // Keys of unknown kinds are skipped: they sign with no accepted algorithm.
        Ok(keys.iter().filter_map(|key| serde_json::from_value::<Jwk>(key.clone()).ok()).collect())
    }

    async fn get(&self, url: &str) -> Result<Value, String> {
        let failed = |why: &dyn std::fmt::Display| format!("Get {url:?}: {why}");
        let uri: Uri = url.parse().map_err(|error| failed(&error))?;
        let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.ok_or_else(|| failed(&"URL scheme must be https"))?;
        let server = format!("https://{authority}");
        let connection = Connection { server, ca_pem: self.issuer.ca_pem.clone(), ..Connection::default() };
        let client = Client::connect(&self.env, &connection, USER_AGENT).map_err(|error| failed(&error))?;
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from);
        let answer = client.send(request).await.map_err(|error| failed(&error))?;
        let code = answer.status();
        let bytes = read_all(answer.into_body(), MAX_PAGE_BYTES).await.map_err(|error| failed(&error))?;
        if !code.is_success() {
            return Err(failed(&code));
        }
        serde_json::from_slice(&bytes).map_err(|error| failed(&error))
    }
}
