//! Who calls: authenticators run in turn until one knows the caller.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication.

pub mod certificate;
pub mod impersonation;
pub mod request_header;
pub mod service_account;
pub mod token_file;
pub mod trust;
pub mod user_info;

pub use user_info::UserInfo;

use crate::admission::Lookup;
use component_base::env::Env;
use component_base::network::ConnectionInfo;
use http::{HeaderMap, header};
use parking_lot::Mutex;
use proto::Status;
use request_header::RequestHeaders;
use service_account::ServiceAccountTokens;
use std::collections::BTreeMap;
use std::sync::Arc;
use token_file::TokenFile;

/// Certificates whose owner is remembered, so that reading them costs once.
const REMEMBERED_CERTIFICATES: usize = 4096;

/// The authenticators, in their order: a proxy in front, client certificate, static token, service account token, anonymous.
pub struct Authentication {
    pub request_headers: Option<RequestHeaders>,
    pub token_file: TokenFile,
    pub service_accounts: Option<ServiceAccountTokens>,
    pub allow_anonymous: bool,
    certificates: Mutex<BTreeMap<Vec<u8>, UserInfo>>,
}

/// What became of a bearer token.
pub enum TokenOutcome {
    /// The user, and which of the wanted audiences the token is for.
    Known(UserInfo, Vec<String>),
    /// Why, as TokenReview says it.
    Unknown(String),
}

impl Authentication {
    pub fn new(token_file: TokenFile, service_accounts: Option<ServiceAccountTokens>, allow_anonymous: bool) -> Self {
        Self { request_headers: None, token_file, service_accounts, allow_anonymous, certificates: Mutex::default() }
    }

    /// Believing these proxies.
    pub fn behind(self, request_headers: Option<RequestHeaders>) -> Self {
        Self { request_headers, ..self }
    }

    /// The caller, or 401. A bad token is never taken for an anonymous caller.
    pub async fn authenticate(
        &self,
        connection: Option<&ConnectionInfo>,
        headers: &HeaderMap,
        env: &Env,
        objects: &Arc<dyn Lookup>,
    ) -> Result<UserInfo, Status> {
        let proxied = self.request_headers.as_ref().zip(connection);
        if let Some(user) = proxied.and_then(|(proxies, connection)| proxies.user_of(connection, headers)) {
            return Ok(user.authenticated());
        }
        if let Some(user) = connection.and_then(|c| self.by_certificate(c)) {
            return Ok(user.authenticated());
        }
        if let Some(token) = bearer_token(headers) {
            return match self.by_token(token, &[], env, objects).await {
                TokenOutcome::Known(user, _) => Ok(user.authenticated()),
                TokenOutcome::Unknown(_) => Err(Status::unauthorized()),
            };
        }
        // A certificate that was shown but not accepted makes nobody anonymous.
        let rejected = connection.is_some_and(|c| c.rejected_certificate);
        if self.allow_anonymous && !rejected { Ok(UserInfo::anonymous()) } else { Err(Status::unauthorized()) }
    }

    fn by_certificate(&self, connection: &ConnectionInfo) -> Option<UserInfo> {
        let leaf = connection.peer_certificates.first()?;
        let mut known = self.certificates.lock();
        if let Some(user) = known.get(leaf.as_ref()) {
            return Some(user.clone());
        }
        let user = certificate::user_of(leaf).ok()?;
        if known.len() >= REMEMBERED_CERTIFICATES {
            known.clear();
        }
        known.insert(leaf.to_vec(), user.clone());
        Some(user)
    }

    /// Who a token belongs to; no `audiences` stands for the API server's own.
    pub async fn by_token(
        &self,
        token: &str,
        audiences: &[String],
        env: &Env,
        objects: &Arc<dyn Lookup>,
    ) -> TokenOutcome {
        if let Some(user) = self.token_file.find(token) {
            // Static tokens know no audience of their own: they are for the API.
            return self.for_api(user, audiences);
        }
        let invalid = "invalid bearer token";
        let Some(accounts) = &self.service_accounts else { return TokenOutcome::Unknown(invalid.into()) };
        match accounts.authenticate(token, audiences, env.wall(), objects.as_ref()).await {
            Ok(Some((user, audiences))) => TokenOutcome::Known(user, audiences),
            Ok(None) => TokenOutcome::Unknown(invalid.into()),
            Err(why) => TokenOutcome::Unknown(format!("[{invalid}, {why}]")),
        }
    }

    fn for_api(&self, user: UserInfo, audiences: &[String]) -> TokenOutcome {
        let own = self.service_accounts.as_ref().map(|a| a.api_audiences.clone()).unwrap_or_default();
        if audiences.is_empty() {
            return TokenOutcome::Known(user, own);
        }
        let shared: Vec<String> = own.into_iter().filter(|a| audiences.contains(a)).collect();
        if shared.is_empty() {
            return TokenOutcome::Unknown("invalid bearer token".into());
        }
        TokenOutcome::Known(user, shared)
    }
}

/// The token of `Authorization: Bearer …`; other schemes are not ours.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
