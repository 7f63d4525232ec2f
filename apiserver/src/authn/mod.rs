//! Who calls: authenticators run in turn until one knows the caller.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication.

pub mod user_info;
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
pub use user_info::UserInfo;

use crate::cacher::lookup::Lookup;
use arc_swap::ArcSwap;
use certificate::Certificates;
use component_base::env::Env;
use component_base::network::ConnectionInfo;
use http::request::Parts;
use jwt::JwtAuthenticator;
use jwt::configuration::{Anonymous, Configuration};
use legacy_token::Uses;
use proto::Status;
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

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::storage::memory::Memory;
    use crate::testing::{Api, reviewing};
    use component_base::env::Env;
    use component_base::kubeconfig::{self, Connection};
    use http::Method;
    use serde_json::{Value, json};
    use std::time::Duration;

    async fn who(api: &Api, token: &str) -> Value {
        let bearer = format!("Bearer {token}");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = api.ask(Method::POST, path, review, &[("authorization", &bearer)]).await;
        if answer.code == 201 { answer.body["status"]["userInfo"].clone() } else { json!(answer.code) }
    }

    /// The same, once it is another answer than that; caches follow the store a little later.
    async fn who_after(api: &Api, token: &str, before: &Value) -> Value {
        for _ in 0..100 {
            let now = who(api, token).await;
            if now != *before {
                return now;
            }
            api.server.server.env.sleep(Duration::from_millis(10)).await;
        }
        before.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_invited_until_its_secret_is_gone() {
        let mut config = Config::default();
        config.tokens.enable_bootstrap_token_auth = true;
        let api = Api::with(config).await;
        let token = "abcdef.0123456789abcdef";
        assert_eq!(who(&api, token).await, 401);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
            },
        });
        let secrets = "/api/v1/namespaces/kube-system/secrets";
        api.create(secrets, secret).await;
        let groups =
            ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"];
        let node = json!({"username": "system:bootstrap:abcdef", "groups": groups});
        assert_eq!(who_after(&api, token, &json!(401)).await, node);
        assert_eq!(who(&api, "abcdef.0123456789abcdeg").await, 401);
        api.ask(Method::DELETE, &format!("{secrets}/bootstrap-token-abcdef"), "", &[]).await;
        assert_eq!(who_after(&api, token, &node).await, 401);
        // Nobody is invited where that is switched off.
        let closed = Api::start().await;
        assert_eq!(who(&closed, token).await, 401);
    }

    /// Corresponds to ApplyAuthorization in pkg/kubeapiserver/options/authentication.go.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_anonymous_where_everybody_may_do_everything() {
        use crate::authz::mode::Mode;
        for (modes, code) in [
            (vec![Mode::Node, Mode::Rbac], 200),
            (vec![Mode::AlwaysAllow], 401),
            (vec![Mode::Rbac, Mode::AlwaysAllow], 401),
        ] {
            let mut config = Config { anonymous_auth: true, ..Config::default() };
            config.authorization.authorization_mode = modes.clone();
            let api = Api::with(config).await;
            let nobody = api.ask(Method::GET, "/version", "", &[("authorization", "")]).await;
            assert_eq!(nobody.code, code, "{modes:?}");
            assert_eq!(who(&api, "ann-token").await["username"], "ann");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_knows_tokens_that_nobody_else_knows() {
        let env = Env::simulated(1);
        let asked = reviewing(&env, "hook:1", |spec| match spec["token"].as_str() {
            Some("theirs") => json!({"authenticated": true, "user": {"username": "theirs"}}),
            _ => json!({"authenticated": false, "error": "never heard of it"}),
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        let to = Connection { server: "https://hook:1/".to_owned(), ..Connection::default() };
        kubeconfig::write(file.path(), &to, "hook", "apiserver").unwrap();
        let mut config = Config::default();
        config.tokens.authentication_token_webhook_config_file = Some(file.path().to_owned());
        let api = Api::on(&env, Memory::new(&env), config).await;
        assert_eq!(who(&api, "theirs").await["username"], "theirs");
        assert_eq!(who(&api, "ann-token").await["username"], "ann");
        assert_eq!(who(&api, "nobody").await, 401);
        let audiences = json!(["https://kubernetes.default.svc"]);
        assert_eq!(asked.lock()[0]["spec"], json!({"token": "theirs", "audiences": audiences}));
        assert_eq!(asked.lock()[0]["apiVersion"], "authentication.k8s.io/v1beta1");
        assert_eq!(asked.lock().len(), 2);
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}});
        let review = api.create("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
        assert_eq!(review["status"]["error"], "[invalid bearer token, never heard of it]");
    }
}
