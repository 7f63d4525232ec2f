//! Error states of workloads whose pods cannot be created, cannot run, or have their names taken.

use super::ErrorState;
use crate::user::{deployment, job, stateful_set};
use serde_json::{Value, json};

pub const STATES: &[ErrorState] = &[
    ErrorState {
        name: "no-service-account",
        objects: no_service_account,
        told: &[
            "ReplicaSet FailedCreate: ",
            "StatefulSet FailedCreate: ",
            "Job FailedCreate: ",
            "Deployment ReplicaFailure=True FailedCreate",
        ],
        requests_per_minute: 10,
        cured_without: &[],
    },
    ErrorState {
        name: "no-node-fits",
        objects: no_node_fits,
        told: &[
            "Pod FailedScheduling: 0/2 nodes are available",
            "Pod PodScheduled=False Unschedulable",
            "Deployment Progressing=False ProgressDeadlineExceeded",
        ],
        requests_per_minute: 3,
        cured_without: &[],
    },
    ErrorState {
        name: "names-at-the-limit",
        objects: names_at_the_limit,
        told: &["StatefulSet FailedCreate: "],
        requests_per_minute: 4,
        cured_without: &[],
    },
    ErrorState {
        name: "names-taken",
        objects: names_taken,
        told: &["StatefulSet FailedCreate: "],
        requests_per_minute: 1,
        cured_without: &["Pod"],
    },
    ErrorState {
        name: "never-fires",
        objects: never_fires,
        told: &["CronJob InvalidSchedule: "],
        requests_per_minute: 1,
        cured_without: &[],
    },
    ErrorState {
        name: "same-selector",
        objects: same_selector,
        told: &["PodDisruptionBudget DisruptionAllowed=True SufficientPods"],
        requests_per_minute: 1,
        cured_without: &["CronJob"],
    },
    ErrorState {
        name: "crash-loop",
        objects: crash_loop,
        told: &[
            "Pod BackOff: ",
            "Job BackoffLimitExceeded: ",
            "Job Failed=True BackoffLimitExceeded",
            "Deployment Available=False MinimumReplicasUnavailable",
        ],
        requests_per_minute: 15,
        cured_without: &[],
    },
];

fn no_service_account() -> Vec<Value> {
    let mut objects = vec![deployment("web", 3, "web:1"), stateful_set("db", 2, "db:1"), job("work", 2, 2)];
    for object in &mut objects {
        object["spec"]["template"]["spec"]["serviceAccountName"] = json!("nobody");
    }
    objects
}

fn no_node_fits() -> Vec<Value> {
    let mut objects = vec![deployment("web", 3, "web:1"), stateful_set("db", 2, "db:1"), job("work", 2, 2)];
    for object in &mut objects {
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"moon": "dark-side"});
    }
    objects
}

/// Names that are valid for the object itself, and too long for a part of what is made of it.
fn names_at_the_limit() -> Vec<Value> {
    let rename = |mut object: Value, length: usize| {
        object["metadata"]["name"] = json!("n".repeat(length));
        object
    };
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("cron", 1, 1)["spec"]}},
    });
    let mut daemon_set = deployment("daemon", 1, "web:1");
    daemon_set["kind"] = json!("DaemonSet");
    daemon_set["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    vec![
        rename(deployment("web", 1, "web:1"), 253),
        rename(stateful_set("db", 1, "db:1"), 63),
        rename(daemon_set, 253),
        rename(job("work", 1, 1), 63),
        rename(cron_job, 52),
    ]
}

/// Others have the names that controllers need.
fn names_taken() -> Vec<Value> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "labels": {"of": "another"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    vec![pod, stateful_set("db", 2, "db:1")]
}

fn never_fires() -> Vec<Value> {
    let cron_job = |name: &str, schedule: &str| {
        json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {"schedule": schedule, "jobTemplate": {"spec": job("cron", 1, 1)["spec"]}},
        })
    };
    vec![cron_job("thirtieth-of-february", "0 0 30 2 *")]
}

/// Workloads of every kind that select the same pods.
fn same_selector() -> Vec<Value> {
    let mut replica_set = deployment("web", 2, "web:1");
    replica_set["kind"] = json!("ReplicaSet");
    let mut controller = replica_set.clone();
    (controller["apiVersion"], controller["kind"]) = (json!("v1"), json!("ReplicationController"));
    controller["spec"]["selector"] = json!({"app": "web"});
    let mut daemon_set = deployment("web", 1, "web:1");
    daemon_set["kind"] = json!("DaemonSet");
    daemon_set["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let budget = |name: &str| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        })
    };
    let mut other = deployment("other", 2, "web:2");
    other["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "web"});
    vec![
        deployment("web", 2, "web:1"),
        other,
        replica_set,
        controller,
        stateful_set("web", 2, "web:1"),
        daemon_set,
        budget("one"),
        budget("two"),
    ]
}

fn crash_loop() -> Vec<Value> {
    let mut objects = vec![deployment("web", 2, "web:1"), stateful_set("db", 2, "db:1"), job("work", 2, 2)];
    for object in &mut objects {
        object["spec"]["template"]["metadata"]["annotations"] =
            json!({"orrery.dev/run-for": "1s", "orrery.dev/exit-code": "1"});
    }
    objects
}
