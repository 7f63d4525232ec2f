//! Tests of the handlers through HTTP: status codes, messages, warnings and forms of responses as Kubernetes has them.

mod cancelled;
mod deletions;
mod denied;
mod evictions;
mod field_order;
mod pages;
mod patches;
mod routes;
mod stateful_sets;

use crate::testing::Api;
use http::Method;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// A pod without resource requests, with the service account that [`api_with_account`] creates.
fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "serviceAccountName": "bot",
            "terminationGracePeriodSeconds": 7,
        },
    })
}

async fn api_with_account() -> Api {
    let api = Api::start().await;
    api.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "bot"}})).await;
    api
}

#[tokio::test(start_paused = true)]
async fn warnings_come_with_refusals_too() {
    let api = Api::start().await;
    let old = api.get("/api/v1/componentstatuses?watch=1").await;
    assert_eq!((old.code, old.warnings()), (405, vec![r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#]));
    let odd = api.post(CONFIG_MAPS, json!({"metadata": {"name": "A_b"}, "dta": {}})).await;
    assert_eq!((odd.code, odd.warnings()), (422, vec![r#"299 - "unknown field \"dta\"""#]));
    let (merge, patch) = (("content-type", "application/merge-patch+json"), json!({"dta": {}, "immutable": 5}));
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await;
    let refused = api.ask(Method::PATCH, &format!("{CONFIG_MAPS}/c"), patch, &[merge]).await;
    assert_eq!(
        (refused.code, refused.warnings().len()),
        (422, 0),
        "a patch whose result cannot be decoded gets no further checks"
    );
    let patch = json!({"dta": {}, "metadata": {"labels": {"a b": "c"}}});
    let refused = api.ask(Method::PATCH, &format!("{CONFIG_MAPS}/c"), patch, &[merge]).await;
    assert_eq!((refused.code, refused.warnings()), (422, vec![r#"299 - "unknown field \"dta\"""#]));
}

#[tokio::test(start_paused = true)]
async fn empty_lists_have_no_items() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/none/configmaps";
    let items = |answer: crate::testing::Answer, key: &str| (answer.code, answer.body[key].clone());
    assert_eq!(items(api.get(path).await, "items"), (200, json!([])));
    assert_eq!(items(api.get_as(path, METADATA_LIST).await, "items"), (200, Value::Null));
    assert_eq!(items(api.get_as(path, TABLE).await, "rows"), (200, json!([])));
    // Kinds without columns of their own have another table converter.
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/none/roles";
    assert_eq!(items(api.get_as(roles, TABLE).await, "rows"), (200, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn tables_have_kubernetes_rows_and_columns() {
    let api = Api::start().await;
    let schemas = api.get_as("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", TABLE).await.body;
    let rows = schemas["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["cells"][0].as_str().unwrap()).collect();
    assert_eq!(
        (names[0], names[1], *names.last().unwrap()),
        ("exempt", "probes", "catch-all"),
        "in the order of precedence"
    );
    let addresses = api.get_as("/apis/networking.k8s.io/v1/ipaddresses", TABLE).await.body;
    assert_eq!(addresses["columnDefinitions"].as_array().unwrap().len(), 2);
    assert_eq!(addresses["rows"][0]["cells"].as_array().unwrap().len(), 3, "with an age that is not announced");
}

#[tokio::test(start_paused = true)]
async fn lists_are_whole_in_every_form() {
    let api = Api::start().await;
    for name in ["a", "b", "c"] {
        api.create(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"of": "test"}}, "data": {"x": name}}))
            .await;
    }
    let path = format!("{CONFIG_MAPS}?labelSelector=of=test");
    let list = api.get(&path).await;
    assert!(list.text.ends_with("]}\n"), "{}", list.text);
    let items = list.body["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["data"]["x"].as_str().unwrap()).collect::<String>(), "abc");
    assert!(items.iter().all(|item| item.get("kind").is_none() && item["metadata"]["resourceVersion"].is_string()));
    let metadata = api.get_as(&path, METADATA_LIST).await.body;
    let first = &metadata["items"][0];
    assert_eq!((&first["kind"], &first["metadata"]), (&json!("PartialObjectMetadata"), &items[0]["metadata"]));
    let yaml = api.get_as(&path, "application/yaml").await.text;
    assert!(yaml.starts_with("apiVersion: v1\nitems:\n- data:\n    x: a\n"), "{yaml}");
    let pretty = api.get(&format!("{path}&pretty=1")).await.text;
    assert!(
        pretty.starts_with("{\n  \"kind\": \"ConfigMapList\"") || pretty.starts_with("{\n  \"apiVersion\""),
        "{pretty}"
    );
    let page = api.get(&format!("{path}&limit=2")).await.body;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert!(page["metadata"]["continue"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_returns_no_resource_version() {
    let api = Api::start().await;
    let path = format!("{CONFIG_MAPS}?dryRun=All");
    for (accept, metadata) in [("*/*", "/metadata"), (METADATA, "/metadata"), (TABLE, "/rows/0/object/metadata")] {
        let answer = api.ask(Method::POST, &path, json!({"metadata": {"name": "c"}}), &[("accept", accept)]).await;
        let metadata = answer.body.pointer(metadata).unwrap();
        assert_eq!(
            (answer.code, &metadata["name"], metadata.get("resourceVersion")),
            (201, &json!("c"), None),
            "{accept}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_server_sets_have_no_manager() {
    let api = Api::start().await;
    let given = json!({"metadata": {
        "name": "c", "uid": "mine", "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5,
        "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
    }});
    let meta = api.create(CONFIG_MAPS, given).await["metadata"].take();
    assert_eq!(meta.get("managedFields"), None, "{meta}");
    assert_eq!((meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")), (None, None));
    assert_ne!(meta["uid"], "mine");
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_is_deleted_is_shown_as_it_was() {
    let api = api_with_account().await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"], "labels": {"of": "test"}}});
    api.create(CONFIG_MAPS, held).await;
    let deleted = api.ask(Method::DELETE, &format!("{CONFIG_MAPS}?labelSelector=of=test"), "", &[]).await;
    assert_eq!(deleted.body["items"][0]["metadata"].get("deletionTimestamp"), None, "{}", deleted.text);
    let left = api.get(&format!("{CONFIG_MAPS}/held")).await.body;
    assert!(left["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn evictions_may_have_the_older_version() {
    let api = api_with_account().await;
    for (name, version, code) in [("a", "policy/v1", 201), ("b", "policy/v1beta1", 201), ("c", "policy/v2", 400)] {
        api.create(PODS, pod(name)).await;
        let eviction = json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": name}});
        let answer = api.post(&format!("{PODS}/{name}/eviction"), eviction).await;
        assert_eq!(answer.code, code, "{}", answer.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_scale_may_be_a_table() {
    let api = Api::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let made = api.create(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let path = format!("{deployments}/d/scale");
    let table = api.get_as(&path, TABLE).await.body;
    let names: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"], json!(["d", 3, 0, "0s"]));
    assert_eq!(table["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let metadata = api.get_as(&path, METADATA).await.body;
    assert_eq!((&metadata["kind"], &metadata["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("d")));
    let wrong = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    let refused = api.ask(Method::PUT, &path, wrong, &[]).await;
    assert_eq!(
        refused.message(),
        r#"Deployment in version "v1" cannot be handled as a Scale: converting (v1.Deployment) to (autoscaling.Scale): unknown conversion"#
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_that_hold_a_number_are_checked() {
    let api = Api::start().await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let why = "strconv.ParseInt: parsing \"x\": invalid syntax";
    let cases = [
        (
            "deployments",
            "deprecated.deployment.rollback.to",
            format!(
                "Deployment in version \"v1\" cannot be handled as a Deployment: failed to parse \
                 annotation[deprecated.deployment.rollback.to]=x as int64: {why}"
            ),
        ),
        (
            "daemonsets",
            "deprecated.daemonset.template.generation",
            format!("DaemonSet in version \"v1\" cannot be handled as a DaemonSet: {why}"),
        ),
    ];
    for (resource, annotation, message) in cases {
        let path = format!("/apis/apps/v1/namespaces/default/{resource}");
        let object = |text: &str| json!({"metadata": {"name": "n", "annotations": {annotation: text}}, "spec": spec});
        let refused = api.ask(Method::POST, &path, object("x"), &[]).await;
        assert_eq!((refused.code, refused.message()), (400, message.as_str()));
        api.create(&path, object("2")).await;
        let patch = json!({"metadata": {"annotations": {annotation: "x"}}});
        let merge = ("content-type", "application/merge-patch+json");
        let refused = api.ask(Method::PATCH, &format!("{path}/n"), patch, &[merge]).await;
        assert!(refused.message().contains(why), "{}", refused.message());
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_is_validated_with_its_metadata() {
    let api = Api::start().await;
    let (here, pods) = (json!({"namespace": "default"}), json!({"verb": "get", "resource": "pods"}));
    let cases = [
        (
            "subjectaccessreviews",
            json!({"metadata": {"name": "x"}, "spec": {"user": "ann", "resourceAttributes": pods}}),
            r#"metadata: Invalid value: {"name":"x"}: must be empty"#,
        ),
        (
            "selfsubjectaccessreviews",
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}),
            r#"[spec.resourceAttributes: Invalid value: "null": exactly one of nonResourceAttributes or resourceAttributes must be specified, metadata: Invalid value: {"labels":{"a":"b"}}: must be empty]"#,
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"metadata": here, "spec": {"user": "ann", "nonResourceAttributes": {"path": "/x", "verb": "get"}}}),
            r#"spec.nonResourceAttributes: Invalid value: {"path":"/x","verb":"get"}: disallowed on this kind of request"#,
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            json!({"metadata": {"namespace": "default", "name": "x"}, "spec": {"user": "ann", "resourceAttributes": pods}}),
            r#"[metadata: Invalid value: {"name":"x","namespace":"default"}: must be empty except for namespace, spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace]"#,
        ),
    ];
    for (kind, review, expected) in cases {
        let refused = api.post(&format!("/apis/authorization.k8s.io/v1/{kind}"), review).await;
        let message = refused.message().to_owned();
        // The message shows the metadata with its managedFields.
        let managers = message.find(r#""managedFields":["#).map(|at| (at, at + message[at..].find("}]").unwrap() + 2));
        let rest = |(from, to): (usize, usize)| [&message[..from], message[to..].trim_start_matches(',')].concat();
        let message = managers.map_or(message.clone(), rest).replace(",}", "}");
        assert_eq!(message, format!(r#".authorization.k8s.io "" is invalid: {expected}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_are_refused_in_order() {
    let api = Api::start().await;
    let long = "x".repeat(request::body::MAX_BODY_BYTES + 1);
    let path = format!("{CONFIG_MAPS}?dryRun=Odd");
    for (content_type, body, code) in [("text/plain", &long, 415), ("application/json", &long, 413)] {
        let answer = api.ask(Method::POST, &path, body, &[("content-type", content_type)]).await;
        assert_eq!(answer.code, code, "{content_type}");
    }
    assert_eq!(api.post(&path, "{").await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_review_does_not_say_what_kind_was_wrong() {
    let api = Api::start().await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let refused = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review).await;
    assert_eq!(
        refused.message(),
        r#".authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified"#
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_store_checks_the_version_of_a_new_object() {
    let api = Api::start().await;
    let body = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let refused = api.post(CONFIG_MAPS, body("a", "5")).await;
    assert_eq!((refused.code, refused.message()), (500, "resourceVersion should not be set on objects to be created"));
    for version in ["5", "0"] {
        let tried = api.post(&format!("{CONFIG_MAPS}?dryRun=All"), body("a", version)).await;
        assert_eq!((tried.code, &tried.body["metadata"]["resourceVersion"]), (201, &json!(version)));
    }
    assert_eq!(api.post(CONFIG_MAPS, body("a", "0")).await.code, 201);
    // An apply that creates the object ignores its resourceVersion.
    let apply = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","resourceVersion":"5"},"data":{}}"#;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{CONFIG_MAPS}/b?fieldManager=one");
    assert_eq!(api.ask(Method::PATCH, &path, apply, &headers).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_with_a_prefix_is_reported_as_generated() {
    let api = Api::start().await;
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await;
    let taken = api.post(CONFIG_MAPS, json!({"metadata": {"name": "c", "generateName": "gen-"}})).await;
    let message = r#"configmaps "c" already exists, the server was not able to generate a unique name for the object"#;
    assert_eq!((taken.code, taken.message()), (409, message));
    assert_eq!(taken.headers["retry-after"], "1");
}

#[tokio::test(start_paused = true)]
async fn services_are_created_through_their_status_too() {
    let api = Api::start().await;
    let apply = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"none"},"status":{}}"#;
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = "/api/v1/namespaces/default/services/none/status?fieldManager=lb";
    let refused = api.ask(Method::PATCH, path, apply, &headers).await;
    assert_eq!((refused.code, refused.message()), (422, r#"Service "none" is invalid: spec.ports: Required value"#));
    let path = "/apis/apps/v1/namespaces/default/deployments/none/status?fieldManager=x";
    let apply = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"none"},"status":{}}"#;
    assert_eq!(api.ask(Method::PATCH, path, apply, &headers).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_without_finalizers_goes_with_its_second_deletion() {
    let api = Api::start().await;
    let path = "/api/v1/namespaces/n";
    let made = api.create("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let mut emptied = made.clone();
    emptied["spec"]["finalizers"] = json!([]);
    assert_eq!(api.ask(Method::PUT, &format!("{path}/finalize"), emptied, &[]).await.code, 200);
    let first = api.ask(Method::DELETE, path, "", &[]).await;
    assert_eq!((&first.body["kind"], &first.body["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    assert_eq!(api.get(path).await.code, 200);
    let second = api.ask(Method::DELETE, path, "", &[]).await;
    assert_eq!(second.body["kind"], "Status", "{}", second.text);
    assert_eq!(api.get(path).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_client_manages_the_fields_of_a_token_request_that_it_sets() {
    let api = api_with_account().await;
    let ask = json!({"spec": {"audiences": ["a"], "expirationSeconds": 600}});
    let request = api.create("/api/v1/namespaces/default/serviceaccounts/bot/token", ask).await;
    let owned = &request["metadata"]["managedFields"][0];
    assert_eq!(owned["fieldsV1"], json!({"f:spec": {"f:audiences": {}, "f:expirationSeconds": {}}}));
    assert_eq!(owned["subresource"], "token");
}
