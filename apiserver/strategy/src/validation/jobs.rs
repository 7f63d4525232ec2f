//! Validates Jobs and CronJobs.
//!
//! Corresponds to pkg/apis/batch/validation.

use super::{cron_schedule, job_policies, networking, pod, selector};
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::{label_selector, names};
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

/// Longest name of a CronJob. Its Jobs append 11 characters to it, and a Job's name has at most 63.
const MAX_CRON_JOB_NAME: usize = 52;
const MAX_MANAGED_BY_BYTES: usize = 63;

pub fn job(_context: &Context<'_>, job: &At<'_>, errors: &mut Errors) {
    generated_selector(job, errors);
    let spec = job.field("spec");
    whole_spec(&spec, errors);
    let completions = spec.field("completions").integer().unwrap_or(0);
    if spec.field("completionMode").text() == "Indexed" && completions > 0 {
        // The pod with the last index has the longest name.
        let name = job.down("metadata.name");
        let host = format!("{}-{}", name.text(), completions - 1);
        if !names::dns1123_label(&host).is_empty() {
            errors.push(name.invalid(format!("will not able to create pod with invalid DNS label: {host}")));
        }
    }
}

fn whole_spec(spec: &At<'_>, errors: &mut Errors) {
    job_spec(spec, errors);
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    if selected.is_set() {
        selector::check(&selected, errors);
    } else {
        errors.push(selected.required(""));
    }
    if !selector::is_invalid(&selected) {
        selector::check_match(&selected, &template, errors);
    }
}

/// Checks that a selector is the one that the server generates, and that the template has the labels that it selects.
fn generated_selector(job: &At<'_>, errors: &mut Errors) {
    let spec = job.field("spec");
    let selected = spec.field("selector");
    if spec.field("manualSelector").is_true() || !selected.is_set() {
        return;
    }
    let (uid, name) = (job.down("metadata.uid"), job.down("metadata.name").text());
    if uid.is_empty() {
        errors.push(uid.required(""));
    }
    let expected = [
        ("controller-uid", uid.text()),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid.text()),
        ("batch.kubernetes.io/job-name", name),
    ];
    let labels = spec.down("template.metadata.labels");
    for (key, expected) in expected {
        let label = labels.key(key);
        if !label.is_set() {
            errors.push(label.required(&format!("must be '{expected}'")));
        } else if label.text() != expected {
            errors.push(label.invalid_as(labels.value, format!("must be '{expected}'")));
        }
    }
    let expected = expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if label_selector::from_value(Some(selected.value)).is_ok_and(|selector| !selector.matches(&expected)) {
        errors.push(selected.invalid("`selector` not auto-generated"));
    }
}

const MAX_INDEXED_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// Number of completions above which `parallelism` and `maxFailedIndexes` have the lower limit that follows.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;

/// Checks the fields of a Job's spec that the template of a CronJob has, too: all but the selector.
fn job_spec(spec: &At<'_>, errors: &mut Errors) {
    for number in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(number).check_non_negative(errors);
    }
    if spec.field("maxFailedIndexes").is_set() && !spec.field("backoffLimitPerIndex").is_set() {
        errors.push(spec.field("backoffLimitPerIndex").required("when maxFailedIndexes is specified"));
    }
    managed_by(&spec.field("managedBy"), errors);
    let mode = spec.field("completionMode");
    mode.check_optional_enum(&["NonIndexed", "Indexed"], errors);
    match mode.text() {
        "Indexed" => indexed(spec, errors),
        "" | "NonIndexed" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if spec.field(field).is_set() {
                    errors.push(spec.field(field).invalid("requires indexed completion mode"));
                }
            }
        }
        _ => {}
    }
    if spec.field("podFailurePolicy").is_set() {
        job_policies::failure(spec, errors);
    }
    if spec.field("successPolicy").is_set() {
        job_policies::success(spec, errors);
    }
    let replacement = spec.field("podReplacementPolicy");
    let allowed: &[&str] =
        if spec.field("podFailurePolicy").is_set() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    replacement.check_optional_enum(allowed, errors);
    pod::template(&spec.field("template"), errors);
    let restart = spec.down("template.spec.restartPolicy");
    match restart.text() {
        "Always" | "" => errors.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            errors.push(restart.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        "OnFailure" | "Never" => {}
        _ => errors.push(restart.not_supported(&["OnFailure", "Never"])),
    }
}

fn check_at_most(at: &At<'_>, max: i64, why: &str, errors: &mut Errors) {
    if at.integer().is_some_and(|number| number > max) {
        errors.push(at.invalid(why));
    }
}

fn indexed(spec: &At<'_>, errors: &mut Errors) {
    let [completions, parallelism, failed] =
        ["completions", "parallelism", "maxFailedIndexes"].map(|field| spec.field(field));
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let bound = format!("must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed");
    check_at_most(&parallelism, MAX_INDEXED_PARALLELISM, &bound, errors);
    if let Some(completions) = completions.integer() {
        check_at_most(&failed, completions, "must be less than or equal to completions", errors);
    }
    let bound = format!("must be less than or equal to {MAX_FAILED_INDEXES}");
    check_at_most(&failed, MAX_FAILED_INDEXES, &bound, errors);
    if completions.integer().is_none_or(|completions| completions <= MANY_COMPLETIONS)
        || !spec.field("backoffLimitPerIndex").is_set()
    {
        return;
    }
    if !failed.is_set() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(failed.required(&why));
    }
    let bound = format!(
        "must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are above {MANY_COMPLETIONS} and used with \
         backoff limit per index"
    );
    check_at_most(&parallelism, MAX_WITH_MANY_COMPLETIONS, &bound, errors);
    check_at_most(&failed, MAX_WITH_MANY_COMPLETIONS, &bound, errors);
}

fn managed_by(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    networking::domain_path(at, errors);
    if at.len() > MAX_MANAGED_BY_BYTES {
        errors.push(at.too_long(MAX_MANAGED_BY_BYTES));
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

/// Refuses a change of `completions`. An indexed Job may change it together with `parallelism`, to the same number.
fn completions(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (completions, before) = (spec.field("completions"), old.field("completions"));
    if spec.field("completionMode").text() != "Indexed" {
        completions.check_unchanged(&before, errors);
    } else if completions.is_set()
        && completions.value != before.value
        && completions.value != spec.field("parallelism").value
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// Refuses a change of the pod template. A suspended Job without pods may change the template's metadata, the
/// scheduling directives of its pods and the resources of their containers.
fn template(old_job: &At<'_>, spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, before) = (spec.field("template"), old.field("template"));
    if !old.field("suspend").is_true() || !has_no_pods(old_job) {
        new.check_unchanged(&before, errors);
        return;
    }
    let (new, before) = (new.field("spec"), before.field("spec"));
    let mut expected = before.value.clone();
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy_field(&mut expected, new.value, field);
    }
    let affinity = new.field("affinity");
    if affinity.is_set() && expected.get("affinity").is_none() {
        expected["affinity"] = json!({});
    }
    if let Some(before) = expected.get_mut("affinity") {
        copy_field(before, affinity.value, "nodeAffinity");
        if !affinity.is_set() && before.as_object().is_some_and(serde_json::Map::is_empty) {
            drop(expected.as_object_mut().map(|spec| spec.remove("affinity")));
        }
    }
    for list in ["containers", "initContainers"] {
        let containers = expected.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        if new.field(list).len() != before.field(list).len() {
            continue;
        }
        for (container, now) in containers.zip(new.field(list).items()) {
            if container["name"] == now.field("name").text() {
                copy_field(container, now.value, "resources");
            }
        }
    }
    if expected != *new.value {
        errors.push(new.invalid(super::at::IMMUTABLE));
    }
}

/// Copies `field` from `other` to `object`, or removes it if `other` has no such field.
fn copy_field(object: &mut Value, other: &Value, field: &str) {
    match other.get(field) {
        Some(value) => object[field] = value.clone(),
        None => drop(object.as_object_mut().map(|fields| fields.remove(field))),
    }
}

/// Returns whether a suspended Job has no pods. It has never started, or its controller has set the condition
/// `Suspended` and counts no active pods.
fn has_no_pods(job: &At<'_>) -> bool {
    let status = job.field("status");
    !status.field("startTime").is_set()
        || (has_condition(&status, "Suspended") && status.field("active").integer().unwrap_or(0) == 0)
}

pub fn has_condition(status: &At<'_>, kind: &str) -> bool {
    let mut conditions = status.field("conditions").items();
    conditions.any(|condition| condition.field("type").text() == kind && condition.field("status").text() == "True")
}

pub fn cron_job(_context: &Context<'_>, cron_job: &At<'_>, errors: &mut Errors) {
    let name = cron_job.down("metadata.name");
    let spec = cron_job.field("spec");
    cron_job_spec(&spec, &At::new(spec.path.clone(), &Value::Null), errors);
    if name.text().len() > MAX_CRON_JOB_NAME {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
}

/// Checks the spec of a CronJob. On create, `old` is null.
fn cron_job_spec(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    schedule(spec, old, errors);
    spec.field("startingDeadlineSeconds").check_non_negative(errors);
    if spec.field("timeZone").value != old.field("timeZone").value {
        time_zone(&spec.field("timeZone"), errors);
    }
    spec.field("concurrencyPolicy").check_enum(&["Allow", "Forbid", "Replace"], errors);
    let template = spec.field("jobTemplate");
    job_spec(&template.field("spec"), errors);
    let (selected, manual) = (template.down("spec.selector"), template.down("spec.manualSelector"));
    if selected.is_set() {
        errors.push(selected.invalid("`selector` will be auto-generated"));
    }
    if manual.is_true() {
        errors.push(manual.not_supported(&["nil", "false"]));
    }
    spec.field("successfulJobsHistoryLimit").check_non_negative(errors);
    spec.field("failedJobsHistoryLimit").check_non_negative(errors);
}

pub fn cron_job_update(_context: &Context<'_>, cron_job: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    cron_job_spec(&cron_job.field("spec"), &old.field("spec"), errors);
}

fn schedule(spec: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let at = spec.field("schedule");
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let zoned = ["TZ=", "CRON_TZ="].iter().any(|prefix| at.text().starts_with(prefix));
    let plain = if zoned { at.text().split_once(' ').map_or("", |(_, plain)| plain.trim()) } else { at.text() };
    if let Err(why) = cron_schedule::check(plain) {
        errors.push(at.invalid(why));
    }
    // A stored schedule may keep its time zone, but not beside `timeZone`, the field that replaced it.
    match (at.text().contains("TZ"), old.field("schedule").text().contains("TZ")) {
        (true, true) if spec.field("timeZone").is_set() => {
            errors.push(at.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule"));
        }
        (true, false) => errors.push(at.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")),
        _ => {}
    }
}

/// First parts of the names of time zones, as `Europe` of `Europe/Berlin`.
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
/// Names of time zones that have no area.
const ZONES_WITHOUT_AREA: &[&str] = &[
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

/// Checks the name of a time zone.
///
/// Deviation: only the area of a time zone is checked (`Europe` of `Europe/Berlin`). The place is not checked, because
/// the server has no list of the places.
fn time_zone(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let known = match at.text().split_once('/') {
        Some((area, place)) => {
            let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'/');
            AREAS.contains(&area) && !place.is_empty() && place.bytes().all(fits)
        }
        None => ZONES_WITHOUT_AREA.contains(&at.text()),
    };
    match at.text() {
        "" => errors.push(at.invalid("timeZone must be nil or non-empty string")),
        zone if zone.eq_ignore_ascii_case("local") => errors
            .push(at.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")),
        zone if !known => errors.push(at.invalid_as(&json!(zone), format!("unknown time zone {zone}"))),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
