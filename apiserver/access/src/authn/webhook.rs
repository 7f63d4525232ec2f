//! The webhook token authenticator: sends a TokenReview to another server.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/authenticator/token/webhook.

use super::options::TokenOptions;
use super::token_cache::{TokenCache, TokenResult};
use component_base::env::Env;
use component_base::options::OptionsError;
use futures::FutureExt;
use remote::reviewer::Reviewer;
use request::UserInfo;
use serde_json::{Value, json};
use std::time::Duration;

/// Timeout of one call to the webhook.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct WebhookTokens {
    reviewer: Reviewer,
    /// `authentication.k8s.io/v1` or `authentication.k8s.io/v1beta1`.
    api_version: String,
    /// The audiences of a token when the webhook returns none.
    api_audiences: Vec<String>,
    cache: TokenCache,
}

impl WebhookTokens {
    /// Returns the authenticator that the flags configure, if they name a webhook.
    pub fn of(env: &Env, options: &TokenOptions, api_audiences: Vec<String>) -> Result<Option<Self>, OptionsError> {
        let Some(path) = &options.authentication_token_webhook_config_file else { return Ok(None) };
        let invalid = |flag, message| OptionsError::Invalid { flag, message };
        let version = options.authentication_token_webhook_version.as_str();
        if !["v1", "v1beta1"].contains(&version) {
            return Err(invalid("authentication-token-webhook-version", "want v1 or v1beta1".to_owned()));
        }
        let reviewer = Reviewer::of_file(env, path);
        let reviewer = reviewer.map_err(|why| invalid("authentication-token-webhook-config-file", why))?;
        let ttl = options.authentication_token_webhook_cache_ttl;
        Ok(Some(Self::new(env, reviewer, version, api_audiences, ttl)))
    }

    fn new(env: &Env, reviewer: Reviewer, version: &str, api_audiences: Vec<String>, ttl: Duration) -> Self {
        Self {
            reviewer,
            api_version: format!("authentication.k8s.io/{version}"),
            api_audiences,
            cache: TokenCache::new(env, ttl, ttl),
        }
    }

    /// Authenticates a token. Empty `audiences` mean those of the API server.
    pub async fn authenticate(&self, token: &str, audiences: &[String]) -> TokenResult {
        let wanted = if audiences.is_empty() { &self.api_audiences } else { audiences };
        let ask = || {
            let review = json!({
                "apiVersion": self.api_version,
                "kind": "TokenReview",
                "metadata": {},
                "spec": {"token": token, "audiences": wanted},
            });
            let (reviewer, wanted, implied) = (self.reviewer.clone(), wanted.to_vec(), self.api_audiences.clone());
            async move {
                let answer = reviewer.send(&review, LIMIT).await.inspect_err(|error| {
                    tracing::error!(%error, "failed to make webhook authenticator request");
                })?;
                read(&answer, &wanted, &implied)
            }
            .boxed()
        };
        self.cache.get(token, wanted, ask).await
    }
}

fn read(answer: &Value, wanted: &[String], implied: &[String]) -> TokenResult {
    let status = &answer["status"];
    if answer["kind"] != "TokenReview" || !status.is_object() {
        return Err("the webhook's answer is no TokenReview".to_owned());
    }
    let said = strings(&status["audiences"]);
    let audiences = if said.is_empty() { implied.to_vec() } else { said };
    let shared: Vec<String> = wanted.iter().filter(|audience| audiences.contains(audience)).cloned().collect();
    if shared.is_empty() && !wanted.is_empty() {
        return Ok(None);
    }
    if status["authenticated"] != true {
        let error = status["error"].as_str().unwrap_or_default();
        return if error.is_empty() { Ok(None) } else { Err(error.to_owned()) };
    }
    let user = &status["user"];
    let text = |key: &str| user[key].as_str().unwrap_or_default().to_owned();
    let extra = user["extra"].as_object().into_iter().flatten();
    let user = UserInfo {
        name: text("username"),
        uid: text("uid"),
        groups: strings(&user["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), strings(values))).collect(),
    };
    Ok(Some((user, shared)))
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::kubeconfig::Connection;
    use remote::testing::reviewing;

    fn tokens(env: &Env) -> WebhookTokens {
        let to = Connection { server: "https://hook:1/tokens".to_owned(), ..Connection::default() };
        let reviewer = Reviewer::of(env, &to).unwrap();
        WebhookTokens::new(env, reviewer, "v1", vec!["api".to_owned()], Duration::from_secs(120))
    }

    #[tokio::test(start_paused = true)]
    async fn the_webhook_says_who_a_token_is() {
        let env = Env::simulated(1);
        let asked = reviewing(&env, "hook:1", |spec| match spec["token"].as_str().unwrap() {
            "ann" => json!({"authenticated": true, "user": {
                "username": "ann", "uid": "1", "groups": ["devs"], "extra": {"scopes": ["a", "b"]},
            }}),
            "vault" => json!({"authenticated": true, "audiences": ["vault"], "user": {"username": "v"}}),
            "expired" => json!({"error": "it is too old"}),
            "garbage" => json!([]),
            _ => json!({"authenticated": false}),
        });
        let tokens = tokens(&env);
        let ann = UserInfo {
            uid: "1".to_owned(),
            extra: [("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into(),
            ..UserInfo::new("ann", &["devs"])
        };
        let vault = vec!["vault".to_owned()];
        for (token, audiences, expected) in [
            ("ann", &[][..], Ok(Some((ann.clone(), vec!["api".to_owned()])))),
            ("ann", &[], Ok(Some((ann, vec!["api".to_owned()])))),
            ("ann", &vault, Ok(None)),
            ("vault", &[], Ok(None)),
            ("vault", &vault, Ok(Some((UserInfo::new("v", &[]), vault.clone())))),
            ("nobody", &[], Ok(None)),
            ("nobody", &[], Ok(None)),
            ("expired", &[], Err("it is too old".to_owned())),
            ("garbage", &[], Err("the webhook's answer is no TokenReview".to_owned())),
        ] {
            assert_eq!(tokens.authenticate(token, audiences).await, expected, "{token} {audiences:?}");
        }
        // Two results came from the cache.
        assert_eq!(asked.lock().len(), 7);
        assert_eq!(asked.lock()[0]["spec"], json!({"token": "ann", "audiences": ["api"]}));
        env.sleep(Duration::from_secs(121)).await;
        tokens.authenticate("ann", &[]).await.unwrap();
        assert_eq!(asked.lock().len(), 8);
    }
}
