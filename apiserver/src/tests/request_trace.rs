//! Traces of requests to a whole server: the steps that a trace records, and the clients that may read it.

use crate::config::Config;
use crate::testing::{Answer, Api};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use component_base::network::{HttpService, Network};
use expect_test::{Expect, expect};
use http::{Method, Request, Response};
use request::trace::path_of;
use serde_json::{Value, json};
use std::convert::Infallible;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

async fn api() -> Api {
    Api::with(Config { enable_request_trace: true, ..Config::default() }).await
}

/// Sends a request that asks for a trace.
async fn traced(api: &Api, method: Method, path: &str, body: impl ToString, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<(&str, &str)> = [("orrery-trace", "true")].into_iter().chain(headers.iter().copied()).collect();
    api.ask(method, path, body, &headers).await
}

/// Returns the trace that an answer links to.
async fn trace_of(api: &Api, answer: &Answer) -> Value {
    let link = answer.headers.get("link").expect("the answer links to its trace").to_str().unwrap();
    let path = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"trace\"")).expect(link);
    assert_eq!(path, path_of(answer.headers["audit-id"].to_str().unwrap()));
    let trace = api.get(path).await;
    assert_eq!(trace.code, 200, "{}", trace.text);
    trace.body
}

/// Formats a trace, one line for each step. Leaves out admission plugins without an effect, and masks random values.
fn formatted(trace: &Value) -> String {
    let mut lines =
        format!("{} {}\n", trace["answer"]["code"], trace["answer"]["message"].as_str().unwrap_or_default());
    for step in trace["steps"].as_array().unwrap() {
        let text = |key: &str| step[key].as_str().unwrap_or_default().to_owned();
        let mut parts = vec![text("gate"), text("question"), text("of"), text("by"), text("outcome"), text("reason")];
        parts.extend(["attempt", "round"].into_iter().filter_map(|key| Some(format!("{key} {}", step[key].as_u64()?))));
        parts.extend(step["revision"].is_u64().then(|| "at a revision".to_owned()));
        parts.retain(|part| !part.is_empty());
        // The trace also records admission plugins without an effect.
        let is_silent = text("gate").ends_with("Admission") && text("outcome") == "passed";
        let is_silent = is_silent && ["of", "reason"].iter().all(|key| step[*key].is_null());
        if is_silent {
            continue;
        }
        lines.push_str(&format!("{}\n", parts.join(" | ")));
        let details = step["details"].as_array().into_iter().flatten();
        details.for_each(|detail| lines.push_str(&format!("    {}\n", detail.as_str().unwrap())));
        let patch = step["patch"].as_array().into_iter().flatten();
        patch.for_each(|operation| lines.push_str(&format!("    {}\n", masked(operation.clone()))));
    }
    // The name of the volume has a random suffix.
    let mut parts = lines.split("kube-api-access-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "kube-api-access-…" + part.get(5..).unwrap_or_default())
}

/// Masks the values that differ in every run.
fn masked(mut operation: Value) -> Value {
    let path = operation["path"].as_str().unwrap_or_default().to_owned();
    if ["/metadata/uid", "/metadata/creationTimestamp"].contains(&path.as_str()) {
        operation["value"] = json!("…");
    }
    operation
}

async fn expect_trace(api: &Api, answer: &Answer, expected: Expect) {
    expected.assert_eq(&formatted(&trace_of(api, answer).await));
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Serves webhooks at `hook:1`: `/label` adds a label, and any other path refuses objects with the name `bad`.
fn serve_webhook(api: &Api) {
    let service = HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let may_change = request.uri().path() == "/label";
        let bytes = to_bytes(request.into_body(), usize::MAX).await.expect("a review arrives whole");
        let review: Value = serde_json::from_slice(&bytes).expect("a review is JSON");
        let patch = BASE64.encode(r#"[{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]"#);
        let mut response =
            json!({"uid": review["request"]["uid"], "allowed": may_change || review["request"]["name"] != "bad"});
        if may_change {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(patch);
        }
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Ok::<_, Infallible>(Response::new(Body::from(answer.to_string())))
    }));
    let Network::InProcess(network) = api.server.server.env.network() else { panic!("tests are simulated") };
    network.register("hook:1", service);
}

fn webhook(name: &str, url: &str, failure_policy: &str) -> Value {
    json!({
        "name": name, "clientConfig": {"url": url}, "sideEffects": "None", "failurePolicy": failure_policy,
        "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    })
}

const STAMP: &str = r#"{
    "metadata": {"name": "stamp"},
    "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        ]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'by': request.userInfo.username}}]"
        }}]
    }
}"#;

/// Creates the policy `stamp` and binds it to all namespaces.
async fn create_policy(api: &Api, policy: &str) {
    let policy = serde_json::from_str::<Value>(policy).unwrap();
    api.create(&format!("{REGISTRATION}/mutatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "everywhere"}, "spec": {"policyName": "stamp"}});
    api.create(&format!("{REGISTRATION}/mutatingadmissionpolicybindings"), binding).await;
}

/// Starts a server on which a LimitRange, a service account, a policy and webhooks change a new pod.
async fn with_mutations() -> Api {
    let api = api().await;
    serve_webhook(&api);
    let limits =
        json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
    api.create("/api/v1/namespaces/default/limitranges", limits).await;
    api.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    create_policy(&api, STAMP).await;
    let hooks = json!([
        webhook("label.example.com", "https://hook:1/label", "Fail"),
        webhook("down.example.com", "https://gone:1/", "Ignore")
    ]);
    let hooks = json!({"metadata": {"name": "hooks"}, "webhooks": hooks});
    api.create(&format!("{REGISTRATION}/mutatingwebhookconfigurations"), hooks).await;
    let hooks =
        json!({"metadata": {"name": "judges"}, "webhooks": [webhook("judge.example.com", "https://hook:1/", "Fail")]});
    api.create(&format!("{REGISTRATION}/validatingwebhookconfigurations"), hooks).await;
    api
}

#[tokio::test(start_paused = true)]
async fn a_trace_of_a_write_shows_every_change_in_order() {
    let api = with_mutations().await;
    let answer = traced(&api, Method::POST, PODS, pod("good"), &[]).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let trace = trace_of(&api, &answer).await;
    expect![[r#"
        201 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | create pods in the namespace default | system:masters | passed | no authorizer is asked about its members
        mutatingAdmission | LimitRanger | changed
            {"op":"add","path":"/metadata/annotations","value":{"kubernetes.io/limit-ranger":"LimitRanger plugin set: cpu request for container c; cpu limit for container c"}}
            {"op":"add","path":"/spec/containers/0/resources/limits","value":{"cpu":"1"}}
            {"op":"add","path":"/spec/containers/0/resources/requests","value":{"cpu":"1"}}
        mutatingAdmission | ServiceAccount | changed
            {"op":"add","path":"/spec/containers/0/volumeMounts","value":[{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-…","readOnly":true}]}
            {"op":"add","path":"/spec/serviceAccount","value":"default"}
            {"op":"add","path":"/spec/serviceAccountName","value":"default"}
            {"op":"add","path":"/spec/volumes","value":[{"name":"kube-api-access-…","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}]}
        mutatingAdmission | Priority | changed
            {"op":"add","path":"/spec/preemptionPolicy","value":"PreemptLowerPriority"}
            {"op":"add","path":"/spec/priority","value":0}
        mutatingAdmission | DefaultTolerationSeconds | changed
            {"op":"add","path":"/spec/tolerations","value":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}]}
        mutatingAdmission | MutatingAdmissionPolicy | policy stamp by everywhere | changed
            {"op":"add","path":"/metadata/annotations/by","value":"admin"}
            {"op":"remove","path":"/metadata/annotations/kubernetes.io~1limit-ranger"}
        mutatingAdmission | MutatingAdmissionWebhook | webhook label.example.com of hooks | changed
            {"op":"add","path":"/metadata/labels","value":{"seen":"yes"}}
        mutatingAdmission | MutatingAdmissionWebhook | webhook down.example.com of hooks | passed | it failed, and its failurePolicy is Ignore: failed to call webhook: Post "https://gone:1/?timeout=10s": dial tcp gone:1: connect: connection refused
        preparation | strategy of pods | changed
            {"op":"add","path":"/metadata/creationTimestamp","value":"…"}
            {"op":"add","path":"/metadata/generation","value":1}
            {"op":"add","path":"/metadata/uid","value":"…"}
            {"op":"add","path":"/status/phase","value":"Pending"}
            {"op":"add","path":"/status/qosClass","value":"Burstable"}
        validation | strategy of pods | passed
        validatingAdmission | ValidatingAdmissionWebhook | webhook judge.example.com of judges | passed
        storage | /registry/pods/default/good | stored | at a revision
    "#]].assert_eq(&formatted(&trace));
    assert_eq!(trace["user"]["username"], "admin");
    assert_eq!(trace["request"]["verb"], "create");
    let revision = trace["steps"].as_array().unwrap().last().unwrap()["revision"].as_u64().unwrap();
    assert_eq!(answer.body["metadata"]["resourceVersion"], revision.to_string());

    let answer = traced(&api, Method::POST, PODS, pod("bad"), &[]).await;
    assert_eq!(answer.code, 400, "{}", answer.text);
    let trace = trace_of(&api, &answer).await;
    let last = trace["steps"].as_array().unwrap().last().unwrap().clone();
    let of = ["gate", "of", "by", "outcome", "reason"].map(|key| last[key].as_str().unwrap_or_default().to_owned());
    expect![[r#"
        validatingAdmission

        ValidatingAdmissionWebhook
        refused
        admission webhook "judge.example.com" denied the request without explanation"#]]
    .assert_eq(&of.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_trace_shows_how_each_request_ended() {
    let api = api().await;
    let as_ann: &[(&str, &str)] = &[("impersonate-user", "ann"), ("impersonate-group", "devs")];
    let answer = traced(&api, Method::GET, PODS, "", as_ann).await;
    expect_trace(&api, &answer, expect![[r#"
        403 pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "default"
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        impersonation | impersonate-on:user-info:list pods in the namespace default | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info users.authentication.k8s.io ann | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info groups.authentication.k8s.io devs | system:masters | passed | no authorizer is asked about its members
        flowControl | FlowSchema global-default | passed | PriorityLevelConfiguration global-default
        authorization | list pods in the namespace default | Node | noOpinion | the user is no node
        authorization | list pods in the namespace default | RBAC | noOpinion | no rule of what is bound to the user or its groups allows it
            ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated"
            ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"
            ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:authenticated"
    "#]]).await;

    let role =
        json!({"metadata": {"name": "look"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
    api.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", role).await;
    let binding = json!({
        "metadata": {"name": "devs-look"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
        "subjects": [{"kind": "Group", "name": "devs", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    api.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding).await;
    let answer = traced(&api, Method::GET, PODS, "", as_ann).await;
    expect_trace(&api, &answer, expect![[r#"
        200 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        impersonation | impersonate-on:user-info:list pods in the namespace default | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info users.authentication.k8s.io ann | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info groups.authentication.k8s.io devs | system:masters | passed | no authorizer is asked about its members
        flowControl | FlowSchema global-default | passed | PriorityLevelConfiguration global-default
        authorization | list pods in the namespace default | Node | noOpinion | the user is no node
        authorization | list pods in the namespace default | RBAC | passed | RBAC: allowed by RoleBinding "devs-look/default" of Role "look" to Group "devs"
            {"apiGroups":[""],"resources":["pods"],"verbs":["list"]}
        read | watch cache | passed | 0 objects | at a revision
    "#]]).await;
    let answer = traced(&api, Method::DELETE, &format!("{PODS}/web"), "", as_ann).await;
    expect_trace(&api, &answer, expect![[r#"
        403 pods "web" is forbidden: User "ann" cannot delete resource "pods" in API group "" in the namespace "default"
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        impersonation | impersonate-on:user-info:delete pods web in the namespace default | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info users.authentication.k8s.io ann | system:masters | passed | no authorizer is asked about its members
        impersonation | impersonate:user-info groups.authentication.k8s.io devs | system:masters | passed | no authorizer is asked about its members
        flowControl | FlowSchema global-default | passed | PriorityLevelConfiguration global-default
        authorization | delete pods web in the namespace default | Node | noOpinion | the user is no node
        authorization | delete pods web in the namespace default | RBAC | noOpinion | no rule of what is bound to the user or its groups allows it
            ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group "system:authenticated"
            ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"
            ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:authenticated"
            RoleBinding "devs-look/default" of Role "look" to Group "devs"
    "#]]).await;

    let invalid = json!({"metadata": {"name": "UPPER"}, "data": {"a b": "x", "c/d": "y"}});
    let answer = traced(&api, Method::POST, MAPS, invalid, &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        422 ConfigMap "UPPER" is invalid: [metadata.name: Invalid value: "UPPER": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+'), data[c/d]: Invalid value: "c/d": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')]
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | create configmaps in the namespace default | system:masters | passed | no authorizer is asked about its members
        preparation | strategy of configmaps | changed
            {"op":"add","path":"/metadata/creationTimestamp","value":"…"}
            {"op":"add","path":"/metadata/uid","value":"…"}
        validation | strategy of configmaps | refused
            metadata.name: Invalid value: "UPPER": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            data[c/d]: Invalid value: "c/d": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
    "#]]).await;

    let map = api.create(MAPS, json!({"metadata": {"name": "m"}})).await;
    let mut stale = map.clone();
    api.ask(Method::PUT, &format!("{MAPS}/m"), json!({"metadata": {"name": "m"}, "data": {"a": "1"}}), &[]).await;
    stale["data"] = json!({"a": "2"});
    let answer = traced(&api, Method::PUT, &format!("{MAPS}/m"), stale, &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        409 Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes to the latest version and try again
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | update configmaps m in the namespace default | system:masters | passed | no authorizer is asked about its members
        preconditions | the writer | refused | Operation cannot be fulfilled on configmaps "m": the object has been modified; please apply your changes to the latest version and try again
    "#]]).await;

    let same = json!({"metadata": {"name": "m"}, "data": {"a": "1"}});
    let answer = traced(&api, Method::PUT, &format!("{MAPS}/m"), &same, &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        200 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | update configmaps m in the namespace default | system:masters | passed | no authorizer is asked about its members
        preparation | strategy of configmaps | changed
            {"op":"add","path":"/metadata/creationTimestamp","value":"…"}
            {"op":"add","path":"/metadata/uid","value":"…"}
        validation | strategy of configmaps | passed
        storage | /registry/configmaps/default/m | notWritten | it is as it was
    "#]]).await;
    let answer = traced(&api, Method::DELETE, &format!("{MAPS}/m?dryRun=All"), "", &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        200 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | delete configmaps m in the namespace default | system:masters | passed | no authorizer is asked about its members
        storage | /registry/configmaps/default/m | notWritten | a dry run
    "#]]).await;
    let answer = traced(&api, Method::DELETE, &format!("{MAPS}/m"), "", &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        200 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | delete configmaps m in the namespace default | system:masters | passed | no authorizer is asked about its members
        storage | /registry/configmaps/default/m | removed | at a revision
    "#]]).await;
    let answer = traced(&api, Method::GET, &format!("{MAPS}?watch=1&timeoutSeconds=1"), "", &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        200 
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | watch configmaps in the namespace default | system:masters | passed | no authorizer is asked about its members
        read | watch cache | passed | events from now on
    "#]]).await;
    let answer = traced(&api, Method::GET, &format!("{MAPS}/m"), "", &[]).await;
    expect_trace(&api, &answer, expect![[r#"
        404 configmaps "m" not found
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | passed | this is admin
        flowControl | FlowSchema exempt | passed | PriorityLevelConfiguration exempt
        authorization | get configmaps m in the namespace default | system:masters | passed | no authorizer is asked about its members
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn an_unauthenticated_client_gets_no_link_to_its_trace() {
    let api = api().await;
    let answer = traced(&api, Method::GET, PODS, "", &[("authorization", "Bearer nobody")]).await;
    assert_eq!((answer.code, answer.headers.get("link")), (401, None));
    // An administrator finds the trace by the audit id of the answer.
    let trace = api.get(&path_of(answer.headers["audit-id"].to_str().unwrap())).await;
    assert!(!trace.text.contains("Bearer"), "{}", trace.text);
    expect![[r#"
        401 Unauthorized
        authentication | client certificate | noOpinion | none was shown
        authentication | token file | noOpinion
        authentication | service account token | noOpinion
        authentication | legacy service account token | noOpinion
    "#]]
    .assert_eq(&formatted(&trace.body));
}

#[tokio::test(start_paused = true)]
async fn traces_are_for_those_who_may_read_them() {
    let api = api().await;
    let by_ann: &[(&str, &str)] = &[("authorization", "Bearer ann-token")];
    let answer = traced(&api, Method::GET, "/version", "", by_ann).await;
    assert_eq!((answer.code, answer.headers.get("link")), (200, None));
    assert_eq!(answer.warnings(), ["299 - \"the request is not traced: you cannot get /debug/requests/*\""]);
    assert_eq!(api.get("/debug/requests").await.body["items"], json!([]));
    let answer = traced(&api, Method::GET, "/version", "", &[("audit-id", "mine")]).await;
    assert_eq!(answer.headers["link"], "</debug/requests/mine>; rel=\"trace\"");
    for path in ["/debug/requests", "/debug/requests/mine"] {
        assert_eq!(api.ask(Method::GET, path, "", by_ann).await.code, 403, "{path}");
        assert_eq!(api.get(path).await.code, 200, "{path}");
    }
    let listed = api.get("/debug/requests").await.body;
    let expected = json!({"auditID": "mine", "method": "GET", "uri": "/version", "user": "admin", "code": 200});
    let mut first = listed["items"][0].clone();
    first.as_object_mut().unwrap().remove("received");
    assert_eq!(first, expected);
    // A role that allows reading traces also allows asking for one.
    let rules = json!([{"nonResourceURLs": ["/debug/requests/*"], "verbs": ["get"]}]);
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"metadata": {"name": "t"}, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": {"name": "t"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "t"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    let answer = traced(&api, Method::GET, "/version", "", by_ann).await;
    assert!(answer.headers.contains_key("link"));
}

#[tokio::test(start_paused = true)]
async fn requests_are_not_traced_unless_enabled_and_asked_for() {
    let api = Api::start().await;
    let answer = traced(&api, Method::GET, "/version", "", &[("audit-id", "mine")]).await;
    assert_eq!((answer.headers.get("link"), answer.warnings().len()), (None, 0));
    for path in ["/debug/requests", "/debug/requests/mine"] {
        assert_eq!(api.get(path).await.code, 404, "{path}");
    }
    // A server with traces does not trace a request that does not ask for one.
    let on = self::api().await;
    for headers in [&[][..], &[("orrery-trace", "false")]] {
        assert_eq!(on.ask(Method::GET, "/version", "", headers).await.headers.get("link"), None);
    }
    assert_eq!(on.get("/debug/requests").await.body["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_trace_hides_the_values_of_secrets() {
    let api = api().await;
    let policy = STAMP.replace("pods", "secrets").replace("/metadata/annotations", "/data");
    let policy = policy.replace("{'by': request.userInfo.username}", "{'password': 'aHVudGVyMg=='}");
    create_policy(&api, &policy).await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter1"}});
    let answer = traced(&api, Method::POST, SECRETS, secret, &[]).await;
    assert_eq!((answer.code, &answer.body["data"]["password"]), (201, &json!("aHVudGVyMg==")));
    let trace = trace_of(&api, &answer).await;
    let changed = trace["steps"].as_array().unwrap().iter().find(|step| step["of"] == "MutatingAdmissionPolicy");
    let expected = json!([{"op": "replace", "path": "/data/password", "value": "(hidden)"}]);
    assert_eq!(changed.expect("the trace has a step of the policy")["patch"], expected);
    let text = trace.to_string();
    for word in ["hunter1", "hunter2", &BASE64.encode("hunter1"), "aHVudGVyMg==", "admin-token"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
}
