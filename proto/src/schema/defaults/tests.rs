//! Compares defaults with objects as the API server returns them.

mod described;

use super::*;
use crate::schema::{builtin_type, decode};
use serde_json::json;

/// Decodes an object and sets its defaults, as a create does.
fn defaulted(group: &str, version: &str, kind: &str, package: &str, body: Value) -> Value {
    let target = builtin_type(&format!("io.k8s.api.{package}.{version}.{kind}"));
    let mut value = decode(&target, body).unwrap().value;
    apply_defaults(&Gvk::new(group, version, kind), &mut value);
    value
}

fn core(kind: &str, body: Value) -> Value {
    defaulted("", "v1", kind, "core", body)
}

#[test]
fn a_pod_gets_what_every_pod_gets() {
    let pod = core("Pod", json!({"spec": {"containers": [{"name": "app", "image": "app:1.4"}]}}));
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{
                "name": "app", "image": "app:1.4", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
        })
    );
}

#[test]
fn an_empty_text_is_a_value_where_go_has_a_pointer() {
    let empty =
        |value: &Value, pointer: &str| assert_eq!(value.pointer(pointer), Some(&json!("")), "{pointer} of {value}");
    let claim = core("PersistentVolumeClaim", json!({"spec": {"volumeMode": ""}}));
    empty(&claim, "/spec/volumeMode");
    let disk = json!({"azureDisk": {"diskName": "d", "diskURI": "u", "cachingMode": "", "kind": "", "fsType": ""}});
    let volume = core("PersistentVolume", json!({"spec": disk}));
    for field in ["cachingMode", "kind", "fsType"] {
        empty(&volume, &format!("/spec/azureDisk/{field}"));
    }
    let policy = json!({"spec": {"ingress": [{"ports": [{"protocol": ""}]}]}});
    let policy = defaulted("networking.k8s.io", "v1", "NetworkPolicy", "networking", policy);
    empty(&policy, "/spec/ingress/0/ports/0/protocol");
    let job = defaulted("batch", "v1", "Job", "batch", json!({"spec": {"completionMode": "", "template": {}}}));
    empty(&job, "/spec/completionMode");
    // Where Go has no pointer, an empty text is absent.
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "view"}});
    let binding = defaulted("rbac.authorization.k8s.io", "v1", "RoleBinding", "rbac", binding);
    assert_eq!(binding["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "a"}, {"type": "b", "status": ""}]}]);
    let job = json!({"spec": {"template": {}, "podFailurePolicy": {"rules": rules}}});
    let job = defaulted("batch", "v1", "Job", "batch", job);
    let conditions = &job["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"];
    assert_eq!(*conditions, json!([{"type": "a", "status": "True"}, {"type": "b", "status": "True"}]));
    let pod = core("Pod", json!({"spec": {"restartPolicy": "", "containers": []}}));
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
}

#[test]
fn fields_behind_a_switch_that_is_off_are_dropped() {
    let exec = json!({"exec": {"command": ["true"]}});
    let signal = |lifecycle: Value| {
        let pod = core("Pod", json!({"spec": {"os": {"name": "linux"}, "containers": [{"lifecycle": lifecycle}]}}));
        pod["spec"]["containers"][0].get("lifecycle").cloned()
    };
    assert_eq!(signal(json!({"stopSignal": "SIGUSR1"})), None);
    assert_eq!(signal(json!({"stopSignal": "SIGUSR1", "preStop": exec})), Some(json!({"preStop": exec})));
    assert_eq!(signal(json!({})), Some(json!({})));

    let sources = json!([
        {"podCertificate": {"signerName": "a.example/b", "keyType": "ED25519", "credentialBundlePath": "c.pem"}},
        {"clusterTrustBundle": {"name": "b", "path": "ca.pem"}},
        {"secret": {"name": "s"}},
    ]);
    let pod =
        core("Pod", json!({"spec": {"containers": [], "volumes": [{"name": "v", "projected": {"sources": sources}}]}}));
    let kept = json!([{}, {}, {"secret": {"name": "s"}}]);
    assert_eq!(pod["spec"]["volumes"][0]["projected"]["sources"], kept);
}

#[test]
fn a_definition_is_stored_in_its_storage_version_at_least() {
    let stored = |given: Value| {
        let versions = json!([{"name": "v1", "storage": false}, {"name": "v2", "storage": true}]);
        let mut definition = json!({"spec": {"versions": versions}, "status": {"storedVersions": given}});
        apply_defaults(&Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), &mut definition);
        definition["status"]["storedVersions"].clone()
    };
    assert_eq!((stored(json!([])), stored(Value::Null)), (json!(["v2"]), json!(["v2"])));
    assert_eq!(stored(json!(["v1"])), json!(["v1"]));
}

#[test]
fn what_is_given_stays() {
    let given = json!({
        "replicas": 0, "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 0, "progressDeadlineSeconds": 1,
        "selector": {}, "template": {"metadata": {}, "spec": {"containers": [], "terminationGracePeriodSeconds": 0}},
    });
    let spec = defaulted("apps", "v1", "Deployment", "apps", json!({"spec": given}))["spec"].clone();
    assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(0), &json!(0)));
    assert_eq!(spec["strategy"], json!({"type": "Recreate"}));
    assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], json!(0));
    assert!(spec["template"]["spec"].get("enableServiceLinks").is_none(), "a template is not a pod yet");
}

#[test]
fn containers_of_a_pod_request_what_they_are_limited_to() {
    let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
    let pod = core("Pod", json!({"spec": {"containers": [{"resources": resources}]}}));
    let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(requests, &json!({"cpu": "1", "memory": "1Gi"}));
}

#[test]
fn amounts_are_rounded_up_to_thousandths() {
    let pod =
        core("Pod", json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "0.1m", "memory": "1"}}}]}}));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1m", "memory": "1"}));
}

#[test]
fn a_service_of_each_type() {
    let port = json!([{"port": 80}, {"port": 53, "protocol": "UDP", "targetPort": "dns"}]);
    let cluster_ip = core("Service", json!({"spec": {"ports": port}}));
    assert_eq!(
        cluster_ip["spec"],
        json!({
            "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 53, "protocol": "UDP", "targetPort": "dns"}],
        })
    );
    let balancer = core("Service", json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP"}}));
    assert_eq!(
        balancer["spec"],
        json!({
            "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
            "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        })
    );
    let external = core("Service", json!({"spec": {"type": "ExternalName", "externalName": "x.example.com"}}));
    assert_eq!(
        external["spec"],
        json!({"type": "ExternalName", "externalName": "x.example.com", "sessionAffinity": "None"})
    );
}

#[test]
fn defaults_are_a_fixed_point() {
    let mut pod = core(
        "Pod",
        json!({"spec": {
            "hostNetwork": true,
            "containers": [{"ports": [{"containerPort": 7}], "livenessProbe": {"grpc": {"port": 1}}, "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
        }}),
    );
    let once = pod.clone();
    apply_defaults(&Gvk::new("", "v1", "Pod"), &mut pod);
    assert_eq!(pod, once);
    assert_eq!(once["spec"]["containers"][0]["ports"][0]["hostPort"], json!(7));
    assert_eq!(once["spec"]["volumes"][0], json!({"name": "v", "emptyDir": {}}));
    assert_eq!(once["spec"]["volumes"][1]["secret"]["defaultMode"], json!(420));
}

#[test]
fn a_job_completes_once_unless_it_says_otherwise() {
    let job = |spec: Value| defaulted("batch", "v1", "Job", "batch", json!({"spec": spec}))["spec"].clone();
    let cases = [
        (json!({}), json!(1), json!(1)),
        (json!({"completions": 3}), json!(1), json!(3)),
        (json!({"parallelism": 4}), json!(4), json!(null)),
        (json!({"completions": 0}), json!(1), json!(0)),
    ];
    for (given, parallelism, completions) in cases {
        let spec = job(given.clone());
        assert_eq!((&spec["parallelism"], &spec["completions"]), (&parallelism, &completions), "{given}");
    }
}
