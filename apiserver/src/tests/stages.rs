//! The order of the stages: a request that several stages would refuse is refused by the first of them.

use crate::config::{Config, StoreKind};
use crate::testing::{Answer, Api};
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use storage::fault::{Fault, Faults};
use storage::memory::Memory;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const FLOW: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
/// After this time, flow control and authorization have read new objects.
const FOLLOWED: Duration = Duration::from_secs(60);
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";

/// A level with one seat, which belongs to ann and dan; dan may do everything, ann nothing.
async fn share_one_seat(api: &Api) {
    let level = json!({
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"},
        }},
    });
    api.create(&format!("{FLOW}/prioritylevelconfigurations"), level).await;
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    let schema = json!({
        "metadata": {"name": "narrow"},
        "spec": {"priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 50, "rules": [{
            "subjects": [user("ann"), user("dan")],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
        }]},
    });
    api.create(&format!("{FLOW}/flowschemas"), schema).await;
    let binding = json!({
        "metadata": {"name": "dan"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dan"}],
    });
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    api.server.server.env.sleep(FOLLOWED).await;
}

#[tokio::test(start_paused = true)]
async fn each_stage_of_the_pipeline_refuses_before_the_next() {
    let env = Env::simulated(1);
    let fault = Fault::new(&env, Memory::new(&env));
    let api = Api::on(&env, fault.clone(), Config { store: Some(StoreKind::Memory), ..Config::default() }).await;
    share_one_seat(&api).await;
    // The request of dan keeps the seat while it waits for the store.
    fault.set(Faults { delay: 1.0, longest_delay: Duration::from_secs(10), ..Faults::default() });
    let as_dan = [("impersonate-user", "dan")];
    let path = format!("{MAPS}/none");
    let occupant = api.ask(Method::GET, &path, "", &as_dan);
    let refusals = async {
        // Every request has a body that cannot be decoded.
        for (stage, token, impersonated, code, text) in [
            ("authentication, before impersonation", "nobody", "bob", 401, "Unauthorized"),
            ("impersonation, before flow control", "ann-token", "bob", 403, "cannot impersonate"),
            ("flow control, of the impersonated user", "admin-token", "ann", 429, "Too many requests"),
            ("flow control, before authorization", "ann-token", "", 429, "Too many requests"),
            ("authorization, before decoding", "admin-token", "bob", 403, "cannot create resource"),
            ("decoding", "admin-token", "", 400, "unexpected"),
        ] {
            let token = format!("Bearer {token}");
            let mut headers = vec![("authorization", token.as_str())];
            headers.extend((!impersonated.is_empty()).then_some(("impersonate-user", impersonated)));
            assert_refused(stage, &api.ask(Method::POST, MAPS, "{", &headers).await, code, text);
        }
    };
    let (occupant, ()) = tokio::join!(occupant, refusals);
    assert_eq!(occupant.code, 404, "{}", occupant.text);
}

/// The operations that change an object.
const CHANGES: &[&str] = &["CREATE", "UPDATE"];

/// Creates a policy and its binding, which apply to these operations on ConfigMaps and Services.
async fn create_policy(api: &Api, kind: &str, name: &str, operations: &[&str], spec: Value) {
    let mut policy = json!({"metadata": {"name": name}, "spec": spec});
    policy["spec"]["matchConstraints"] = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "services"],
        "operations": operations,
    }]});
    api.create(&format!("{REGISTRATION}/{kind}admissionpolicies"), policy).await;
    let mut binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
    if kind == "validating" {
        binding["spec"]["validationActions"] = json!(["Deny"]);
    }
    api.create(&format!("{REGISTRATION}/{kind}admissionpolicybindings"), binding).await;
}

/// Starts a server on which mutating admission refuses ConfigMaps with the key `mutating`, and validating admission those
/// with the key `validating`.
async fn with_policies() -> Api {
    let api = Api::start().await;
    let refuse_mutating = json!({
        "reinvocationPolicy": "Never",
        "matchConditions": [{"name": "marked", "expression": "has(object.data) && 'mutating' in object.data"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
            "expression": "[JSONPatch{op: 'add', path: '/data/copy', value: object.data['absent']}]",
        }}],
    });
    create_policy(&api, "mutating", "refuse-mutating", CHANGES, refuse_mutating).await;
    let refuse_validating = json!({"validations": [
        {"expression": "!has(object.data) || !('validating' in object.data)", "message": "refused as it will be stored"},
    ]});
    create_policy(&api, "validating", "refuse-validating", CHANGES, refuse_validating).await;
    api
}

fn assert_refused(stage: &str, answer: &Answer, code: u16, text: &str) {
    assert_eq!(answer.code, code, "{stage}: {}", answer.text);
    assert!(answer.text.contains(text), "{stage}: {}", answer.text);
}

#[tokio::test(start_paused = true)]
async fn each_stage_of_an_update_refuses_before_the_next() {
    let api = with_policies().await;
    let stored = api.create(MAPS, json!({"metadata": {"name": "c"}, "data": {"a": "b"}})).await;
    // Wrong for four stages. Each round removes the reason of the refusal before.
    let mut body = json!({
        "metadata": {"name": "c", "resourceVersion": "1", "labels": {"colour": "-blue-"}},
        "data": {"mutating": "", "validating": ""},
    });
    let path = format!("{MAPS}/c");
    let put = async |body: &Value| api.ask(Method::PUT, &path, body, &[]).await;
    assert_refused("mutating admission", &put(&body).await, 403, "no such key: absent");
    body["data"].as_object_mut().unwrap().remove("mutating");
    assert_refused("preconditions", &put(&body).await, 409, "the object has been modified");
    body["metadata"]["resourceVersion"] = json!("");
    assert_refused("validation", &put(&body).await, 422, "metadata.labels: Invalid value");
    body["metadata"]["labels"] = json!({"colour": "blue"});
    assert_refused("validating admission", &put(&body).await, 422, "refused as it will be stored");
    assert_eq!(api.get(&path).await.body, stored, "a refused update writes nothing");
    body["data"].as_object_mut().unwrap().remove("validating");
    let written = put(&body).await;
    assert_eq!(written.code, 200, "{}", written.text);
    let again = put(&body).await;
    assert_eq!(again.body["metadata"]["resourceVersion"], written.body["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn each_stage_of_a_create_refuses_before_the_next() {
    let api = with_policies().await;
    api.create(MAPS, json!({"metadata": {"name": "c"}})).await;
    let mut body = json!({
        "metadata": {"name": "c", "labels": {"colour": "-blue-"}},
        "data": {"mutating": "", "validating": ""},
    });
    assert_refused("mutating admission", &api.post(MAPS, &body).await, 403, "no such key: absent");
    body["data"].as_object_mut().unwrap().remove("mutating");
    assert_refused("validation", &api.post(MAPS, &body).await, 422, "metadata.labels: Invalid value");
    body["metadata"]["labels"] = json!({"colour": "blue"});
    assert_refused("validating admission", &api.post(MAPS, &body).await, 422, "refused as it will be stored");
    body["data"].as_object_mut().unwrap().remove("validating");
    assert_refused("the store", &api.post(MAPS, &body).await, 409, "already exists");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_checks_its_preconditions_before_admission() {
    let api = Api::start().await;
    let stored = api.create(MAPS, json!({"metadata": {"name": "c"}})).await;
    let keep = json!({"validations": [{"expression": "oldObject.metadata.name != 'c'", "message": "c is to stay"}]});
    create_policy(&api, "validating", "keep", &["DELETE"], keep).await;
    let path = format!("{MAPS}/c");
    let delete = async |uid: &Value| api.ask(Method::DELETE, &path, json!({"preconditions": {"uid": uid}}), &[]).await;
    assert_refused("preconditions", &delete(&json!("another")).await, 409, "the UID in the precondition");
    assert_refused("admission", &delete(&stored["metadata"]["uid"]).await, 422, "c is to stay");
    assert_eq!(api.get(&path).await.body, stored, "a refused deletion writes nothing");
}

#[tokio::test(start_paused = true)]
async fn admission_runs_between_managed_fields_and_the_second_defaults() {
    let api = Api::start().await;
    let add_port = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
            "expression": "[JSONPatch{op: 'add', path: '/spec/ports/-', value: Object.spec.ports{name: 'added', port: 81}}]",
        }}],
    });
    create_policy(&api, "mutating", "add-port", CHANGES, add_port).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "given", "port": 80}]}});
    let service = api.create("/api/v1/namespaces/default/services", service).await;
    assert_eq!(service["spec"]["ports"][1]["name"], "added");
    assert_eq!(service["spec"]["ports"][1]["protocol"], "TCP", "defaults are set again after mutating admission");
    let managed = service["metadata"]["managedFields"].to_string();
    assert!(managed.contains(r#"\"port\":80"#), "the writer owns its port: {managed}");
    assert!(!managed.contains(r#"\"port\":81"#), "no manager owns what a policy adds: {managed}");
}
