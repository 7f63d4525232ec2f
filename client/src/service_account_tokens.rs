//! Tokens of a service account, from TokenRequests, replaced before they expire.
//!
//! Corresponds to SAControllerClientBuilder in k8s.io/controller-manager/pkg/clientbuilder.

use crate::client::Client;
use crate::error::Error;
use crate::request::{Call, JSON, Target};
use crate::token::{TokenSource, bearer};
use async_trait::async_trait;
use http::{HeaderValue, Method};
use parking_lot::Mutex;
use proto::kinds::Kind;
use proto::kinds::api::core::v1::ServiceAccount;
use proto::kinds::jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Requested lifetime of a token.
const TOKEN_LIFE_S: i64 = 3600;
/// Fraction of its lifetime after which a token is replaced.
const REFRESH_AT: f64 = 0.8;

/// The tokens of one service account, which is created if it does not exist.
pub struct ServiceAccountTokens {
    requester: Client,
    namespace: String,
    name: String,
    /// Locked during the request, so that one caller requests a token and the others wait for it.
    current: tokio::sync::Mutex<Option<Issued>>,
    revoked: Mutex<bool>,
}

struct Issued {
    bearer: HeaderValue,
    refresh_at: Instant,
}

impl ServiceAccountTokens {
    /// `requester` must be allowed to create tokens of service accounts; its identity is used for nothing else.
    pub fn new(requester: &Client, namespace: &str, name: &str) -> Self {
        Self {
            requester: requester.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            current: tokio::sync::Mutex::new(None),
            revoked: Mutex::new(false),
        }
    }

    async fn request(&self) -> Result<Issued, Error> {
        match self.request_once().await {
            Err(error) if error.is_not_found() => {
                self.create_account().await?;
                self.request_once().await
            }
            other => other,
        }
    }

    async fn request_once(&self) -> Result<Issued, Error> {
        let path = ServiceAccount::gvr().path(Some(&self.namespace));
        let target = Target::new(path).segment(&self.name).segment("token").into_string();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": TOKEN_LIFE_S}
        });
        let env = self.requester.env();
        let (asked_at, asked_wall) = (env.now(), env.wall());
        let answer = self.requester.call(&Call::new(Method::POST, target).body(JSON, body.to_string())).await?;
        let malformed = || Error::Decode(format!("token of {}/{}: no token in the answer", self.namespace, self.name));
        let answer: Value = serde_json::from_slice(&answer).map_err(|_| malformed())?;
        let status = &answer["status"];
        let token = status["token"].as_str().filter(|token| !token.is_empty()).ok_or_else(malformed)?;
        let expires = status["expirationTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
        let life = expires.and_then(|at| Duration::try_from(at.duration_since(asked_wall)).ok()).unwrap_or_default();
        Ok(Issued { bearer: bearer(token)?, refresh_at: asked_at + life.mul_f64(REFRESH_AT) })
    }

    async fn create_account(&self) -> Result<(), Error> {
        let account = ServiceAccount {
            metadata: proto::kinds::metav1::ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..Default::default()
            },
            ..Default::default()
        };
        match self.requester.api::<ServiceAccount>(&self.namespace).create(&account).await {
            Err(error) if !error.is_already_exists() => Err(error),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl TokenSource for ServiceAccountTokens {
    async fn authorization(&self) -> Result<HeaderValue, Error> {
        let mut current = self.current.lock().await;
        let revoked = std::mem::take(&mut *self.revoked.lock());
        if let Some(issued) = &*current
            && !revoked
            && self.requester.env().now() < issued.refresh_at
        {
            return Ok(issued.bearer.clone());
        }
        let issued = self.request().await?;
        let bearer = issued.bearer.clone();
        *current = Some(issued);
        Ok(bearer)
    }

    fn invalidate(&self) -> bool {
        *self.revoked.lock() = true;
        true
    }
}
