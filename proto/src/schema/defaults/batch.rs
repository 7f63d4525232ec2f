//! Defaults of jobs and cron jobs.
//!
//! Corresponds to pkg/apis/batch/v1.

use super::DefaultValue::{Bool, Int, Of, Text};
use super::Row::{self, Each, Fix, In, Set, SetEmpty, SetIf};
use super::{Members, is_set, is_unset, pod};
use serde_json::Value;

pub const JOB: &[Row] = &[In("spec", JOB_SPEC_OF_TEMPLATE), In("spec", JOB_SPEC), Fix(labels_of_template)];

pub const CRON_JOB: &[Row] = &[In(
    "spec",
    &[
        Set("concurrencyPolicy", Text("Allow")),
        Set("suspend", Bool(false)),
        Set("successfulJobsHistoryLimit", Int(3)),
        Set("failedJobsHistoryLimit", Int(1)),
        In("jobTemplate.spec", JOB_SPEC_OF_TEMPLATE),
    ],
)];

/// The defaults that the template in a cron job gets, too.
const JOB_SPEC_OF_TEMPLATE: &[Row] = &[
    In("template", pod::TEMPLATE),
    Each("podFailurePolicy.rules", &[Each("onPodConditions", &[SetEmpty("status", Text("True"))])]),
];

const JOB_SPEC: &[Row] = &[
    SetIf(|spec| is_unset(spec, "parallelism"), "completions", Int(1)),
    Set("parallelism", Int(1)),
    Set("backoffLimit", Of(backoff_limit)),
    Set("completionMode", Text("NonIndexed")),
    Set("suspend", Bool(false)),
    Set("manualSelector", Bool(false)),
    Set("podReplacementPolicy", Of(pod_replacement_policy)),
];

/// Returns the retries of the whole job: without limit, if there is a limit per index.
fn backoff_limit(spec: &Members) -> Option<Value> {
    Some(Value::from(if is_set(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 }))
}

fn pod_replacement_policy(spec: &Members) -> Option<Value> {
    Some(Value::from(if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" }))
}

/// Copies the labels of the template to a job without labels.
fn labels_of_template(job: &mut Members) {
    let labels = job.get("spec").and_then(|spec| spec.pointer("/template/metadata/labels")).cloned();
    if let (Some(labels), Some(Value::Object(metadata))) = (labels, job.get_mut("metadata")) {
        metadata.entry("labels").or_insert(labels);
    }
}
