//! batch: jobs and cron jobs.
//!
//! Corresponds to pkg/registry/batch/rest.

use super::Resource;
use super::columns::workload;
use super::fields::{SelectableField, UnknownField};
use super::row::Group;
use serde_json::Value;

const BATCH: Group = Group { name: "batch", version: "v1", package: "io.k8s.api.batch.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        BATCH.namespaced("cronjobs", "CronJob").short("cj").category("all").status().columns(workload::cron_job()),
        BATCH
            .namespaced("jobs", "Job")
            .category("all")
            .status()
            .columns(workload::job())
            .selectable(vec![SelectableField::with("status.successful", succeeded)], UnknownField::Quoted),
    ]
}

fn succeeded(job: &Value) -> String {
    job.pointer("/status/succeeded").and_then(Value::as_i64).unwrap_or(0).to_string()
}
