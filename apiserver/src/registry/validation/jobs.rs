//! Jobs and cron jobs.
//!
//! Corresponds to pkg/apis/batch/validation.

use super::at::{At, Errors};
use super::{cron_schedule, pod, selector};
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

/// A pod of a job is called after it, with an index of up to this many more characters.
const MAX_CRON_JOB_NAME: usize = 52;

pub fn job(context: &Context<'_>, job: &At<'_>, errors: &mut Errors) {
    generated_selector(context, job, errors);
    whole_spec(&job.field("spec"), errors);
}

fn whole_spec(spec: &At<'_>, errors: &mut Errors) {
    job_spec(spec, errors);
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    if selected.is_set() {
        selector::check(&selected, errors);
    } else {
        errors.push(selected.required(""));
    }
    if !selector::is_unreadable(&selected) {
        selector::check_match(&selected, &template, errors);
    }
}

/// A selector that the server made has to stay the one that it made.
fn generated_selector(_context: &Context<'_>, job: &At<'_>, errors: &mut Errors) {
    let spec = job.field("spec");
    if spec.field("manualSelector").is_true() || !spec.field("selector").is_set() {
        return;
    }
    let (uid, name) = (job.down("metadata.uid").text(), job.down("metadata.name").text());
    let labels = spec.down("template.metadata.labels");
    for (key, expected) in [
        ("batch.kubernetes.io/controller-uid", uid),
        ("controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("job-name", name),
    ] {
        if labels.key(key).text() != expected {
            errors.push(labels.invalid(format!("must be '{expected}'")));
        }
    }
    let selected = spec.down("selector.matchLabels").key("batch.kubernetes.io/controller-uid");
    let legacy = spec.down("selector.matchLabels").key("controller-uid");
    let only = spec.down("selector.matchLabels").len() == 1 && spec.down("selector.matchExpressions").is_empty();
    if !only || (selected.text() != uid && legacy.text() != uid) {
        errors.push(spec.field("selector").invalid("`selector` not auto-generated"));
    }
}

/// What jobs and the templates of cron jobs share.
fn job_spec(spec: &At<'_>, errors: &mut Errors) {
    for number in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        spec.field(number).check_non_negative(errors);
    }
    for number in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        spec.field(number).check_non_negative(errors);
    }
    managed_by(&spec.field("managedBy"), errors);
    let mode = spec.field("completionMode");
    mode.check_optional_enum(&["NonIndexed", "Indexed"], errors);
    if mode.text() == "Indexed" {
        if !spec.field("completions").is_set() {
            errors.push(spec.field("completions").required("when completion mode is Indexed"));
        }
    } else {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.field(field).is_set() {
                errors.push(spec.field(field).invalid("requires indexed completion mode"));
            }
        }
    }
    if spec.field("maxFailedIndexes").is_set() && !spec.field("backoffLimitPerIndex").is_set() {
        errors.push(spec.field("backoffLimitPerIndex").required("when maxFailedIndexes is specified"));
    }
    failure_policy(spec, errors);
    let replacement = spec.field("podReplacementPolicy");
    if replacement.is_set() {
        let allowed: &[&str] = match spec.field("podFailurePolicy").is_set() {
            true => &["Failed"],
            false => &["Failed", "TerminatingOrFailed"],
        };
        replacement.check_enum(allowed, errors);
    }
    pod::template(&spec.field("template"), errors);
    let restart = spec.down("template.spec.restartPolicy");
    match restart.text() {
        "Always" | "" => errors.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" | "Never" => {}
        _ => errors.push(restart.not_supported(&["OnFailure", "Never"])),
    }
}

fn managed_by(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (domain, path) = at.text().split_once('/').unwrap_or_default();
    if domain.is_empty() || path.is_empty() {
        errors.push(at.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"));
    } else {
        at.check(names::qualified_name, errors);
    }
    if at.text().len() > 63 {
        errors.push(at.too_long(63));
    }
}

const FAILURE_ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const MAX_FAILURE_RULES: usize = 20;

fn failure_policy(spec: &At<'_>, errors: &mut Errors) {
    let policy = spec.field("podFailurePolicy");
    if !policy.is_set() {
        return;
    }
    if spec.down("template.spec.restartPolicy").text() != "Never" {
        let at = spec.down("template.spec.restartPolicy");
        errors.push(at.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
    }
    let rules = policy.field("rules");
    if rules.len() > MAX_FAILURE_RULES {
        errors.push(proto::meta::status::FieldError::too_many(rules.path.clone(), rules.len(), MAX_FAILURE_RULES));
    }
    for rule in rules.items() {
        rule.field("action").check_enum(FAILURE_ACTIONS, errors);
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => {
                errors.push(rule.invalid("specifying both OnExitCodes and OnPodConditions is not supported"))
            }
            (false, false) => {
                errors.push(rule.invalid("specifying one of OnExitCodes and OnPodConditions is required"))
            }
            (true, false) => {
                codes.field("operator").check_enum(&["In", "NotIn"], errors);
                if codes.field("values").is_empty() {
                    errors.push(codes.field("values").invalid("at least one value is required"));
                }
            }
            (false, true) => {}
        }
    }
}

pub fn job_update(_context: &Context<'_>, job: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (job.field("spec"), old.field("spec"));
    whole_spec(&spec, errors);
    completions(&spec, &before, errors);
    spec.field("selector").check_unchanged(&before.field("selector"), errors);
    template(old, &spec, &before, errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        spec.field(field).check_unchanged(&before.field(field), errors);
    }
}

/// An indexed job may grow and shrink if completions and parallelism do so together.
fn completions(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let elastic = spec.field("completionMode").text() == "Indexed"
        && spec.field("completions").is_set()
        && old.field("completions").is_set()
        && spec.field("completions").value == spec.field("parallelism").value;
    if !elastic {
        spec.field("completions").check_unchanged(&old.field("completions"), errors);
    }
}

/// A suspended job that has not started may still be told where its pods shall run.
fn template(old_job: &At<'_>, spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, before) = (spec.field("template"), old.field("template"));
    let waits = old.field("suspend").is_true() && !old_job.down("status.startTime").is_set();
    let mut munged = new.value.clone();
    if waits {
        for (parent, field) in [
            ("metadata", "labels"),
            ("metadata", "annotations"),
            ("spec", "nodeSelector"),
            ("spec", "tolerations"),
            ("spec", "schedulingGates"),
            ("spec", "affinity"),
        ] {
            match before.field(parent).value.get(field) {
                Some(value) => munged[parent][field] = value.clone(),
                None => drop(munged[parent].as_object_mut().map(|fields| fields.remove(field))),
            }
        }
    }
    if munged != *before.value {
        errors.push(new.invalid(super::at::IMMUTABLE));
    }
}

pub fn job_status(_context: &Context<'_>, job: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (job.field("status"), old.field("status"));
    let number = |status: &At<'_>, name: &str| status.field(name).integer().unwrap_or(0);
    for count in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.field(count).check_non_negative(errors);
    }
    if number(&status, "ready") > number(&status, "active") {
        let ready = status.field("ready");
        errors.push(ready.invalid("cannot set more ready pods than active"));
    }
    finished(&status, errors);
    for counter in ["succeeded", "failed"] {
        let is_less = number(&status, counter) < number(&before, counter);
        if is_less {
            let shown: Value = number(&status, counter).into();
            let why = format!("cannot decrease the {counter} counter");
            errors.push(status.field(counter).invalid_as(&shown, why));
        }
    }
    if before.field("startTime").is_set() && !old.down("spec.suspend").is_true() && !job.down("spec.suspend").is_true()
    {
        let (now, then) = (status.field("startTime"), before.field("startTime"));
        if !now.is_set() {
            errors.push(now.required("startTime cannot be removed for unsuspended job"));
        } else if now.value != then.value {
            errors.push(now.required("startTime cannot be modified for unsuspended job"));
        }
    }
}

fn has_condition(status: &At<'_>, kind: &str) -> bool {
    let mut conditions = status.field("conditions").items();
    conditions.any(|condition| condition.field("type").text() == kind && condition.field("status").text() == "True")
}

/// A job that is over says when and how.
fn finished(status: &At<'_>, errors: &mut Errors) {
    let (complete, failed) = (has_condition(status, "Complete"), has_condition(status, "Failed"));
    let conditions = status.field("conditions");
    let completed_at = status.field("completionTime");
    if complete && !completed_at.is_set() {
        errors.push(completed_at.required("completionTime is required for Complete jobs"));
    }
    if completed_at.is_set() && !complete {
        errors.push(completed_at.invalid("cannot set completionTime when there is no Complete=True condition"));
    }
    let hidden = |why: &str| {
        let mut error = conditions.invalid("");
        error.message = format!("Invalid value: {why}");
        error
    };
    if complete && failed {
        errors.push(hidden("cannot set Complete=True and Failed=true conditions"));
    }
    if complete && !has_condition(status, "SuccessCriteriaMet") {
        errors.push(hidden("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"));
    }
    if failed && !has_condition(status, "FailureTarget") {
        errors.push(hidden("cannot set Failed=True condition without the FailureTarget=true condition"));
    }
    if complete || failed {
        for count in ["active", "terminating"] {
            if status.field(count).integer().unwrap_or(0) > 0 {
                errors.push(status.field(count).invalid(format!("{count}>0 is invalid for finished job")));
            }
        }
    }
}

pub fn cron_job(context: &Context<'_>, cron_job: &At<'_>, errors: &mut Errors) {
    let name = cron_job.down("metadata.name");
    cron_job_spec(context, &cron_job.field("spec"), errors);
    if name.text().len() > MAX_CRON_JOB_NAME {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
}

fn cron_job_spec(_context: &Context<'_>, spec: &At<'_>, errors: &mut Errors) {
    schedule(spec, errors);
    spec.field("startingDeadlineSeconds").check_non_negative(errors);
    time_zone(&spec.field("timeZone"), errors);
    spec.field("concurrencyPolicy").check_enum(&["Allow", "Forbid", "Replace"], errors);
    let template = spec.field("jobTemplate");
    job_spec(&template.field("spec"), errors);
    let manual = template.down("spec.manualSelector");
    if manual.is_true() {
        errors.push(manual.not_supported(&["nil", "false"]));
    }
    spec.field("successfulJobsHistoryLimit").check_non_negative(errors);
    spec.field("failedJobsHistoryLimit").check_non_negative(errors);
}

pub fn cron_job_update(context: &Context<'_>, cron_job: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    cron_job_spec(context, &cron_job.field("spec"), errors);
}

fn schedule(spec: &At<'_>, errors: &mut Errors) {
    let at = spec.field("schedule");
    if at.is_empty() {
        errors.push(at.required(""));
    } else if at.text().contains("TZ") {
        errors.push(at.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    } else if let Err(why) = cron_schedule::check(at.text()) {
        errors.push(at.invalid(why));
    }
}

/// Where the names of time zones begin.
const AREAS: &[&str] = &[
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
];
const LONE_ZONES: &[&str] = &[
    "CET",
    "CST6CDT",
    "Cuba",
    "EET",
    "EST",
    "EST5EDT",
    "Egypt",
    "Eire",
    "GB",
    "GB-Eire",
    "GMT",
    "GMT+0",
    "GMT-0",
    "GMT0",
    "Greenwich",
    "HST",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "MET",
    "MST",
    "MST7MDT",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "PST8PDT",
    "Poland",
    "Portugal",
    "ROC",
    "ROK",
    "Singapore",
    "Turkey",
    "UCT",
    "UTC",
    "Universal",
    "W-SU",
    "WET",
    "Zulu",
];

/// Deviation: of a time zone only the area is checked, not the place; the server carries no list of them.
fn time_zone(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let known = match at.text().split_once('/') {
        Some((area, place)) => {
            let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'/');
            AREAS.contains(&area) && !place.is_empty() && place.bytes().all(fits)
        }
        None => LONE_ZONES.contains(&at.text()),
    };
    match at.text() {
        "" => errors.push(at.invalid("timeZone must be nil or non-empty string")),
        zone if zone.eq_ignore_ascii_case("local") => errors
            .push(at.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")),
        zone if !known => errors.push(at.invalid_as(&json!(zone), format!("unknown time zone {zone}"))),
        _ => {}
    }
}
