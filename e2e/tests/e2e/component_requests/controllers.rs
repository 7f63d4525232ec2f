//! Requests of the controllers of kube-controller-manager, each with the token of its own service account.

use super::row::{Caller, FIRST_LIST, MERGE, METADATA, METADATA_LIST, Program, Row, STRATEGIC};
use serde_json::{Value, json};

const DEPLOYMENTS: Program = controller("deployment-controller");
const REPLICA_SETS: Program = controller("replicaset-controller");
const DISRUPTION: Program = controller("disruption-controller");
const SLICES: Program = controller("endpointslice-controller");
const GARBAGE: Program = controller("generic-garbage-collector");
const AUTOSCALER: Program = controller("horizontal-pod-autoscaler");
const NAMESPACES: Program = controller("namespace-controller");
const ACCOUNTS: Program = controller("service-account-controller");
const PUBLISHER: Program = controller("root-ca-cert-publisher");
/// The user who creates the objects that the controllers reconcile.
const USER: Program = Program { name: "kubectl", part: "", caller: Caller::Admin };

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SET: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

const fn controller(account: &'static str) -> Program {
    Program { name: "kube-controller-manager", part: "", caller: Caller::Token(account) }
}

pub fn rows() -> Vec<Row> {
    [namespace(), workload(), service(), budget(), autoscaler()].into_iter().flatten().collect()
}

/// Every namespace gets a default service account and a ConfigMap with the cluster's certificate authority.
fn namespace() -> Vec<Row> {
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default"}});
    let authority = json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "pem"}
    });
    vec![
        ACCOUNTS.post("/api/v1/namespaces/default/serviceaccounts", account).sees("/metadata/name", "default"),
        PUBLISHER.post("/api/v1/namespaces/default/configmaps", authority).sees("/data/ca.crt", "pem"),
    ]
}

fn template() -> Value {
    json!({
        "metadata": {"creationTimestamp": null, "labels": {"app": "web", "pod-template-hash": "abc"}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {}}]}
    })
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true
    }])
}

/// The Deployment controller creates a ReplicaSet, and the ReplicaSet controller a pod.
fn workload() -> Vec<Row> {
    let deployment = json!({
        "kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}
        }}
    });
    let replica_set = json!({
        "kind": "ReplicaSet", "apiVersion": "apps/v1",
        "metadata": {
            "name": "web-abc", "namespace": "default", "labels": {"app": "web", "pod-template-hash": "abc"},
            "annotations": {"deployment.kubernetes.io/desired-replicas": "1", "deployment.kubernetes.io/revision": "1"},
            "ownerReferences": owner("Deployment", "web", "{deployment.uid}")
        },
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web", "pod-template-hash": "abc"}},
            "template": template()
        },
        "status": {"replicas": 0}
    });
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "generateName": "web-abc-", "labels": {"app": "web", "pod-template-hash": "abc"},
            "ownerReferences": owner("ReplicaSet", "web-abc", "{set.uid}")
        },
        "spec": template()["spec"], "status": {}
    });
    let condition = json!([{
        "type": "Progressing", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "NewReplicaSetCreated", "message": "Created"
    }]);
    let mut annotated = deployment.clone();
    annotated["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    annotated["metadata"]["resourceVersion"] = json!("{deployment.revision}");
    let mut status = replica_set.clone();
    status["metadata"]["resourceVersion"] = json!("{set.revision}");
    status["status"] = json!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1});
    let mut deployed = deployment.clone();
    deployed["metadata"]["resourceVersion"] = json!("{deployment.revision}");
    deployed["spec"]["replicas"] = json!(7); // a write to the status ignores it
    deployed["status"] = json!({
        "observedGeneration": 1, "replicas": 1, "unavailableReplicas": 1, "conditions": condition
    });
    let release = json!({"metadata": {
        "ownerReferences": [{"$patch": "delete", "uid": "{set.uid}"}], "uid": "{pod.uid}"
    }});
    let adopt = json!({"metadata": {
        "ownerReferences": owner("ReplicaSet", "web-abc", "{set.uid}"), "uid": "{pod.uid}"
    }});
    let wrong = json!({"metadata": {"ownerReferences": owner("ReplicaSet", "web-abc", "{set.uid}"), "uid": "another"}});
    let one = format!("{PODS}/{{pod}}");
    vec![
        USER.post(DEPLOYMENT, deployment)
            .keeps("deployment.uid", "/metadata/uid")
            .keeps("deployment.revision", "/metadata/resourceVersion"),
        DEPLOYMENTS
            .post(REPLICA_SET, replica_set)
            .keeps("set.uid", "/metadata/uid")
            .keeps("set.revision", "/metadata/resourceVersion"),
        DEPLOYMENTS
            .put(format!("{DEPLOYMENT}/web"), annotated)
            .keeps("deployment.revision", "/metadata/resourceVersion"),
        DEPLOYMENTS
            .put(format!("{DEPLOYMENT}/web/status"), deployed.clone())
            .sees("/status/conditions/0/reason", "NewReplicaSetCreated")
            .sees("/spec/replicas", 1)
            .sees("/metadata/generation", 2),
        DEPLOYMENTS.put(format!("{DEPLOYMENT}/web/status"), deployed).code(409).sees("/reason", "Conflict"),
        REPLICA_SETS
            .post(PODS, pod)
            .keeps("pod", "/metadata/name")
            .keeps("pod.uid", "/metadata/uid")
            .sees("/metadata/generateName", "web-abc-")
            .sees("/spec/serviceAccountName", "default")
            .sees("/status/phase", "Pending"),
        REPLICA_SETS.patch(one.clone(), STRATEGIC, release).sees("/metadata/ownerReferences", Value::Null),
        REPLICA_SETS.patch(one.clone(), STRATEGIC, wrong).code(422).sees("/reason", "Invalid"),
        REPLICA_SETS.patch(one, STRATEGIC, adopt).sees("/metadata/ownerReferences/0/uid", "{set.uid}"),
        REPLICA_SETS.put(format!("{REPLICA_SET}/web-abc/status"), status).sees("/status/fullyLabeledReplicas", 1),
    ]
}

fn service() -> Vec<Row> {
    let service = json!({
        "kind": "Service", "apiVersion": "v1", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 80}]}
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = |revision: Value, ready: bool| {
        json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {
                "name": "web-x1", "generateName": "web-", "resourceVersion": revision,
                "labels": {
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    "kubernetes.io/service-name": "web"
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": "{service.uid}",
                    "controller": true, "blockOwnerDeletion": true
                }]
            },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.244.0.5"], "conditions": {"ready": ready, "serving": ready, "terminating": false},
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "{pod}", "uid": "{pod.uid}"},
                "nodeName": "n1"
            }],
            "ports": [{"name": "", "protocol": "TCP", "port": 80}]
        })
    };
    vec![
        USER.post("/api/v1/namespaces/default/services", service).keeps("service.uid", "/metadata/uid"),
        SLICES.post(slices, slice(Value::Null, false)).keeps("slice.revision", "/metadata/resourceVersion"),
        SLICES
            .put(format!("{slices}/web-x1"), slice(json!("{slice.revision}"), true))
            .sees("/endpoints/0/conditions/ready", true)
            .sees("/metadata/generation", 2),
        SLICES.put(format!("{slices}/web-x1"), slice(json!("{slice.revision}"), false)).code(409),
    ]
}

fn budget() -> Vec<Row> {
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let mut budget = json!({
        "kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    });
    let create = USER.post(budgets, budget.clone()).keeps("budget.revision", "/metadata/resourceVersion");
    budget["metadata"]["resourceVersion"] = json!("{budget.revision}");
    budget["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": 1, "reason": "InsufficientPods",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]
    });
    vec![
        create,
        DISRUPTION.get("/apis/apps/v1/namespaces/default/replicasets/web-abc/scale").sees("/kind", "Scale"),
        DISRUPTION
            .put(format!("{budgets}/web/status"), budget)
            .sees("/status/conditions/0/reason", "InsufficientPods")
            .sees("/status/desiredHealthy", 1),
    ]
}

fn autoscaler() -> Vec<Row> {
    let scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scale = |revision: &str| {
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "{deployment.uid}", "resourceVersion": revision,
                "creationTimestamp": null
            },
            "spec": {"replicas": 3}, "status": {"replicas": 1, "selector": "app=web"}
        })
    };
    let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    let mut scaler = json!({
        "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2", "metadata": {"name": "web"},
        "spec": {
            "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}
            }}]
        }
    });
    let create = USER.post(scalers, scaler.clone()).keeps("scaler.revision", "/metadata/resourceVersion");
    scaler["metadata"]["resourceVersion"] = json!("{scaler.revision}");
    scaler["status"] = json!({
        "currentReplicas": 1, "desiredReplicas": 3, "currentMetrics": null, "lastScaleTime": "2026-01-01T00:00:00Z",
        "conditions": [{
            "type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "SucceededGetScale", "message": "the HPA controller was able to get the target's current scale"
        }]
    });
    let metrics = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb";
    vec![
        create,
        AUTOSCALER
            .get(path)
            .sees("/kind", "Scale")
            .sees("/apiVersion", "autoscaling/v1")
            .sees("/spec/replicas", 1)
            .sees("/status/selector", "app=web")
            .keeps("scale.revision", "/metadata/resourceVersion"),
        AUTOSCALER.get(metrics).code(404).media_type("text/plain; charset=utf-8"),
        AUTOSCALER.put(path, scale("{scale.revision}")).sees("/spec/replicas", 3).sees("/kind", "Scale"),
        AUTOSCALER.put(path, scale("{scale.revision}")).code(409).sees("/reason", "Conflict"),
        AUTOSCALER
            .put(format!("{scalers}/web/status"), scaler)
            .sees("/status/desiredReplicas", 3)
            .sees("/status/conditions/0/type", "AbleToScale"),
    ]
}

/// The garbage collector and the namespace controller delete objects. They work for all kinds, since they read only
/// metadata.
pub fn clean_up() -> Vec<Row> {
    let set = format!("{REPLICA_SET}/web-abc");
    let pod = format!("{PODS}/{{pod}}");
    let options = |preconditions: Value| {
        json!({
            "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": preconditions,
            "propagationPolicy": "Background"
        })
    };
    let orphan =
        json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "{set.uid}"}], "uid": "{pod.uid}"}});
    let unblock = json!({"metadata": {
        "resourceVersion": "{pod.revision}",
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "{set.uid}",
            "controller": true, "blockOwnerDeletion": false
        }],
    }});
    let finalizers = |list: Value| json!({"metadata": {"resourceVersion": "{set.revision}", "finalizers": list}});
    let named = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "gone"}});
    let finalized = json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": {"name": "gone", "uid": "{gone.uid}", "resourceVersion": "{gone.revision}"},
        "spec": {}, "status": {"phase": "Terminating"}
    });
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "left"}});
    let all = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"});
    vec![
        GARBAGE
            .get(format!("{PODS}?{FIRST_LIST}"))
            .accept(METADATA_LIST)
            .sees("/kind", "PartialObjectMetadataList")
            .sees("/items/0/metadata/ownerReferences/0/name", "web-abc"),
        GARBAGE
            .get(pod.clone())
            .accept(METADATA)
            .sees("/spec", Value::Null)
            .keeps("pod.revision", "/metadata/resourceVersion"),
        GARBAGE
            .patch(pod.clone(), MERGE, unblock.clone())
            .accept(METADATA)
            .sees("/kind", "PartialObjectMetadata")
            .sees("/metadata/ownerReferences/0/blockOwnerDeletion", false),
        GARBAGE.patch(pod.clone(), MERGE, unblock).accept(METADATA).code(409).sees("/reason", "Conflict"),
        GARBAGE
            .patch(pod.clone(), STRATEGIC, orphan)
            .accept(METADATA)
            .sees("/kind", "PartialObjectMetadata")
            .sees("/metadata/ownerReferences", Value::Null),
        GARBAGE.get(set.clone()).accept(METADATA).keeps("set.revision", "/metadata/resourceVersion"),
        GARBAGE
            .patch(set.clone(), MERGE, finalizers(json!(["example.com/hold"])))
            .accept(METADATA)
            .sees("/metadata/finalizers/0", "example.com/hold"),
        GARBAGE.get(set.clone()).accept(METADATA).keeps("set.revision", "/metadata/resourceVersion"),
        GARBAGE.delete(set.clone(), options(json!({"uid": "another"}))).code(409).sees("/reason", "Conflict"),
        GARBAGE.delete(set.clone(), options(json!({"uid": "{set.uid}", "resourceVersion": "1"}))).code(409),
        GARBAGE.delete(set.clone(), options(json!({"uid": "{set.uid}", "resourceVersion": "{set.revision}"}))),
        GARBAGE.get(set.clone()).accept(METADATA).keeps("set.revision", "/metadata/resourceVersion"),
        GARBAGE.patch(set.clone(), MERGE, finalizers(json!([]))).accept(METADATA),
        GARBAGE.get(set).accept(METADATA).code(404).sees("/details/kind", "replicasets"),
        GARBAGE
            .delete("/apis/apps/v1/namespaces/default/deployments/web", options(json!({"uid": "{deployment.uid}"})))
            .sees("/status", "Success"),
        USER.post("/api/v1/namespaces", named).keeps("gone.uid", "/metadata/uid"),
        USER.post("/api/v1/namespaces/gone/configmaps", map),
        USER.delete("/api/v1/namespaces/gone", json!({"propagationPolicy": "Background"}))
            .sees("/status/phase", "Terminating"),
        NAMESPACES.get("/api/v1/namespaces/gone").keeps("gone.revision", "/metadata/resourceVersion"),
        NAMESPACES.delete("/api/v1/namespaces/gone/configmaps", all),
        NAMESPACES
            .get("/api/v1/namespaces/gone/configmaps")
            .accept(METADATA_LIST)
            .sees("/kind", "PartialObjectMetadataList")
            .sees("/items/0", Value::Null),
        NAMESPACES.put("/api/v1/namespaces/gone/finalize", finalized).sees("/metadata/uid", "{gone.uid}"),
        NAMESPACES.get("/api/v1/namespaces/gone").code(404),
    ]
}
