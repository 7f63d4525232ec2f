//! Reloads of `--authorization-config` while the server runs.

use crate::config::Config;
use crate::testing::Api;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use http::Method;
use remote::testing::allowing;
use serde_json::json;
use std::time::Duration;
use storage::memory::Memory;

/// Returns the entry of a webhook authorizer in the file.
fn webhook(kubeconfig: &std::path::Path, failure_policy: &str, condition: &str) -> String {
    let path = kubeconfig.display();
    format!(
        "{{type: Webhook, name: hook, webhook: {{authorizedTTL: 5m, unauthorizedTTL: 30s, timeout: 3s, \
         subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, \
         failurePolicy: {failure_policy}, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {path}}}, \
         matchConditions: [{{expression: \"{condition}\"}}]}}}}"
    )
}

#[tokio::test(start_paused = true)]
async fn authorizers_are_those_of_the_file_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let kubeconfig = folder.path().join("hook.conf");
    let to = Connection { server: "https://hook:1/".to_owned(), ..Connection::default() };
    kubeconfig::write(&kubeconfig, &to, "hook", "apiserver").unwrap();
    let path = folder.path().join("authz.yaml");
    let write = |authorizers: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
        std::fs::write(&path, format!("{head}authorizers: [{authorizers}]\n")).unwrap();
    };
    let own = "{type: Node, name: node}, {type: RBAC, name: rbac}";
    write(own);
    let mut config = Config::default();
    config.authorization.authorization_config = Some(path.clone());
    let api = Api::on(&env, Memory::new(&env), config).await;
    let ann = [("authorization", "Bearer ann-token")];
    let secrets = "/api/v1/namespaces/default/secrets";
    let asks = async || {
        env.sleep(Duration::from_secs(2)).await;
        api.ask(Method::GET, secrets, "", &ann).await
    };
    assert_eq!(asks().await.code, 403);
    // A webhook before the other authorizers, which allows ann.
    let hook = allowing(&env, "hook:1", |spec| spec["user"] == "ann");
    write(&format!("{}, {own}", webhook(&kubeconfig, "Deny", "request.user == 'ann'")));
    assert_eq!(asks().await.code, 200);
    let review = hook.lock()[0].clone();
    assert_eq!(review["spec"]["resourceAttributes"]["resource"], "secrets");
    assert_eq!(review["spec"]["groups"], json!(["devs", "system:authenticated"]));
    // An invalid file and a file without RBAC change nothing.
    for wrong in ["{type: Magic, name: other}".to_owned(), webhook(&kubeconfig, "Deny", "request.user == 'ann'")] {
        write(&wrong);
        assert_eq!(asks().await.code, 200, "{wrong}");
    }
    // The webhook is called only for requests that match its condition.
    write(&format!("{}, {own}", webhook(&kubeconfig, "Deny", "request.user == 'bob'")));
    assert_eq!(asks().await.code, 403);
    assert_eq!(hook.lock().len(), 1);
    // A webhook that is down: requests that match its condition get an error, even if RBAC would allow them.
    write(&format!(
        "{own}, {}",
        webhook(&kubeconfig, "NoOpinion", "request.user == 'ann'").replace("hook:1", "gone:1")
    ));
    let to = Connection { server: "https://gone:1/".to_owned(), ..Connection::default() };
    kubeconfig::write(&kubeconfig, &to, "hook", "apiserver").unwrap();
    write(&format!("{}, {own}  ", webhook(&kubeconfig, "NoOpinion", "request.user == 'ann'")));
    let failed = asks().await;
    assert_eq!(failed.code, 500);
    let refused = "Internal error occurred: Post \"https://gone:1/\": dial tcp gone:1: connect: connection refused";
    assert_eq!(failed.message(), refused);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "ann", "resourceAttributes": {"verb": "list", "resource": "secrets"}},
    });
    let answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await;
    assert_eq!(answer["status"]["allowed"], false);
    assert!(refused.ends_with(answer["status"]["evaluationError"].as_str().unwrap()));
    write(own);
    assert_eq!(asks().await.code, 403);
    let metrics = api.get("/metrics").await.text;
    for line in [
        "apiserver_authorization_config_controller_automatic_reloads_total{status=\"failure\"} 2",
        "apiserver_authorization_decisions_total{decision=\"allowed\",name=\"hook\",type=\"Webhook\"} ",
        "apiserver_authorization_match_condition_exclusions_total{name=\"hook\",type=\"Webhook\"} ",
        "apiserver_authorization_webhook_evaluations_fail_open_total{name=\"hook\",result=\"error\"} ",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}
