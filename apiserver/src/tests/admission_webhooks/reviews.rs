//! Reviews of tokens and of rights, which are answered and never stored: webhooks see them, policies do not.

use super::{CONFIGURATIONS, World, deny, map, put, rule, webhook, with};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

/// Every kind of review: where it is sent, and what it asks.
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
    let world = World::start().await;
    world.serve("seer", super::allow);
    world.mutating(&[webhook("seer", &["*"])]).await;
    world.validating(&[webhook("seer", &["*"])]).await;
    for (path, kind, spec) in reviews() {
        world.take_asked();
        let answer = world.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 201, "{kind}: {}", answer.text);
        let asked = world.take_asked();
        assert_eq!(asked.len(), 2, "{kind}");
        for (_, request) in asked {
            assert_eq!((&request["kind"]["kind"], &request["operation"]), (&json!(kind), &json!("CREATE")));
            assert_eq!(request["object"]["spec"], answer.body["spec"], "{kind}");
            assert_ne!(request["object"]["status"]["allowed"], true, "{kind}: it is not answered yet");
        }
        // What cannot be answered is refused after mutating webhooks, which might have set it right, and before the others.
        if !spec.is_null() {
            let refused = world.api.post(&path, body(&json!({}))).await;
            assert!([400, 422].contains(&refused.code), "{kind}: {}", refused.text);
            assert_eq!(world.take_names(), ["seer"], "{kind}");
        }
    }

    world.serve("setter", |review| put(review, "/spec/token", json!("ann-token")));
    world.mutating(&[webhook("setter", &["tokenreviews"])]).await;
    let answer = world.api.post(&reviews()[0].0, body(&json!({"token": "nobody's"}))).await;
    assert_eq!(answer.body["status"]["user"]["username"], "ann", "{}", answer.text);

    world.serve("denier", deny);
    world.mutating(&[]).await;
    world.validating(&[webhook("denier", &["*"])]).await;
    for (path, kind, spec) in reviews() {
        let answer = world.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 400, "{kind}: {}", answer.text);
        assert_eq!(answer.message(), "admission webhook \"denier.hooks.test\" denied the request: not today");
    }
}

#[tokio::test(start_paused = true)]
async fn policies_do_not_see_reviews() {
    let world = World::start().await;
    let constraints = json!({"resourceRules": [rule(&["*"])]});
    let policy = json!({"metadata": {"name": "never"}, "spec": {
        "matchConstraints": constraints, "validations": [{"expression": "false", "message": "never"}],
    }});
    world.api.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicies"), policy).await;
    let binding =
        json!({"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    world.api.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicybindings"), binding).await;
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {
        "expression": "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]",
    }});
    let policy = json!({"metadata": {"name": "label"}, "spec": {
        "matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "Never",
    }});
    world.api.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "label"}, "spec": {"policyName": "label"}});
    world.api.create(&format!("{CONFIGURATIONS}/mutatingadmissionpolicybindings"), binding).await;
    assert_eq!(world.create("refused").await.code, 422);
    for (path, kind, spec) in reviews() {
        let answer = world.api.post(&path, body(&spec)).await;
        assert_eq!((answer.code, answer.body["metadata"].get("labels")), (201, None), "{kind}: {}", answer.text);
    }
}

/// A question takes nothing of a quota, though admission sees it.
#[tokio::test(start_paused = true)]
async fn quotas_do_not_count_reviews() {
    let world = World::start().await;
    let hard = json!({"count/localsubjectaccessreviews.authorization.k8s.io": "0", "count/configmaps": "0"});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    world.api.create(quotas, json!({"metadata": {"name": "none"}, "spec": {"hard": hard}})).await;
    let counted = json!({"status": {"hard": hard, "used": hard}});
    let counted = world.api.ask(Method::PATCH, &format!("{quotas}/none/status"), counted, &[super::MERGE]).await;
    assert_eq!(counted.code, 200, "{}", counted.text);
    let known = |answer: &super::Answer| answer.body["status"]["used"].is_object();
    world.api.until(&format!("{quotas}/none?resourceVersion=0"), known).await;
    assert_eq!(world.create("one").await.code, 403);
    let (path, _, spec) = reviews().remove(3);
    assert_eq!(world.api.post(&path, body(&spec)).await.code, 201);
}

/// A webhook that is asked about everything, and never answers.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_asked_about_everything_locks_nobody_out() {
    let world = World::start().await;
    world.serve_after("silent", Duration::from_secs(3600), deny);
    let hook = with(webhook("silent", &["*/*"]), json!({"timeoutSeconds": 1}));
    world.mutating(std::slice::from_ref(&hook)).await;
    world.validating(&[hook]).await;
    // Whoever asks is told in time, and who he is and what he may do takes no review.
    for (path, kind, spec) in reviews() {
        let answer = world.api.post(&path, body(&spec)).await;
        assert_eq!(answer.code, 500, "{kind}: {}", answer.text);
    }
    assert_eq!(world.create("slow").await.code, 500);
    assert_eq!(world.api.get(super::MAPS).await.code, 200);
    // It can be taken away.
    for kind in ["mutating", "validating"] {
        let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/hooks");
        assert_eq!(world.api.ask(Method::DELETE, &path, "", &[]).await.code, 200, "{kind}");
    }
    let made = async {
        while world.api.post(super::MAPS, map("free")).await.code != 201 {
            world.api.server.server.env.sleep(Duration::from_millis(100)).await;
        }
    };
    made.await;
}
