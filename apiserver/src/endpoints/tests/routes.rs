//! Tests of paths that nothing serves, of methods that a path does not have, of forms that a response cannot have, and of
//! the permission to create by an update.

use super::{CONFIG_MAPS, METADATA, METADATA_LIST, TABLE};
use crate::endpoints::has_builtin;
use crate::testing::Api;
use http::Method;
use proto::resources::Catalogue;
use serde_json::json;

const UNKNOWN: &str = "the server could not find the requested resource";
const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";
const GADGETS: &str = "/apis/x.example/v1/namespaces/default/gadgets";

async fn api_with_gadgets() -> Api {
    let api = Api::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.x.example"},
        "spec": {
            "group": "x.example", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    api.until(GADGETS, |answer| answer.code == 200).await;
    api
}

/// A group behind a gate counts as built in where its gate and one of its versions are on.
#[test]
fn groups_are_built_in_where_they_are_served() {
    for (catalogue, serves_all) in [(Catalogue::builtin(), false), (Catalogue::complete(), true)] {
        for (group, expected) in
            [("", true), ("apps", true), ("storagemigration.k8s.io", serves_all), ("x.example", false)]
        {
            assert_eq!(has_builtin(&catalogue, group), expected, "{group}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_router_knows_what_is_built_in() {
    let api = api_with_gadgets().await;
    let plain = "404 page not found";
    for (method, path, code, message) in [
        // For a built-in group the router answers with a Status, elsewhere with a line of text.
        ("GET", "/api/v9", 404, UNKNOWN),
        ("GET", "/api/v9/pods", 404, UNKNOWN),
        ("GET", "/api/v1/nothing", 404, UNKNOWN),
        ("GET", "/apis/apps/v9", 404, UNKNOWN),
        ("POST", "/apis/apps/v9", 404, UNKNOWN),
        ("GET", "/apis/apps/v9/deployments", 404, UNKNOWN),
        ("GET", "/apis/apps/v1/nothing", 404, UNKNOWN),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/d/nothing", 404, UNKNOWN),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/d/scale/more", 404, UNKNOWN),
        ("GET", "/apis/nobody.example", 404, plain),
        ("POST", "/apis/nobody.example/v1", 404, plain),
        ("GET", "/apis/nobody.example/v1/things", 404, plain),
        ("GET", "/apis/x.example/v9/gadgets", 404, plain),
        ("POST", "/apis/x.example/v1/gadgets", 404, plain),
        ("GET", "/nothing", 404, plain),
        // A path that a kind does not have is 404 with every method.
        ("GET", "/api/v1/bindings", 404, UNKNOWN),
        ("GET", "/api/v1/namespaces/default/bindings", 405, NOT_ALLOWED),
        ("GET", "/api/v1/namespaces/default/bindings/b", 404, UNKNOWN),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews/s", 404, UNKNOWN),
        ("DELETE", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405, NOT_ALLOWED),
        ("GET", "/api/v1/configmaps/c", 404, UNKNOWN),
        ("GET", "/api/v1/namespaces/default/nodes", 404, UNKNOWN),
        // Methods.
        ("POST", "/api", 405, NOT_ALLOWED),
        ("PUT", "/api/v1", 405, NOT_ALLOWED),
        ("DELETE", "/apis/apps/v1", 405, NOT_ALLOWED),
        ("POST", "/version", 405, NOT_ALLOWED),
        ("POST", "/api/v1/configmaps", 405, NOT_ALLOWED),
        ("PUT", CONFIG_MAPS, 405, NOT_ALLOWED),
        ("PATCH", CONFIG_MAPS, 405, NOT_ALLOWED),
        ("OPTIONS", CONFIG_MAPS, 405, NOT_ALLOWED),
        ("HEAD", CONFIG_MAPS, 405, NOT_ALLOWED),
        ("POST", "/api/v1/namespaces/default/configmaps/c", 405, NOT_ALLOWED),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps", 405, NOT_ALLOWED),
        ("POST", "/api/v1/namespaces/default/pods/p/status", 405, NOT_ALLOWED),
        ("HEAD", "/api/v1/namespaces/default/pods/p/status", 405, NOT_ALLOWED),
        ("PUT", "/api/v1/namespaces/default/pods/p/log", 405, NOT_ALLOWED),
        // Custom resources have a handler instead of routes.
        ("PUT", GADGETS, 400, "name must be provided"),
        ("OPTIONS", GADGETS, 405, r#" is not supported on resources of kind "gadgets.x.example""#),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = api.ask(method.clone(), path, "{}", &[]).await;
        let message_or_text = if message == plain { answer.text.trim() } else { answer.message() };
        assert_eq!((answer.code, message_or_text), (code, message), "{method} {path}");
        assert_eq!(answer.headers.get("allow"), None, "{method} {path}");
        if message != plain {
            let reason = if code == 404 {
                "NotFound"
            } else if code == 405 {
                "MethodNotAllowed"
            } else {
                "BadRequest"
            };
            assert_eq!(answer.body["reason"], reason, "{method} {path}");
        }
    }
    assert_eq!(api.post("/apis/apps", "").await.code, 200, "the aggregator looks at no method");
}

#[tokio::test(start_paused = true)]
async fn a_form_that_a_response_cannot_have_is_refused() {
    let api = api_with_gadgets().await;
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await;
    let one = format!("{CONFIG_MAPS}/c");
    let available = "only the following media types are accepted: application/json, application/yaml";
    let not_a_list = "you requested PartialObjectMetadataList, but the requested object is not a list";
    let not_an_object = "you requested PartialObjectMetadata, but the requested object is a list";
    let no_list_of = |kind: &str| format!("{not_a_list} ({kind})");
    let no_object_of = |kind: &str| format!("{not_an_object} ({kind})");
    for (path, accept, message) in [
        (one.as_str(), METADATA, String::new()),
        (CONFIG_MAPS, METADATA_LIST, String::new()),
        (&one, METADATA_LIST, no_list_of("*core.ConfigMap")),
        (CONFIG_MAPS, METADATA, no_object_of("*core.ConfigMapList")),
        ("/apis/rbac.authorization.k8s.io/v1/roles", METADATA, no_object_of("*rbac.RoleList")),
        ("/apis/events.k8s.io/v1/events", METADATA, no_object_of("*core.EventList")),
        (GADGETS, METADATA, no_object_of("*unstructured.UnstructuredList")),
        (&one, "application/json;as=Table;v=v9;g=meta.k8s.io", available.into()),
        (&one, "application/json;as=Thing;v=v1;g=meta.k8s.io", available.into()),
        (&one, "application/json;v=v1", available.into()),
        ("/apis/apps/v1", TABLE, available.into()),
        ("/version", METADATA, available.into()),
    ] {
        let answer = api.get_as(path, accept).await;
        let expected = if message.is_empty() { (200, "") } else { (406, message.as_str()) };
        assert_eq!((answer.code, answer.message()), expected, "{path} as {accept}");
    }
    let made =
        api.ask(Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "d"}}), &[("accept", METADATA_LIST)]).await;
    assert_eq!(
        (made.code, api.get(&format!("{CONFIG_MAPS}/d")).await.code),
        (406, 200),
        "the object is created before the form is checked"
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_requires_the_permission_to_create() {
    let api = Api::start().await;
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["create"]},
    ]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    api.create(&format!("{rbac}/roles"), json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
    });
    api.create(&format!("{rbac}/rolebindings"), binding).await;
    let ann = ("authorization", "Bearer ann-token");
    let apply = ("content-type", "application/apply-patch+yaml");
    let applied = async |name: &str, data: &str| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {data: "x"}});
        let path = format!("{CONFIG_MAPS}/{name}?fieldManager=m");
        let answer = api.ask(Method::PATCH, &path, body, &[ann, apply]).await;
        (answer.code, answer.message().to_owned())
    };
    let denied = |kind: &str, name: &str| (403, format!("{kind} \"{name}\" is forbidden: "));
    assert_eq!(applied("yours", "a").await, denied("configmaps", "yours"));
    assert_eq!(applied("mine", "a").await.0, 201);
    assert_eq!(applied("mine", "b").await.0, 200);
    let (code, message) = applied("yours", "bad key").await;
    assert_eq!(code, 422, "validation comes before authorization: {message}");
    let service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services/s";
    let put = api.ask(Method::PUT, services, &service, &[ann]).await;
    assert_eq!((put.code, put.message().to_owned()), denied("services", "s"));
    assert_eq!(api.ask(Method::PUT, services, &service, &[]).await.code, 201);
    let mut labelled = service.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(api.ask(Method::PUT, services, &labelled, &[ann]).await.code, 200);
}
