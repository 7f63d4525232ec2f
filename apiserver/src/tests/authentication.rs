//! Authenticators of every kind, as clients observe them.

use crate::config::Config;
use crate::testing::Api;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use http::Method;
use remote::testing::reviewing;
use serde_json::{Value, json};
use std::time::Duration;
use storage::memory::Memory;

/// Returns the user that the server authenticates by a token, or the code of its refusal.
async fn user_of(api: &Api, token: &str) -> Value {
    let bearer = format!("Bearer {token}");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = api.ask(Method::POST, path, review, &[("authorization", &bearer)]).await;
    if answer.code == 201 { answer.body["status"]["userInfo"].clone() } else { json!(answer.code) }
}

/// Returns `user_of` as soon as it differs from `before`, because caches follow the store a little later.
async fn changed_user_of(api: &Api, token: &str, before: &Value) -> Value {
    for _ in 0..100 {
        let now = user_of(api, token).await;
        if now != *before {
            return now;
        }
        api.server.server.env.sleep(Duration::from_millis(10)).await;
    }
    before.clone()
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_token_authenticates_until_its_secret_is_deleted() {
    let mut config = Config::default();
    config.tokens.enable_bootstrap_token_auth = true;
    let api = Api::with(config).await;
    let token = "abcdef.0123456789abcdef";
    assert_eq!(user_of(&api, token).await, 401);
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
    let groups = ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"];
    let node = json!({"username": "system:bootstrap:abcdef", "groups": groups});
    assert_eq!(changed_user_of(&api, token, &json!(401)).await, node);
    assert_eq!(user_of(&api, "abcdef.0123456789abcdeg").await, 401);
    api.ask(Method::DELETE, &format!("{secrets}/bootstrap-token-abcdef"), "", &[]).await;
    assert_eq!(changed_user_of(&api, token, &node).await, 401);
    // A server without `--enable-bootstrap-token-auth` refuses every bootstrap token.
    let disabled = Api::start().await;
    assert_eq!(user_of(&disabled, token).await, 401);
}

/// Corresponds to ApplyAuthorization in pkg/kubeapiserver/options/authentication.go.
#[tokio::test(start_paused = true)]
async fn nobody_is_anonymous_where_everybody_may_do_everything() {
    use access::authz::mode::Mode;
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
        assert_eq!(user_of(&api, "ann-token").await["username"], "ann");
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
    assert_eq!(user_of(&api, "theirs").await["username"], "theirs");
    assert_eq!(user_of(&api, "ann-token").await["username"], "ann");
    assert_eq!(user_of(&api, "nobody").await, 401);
    let audiences = json!(["https://kubernetes.default.svc"]);
    assert_eq!(asked.lock()[0]["spec"], json!({"token": "theirs", "audiences": audiences}));
    assert_eq!(asked.lock()[0]["apiVersion"], "authentication.k8s.io/v1beta1");
    assert_eq!(asked.lock().len(), 2);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}});
    let review = api.create("/apis/authentication.k8s.io/v1/tokenreviews", review).await;
    assert_eq!(review["status"]["error"], "[invalid bearer token, never heard of it]");
}
