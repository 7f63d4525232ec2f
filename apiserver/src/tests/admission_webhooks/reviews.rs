//! TokenReviews and access reviews, which are answered and never stored: webhooks see them, policies do not.

use super::{CONFIGURATIONS, Setup, config_map, deny, put, rule, webhook, with};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

/// Returns the path, kind and spec of every kind of review.
fn reviews() -> Vec<(String, &'static str, Value)> {
    let access =
        json!({"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
    let own = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    vec![
        (format!("{AUTHENTICATION}/tokenreviews"), "TokenReview", json!({"token": "ann-token"})),
        (format!("{AUTHENTICATION}/selfsubjectreviews"), "SelfSubjectReview", Value::Null),
        (format!("{AUTHORIZATION}/subjectaccessreviews"), "SubjectAccessReview", access.clone()),
        (format!("{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"), "LocalSubjectAccessReview", access),
        (format!("{AUTHORIZATION}/selfsubjectaccessreviews"), "SelfSubjectAccessReview", own),
        (format!("{AUTHORIZATION}/selfsubjectrulesreviews"), "SelfSubjectRulesReview", json!({"namespace": "default"})),
    ]
}

fn body(spec: &Value) -> Value {
    if spec.is_null() { json!({}) } else { json!({"spec": spec}) }
}

#[tokio::test(start_paused = true)]
async fn webhooks_see_reviews_and_may_change_and_refuse_them() {
    let setup = Setup::start().await;
    setup.serve("seer", super::allow);
    setup.mutating(&[webhook("seer", &["*"])]).await;
    setup.validating(&[webhook("seer", &["*"])]).await;
    for (path, kind, spec) in reviews() {
        setup.take_calls();
        let answer = setup.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 201, "{kind}: {}", answer.text);
        let asked = setup.take_calls();
        assert_eq!(asked.len(), 2, "{kind}");
        for (_, request) in asked {
            assert_eq!((&request["kind"]["kind"], &request["operation"]), (&json!(kind), &json!("CREATE")));
            assert_eq!(request["object"]["spec"], answer.body["spec"], "{kind}");
            assert_ne!(request["object"]["status"]["allowed"], true, "{kind}: it is not answered yet");
        }
        // An invalid review is refused after the mutating webhooks, which could correct it, and before the validating ones.
        if !spec.is_null() {
            let refused = setup.api.post(&path, body(&json!({}))).await;
            assert!([400, 422].contains(&refused.code), "{kind}: {}", refused.text);
            assert_eq!(setup.take_names(), ["seer"], "{kind}");
        }
    }

    setup.serve("setter", |review| put(review, "/spec/token", json!("ann-token")));
    setup.mutating(&[webhook("setter", &["tokenreviews"])]).await;
    let answer = setup.api.post(&reviews()[0].0, body(&json!({"token": "nobody's"}))).await;
    assert_eq!(answer.body["status"]["user"]["username"], "ann", "{}", answer.text);

    setup.serve("denier", deny);
    setup.mutating(&[]).await;
    setup.validating(&[webhook("denier", &["*"])]).await;
    for (path, kind, spec) in reviews() {
        let answer = setup.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 400, "{kind}: {}", answer.text);
        assert_eq!(answer.message(), "admission webhook \"denier.hooks.test\" denied the request: not today");
    }
}

#[tokio::test(start_paused = true)]
async fn policies_do_not_see_reviews() {
    let setup = Setup::start().await;
    let constraints = json!({"resourceRules": [rule(&["*"])]});
    let policy = json!({"metadata": {"name": "never"}, "spec": {
        "matchConstraints": constraints, "validations": [{"expression": "false", "message": "never"}],
    }});
    setup.api.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicies"), policy).await;
    let binding =
        json!({"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    setup.api.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicybindings"), binding).await;
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {
        "expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]",
    }});
    let policy = json!({"metadata": {"name": "label"}, "spec": {
        "matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "Never",
    }});
    setup.api.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "label"}, "spec": {"policyName": "label"}});
    setup.api.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicybindings"), binding).await;
    assert_eq!(setup.create("refused").await.code, 422);
    for (path, kind, spec) in reviews() {
        let answer = setup.api.post(&path, body(&spec)).await;
        assert_eq!((answer.code, answer.body["metadata"].get("labels")), (201, None), "{kind}: {}", answer.text);
    }
}

/// A review uses nothing of a quota, although admission sees it.
#[tokio::test(start_paused = true)]
async fn quotas_do_not_count_reviews() {
    let setup = Setup::start().await;
    let hard = json!({"count/localsubjectaccessreviews.authorization.k8s.io": "0", "count/configmaps": "0"});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    setup.api.create(quotas, json!({"metadata": {"name": "none"}, "spec": {"hard": hard}})).await;
    let counted = json!({"status": {"hard": hard, "used": hard}});
    let counted = setup.api.ask(Method::PATCH, &format!("{quotas}/none/status"), counted, &[super::MERGE]).await;
    assert_eq!(counted.code, 200, "{}", counted.text);
    let known = |answer: &super::Answer| answer.body["status"]["used"].is_object();
    setup.api.until(&format!("{quotas}/none?resourceVersion=0"), known).await;
    assert_eq!(setup.create("one").await.code, 403);
    let (path, _, spec) = reviews().remove(3);
    assert_eq!(setup.api.post(&path, body(&spec)).await.code, 201);
}

/// A webhook for all resources that never answers can still be deleted.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_asked_about_everything_locks_nobody_out() {
    let setup = Setup::start().await;
    setup.serve_after("silent", Duration::from_secs(3600), deny);
    let hook = with(webhook("silent", &["*/*"]), json!({"timeoutSeconds": 1}));
    setup.mutating(std::slice::from_ref(&hook)).await;
    setup.validating(&[hook]).await;
    // The request ends in time: its own authentication and authorization need no review.
    for (path, kind, spec) in reviews() {
        let answer = setup.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 500, "{kind}: {}", answer.text);
    }
    assert_eq!(setup.create("slow").await.code, 500);
    assert_eq!(setup.api.get(super::MAPS).await.code, 200);
    // The configuration can be deleted.
    for kind in ["mutating", "validating"] {
        let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/hooks");
        assert_eq!(setup.api.ask(Method::DELETE, &path, "", &[]).await.code, 200, "{kind}");
    }
    let made = async {
        while setup.api.post(super::MAPS, config_map("free")).await.code != 201 {
            setup.api.server.server.env.sleep(Duration::from_millis(100)).await;
        }
    };
    made.await;
}
