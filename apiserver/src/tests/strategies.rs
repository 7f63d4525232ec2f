//! Strategies through the API: the fields that the server fills in, and the managers that own them.

use crate::testing::{Answer, Api};
use http::Method;
use serde_json::{Value, json};

const SHOP: &str = "namespaces/default";

async fn merge_patch(api: &Api, path: &str, patch: Value) -> Answer {
    api.ask(Method::PATCH, path, patch, &[("content-type", "application/merge-patch+json")]).await
}

/// Returns the fields of one entry of managedFields.
fn fields_of(object: &Value, entry: usize) -> &Value {
    &object["metadata"]["managedFields"][entry]["fieldsV1"]
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}})
}

#[tokio::test(start_paused = true)]
async fn a_job_without_labels_is_read_with_those_that_its_template_was_given() {
    let api = Api::start().await;
    let path = format!("/apis/batch/v1/{SHOP}/jobs");
    let job =
        api.create(&path, json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "template": template()}})).await;
    let labels = &job["metadata"]["labels"];
    assert_eq!((&labels["job-name"], &labels["controller-uid"]), (&json!("j"), &job["metadata"]["uid"]));
    assert_eq!(labels, &job["spec"]["template"]["metadata"]["labels"]);
    let job = merge_patch(&api, &format!("{path}/j/status"), json!({"status": {"active": 1}})).await.body;
    assert_eq!(fields_of(&job, 0).get("f:metadata"), None);
    assert_eq!(fields_of(&job, 1), &json!({"f:status": {"f:active": {}}}), "no manager owns labels that none has set");
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_version_1_is_stored_with_the_defaults_of_version_2() {
    let api = Api::start().await;
    let policy = r#"{"Type":"Pods","Value":1,"PeriodSeconds":15}"#;
    let behavior = format!(r#"{{"ScaleDown":{{"StabilizationWindowSeconds":7,"Policies":[{policy}]}}}}"#);
    let scaler = json!({
        "metadata": {"name": "h", "annotations": {"autoscaling.alpha.kubernetes.io/behavior": behavior}},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}},
    });
    api.create(&format!("/apis/autoscaling/v1/{SHOP}/horizontalpodautoscalers"), scaler).await;
    let read = api.get(&format!("/apis/autoscaling/v2/{SHOP}/horizontalpodautoscalers/h")).await.body;
    let behavior = &read["spec"]["behavior"];
    assert_eq!(behavior["scaleDown"]["selectPolicy"], "Max");
    assert_eq!(behavior["scaleUp"]["policies"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_count_of_templates_of_a_daemon_set_is_the_servers_though_its_writer_owns_it() {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let api = Api::start().await;
    let path = format!("/apis/apps/v1/{SHOP}/daemonsets");
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 9100}]}], "hostNetwork": true},
    }});
    let count = |set: &Value| set["metadata"]["annotations"][COUNT].clone();
    let set = api.create(&path, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(count(&set), "1");
    assert_eq!(fields_of(&set, 0)["f:metadata"]["f:annotations"], json!({".": {}, format!("f:{COUNT}"): {}}));
    let path = format!("{path}/d");
    let patch = json!({"spec": {"template": {"spec": {"hostNetwork": false}}}});
    assert_eq!(count(&merge_patch(&api, &path, patch).await.body), "2");
    let patch = json!({"metadata": {"annotations": null}, "status": {"numberReady": 1}});
    assert_eq!(count(&merge_patch(&api, &format!("{path}/status"), patch).await.body), "2");
}

#[tokio::test(start_paused = true)]
async fn volumes_say_when_their_phase_changed() {
    let api = Api::start().await;
    let (path, now) = ("/api/v1/persistentvolumes", |volume: &Value| volume["metadata"]["creationTimestamp"].clone());
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"},
        "claimRef": {"name": "x"}});
    let volume = api.create(path, json!({"metadata": {"name": "v"}, "spec": spec})).await;
    let changed = |volume: &Value| volume["status"]["lastPhaseTransitionTime"].clone();
    assert_eq!(changed(&volume), now(&volume));
    assert_eq!(
        fields_of(&volume, 0)["f:spec"]["f:claimRef"],
        json!({".": {}, "f:name": {}}),
        "its parts are owned separately"
    );
    let path = format!("{path}/v/status");
    let said = json!("2020-01-01T00:00:00Z");
    let patch = json!({"status": {"phase": "Available", "lastPhaseTransitionTime": said}});
    assert_eq!(changed(&merge_patch(&api, &path, patch).await.body), said);
    let patch = json!({"status": {"message": "m", "lastPhaseTransitionTime": null}});
    assert_eq!(changed(&merge_patch(&api, &path, patch).await.body), said);
    let patch = json!({"status": {"phase": "Bound"}});
    assert_eq!(changed(&merge_patch(&api, &path, patch).await.body), now(&volume));
}

#[tokio::test(start_paused = true)]
async fn the_two_sources_of_a_claim_agree() {
    let api = Api::start().await;
    let claim = |source: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        json!({"metadata": {"generateName": "c"}, "spec": spec})
    };
    let source = json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "old"});
    let path = format!("/api/v1/{SHOP}/persistentvolumeclaims");
    for field in ["dataSource", "dataSourceRef"] {
        let spec = api.create(&path, claim(json!({field: source}))).await["spec"].clone();
        assert_eq!((&spec["dataSource"], &spec["dataSourceRef"]), (&source, &source), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_written_with_what_they_are_and_where() {
    let api = Api::start().await;
    api.create(&format!("/api/v1/{SHOP}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
    let path = format!("/api/v1/{SHOP}/pods");
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "a/b"}]});
    let pod = api.create(&path, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!(pod["status"]["conditions"][0]["lastTransitionTime"], pod["metadata"]["creationTimestamp"]);
    let path = format!("{path}/p/status");
    for ip in ["192.0.2.9", "192.0.2.10"] {
        let pod = merge_patch(&api, &path, json!({"status": {"podIP": ip}})).await.body;
        assert_eq!(pod["status"]["podIPs"], json!([{"ip": ip}]));
        let key = format!("k:{}", json!({"ip": ip}));
        assert_eq!(fields_of(&pod, 1)["f:status"]["f:podIPs"], json!({".": {}, key: {".": {}, "f:ip": {}}}));
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_claim_for_devices_leaves_its_metadata_alone() {
    let api = Api::start().await;
    let path = format!("/apis/resource.k8s.io/v1/{SHOP}/resourceclaims");
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}});
    let claim = json!({"metadata": {"name": "c", "labels": {"m": "1"}}, "spec": {"devices": {"requests": [request]}}});
    api.create(&path, claim).await;
    let patch = json!({"metadata": {"labels": {"m": "2"}, "annotations": {"x": "y"}}, "status": {"devices": []}});
    let claim = merge_patch(&api, &format!("{path}/c/status"), patch).await.body;
    assert_eq!((&claim["metadata"]["labels"], claim["metadata"].get("annotations")), (&json!({"m": "1"}), None));
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_keeps_to_a_nodes_own_pods_holds_a_port_for_its_health_checks() {
    let api = Api::start().await;
    let path = format!("/api/v1/{SHOP}/services");
    let spec = |more: Value| {
        let mut spec = json!({"type": "LoadBalancer", "ports": [{"port": 80}], "externalTrafficPolicy": "Local"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"generateName": "s"}, "spec": spec})
    };
    let service = api.create(&path, spec(json!({}))).await;
    let port = service["spec"]["healthCheckNodePort"].as_u64().unwrap();
    assert!((30000..=32767).contains(&port));
    let same = api.post(&path, spec(json!({"healthCheckNodePort": port}))).await;
    let why = format!("failed to allocate requested HealthCheck NodePort {port}: provided port is already allocated");
    assert_eq!((same.code, same.message()), (500, &*format!("Internal error occurred: {why}")));
    let one = format!("{path}/{}", service["metadata"]["name"].as_str().unwrap());
    let other = merge_patch(&api, &one, json!({"spec": {"healthCheckNodePort": 30001}})).await;
    assert!(other.message().ends_with("spec.healthCheckNodePort: Forbidden: field is immutable"), "{}", other.text);
    let freed = merge_patch(&api, &one, json!({"spec": {"externalTrafficPolicy": "Cluster"}})).await.body;
    assert_eq!(freed["spec"].get("healthCheckNodePort"), None);
    let again = api.create(&path, spec(json!({"healthCheckNodePort": port}))).await;
    assert_eq!(again["spec"]["healthCheckNodePort"], port);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_service_takes_nothing_and_promises_nothing() {
    let api = Api::start().await;
    let path = format!("/api/v1/{SHOP}/services?dryRun=All");
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}, {"name": "c", "port": 81}]});
    let tried = api.create(&path, json!({"metadata": {"name": "s"}, "spec": local})).await["spec"].clone();
    let ports: Vec<&Value> = tried["ports"].as_array().unwrap().iter().map(|port| &port["nodePort"]).collect();
    assert_eq!(
        (ports, &tried["healthCheckNodePort"]),
        (vec![&json!(32769), &json!(32769), &json!(32770)], &json!(32771))
    );
    let own = api.get("/api/v1/namespaces/default/services/kubernetes").await.body["spec"]["clusterIP"].clone();
    let asked = json!({"type": "NodePort", "clusterIP": own, "ports": [{"port": 80, "nodePort": 80}]});
    let tried = api.create(&path, json!({"metadata": {"name": "s"}, "spec": asked})).await["spec"].clone();
    assert_eq!((&tried["clusterIP"], &tried["ports"][0]["nodePort"]), (&own, &json!(80)));
}
