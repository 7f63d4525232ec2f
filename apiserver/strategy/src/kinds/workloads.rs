//! Workloads: the kinds that create pods, autoscalers and disruption budgets.
//!
//! Corresponds to pkg/registry/apps, batch, autoscaling and policy.

use super::rules::{Generation, Rules};
use crate::validation::{autoscaling, job_status, jobs, object_meta, workloads};
use crate::write_context::WriteContext;
use serde_json::{Value, json};

const SPEC: Generation = Generation::Of(&["spec"]);

/// Rules that the kinds of the apps group share. Their update check does not validate metadata a second time.
const APPS: Rules = Rules {
    group: "apps",
    generation: SPEC,
    revalidates_metadata: false,
    warnings: workloads::template_warnings,
    ..Rules::DEFAULT
};

pub const ROWS: &[Rules] = &[
    Rules {
        group: "apps",
        resource: "controllerrevisions",
        validate: workloads::controller_revision,
        revalidates: false,
        validate_update: workloads::controller_revision_update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "daemonsets",
        create: create_daemon_set,
        update: update_daemon_set,
        update_status: keep_template_generation,
        validate: workloads::daemon_set,
        revalidates: false,
        validate_update: workloads::daemon_set_update,
        validate_status: workloads::daemon_set_status,
        ..APPS
    },
    Rules {
        resource: "deployments",
        generation: Generation::Of(&["spec", "metadata.annotations"]),
        validate: workloads::deployment,
        validate_update: workloads::selector_update,
        validate_status: workloads::deployment_status,
        status_resets: &[&["metadata", "labels"]],
        ..APPS
    },
    Rules {
        resource: "replicasets",
        validate: workloads::replica_set,
        validate_update: workloads::selector_update,
        validate_status: workloads::replica_set_status,
        ..APPS
    },
    Rules {
        resource: "statefulsets",
        name: object_meta::label,
        validate: workloads::stateful_set,
        revalidates: false,
        validate_update: workloads::stateful_set_update,
        validate_status: workloads::stateful_set_status,
        ..APPS
    },
    Rules {
        group: "",
        resource: "replicationcontrollers",
        validate: workloads::replication_controller,
        validate_status: workloads::replica_set_status,
        ..APPS
    },
    Rules {
        group: "batch",
        resource: "cronjobs",
        validate: jobs::cron_job,
        revalidates: false,
        validate_update: jobs::cron_job_update,
        ..APPS
    },
    Rules {
        group: "batch",
        resource: "jobs",
        create: create_job,
        validate: jobs::job,
        revalidates_metadata: true,
        validate_update: jobs::job_update,
        validate_status: job_status::validate,
        ..APPS
    },
    Rules {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        validate: autoscaling::autoscaler,
        validate_status: autoscaling::autoscaler_status,
        ..Rules::DEFAULT
    },
    Rules {
        group: "policy",
        resource: "poddisruptionbudgets",
        name: object_meta::path_segment,
        core_finalizers: false,
        revalidates_metadata: false,
        generation: SPEC,
        unconditional_update: false,
        validate: autoscaling::budget,
        validate_status: autoscaling::budget_status,
        ..Rules::DEFAULT
    },
];

/// Annotation with the generation of a DaemonSet's template, as text.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn set_template_generation(set: &mut Value, generation: i64) {
    if !set["metadata"]["annotations"].is_object() {
        set["metadata"]["annotations"] = json!({});
    }
    set["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(generation.to_string());
}

fn create_daemon_set(_context: &WriteContext<'_>, set: &mut Value) {
    let wanted = template_generation(set);
    set_template_generation(set, wanted.max(1));
}

fn template_generation(set: &Value) -> i64 {
    let annotations = &set["metadata"]["annotations"];
    annotations[TEMPLATE_GENERATION].as_str().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Raises the generation of the template when the template changes. Old clients still read it.
fn update_daemon_set(_context: &WriteContext<'_>, set: &mut Value, old: &Value) {
    let changed = set["spec"]["template"] != old["spec"]["template"];
    set_template_generation(set, template_generation(old) + i64::from(changed));
}

fn keep_template_generation(_context: &WriteContext<'_>, set: &mut Value, old: &Value) {
    set_template_generation(set, template_generation(old));
}

/// Makes a job select its pods by its own uid, unless `manualSelector` is set.
fn create_job(_context: &WriteContext<'_>, job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let template = &mut job["spec"]["template"];
    if !template["metadata"].is_object() {
        template["metadata"] = json!({});
    }
    if !template["metadata"]["labels"].is_object() {
        template["metadata"]["labels"] = json!({});
    }
    for (key, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        let label = &mut template["metadata"]["labels"][key];
        if label.is_null() {
            *label = value.clone();
        }
    }
    let spec = &mut job["spec"];
    if !spec["selector"].is_object() {
        spec["selector"] = json!({});
    }
    if !spec["selector"]["matchLabels"].is_object() {
        spec["selector"]["matchLabels"] = json!({});
    }
    let selected = &mut spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"];
    if selected.is_null() {
        *selected = uid;
    }
}
