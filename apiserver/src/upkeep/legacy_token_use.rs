//! Labels the Secret of a legacy token with the day of its last use, so that administrators can find unused tokens.
//!
//! Corresponds to patchSecretWithLastUsedDate in pkg/serviceaccount/legacy.go. Here no request waits for the write.

use access::authn::Authentication;
use access::authn::legacy_token::{LAST_USED, day_of};
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::own_mutation;
use registry::upkeep::Upkeep;
use request::UserInfo;
use serde_json::{Value, json};
use std::sync::Arc;

/// Writes the labels until the server begins to terminate.
pub async fn run(upkeep: Upkeep, authentication: Arc<Authentication>) {
    let follow = async {
        loop {
            let used = authentication.legacy_uses.taken().await;
            let today = day_of(upkeep.env.wall());
            for (namespace, name) in used {
                if let Err(error) = write(&upkeep.registry, &namespace, &name, &today).await {
                    // The next use of the token tries again.
                    tracing::debug!(namespace, name, %error, "the last use of a token is not written down");
                }
            }
        }
    };
    upkeep.until_end(follow).await;
}

/// Sets the label of one Secret.
async fn write(registry: &Registry, namespace: &str, name: &str, today: &str) -> registry::Result<()> {
    let (target, _) = registry.row_of("", "secrets")?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, namespace, name);
    let edit = Edit(|current: &Value| {
        let mut object = current.clone();
        object["metadata"]["labels"][LAST_USED] = json!(today);
        Ok(object)
    });
    registry.update(&mut mutation, &edit).await.map(drop)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::testing::{Answer, Api};
    use component_base::json_web_token::SigningKey;
    use component_base_testing::fixtures;
    use http::Method;
    use serde_json::{Value, json};

    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

    async fn who(api: &Api, token: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        api.ask(Method::POST, REVIEWS, review, &[("authorization", &bearer)]).await
    }

    /// Returns the error of a TokenReview for a token.
    async fn why(api: &Api, token: &str) -> String {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let review = api.create("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
        review["status"]["error"].as_str().unwrap_or_default().to_owned()
    }

    fn signed(claims: &Value) -> String {
        SigningKey::from_pem(fixtures::SERVICE_ACCOUNT_KEY).unwrap().sign(claims).unwrap()
    }

    /// Creates the account `robot` and its secret `robot-token`. Returns the token in it and the token's claims.
    async fn robot(api: &Api) -> (String, Value) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        let account = api.create(ACCOUNTS, account).await;
        let claims = json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "robot-token",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
        });
        let token = signed(&claims);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "robot-token", "annotations": {"kubernetes.io/service-account.name": "robot"}},
            "stringData": {"token": token},
        });
        api.create(SECRETS, secret).await;
        (token, claims)
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_good_while_its_secret_holds_it() {
        let api = Api::with(Config::default()).await;
        let (token, claims) = robot(&api).await;
        let answer = who(&api, &token).await;
        assert_eq!(answer.body["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
        assert_eq!(answer.warnings(), [""; 0]);
        // The day of its use is a label of its secret.
        let path = format!("{SECRETS}/robot-token");
        let used =
            |answer: &Answer| answer.body["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"] == "2026-01-01";
        api.until(&path, used).await;
        let tracked = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
        api.until(tracked, |answer| answer.body["data"] == json!({"since": "2026-01-01"})).await;
        // A use of an auto-generated token has a warning.
        let merge = [("content-type", "application/merge-patch+json")];
        let own = json!({"secrets": [{"name": "robot-token"}]});
        api.ask(Method::PATCH, &format!("{ACCOUNTS}/robot"), own, &merge).await;
        let answer = who(&api, &token).await;
        assert_eq!(answer.code, 201);
        let warning = answer.warnings().concat();
        assert!(warning.contains("instead of auto-generated secret-based tokens."), "{warning}");
        // Signed by the server's key, but different from the token in the secret.
        let mut other = claims.clone();
        other["jti"] = json!("1");
        assert_eq!(why(&api, &signed(&other)).await, "[invalid bearer token, Token does not match server's copy]");
        other["sub"] = json!("system:serviceaccount:default:other");
        assert_eq!(why(&api, &signed(&other)).await, "[invalid bearer token, sub claim is invalid]");
        // Signed by another key.
        let foreign = SigningKey::from_pem(fixtures::EC_KEYS[0]).unwrap().sign(&claims).unwrap();
        assert_eq!(why(&api, &foreign).await, "invalid bearer token");
        let marked = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}}});
        api.ask(Method::PATCH, &path, marked, &merge).await;
        assert!(why(&api, &token).await.contains("has been marked invalid. Use tokens from the TokenRequest API"));
        api.ask(Method::PATCH, &path, json!({"metadata": {"labels": null}}), &merge).await;
        assert_eq!(who(&api, &token).await.code, 201);
        // A deleted secret invalidates its token at once.
        api.ask(Method::DELETE, &path, "", &[]).await;
        assert_eq!(who(&api, &token).await.code, 401);
        assert_eq!(why(&api, &token).await, "[invalid bearer token, Token has been invalidated]");
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_of_the_same_name_is_another_one() {
        let api = Api::with(Config::default()).await;
        let (token, _) = robot(&api).await;
        let path = format!("{ACCOUNTS}/robot");
        api.ask(Method::DELETE, &path, "", &[]).await;
        assert_eq!(who(&api, &token).await.code, 401);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
        api.create(ACCOUNTS, account).await;
        assert!(why(&api, &token).await.starts_with("[invalid bearer token, ServiceAccount UID ("));
    }
}
