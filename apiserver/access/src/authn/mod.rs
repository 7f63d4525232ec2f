//! Authentication: authenticators run in order until one recognises the user that sends the request.
//!
//! Reading order: [`Authentication::authenticate`] below, then one module for each authenticator in the order in which
//! they run. [`impersonation`] replaces an authenticated user by another one.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication.

pub mod listener;
pub mod request_header;
pub mod certificate;
pub mod bearer;
pub mod token_file;
pub mod service_account;
pub mod legacy_token;
pub mod bootstrap_token;
pub mod jwt;
pub mod token_cache;
pub mod webhook;
pub mod options;
pub mod impersonation;
pub mod cluster_authentication_info;
#[cfg(test)]
mod tests;

pub use listener::AuthenticationListener;

use arc_swap::ArcSwap;
use cacher::lookup::Lookup;
use certificate::Certificates;
use component_base::env::Env;
use component_base::network::ConnectionInfo;
use http::request::Parts;
use jwt::JwtAuthenticator;
use jwt::configuration::{Anonymous, Configuration};
use legacy_token::UsedTokens;
use proto::Status;
use request::UserInfo;
use request_header::RequestHeaders;
use service_account::ServiceAccountTokens;
use std::sync::Arc;
use token_file::TokenFile;
use webhook::WebhookTokens;

/// The authenticators, in the order in which they run: request headers of an authenticating proxy, client certificate,
/// token file, service account token, bootstrap token, OpenID Connect token, webhook, anonymous.
#[derive(Default)]
pub struct Authentication {
    pub request_headers: Option<RequestHeaders>,
    pub token_file: TokenFile,
    pub service_accounts: Option<ServiceAccountTokens>,
    pub legacy_uses: UsedTokens,
    pub bootstrap_tokens: bool,
    pub webhook: Option<WebhookTokens>,
    /// The part that is reloaded while the server runs.
    pub configuration: ArcSwap<ActiveConfiguration>,
    pub certificates: Certificates,
}

/// The OpenID Connect issuers whose tokens are accepted, and the rules for anonymous requests.
#[derive(Debug, Default)]
pub struct ActiveConfiguration {
    issuers: Vec<JwtAuthenticator>,
    anonymous: Anonymous,
}

impl ActiveConfiguration {
    /// `anonymous_auth` (the flag) counts when the file has no `anonymous` section.
    pub fn new(env: &Env, file: Configuration, anonymous_auth: bool) -> Self {
        let of_flag = Anonymous { enabled: anonymous_auth, conditions: Vec::new() };
        Self {
            issuers: file.issuers.into_iter().map(|issuer| JwtAuthenticator::new(env, issuer)).collect(),
            anonymous: file.anonymous.unwrap_or(of_flag),
        }
    }
}

/// Result of authenticating a bearer token.
pub enum TokenOutcome {
    /// The user, and those of the requested audiences for which the token is valid.
    Authenticated(UserInfo, Vec<String>),
    /// The reason, as `status.error` of a TokenReview gives it.
    Rejected(String),
}

impl Authentication {
    /// Replaces issuers and anonymous rules after a reload.
    pub fn replace(&self, configuration: ActiveConfiguration) {
        self.configuration.store(Arc::new(configuration));
    }

    /// Returns the user that sends the request, or 401. A request with an invalid token never becomes anonymous.
    pub async fn authenticate(
        &self,
        request: &Parts,
        env: &Env,
        objects: &Arc<dyn Lookup>,
        listener: &AuthenticationListener<'_>,
    ) -> Result<UserInfo, Status> {
        let connection = request.extensions.get::<ConnectionInfo>();
        let headers = &request.headers;
        let rejected = connection.is_some_and(|c| c.rejected_certificate);
        if let Some(proxies) = &self.request_headers {
            match connection.and_then(|connection| proxies.user_of(connection, headers)) {
                Some(user) => return Ok(listener.authenticated("request header", user.authenticated())),
                None => listener.no_opinion("request header", "no proxy that is trusted names anybody"),
            }
        }
        match connection.and_then(|c| self.certificates.user_of(c.peer_certificates.first()?)) {
            Some(user) => return Ok(listener.authenticated("client certificate", user.authenticated())),
            None if rejected => listener.no_opinion("client certificate", "the one that was shown is not accepted"),
            None => listener.no_opinion("client certificate", "none was shown"),
        }
        if let Some(token) = bearer::token(headers).map_err(|_| Status::unauthorized())? {
            return match self.authenticate_token(&token, &[], env, objects, listener).await {
                TokenOutcome::Authenticated(user, _) => Ok(user.authenticated()),
                TokenOutcome::Rejected(_) => Err(Status::unauthorized()),
            };
        }
        listener.no_opinion("bearer token", "none was sent");
        // A request with a rejected client certificate never becomes anonymous.
        if rejected || !self.configuration.load().anonymous.allows(request.uri.path()) {
            listener.no_opinion("anonymous", "nobody may be that here");
            return Err(Status::unauthorized());
        }
        Ok(listener.authenticated("anonymous", UserInfo::anonymous()))
    }

    /// Authenticates a bearer token. Empty `audiences` mean those of the API server.
    pub async fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        env: &Env,
        objects: &Arc<dyn Lookup>,
        listener: &AuthenticationListener<'_>,
    ) -> TokenOutcome {
        // Static, bootstrap and OpenID Connect tokens carry no audience of Kubernetes: they are for the API server.
        if let Some(user) = self.token_file.find(token) {
            return self.with_api_audiences(listener.authenticated("token file", user), audiences);
        }
        listener.no_opinion("token file", "");
        let mut errors = Vec::new();
        if let Some(accounts) = &self.service_accounts {
            match accounts.authenticate(token, audiences, env.wall(), objects.as_ref()).await {
                Ok(Some((user, audiences))) => {
                    return TokenOutcome::Authenticated(
                        listener.authenticated("service account token", user),
                        audiences,
                    );
                }
                Ok(None) => listener.no_opinion("service account token", ""),
                Err(why) => errors.push(listener.refused("service account token", why)),
            }
        }
        if let Some(accounts) = &self.service_accounts {
            let objects = objects.as_ref();
            match legacy_token::authenticate(accounts, token, env.wall(), objects, &self.legacy_uses).await {
                Ok(Some(known)) => {
                    known.warning.into_iter().for_each(|warning| (listener.warn)(warning.to_owned()));
                    return self.with_api_audiences(
                        listener.authenticated("legacy service account token", known.user),
                        audiences,
                    );
                }
                Ok(None) => listener.no_opinion("legacy service account token", ""),
                Err(why) => errors.push(listener.refused("legacy service account token", why)),
            }
        }
        if self.bootstrap_tokens {
            if let Some(user) = bootstrap_token::authenticate(token, env.wall(), objects.as_ref()) {
                return self.with_api_audiences(listener.authenticated("bootstrap token", user), audiences);
            }
            listener.no_opinion("bootstrap token", "");
        }
        let configuration = self.configuration.load_full();
        for issuer in &configuration.issuers {
            let name = issuer.url();
            match issuer.authenticate(token).await {
                Ok(Some(user)) => return self.with_api_audiences(listener.authenticated(name, user), audiences),
                Ok(None) => listener.no_opinion(name, ""),
                Err(why) => errors.push(listener.refused(name, why)),
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.authenticate(token, audiences).await {
                Ok(Some((user, audiences))) => {
                    return TokenOutcome::Authenticated(listener.authenticated("webhook", user), audiences);
                }
                Ok(None) => listener.no_opinion("webhook", ""),
                Err(why) => errors.push(listener.refused("webhook", why)),
            }
        }
        TokenOutcome::Rejected(rejection(&errors))
    }

    fn with_api_audiences(&self, user: UserInfo, audiences: &[String]) -> TokenOutcome {
        let own = self.service_accounts.as_ref().map(|a| a.api_audiences.clone()).unwrap_or_default();
        if audiences.is_empty() {
            return TokenOutcome::Authenticated(user, own);
        }
        let shared: Vec<String> = own.into_iter().filter(|a| audiences.contains(a)).collect();
        if shared.is_empty() {
            return TokenOutcome::Rejected(rejection(&[]));
        }
        TokenOutcome::Authenticated(user, shared)
    }
}

/// Joins the errors of all authenticators that rejected a token.
fn rejection(errors: &[String]) -> String {
    let invalid = "invalid bearer token";
    if errors.is_empty() { invalid.to_owned() } else { format!("[{invalid}, {}]", errors.join(", ")) }
}
