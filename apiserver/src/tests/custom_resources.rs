//! Custom resources, through the API of a whole server on the memory store.

use crate::config::{Config, StoreKind};
use crate::testing::Api;
use component_base::env::Env;
use futures::FutureExt;
use http::Method;
use serde_json::{Value, json};
use storage::memory::Memory;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/a.example/v1/namespaces/default/gadgets";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

fn definition(versions: Value) -> Value {
    json!({
        "metadata": {"name": "gadgets.a.example"},
        "spec": {
            "group": "a.example", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]},
            "versions": versions,
        },
    })
}

fn version(name: &str, is_storage: bool, spec: Value) -> Value {
    json!({
        "name": name, "served": true, "storage": is_storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        }}},
    })
}

fn simple() -> Value {
    let mut version = version(
        "v1",
        true,
        json!({
            "size": {"type": "integer", "maximum": 10, "default": 3, "x-kubernetes-validations": [{"rule": "self != 7"}]},
            "color": {"type": "string"},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                      "items": {"type": "object", "required": ["name"], "properties": {
                          "name": {"type": "string"}, "n": {"type": "integer"}}}},
        }),
    );
    version["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}});
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    version["additionalPrinterColumns"] = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    definition(json!([version]))
}

async fn define(api: &Api, definition: Value) {
    api.create(DEFINITIONS, definition).await;
    api.until(GADGETS, |answer| answer.code == 200).await;
}

async fn api() -> Api {
    let api = Api::start().await;
    define(&api, simple()).await;
    api
}

fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "a.example/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_with_defaults_pruning_and_validation() {
    let api = api().await;
    let established = api.get(&format!("{DEFINITIONS}/gadgets.a.example")).await.body;
    let conditions = established["status"]["conditions"].as_array().unwrap();
    let conditions: Vec<_> =
        conditions.iter().map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect();
    assert_eq!(conditions, [("NamesAccepted", "True"), ("Established", "True")]);
    let made = api.create(GADGETS, gadget("g", json!({"color": "red", "odd": 1}))).await;
    assert_eq!((&made["spec"], &made["metadata"]["generation"]), (&json!({"color": "red", "size": 3}), &json!(1)));
    let refused = api.post(GADGETS, gadget("h", json!({"size": 11}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            "Gadget.a.example \"h\" is invalid: spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"
        )
    );
    let strict = api.post(&format!("{GADGETS}?fieldValidation=Strict"), gadget("h", json!({"odd": 1}))).await;
    assert_eq!(
        (strict.code, strict.message()),
        (
            400,
            "Gadget in version \"v1\" cannot be handled as a Gadget: strict decoding error: unknown field \"spec.odd\""
        )
    );
    let strategic = ("content-type", "application/strategic-merge-patch+json");
    assert_eq!(api.ask(Method::PATCH, &format!("{GADGETS}/g"), json!({}), &[strategic]).await.code, 415);
    assert_eq!(
        api.get(&format!("{GADGETS}?fieldSelector=spec.color=red")).await.body["items"][0]["metadata"]["name"],
        "g"
    );
    let table = api.get_as(GADGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.body;
    assert_eq!(table["rows"][0]["cells"], json!(["g", 3]));
    assert_eq!(api.ask(Method::DELETE, &format!("{GADGETS}/g"), "", &[]).await.code, 200);
}

/// Creates a definition whose `spec` has this schema, and returns the message if it is refused.
async fn defined_with(spec: Value) -> Result<(), String> {
    let api = Api::start().await;
    let mut version = version("v1", true, json!({}));
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
    let answer = api.post(DEFINITIONS, definition(json!([version]))).await;
    if answer.code == 201 { Ok(()) } else { Err(answer.message().to_owned()) }
}

#[tokio::test(start_paused = true)]
async fn properties_may_stand_beside_additional_properties_that_are_true() {
    let both = |additional: Value| json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": additional});
    assert_eq!(defined_with(both(json!(true))).await, Ok(()));
    for additional in [json!(false), json!({"type": "string"})] {
        let why = defined_with(both(additional.clone())).await.unwrap_err();
        assert!(
            why.ends_with(
                "spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"
            ),
            "{additional}: {why}"
        );
    }
    let mut embedded = both(json!(true));
    embedded["x-kubernetes-embedded-resource"] = json!(true);
    let why = defined_with(embedded).await.unwrap_err();
    assert!(
        why.contains("additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set"),
        "{why}"
    );

    let api = Api::start().await;
    let mut root = version("v1", true, json!({}));
    root["schema"]["openAPIV3Schema"]["additionalProperties"] = json!(true);
    let refused = api.post(DEFINITIONS, definition(json!([root]))).await;
    assert!(
        refused.message().ends_with("openAPIV3Schema.additionalProperties: Forbidden: must not be used at the root")
    );

    let mut open = version("v1", true, json!({}));
    open["schema"]["openAPIV3Schema"]["properties"]["spec"] = both(json!(true));
    define(&api, definition(json!([open]))).await;
    let made = api.create(GADGETS, gadget("g", json!({"a": "x", "other": 1, "deep": {"gone": 1}}))).await;
    assert_eq!(made["spec"], json!({"a": "x", "other": 1, "deep": {}}), "an object without a schema is pruned inside");
    let refused = api.post(GADGETS, gadget("h", json!({"a": 5}))).await;
    assert_eq!(refused.code, 422, "the named property is checked");
    let apply = ("content-type", "application/apply-patch+yaml");
    let body = gadget("i", json!({"a": "x", "other": 1}));
    let applied = api.ask(Method::PATCH, &format!("{GADGETS}/i?fieldManager=m"), body, &[apply]).await;
    assert_eq!((applied.code, &applied.body["spec"]), (201, &json!({"a": "x", "other": 1})));
}

#[tokio::test(start_paused = true)]
async fn status_and_scale_are_written_apart() {
    let api = api().await;
    api.create(GADGETS, gadget("g", json!({}))).await;
    let path = format!("{GADGETS}/g");
    let patched =
        api.ask(Method::PATCH, &path, json!({"spec": {"color": "x"}, "status": {"ready": 9}}), &[MERGE]).await.body;
    assert_eq!((&patched["metadata"]["generation"], &patched["status"]), (&json!(2), &Value::Null));
    let patch = json!({"spec": {"color": "y"}, "status": {"ready": 2}, "metadata": {"labels": {"a": "b"}}});
    let patched = api.ask(Method::PATCH, &format!("{path}/status"), patch, &[MERGE]).await.body;
    assert_eq!((&patched["spec"]["color"], &patched["status"]), (&json!("x"), &json!({"ready": 2})));
    assert_eq!((&patched["metadata"]["generation"], &patched["metadata"]["labels"]), (&json!(2), &Value::Null));
    let scale = api.ask(Method::PATCH, &format!("{path}/scale"), json!({"spec": {"replicas": 5}}), &[MERGE]).await.body;
    assert_eq!((&scale["spec"], &scale["status"]), (&json!({"replicas": 5}), &json!({"replicas": 2})));
    let whole =
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "g"}, "spec": {"replicas": 6}});
    let written = api.ask(Method::PUT, &format!("{path}/scale"), whole, &[]).await;
    assert_eq!((written.code, &written.body["spec"]), (200, &json!({"replicas": 6})), "no version is asked for");
    let refused = api.ask(Method::PATCH, &format!("{path}/scale"), json!({"spec": {"replicas": -1}}), &[MERGE]).await;
    assert_eq!(
        refused.message(),
        "Gadget.a.example \"g\" is invalid: .spec.size: Invalid value: -1: should be a non-negative integer"
    );
}

#[tokio::test(start_paused = true)]
async fn appliers_share_lists_by_their_keys() {
    let api = api().await;
    let apply = |manager: &'static str, part: Value| {
        let body = gadget("g", json!({"parts": [part]}));
        let path = format!("{GADGETS}/g?fieldManager={manager}");
        let api = &api;
        async move { api.ask(Method::PATCH, &path, body, &[("content-type", "application/apply-patch+yaml")]).await }
    };
    assert_eq!(apply("ann", json!({"name": "a", "n": 1})).await.code, 201);
    let both = apply("bob", json!({"name": "b", "n": 2})).await;
    assert_eq!((both.code, &both.body["spec"]["parts"]), (200, &json!([{"name": "a", "n": 1}, {"name": "b", "n": 2}])));
    let again = apply("bob", json!({"name": "b", "n": 2})).await.body;
    assert_eq!(again["metadata"]["resourceVersion"], both.body["metadata"]["resourceVersion"]);
    let conflict = apply("bob", json!({"name": "a", "n": 3})).await;
    assert_eq!(conflict.message(), "Apply failed with 1 conflict: conflict with \"ann\": .spec.parts[name=\"a\"].n");
}

#[tokio::test(start_paused = true)]
async fn versions_are_converted_by_name_and_pruned_by_schema() {
    let api = Api::start().await;
    let (a, b) = (json!({"type": "integer"}), json!({"type": "integer", "default": 5}));
    let mut old = version("v1beta1", false, json!({"a": a}));
    old["deprecated"] = json!(true);
    let versions = json!([version("v1", true, json!({"a": a})), version("v2", false, json!({"a": a, "b": b})), old]);
    define(&api, definition(versions)).await;
    api.create(GADGETS, gadget("g", json!({"a": 1}))).await;
    let v2 = "/apis/a.example/v2/namespaces/default/gadgets";
    let read = api.get(&format!("{v2}/g")).await.body;
    assert_eq!((&read["apiVersion"], &read["spec"]), (&json!("a.example/v2"), &json!({"a": 1})));
    let mut other = gadget("h", json!({}));
    other["apiVersion"] = json!("a.example/v2");
    assert_eq!(api.create(v2, other).await["spec"], json!({}), "the stored version does not have what was given");
    let warned = api.get("/apis/a.example/v1beta1/namespaces/default/gadgets/g").await;
    assert_eq!(warned.warnings(), [r#"299 - "a.example/v1beta1 Gadget is deprecated; use a.example/v2 Gadget""#]);
    let group = api.get("/apis/a.example").await.body;
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[tokio::test(start_paused = true)]
async fn a_changed_schema_applies_at_once_and_allows_unchanged_old_values() {
    let api = api().await;
    api.create(GADGETS, gadget("g", json!({"size": 9, "color": "red"}))).await;
    let mut changed = api.get(&format!("{DEFINITIONS}/gadgets.a.example")).await.body;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    *changed.pointer_mut(path).unwrap() =
        json!({"size": {"type": "integer", "maximum": 5}, "note": {"type": "string"}});
    changed["spec"]["versions"][0]["selectableFields"] = json!([]);
    let put = api.ask(Method::PUT, &format!("{DEFINITIONS}/gadgets.a.example"), changed, &[]).await;
    assert_eq!(put.code, 200, "{}", put.text);
    // A field that the new schema does not have is pruned from answers.
    api.until(&format!("{GADGETS}/g"), |answer| answer.body["spec"] == json!({"size": 9})).await;
    let patch = |spec: Value| {
        api.ask(Method::PATCH, "/apis/a.example/v1/namespaces/default/gadgets/g", json!({"spec": spec}), &[MERGE])
            .boxed()
    };

    assert_eq!(patch(json!({"note": "n"})).await.code, 200);
    assert_eq!(patch(json!({"size": 8})).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_objects_with_it() {
    let api = api().await;
    let mut held = gadget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["a.example/f"]);
    api.create(GADGETS, held).await;
    api.create(GADGETS, gadget("free", json!({}))).await;
    let path = format!("{DEFINITIONS}/gadgets.a.example");
    let deleted = api.ask(Method::DELETE, &path, "", &[]).await;
    assert_eq!(
        deleted.body["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"]),
        "{}",
        deleted.text
    );
    api.until(&format!("{GADGETS}/free"), |answer| answer.code == 404).await;
    let refused = api.post(GADGETS, gadget("late", json!({}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (405, "create not allowed while custom resource definition is terminating")
    );
    let patch = json!({"metadata": {"finalizers": []}});
    assert_eq!(api.ask(Method::PATCH, &format!("{GADGETS}/held"), patch, &[MERGE]).await.code, 200);
    api.until(&path, |answer| answer.code == 404).await;
    let gone = api.until(GADGETS, |answer| answer.code == 404).await;
    assert_eq!(gone.text, "404 page not found\n");
    assert!(!api.get("/apis").await.text.contains("a.example"));
    // The same definition can be created again, without the old objects.
    define(&api, simple()).await;
    assert_eq!(api.get(GADGETS).await.body["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn two_definitions_cannot_have_one_name() {
    let api = api().await;
    let mut rival = simple();
    rival["metadata"]["name"] = json!("rivals.a.example");
    rival["spec"]["names"] = json!({"plural": "rivals", "kind": "Rival", "shortNames": ["gd"]});
    api.create(DEFINITIONS, rival).await;
    let path = format!("{DEFINITIONS}/rivals.a.example");
    let status = api.until(&path, |answer| answer.body["status"]["conditions"].is_array()).await.body["status"].clone();
    assert_eq!(
        (&status["conditions"][0]["reason"], &status["conditions"][1]["status"]),
        (&json!("ShortNamesConflict"), &json!("False"))
    );
    assert_eq!(api.get("/apis/a.example/v1/namespaces/default/rivals").await.code, 404);
    api.ask(Method::DELETE, &format!("{DEFINITIONS}/gadgets.a.example"), "", &[]).await;
    api.until("/apis/a.example/v1/namespaces/default/rivals", |answer| answer.code == 200).await;
}

#[tokio::test(start_paused = true)]
async fn every_server_of_a_store_serves_it_and_a_new_one_is_ready_with_it() {
    let env = Env::simulated(1);
    let storage = Memory::new(&env);
    let config = || Config { store: Some(StoreKind::Memory), ..Config::default() };
    let one = Api::on(&env, storage.clone(), config()).await;
    let two = Api::on(&env, storage.clone(), config()).await;
    define(&one, simple()).await;
    two.until(GADGETS, |answer| answer.code == 200).await;
    one.create(GADGETS, gadget("g", json!({}))).await;
    assert_eq!(two.get(&format!("{GADGETS}/g")).await.code, 200);
    let three = Api::on(&env, storage, config()).await;
    assert_eq!(three.get(&format!("{GADGETS}/g")).await.code, 200);
    one.ask(Method::DELETE, &format!("{DEFINITIONS}/gadgets.a.example"), "", &[]).await;
    two.until(GADGETS, |answer| answer.code == 404).await;
}

#[tokio::test(start_paused = true)]
async fn discovery_and_openapi_follow() {
    let api = api().await;
    let list = api.get("/apis/a.example/v1").await.body;
    let names: Vec<&str> = list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["gadgets", "gadgets/scale", "gadgets/status"]);
    let aggregated = api.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").await;
    assert!(aggregated.text.contains("a.example"));
    assert!(api.get("/openapi/v3").await.text.contains("apis/a.example/v1"));
    let document = api.get("/openapi/v3/apis/a.example/v1").await.body;
    let spec = &document["components"]["schemas"]["example.a.v1.Gadget"]["properties"]["spec"]["properties"];
    assert_eq!(
        spec["size"],
        json!({"type": "integer", "default": 3, "maximum": 10, "x-kubernetes-validations": [{"rule": "self != 7"}]})
    );
    assert_eq!(spec["parts"]["x-kubernetes-list-map-keys"], json!(["name"]));
    assert!(api.get("/openapi/v2").await.text.contains("example.a.v1.Gadget"));
}

#[tokio::test(start_paused = true)]
async fn rules_judge_objects_and_their_changes() {
    let api = Api::start().await;
    let fixed = json!([{"rule": "self == oldSelf", "message": "it stays", "reason": "FieldValueForbidden"}]);
    let mut version = version(
        "v1",
        true,
        json!({
            "low": {"type": "integer"}, "high": {"type": "integer", "maximum": 99},
            "fixed": {"type": "string", "x-kubernetes-validations": fixed},
        }),
    );
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "!has(self.low) || self.low <= self.high", "message": "low above high", "fieldPath": ".low"}]);
    version["subresources"] = json!({"status": {}});
    define(&api, definition(json!([version]))).await;
    let refused = api.post(GADGETS, gadget("g", json!({"low": 2, "high": 1}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (422, "Gadget.a.example \"g\" is invalid: spec.low: Invalid value: low above high")
    );
    let refused = api.post(GADGETS, gadget("g", json!({"low": 2, "high": "x"}))).await;
    assert!(refused.message().contains(r#"<nil>: Invalid value: "null": some validation rules were not checked"#));
    api.create(GADGETS, gadget("g", json!({"low": 1, "high": 2, "fixed": "a"}))).await;
    let one = format!("{GADGETS}/g");
    let changed = api.ask(Method::PATCH, &one, json!({"spec": {"fixed": "b", "low": 3}}), &[MERGE]).await;
    assert_eq!(
        changed.message(),
        "Gadget.a.example \"g\" is invalid: [spec.low: Invalid value: low above high, spec.fixed: Forbidden: it stays]"
    );
    let kept = api.ask(Method::PATCH, &one, json!({"spec": {"low": 2}}), &[MERGE]).await;
    assert_eq!(kept.code, 200, "{}", kept.text);
    let status = api.ask(Method::PATCH, &format!("{one}/status"), json!({"status": {"ready": 1}}), &[MERGE]).await;
    assert_eq!(status.code, 200, "{}", status.text);
}

#[tokio::test(start_paused = true)]
async fn all_errors_of_rules_are_reported() {
    let api = Api::start().await;
    let text = |rules: Value| json!({"type": "string", "maxLength": 9, "x-kubernetes-validations": rules});
    let spec = json!({
        "a": text(json!([{"rule": ""}, {"rule": "self.b"}, {"rule": "size(self)"}])),
        "b": text(json!([{"rule": "true", "messageExpression": "1"}, {"rule": "true", "optionalOldSelf": true}])),
        "c": {"type": "array", "items": {"type": "array", "items": text(json!([{"rule": "self == oldSelf"}]))}},
        "d": {"type": "array", "maxItems": 3000, "items": text(json!([{"rule": "self.split('').all(x, self.split('').all(y, self.contains(x + y)))"}]))},
    });
    let refused = api.post(DEFINITIONS, definition(json!([version("v1", true, spec)]))).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let errors: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |key: &str| cause[key].as_str().unwrap().replace("spec.validation.openAPIV3Schema", "…");
            format!("{}: {}", text("field"), text("message"))
        })
        .collect();
    let has = |part: &str| assert!(errors.iter().any(|error| error.contains(part)), "{part}\n{errors:#?}");
    has("….properties[spec].properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified");
    has("compilation failed: ERROR: <input>:1:5: type 'string' does not support field selection\n | self.b\n | ....^");
    has("cel expression must evaluate to a bool");
    has("messageExpression must evaluate to a string");
    has("optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule");
    has("oldSelf cannot be used on the uncorrelatable portion of the schema within ….properties[spec].properties[c]");
    has(
        "properties[d].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of",
    );
    assert_eq!(api.get(&format!("{DEFINITIONS}/gadgets.a.example")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn rules_over_the_parts_of_a_short_text_are_cheap_enough() {
    let api = Api::start().await;
    let rules = json!([{"rule": "!self.split('.').exists(x, x.matches('^0[0-9]+$'))", "message": "no leading zeros"}]);
    let text = json!({"type": "string", "maxLength": 20, "x-kubernetes-validations": rules});
    define(&api, definition(json!([version("v1", true, json!({"release": text}))]))).await;
    let refused = api.post(GADGETS, gadget("g", json!({"release": "1.02.3"}))).await;
    assert_eq!(
        (refused.code, refused.message()),
        (422, "Gadget.a.example \"g\" is invalid: spec.release: Invalid value: \"1.02.3\": no leading zeros")
    );
    api.create(GADGETS, gadget("g", json!({"release": "1.0.20"}))).await;
}

#[tokio::test(start_paused = true)]
async fn all_errors_of_a_definition_are_reported() {
    let api = Api::start().await;
    let mut wrong = definition(json!([version("v_1", false, json!({"a": {}}))]));
    wrong["spec"]["scope"] = json!("Odd");
    let refused = api.post(DEFINITIONS, wrong).await;
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.scope",
            "spec.versions[0].name",
            "spec.versions",
            "spec.version",
            "spec.validation.openAPIV3Schema.properties[spec].properties[a].type",
            "status.storedVersions",
        ]
    );
}
