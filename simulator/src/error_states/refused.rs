//! Error states in which a webhook, a policy or a quota refuses what controllers write.

use super::ErrorState;
use crate::user::{deployment, job, service, stateful_set};
use serde_json::{Value, json};

pub const STATES: &[ErrorState] = &[
    ErrorState {
        name: "pods-refused",
        objects: pods_refused,
        told: &[
            "ReplicaSet FailedCreate: Error creating: pods",
            "ReplicationController FailedCreate: Error creating: pods",
            "StatefulSet FailedCreate: create Pod db-0",
            "DaemonSet FailedCreate: Error creating: pods",
            "Job FailedCreate: Error creating: pods",
            "Deployment ReplicaFailure=True FailedCreate",
            "ReplicaSet ReplicaFailure=True FailedCreate",
            "Deployment Progressing=False ProgressDeadlineExceeded",
        ],
        requests_per_minute: 20,
        cured_without: &["ValidatingAdmissionPolicyBinding"],
    },
    ErrorState {
        name: "webhook-gone",
        objects: webhook_gone,
        told: &[
            "Deployment ReplicaSetCreateError: Failed to create new replica set",
            "StatefulSet FailedCreate: Error creating controller revision: Internal error",
            "DaemonSet FailedCreate: Error creating controller revision: Internal error",
            "Job FailedUpdateStatus: Internal error occurred: failed calling webhook",
            "CronJob FailedCreate: Error creating job: Internal error",
            "Service FailedToUpdateEndpointSlices: ",
            "Endpoints FailedToCreateEndpoint: ",
            "PodDisruptionBudget NoPods",
        ],
        requests_per_minute: 30,
        cured_without: &["ValidatingWebhookConfiguration"],
    },
    ErrorState {
        name: "status-refused",
        objects: status_refused,
        told: &[
            "Deployment FailedUpdateStatus: ",
            "ReplicaSet FailedUpdateStatus: ",
            "ReplicationController FailedUpdateStatus: ",
            "StatefulSet FailedUpdateStatus: ",
            "DaemonSet FailedUpdateStatus: ",
            "Job FailedUpdateStatus: ",
            "CronJob FailedUpdateStatus: ",
        ],
        requests_per_minute: 20,
        cured_without: &["ValidatingAdmissionPolicyBinding"],
    },
    ErrorState {
        name: "quota-full",
        objects: quota_full,
        told: &[
            "ReplicaSet FailedCreate: ",
            "StatefulSet FailedCreate: ",
            "DaemonSet FailedCreate: ",
            "Job FailedCreate: ",
            "Deployment ReplicaFailure=True FailedCreate",
        ],
        requests_per_minute: 20,
        cured_without: &["ResourceQuota"],
    },
    ErrorState {
        name: "replicas-reset",
        objects: replicas_reset,
        told: &["Deployment Progressing=False ProgressDeadlineExceeded"],
        requests_per_minute: 8,
        // The controller's last write was answered with success, and no event follows: it takes an edit, as in Kubernetes
        // until the caches repeat everything after twelve hours.
        cured_without: &[],
    },
    ErrorState {
        name: "hundred-thousand",
        objects: hundred_thousand,
        told: &[
            "ReplicaSet FailedCreate: ",
            "StatefulSet FailedCreate: ",
            "Job FailedCreate: ",
            "Deployment ReplicaFailure=True FailedCreate",
        ],
        requests_per_minute: 8,
        cured_without: &[],
    },
];

/// Returns an object of every kind whose controller writes other objects.
fn one_of_each() -> Vec<Value> {
    let mut daemon_set = deployment("daemon", 1, "web:1");
    daemon_set["kind"] = json!("DaemonSet");
    daemon_set["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let mut controller = deployment("controller", 1, "web:1");
    (controller["apiVersion"], controller["kind"]) = (json!("v1"), json!("ReplicationController"));
    controller["spec"]["selector"] = json!({"app": "controller"});
    let mut replica_set = deployment("set", 1, "web:1");
    replica_set["kind"] = json!("ReplicaSet");
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job("cron", 1, 1)["spec"]}},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    vec![
        deployment("web", 3, "web:1"),
        replica_set,
        controller,
        stateful_set("db", 3, "db:1"),
        daemon_set,
        job("work", 2, 2),
        cron_job,
        service("web"),
        budget,
    ]
}

/// Returns a rule for what controllers write, except Events.
fn rule(resources: &[&str]) -> Value {
    json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": resources,
        "scope": "Namespaced",
    }])
}

fn namespace(name: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": name}})
}

/// Returns a policy that refuses the controllers' writes of some resources, with its binding.
fn policy(name: &str, resources: &[&str]) -> Vec<Value> {
    let is_no_controller = "!request.userInfo.username.startsWith('system:serviceaccount:kube-system:')";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rule(resources), "namespaceSelector": namespace(name)},
            "validations": [{"expression": is_no_controller, "message": "not today"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    vec![policy, binding]
}

fn pods_refused() -> Vec<Value> {
    [policy("pods-refused", &["pods"]), one_of_each()].concat()
}

fn webhook_gone() -> Vec<Value> {
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "webhook-gone"},
        "webhooks": [{
            "name": "gone.example.com", "clientConfig": {"url": "https://gone.example.com/"},
            "rules": rule(&["*/*"]), "namespaceSelector": namespace("webhook-gone"),
            "matchConditions": [
                {"name": "no-events", "expression": "request.resource.resource != 'events'"},
                {
                    "name": "controllers",
                    "expression": "request.userInfo.username.startsWith('system:serviceaccount:kube-system:')",
                },
            ],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        }],
    });
    [vec![webhook], one_of_each()].concat()
}

fn status_refused() -> Vec<Value> {
    [policy("status-refused", &["*/status"]), one_of_each()].concat()
}

fn quota(hard: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": hard}})
}

fn quota_full() -> Vec<Value> {
    [
        vec![quota(&json!({"pods": "0", "count/jobs.batch": "1", "count/endpointslices.discovery.k8s.io": "0"}))],
        one_of_each(),
    ]
    .concat()
}

/// A policy sets the size of every ReplicaSet back, so that a Deployment never gets its replicas.
fn replicas_reset() -> Vec<Value> {
    let expression = "Object{spec: Object.spec{replicas: 1}}";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "replicas-reset"},
        "spec": {
            "matchConstraints": {"resourceRules": rule(&["replicasets"]), "namespaceSelector": namespace("replicas-reset")},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "replicas-reset"}, "spec": {"policyName": "replicas-reset"},
    });
    vec![policy, binding, deployment("web", 3, "web:1")]
}

fn hundred_thousand() -> Vec<Value> {
    let mut parallel = stateful_set("db", 100_000, "db:1");
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    // Whoever gets the four pods keeps them. If pods of the Job ended, it would rightly go on.
    let mut endless = job("work", 100_000, 100_000);
    endless["spec"]["template"]["metadata"]["annotations"] = json!({"orrery.dev/run-for": "1h"});
    vec![quota(&json!({"pods": "4"})), deployment("web", 100_000, "web:1"), parallel, endless]
}
