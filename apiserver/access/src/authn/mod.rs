//! Who calls: authenticators run in turn until one knows the caller.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication.

pub mod heard;
pub mod certificate;
pub mod request_header;
pub mod bearer;
pub mod token_file;
pub mod service_account;
pub mod legacy_token;
pub mod bootstrap_token;
pub mod token_cache;
pub mod jwt;
pub mod webhook;
pub mod options;
pub mod impersonation;
pub mod trust;

pub use heard::Heard;

use arc_swap::ArcSwap;
use cacher::lookup::Lookup;
use certificate::Certificates;
use component_base::env::Env;
use component_base::network::ConnectionInfo;
use http::request::Parts;
use jwt::JwtAuthenticator;
use jwt::configuration::{Anonymous, Configuration};
use legacy_token::Uses;
use proto::Status;
use request::UserInfo;
use request_header::RequestHeaders;
use service_account::ServiceAccountTokens;
use std::sync::Arc;
use token_file::TokenFile;
use webhook::WebhookTokens;

/// The authenticators, in their order: a proxy in front, client certificate, static token, service account token,
/// bootstrap token, other issuers' tokens, webhook, anonymous.
#[derive(Default)]
pub struct Authentication {
    pub request_headers: Option<RequestHeaders>,
    pub token_file: TokenFile,
    pub service_accounts: Option<ServiceAccountTokens>,
    pub legacy_uses: Uses,
    pub bootstrap_tokens: bool,
    pub webhook: Option<WebhookTokens>,
    /// What may change while the server runs.
    pub known: ArcSwap<Known>,
    pub certificates: Certificates,
}

/// Whose tokens are believed, and who needs none.
#[derive(Debug, Default)]
pub struct Known {
    issuers: Vec<JwtAuthenticator>,
    anonymous: Anonymous,
}

impl Known {
    /// `anonymous_auth` counts where the configuration does not say.
    pub fn new(env: &Env, said: Configuration, anonymous_auth: bool) -> Self {
        let by_flag = Anonymous { enabled: anonymous_auth, conditions: Vec::new() };
        Self {
            issuers: said.issuers.into_iter().map(|issuer| JwtAuthenticator::new(env, issuer)).collect(),
            anonymous: said.anonymous.unwrap_or(by_flag),
        }
    }
}

/// What became of a bearer token.
pub enum TokenOutcome {
    /// The user, and which of the wanted audiences the token is for.
    Known(UserInfo, Vec<String>),
    /// Why, as TokenReview says it.
    Unknown(String),
}

impl Authentication {
    /// Other issuers from now on.
    pub fn replace(&self, known: Known) {
        self.known.store(Arc::new(known));
    }

    /// The caller, or 401. A bad token is never taken for an anonymous caller.
    pub async fn authenticate(
        &self,
        request: &Parts,
        env: &Env,
        objects: &Arc<dyn Lookup>,
        heard: &Heard<'_>,
    ) -> Result<UserInfo, Status> {
        let connection = request.extensions.get::<ConnectionInfo>();
        let headers = &request.headers;
        let rejected = connection.is_some_and(|c| c.rejected_certificate);
        if let Some(proxies) = &self.request_headers {
            match connection.and_then(|connection| proxies.user_of(connection, headers)) {
                Some(user) => return Ok(heard.knows("request header", user.authenticated())),
                None => heard.passes("request header", "no proxy that is trusted names anybody"),
            }
        }
        match connection.and_then(|c| self.certificates.user_of(c.peer_certificates.first()?)) {
            Some(user) => return Ok(heard.knows("client certificate", user.authenticated())),
            None if rejected => heard.passes("client certificate", "the one that was shown is not accepted"),
            None => heard.passes("client certificate", "none was shown"),
        }
        if let Some(token) = bearer::token(headers).map_err(|_| Status::unauthorized())? {
            return match self.by_token(&token, &[], env, objects, heard).await {
                TokenOutcome::Known(user, _) => Ok(user.authenticated()),
                TokenOutcome::Unknown(_) => Err(Status::unauthorized()),
            };
        }
        heard.passes("bearer token", "none was sent");
        // A certificate that was shown but not accepted makes nobody anonymous.
        if rejected || !self.known.load().anonymous.allows(request.uri.path()) {
            heard.passes("anonymous", "nobody may be that here");
            return Err(Status::unauthorized());
        }
        Ok(heard.knows("anonymous", UserInfo::anonymous()))
    }

    /// Who a token belongs to; no `audiences` stands for the API server's own.
    pub async fn by_token(
        &self,
        token: &str,
        audiences: &[String],
        env: &Env,
        objects: &Arc<dyn Lookup>,
        heard: &Heard<'_>,
    ) -> TokenOutcome {
        // Static and bootstrap tokens, and those of other issuers, know no audience of their own: they are for the API.
        if let Some(user) = self.token_file.find(token) {
            return self.for_api(heard.knows("token file", user), audiences);
        }
        heard.passes("token file", "");
        let mut errors = Vec::new();
        if let Some(accounts) = &self.service_accounts {
            match accounts.authenticate(token, audiences, env.wall(), objects.as_ref()).await {
                Ok(Some((user, audiences))) => {
                    return TokenOutcome::Known(heard.knows("service account token", user), audiences);
                }
                Ok(None) => heard.passes("service account token", ""),
                Err(why) => errors.push(heard.fails("service account token", why)),
            }
        }
        if let Some(accounts) = &self.service_accounts {
            let objects = objects.as_ref();
            match legacy_token::authenticate(accounts, token, env.wall(), objects, &self.legacy_uses).await {
                Ok(Some(known)) => {
                    known.warning.into_iter().for_each(|warning| (heard.warn)(warning.to_owned()));
                    return self.for_api(heard.knows("legacy service account token", known.user), audiences);
                }
                Ok(None) => heard.passes("legacy service account token", ""),
                Err(why) => errors.push(heard.fails("legacy service account token", why)),
            }
        }
        if self.bootstrap_tokens {
            if let Some(user) = bootstrap_token::authenticate(token, env.wall(), objects.as_ref()) {
                return self.for_api(heard.knows("bootstrap token", user), audiences);
            }
            heard.passes("bootstrap token", "");
        }
        let known = self.known.load_full();
        for issuer in &known.issuers {
            let name = issuer.url();
            match issuer.authenticate(token).await {
                Ok(Some(user)) => return self.for_api(heard.knows(name, user), audiences),
                Ok(None) => heard.passes(name, ""),
                Err(why) => errors.push(heard.fails(name, why)),
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.authenticate(token, audiences).await {
                Ok(Some((user, audiences))) => return TokenOutcome::Known(heard.knows("webhook", user), audiences),
                Ok(None) => heard.passes("webhook", ""),
                Err(why) => errors.push(heard.fails("webhook", why)),
            }
        }
        TokenOutcome::Unknown(unknown(&errors))
    }

    fn for_api(&self, user: UserInfo, audiences: &[String]) -> TokenOutcome {
        let own = self.service_accounts.as_ref().map(|a| a.api_audiences.clone()).unwrap_or_default();
        if audiences.is_empty() {
            return TokenOutcome::Known(user, own);
        }
        let shared: Vec<String> = own.into_iter().filter(|a| audiences.contains(a)).collect();
        if shared.is_empty() {
            return TokenOutcome::Unknown(unknown(&[]));
        }
        TokenOutcome::Known(user, shared)
    }
}

/// The words of everybody who had something to say about a token.
fn unknown(errors: &[String]) -> String {
    let invalid = "invalid bearer token";
    if errors.is_empty() { invalid.to_owned() } else { format!("[{invalid}, {}]", errors.join(", ")) }
}
