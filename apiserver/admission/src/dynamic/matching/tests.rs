//! Tests which writes rules and selectors match, and in which version.

use super::{MatchResources, is_exempt};
use crate::testing::Write;
use serde_json::{Value, json};

fn pod(labels: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n", "labels": labels}})
}

fn create_pod() -> Write {
    Write::create("", "pods", pod(json!({"app": "web"}))).beside("", "namespaces", namespace())
}

fn namespace() -> Value {
    json!({"metadata": {"name": "n", "labels": {"team": "a"}}})
}

fn rule(operations: &[&str], groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"operations": operations, "apiGroups": groups, "apiVersions": versions, "resources": resources})
}

/// Returns the matched version, or the error.
async fn matched(write: Write, of: MatchResources) -> Result<Option<String>, String> {
    let mut found = Ok(None);
    let seen = write
        .see(async |attributes| {
            let place = of.matched(attributes).await?;
            found = Ok(place.map(|place| attributes.versions.all()[place].api_version()));
            Ok(())
        })
        .await;
    seen.error.map_or(found, |error| Err(error.message))
}

async fn is_matched(write: Write, webhook: Value) -> bool {
    matched(write, MatchResources::of_webhook(&webhook)).await.unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_rule_names_operations_groups_versions_and_resources() {
    let status = || create_pod().subresource("status");
    let cases: [(fn() -> Write, Value, bool); 16] = [
        (create_pod, rule(&["CREATE"], &[""], &["v1"], &["pods"]), true),
        (create_pod, rule(&["UPDATE", "CREATE"], &["apps", ""], &["v2", "v1"], &["nodes", "pods"]), true),
        (create_pod, rule(&["*"], &["*"], &["*"], &["*"]), true),
        (create_pod, rule(&["UPDATE"], &["*"], &["*"], &["*"]), false),
        (create_pod, rule(&["*"], &["apps"], &["*"], &["*"]), false),
        (create_pod, rule(&["*"], &["*"], &["v1beta1"], &["*"]), false),
        (create_pod, rule(&["*"], &["*"], &["*"], &["services"]), false),
        (create_pod, rule(&["*"], &["*"], &["*"], &["*/*"]), true),
        (create_pod, rule(&["*"], &["*"], &["*"], &["pods/*"]), true),
        (create_pod, rule(&["*"], &["*"], &["*"], &["pods/status"]), false),
        (status, rule(&["*"], &["*"], &["*"], &["*"]), false),
        (status, rule(&["*"], &["*"], &["*"], &["pods"]), false),
        (status, rule(&["*"], &["*"], &["*"], &["pods/*"]), true),
        (status, rule(&["*"], &["*"], &["*"], &["*/*"]), true),
        (status, rule(&["*"], &["*"], &["*"], &["*/status"]), true),
        (status, rule(&["*"], &["*"], &["*"], &["*/scale"]), false),
    ];
    for (write, rule, expected) in cases {
        assert_eq!(is_matched(write(), json!({"rules": [rule]})).await, expected, "{rule}");
    }
    assert!(!is_matched(create_pod(), json!({})).await, "a webhook without rules");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_of_the_clusters_scope() {
    let create_namespace = || Write::create("", "namespaces", namespace());
    let cases: [(fn() -> Write, &str, bool); 7] = [
        (create_pod, "Namespaced", true),
        (create_pod, "Cluster", false),
        (create_pod, "*", true),
        (create_pod, "Odd", false),
        (create_namespace, "Namespaced", false),
        (create_namespace, "Cluster", true),
        (create_namespace, "*", true),
    ];
    for (write, scope, expected) in cases {
        let mut rule = rule(&["*"], &["*"], &["*"], &["*"]);
        rule["scope"] = json!(scope);
        assert_eq!(is_matched(write(), json!({"rules": [rule]})).await, expected, "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_look_at_the_namespace_and_at_the_old_and_new_object() {
    let team = |team: &str| json!({"matchLabels": {"team": team}});
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    let update = || Write::update("", "pods", pod(json!({"app": "old"})), pod(json!({"app": "new"})));
    let node = || Write::create("", "nodes", json!({"metadata": {"name": "n"}}));
    let cases: [(Write, Value, Value, bool); 12] = [
        (create_pod(), team("a"), app("web"), true),
        (create_pod(), team("b"), app("web"), false),
        (create_pod(), team("a"), app("other"), false),
        (update(), json!({}), app("old"), true),
        (update(), json!({}), app("new"), true),
        (update(), json!({}), app("odd"), false),
        (Write::delete("", "pods", pod(json!({"app": "old"}))), json!(null), app("old"), true),
        (node(), team("b"), json!({}), true),
        (Write::create("", "namespaces", namespace()), team("a"), json!({}), true),
        (Write::create("", "namespaces", namespace()), team("b"), json!({}), false),
        // For a deletion, the old object counts.
        (
            Write::delete("", "namespaces", namespace()).beside("", "namespaces", namespace()),
            team("a"),
            json!({}),
            true,
        ),
        // The options of `CONNECT` have no labels.
        (
            Write::create("", "pods", json!({"command": ["sh"]})),
            json!({}),
            json!({"matchExpressions": [
            {"key": "app", "operator": "DoesNotExist"}]}),
            false,
        ),
    ];
    for (write, namespaces, objects, expected) in cases {
        let rules = [rule(&["*"], &["*"], &["*"], &["*"])];
        let webhook = json!({"rules": rules, "namespaceSelector": namespaces, "objectSelector": objects});
        assert_eq!(is_matched(write, webhook.clone()).await, expected, "{webhook}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_there_matters_only_to_what_would_match() {
    let lost = || Write::create("", "pods", pod(json!({"app": "web"})));
    let of = |resource: &str, app: &str| {
        MatchResources::of_webhook(&json!({
            "rules": [rule(&["*"], &["*"], &["*"], &[resource])],
            "namespaceSelector": {"matchLabels": {"team": "a"}}, "objectSelector": {"matchLabels": {"app": app}},
        }))
    };
    assert_eq!(matched(lost(), of("pods", "web")).await, Err("namespaces \"n\" not found".to_owned()));
    assert_eq!(matched(lost(), of("nodes", "web")).await, Ok(None));
    assert_eq!(matched(lost(), of("pods", "other")).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn equivalent_rules_mean_every_version_and_say_which_one() {
    let scaler = || {
        let object = json!({"metadata": {"name": "h"}});
        Write::create("autoscaling", "horizontalpodautoscalers", object).version("v2")
    };
    let event = || Write::create("", "events", json!({"metadata": {"name": "e"}}));
    let cases: [(Write, &str, Value, Option<&str>); 7] = [
        (scaler(), "Exact", rule(&["*"], &["autoscaling"], &["v1"], &["*"]), None),
        (scaler(), "Exact", rule(&["*"], &["autoscaling"], &["v2"], &["*"]), Some("autoscaling/v2")),
        (scaler(), "Equivalent", rule(&["*"], &["autoscaling"], &["v1"], &["*"]), Some("autoscaling/v1")),
        (scaler(), "Equivalent", rule(&["*"], &["autoscaling"], &["*"], &["*"]), Some("autoscaling/v2")),
        (scaler(), "Equivalent", rule(&["UPDATE"], &["autoscaling"], &["v1"], &["*"]), None),
        (scaler(), "Equivalent", rule(&["*"], &["autoscaling"], &["v1beta1"], &["*"]), None),
        (event(), "Equivalent", rule(&["*"], &["events.k8s.io"], &["v1"], &["events"]), Some("events.k8s.io/v1")),
    ];
    for (write, policy, rule, expected) in cases {
        let webhook = json!({"rules": [rule], "matchPolicy": policy});
        let found = matched(write, MatchResources::of_webhook(&webhook)).await.unwrap();
        assert_eq!(found.as_deref(), expected, "{webhook}");
    }
}

#[tokio::test(start_paused = true)]
async fn policies_exclude_and_name_objects() {
    let all = || rule(&["*"], &["*"], &["*"], &["*"]);
    let named = |name: &str| {
        let mut rule = all();
        rule["resourceNames"] = json!([name]);
        rule
    };
    for (constraints, expected) in [
        (json!({}), true),
        (json!({"resourceRules": [all()]}), true),
        (json!({"resourceRules": [rule(&["*"], &["*"], &["*"], &["nodes"])]}), false),
        (json!({"resourceRules": [all()], "excludeResourceRules": [rule(&["*"], &["*"], &["*"], &["pods"])]}), false),
        (json!({"resourceRules": [all()], "excludeResourceRules": [rule(&["*"], &["*"], &["*"], &["nodes"])]}), true),
        (json!({"resourceRules": [named("p")]}), true),
        (json!({"resourceRules": [named("q")]}), false),
        (json!({"excludeResourceRules": [named("p")]}), false),
        (json!({"excludeResourceRules": [named("q")]}), true),
    ] {
        let found = matched(create_pod(), MatchResources::of_policy(&constraints)).await.unwrap();
        assert_eq!(found.is_some(), expected, "{constraints}");
    }
}

#[tokio::test(start_paused = true)]
async fn configurations_of_webhooks_and_policies_are_nobodys_business() {
    let group = "admissionregistration.k8s.io";
    for (group, resource, expected) in [
        (group, "mutatingwebhookconfigurations", true),
        (group, "validatingadmissionpolicybindings", true),
        ("", "pods", false),
    ] {
        let write = Write::create(group, resource, json!({"metadata": {"name": "x"}}));
        let seen = write
            .see(async |attributes| {
                assert_eq!(is_exempt(attributes), expected, "{resource}");
                Ok(())
            })
            .await;
        assert_eq!(seen.error, None);
    }
}
