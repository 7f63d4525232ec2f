//! Makes the smallest valid object of each kind, for tests that cover every kind.

use component_base_testing::fixtures;
use proto::resources::Served;
use serde_json::{Value, json};

/// Returns a valid object of a kind. Kinds without required fields get metadata only.
pub fn object(served: &Served, name: &str) -> Value {
    let mut value = content(&served.kind, name);
    value["apiVersion"] = json!(served.api_version());
    value["kind"] = json!(served.kind);
    value["metadata"]["name"] = json!(object_name(&served.kind, name));
    value
}

/// Returns a valid object name made from `name`, since some kinds restrict their names.
pub fn object_name(kind: &str, name: &str) -> String {
    match kind {
        "APIService" => format!("v1.{name}.example.com"),
        "CustomResourceDefinition" => format!("{name}s.example.com"),
        "IPAddress" => "10.0.0.200".to_owned(),
        "StorageVersion" => format!("example.com.{name}"),
        _ => name.to_owned(),
    }
}

fn content(kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let selector = json!({"matchLabels": labels});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let rules = json!({"resourceRules": [{
        "apiGroups": ["never.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    match kind {
        "APIService" => json!({"spec": {
            "group": format!("{name}.example.com"), "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nobody"}}}),
        "CertificateSigningRequest" => json!({"spec": {
            "signerName": "example.com/signer", "usages": ["client auth"], "request": CERTIFICATE_REQUEST}}),
        "ClusterRoleBinding" | "RoleBinding" => json!({"roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}),
        "ClusterTrustBundle" => json!({"spec": {"trustBundle": fixtures::authority_pem()}}),
        "DeviceTaintRule" => json!({"spec": {"taint": {"key": "example.com/broken", "effect": "NoSchedule"}}}),
        "PodCertificateRequest" => json!({"spec": {
            "signerName": "example.com/signer", "podName": "p", "podUID": "1", "serviceAccountName": "default",
            "serviceAccountUID": "2", "nodeName": "n", "nodeUID": "3", "stubPKCS10Request": BARE_REQUEST}}),
        "PodGroup" => json!({"spec": {"schedulingPolicy": {"basic": {}}}}),
        "StorageVersion" => json!({"spec": {}}),
        "StorageVersionMigration" => json!({"spec": {"resource": {"group": "", "resource": "nothings"}}}),
        "Workload" => json!({"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}}),
        "ControllerRevision" => json!({"revision": 1, "data": {"a": "b"}}),
        "CronJob" => json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}}),
        "CSIDriver" | "DeviceClass" | "Ingress" | "PersistentVolumeClaim" => json!({"spec": spec_of(kind)}),
        "CSINode" => json!({"spec": {"drivers": []}}),
        "CSIStorageCapacity" => json!({"storageClassName": "gold"}),
        "CustomResourceDefinition" => json!({"spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": format!("{name}s"), "singular": name, "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
        "DaemonSet" | "Deployment" | "ReplicaSet" => json!({"spec": {"selector": selector, "template": template}}),
        "StatefulSet" => json!({"spec": {"serviceName": name, "selector": selector, "template": template}}),
        "ReplicationController" => json!({"spec": {"selector": labels, "template": template}}),
        "EndpointSlice" => json!({"addressType": "IPv4", "endpoints": []}),
        "FlowSchema" => json!({"spec": {"priorityLevelConfiguration": {"name": "workload-low"}}}),
        "IngressClass" => json!({"spec": {"controller": "example.com/ingress"}}),
        "HorizontalPodAutoscaler" => json!({"spec": {"maxReplicas": 2, "scaleTargetRef": target}}),
        "IPAddress" => json!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "x"}}}),
        "Job" => json!({"spec": job}),
        "MutatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": rules, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}}),
        "ValidatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": rules, "validations": [{"expression": "true"}]}}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "nobody"}}),
        "ValidatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "nobody", "validationActions": ["Deny"]}}),
        "PersistentVolume" => json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        "Pod" => json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}),
        "PodTemplate" => json!({"template": template}),
        "PriorityClass" => json!({"value": 10}),
        "PriorityLevelConfiguration" => json!({"spec": {
            "type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}),
        "ResourceClaim" => {
            json!({"spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "x"}}]}}})
        }
        "ResourceClaimTemplate" => json!({"spec": {"spec": {}}}),
        "ResourceSlice" => json!({"spec": {
            "driver": "x.example.com", "nodeName": "n1", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}}),
        "RuntimeClass" => json!({"handler": "runc"}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["10.9.0.0/24"]}}),
        "StorageClass" => json!({"provisioner": "example.com/p"}),
        "VolumeAttachment" => json!({"spec": {
            "attacher": "csi.example.com", "nodeName": "nowhere", "source": {"persistentVolumeName": "pv"}}}),
        "VolumeAttributesClass" => json!({"driverName": "x.example.com", "parameters": {"a": "b"}}),
        _ => json!({}),
    }
}

fn spec_of(kind: &str) -> Value {
    match kind {
        "Ingress" => json!({"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}),
        "PersistentVolumeClaim" => {
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
        }
        _ => json!({}),
    }
}

/// Returns a valid object for a namespace. An Event must name the namespace in its content.
pub fn in_namespace(served: &Served, name: &str, namespace: &str) -> Value {
    if served.kind == "Event" { event(served, name, namespace) } else { object(served, name) }
}

/// Returns an Event with the required fields of its API group. It has the namespace of the object that it regards.
fn event(served: &Served, name: &str, namespace: &str) -> Value {
    let regarding = json!({"kind": "Pod", "namespace": namespace, "name": "p"});
    let mut value = json!({"metadata": {"name": name}});
    value["apiVersion"] = json!(served.api_version());
    value["kind"] = json!("Event");
    if served.group.is_empty() {
        value["involvedObject"] = regarding;
        value["reason"] = json!("Tested");
        return value;
    }
    value["regarding"] = regarding;
    value["eventTime"] = json!("2026-01-01T00:00:00.000000Z");
    value["reportingController"] = json!("example.com/tester");
    value["reportingInstance"] = json!("tester-1");
    value["action"] = json!("Testing");
    value["reason"] = json!("Tested");
    value["type"] = json!("Normal");
    value
}

/// The same request without the lines of PEM.
pub const BARE_REQUEST: &str = "MIHHMHACAQAwDjEMMAoGA1UEAwwDYWRhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAELO1as6FkMyDhfxJpEXow+L0TL8Wbx/FT6/H0J/IW2J7/cKPeEOwKce4jPidrYO0fztCXgYynqDpTrRckzISXz6AAMAoGCCqGSM49BAMCA0cAMEQCIC1KWUwUNjdrQtxcdEDLPWQ+NXh//jCWD13FTMS4CcicAiBm8WEG1L0CsVejeUXUkeerbMGulUuNo7Teflu5dEhXGw==";

/// A certificate request (PEM in base64) whose key was not kept.
pub const CERTIFICATE_REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISE1IQUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFlXUmhNRmt3RXdZSEtvWkl6ajBDQVFZSUtvWkl6ajBEQVFjRApRZ0FFTE8xYXM2RmtNeURoZnhKcEVYb3crTDBUTDhXYngvRlQ2L0gwSi9JVzJKNy9jS1BlRU93S2NlNGpQaWRyCllPMGZ6dENYZ1l5bnFEcFRyUmNreklTWHo2QUFNQW9HQ0NxR1NNNDlCQU1DQTBjQU1FUUNJQzFLV1V3VU5qZHIKUXR4Y2RFRExQV1ErTlhoLy9qQ1dEMTNGVE1TNENjaWNBaUJtOFdFRzFMMENzVmVqZVVYVWtlZXJiTUd1bFV1TgpvN1RlZmx1NWRFaFhHdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
