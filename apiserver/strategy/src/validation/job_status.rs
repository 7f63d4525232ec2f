//! Validates the status of Jobs: counts of pods, completed and failed indexes, conditions.
//!
//! Corresponds to validateJobStatus and ValidateJobStatusUpdate of pkg/apis/batch/validation.

use super::job_policies::{count_indexes, invalid_without_value};
use super::jobs::has_condition;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, IMMUTABLE};

pub fn validate(_context: &WriteContext<'_>, job: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (job.field("status"), old.field("status"));
    for count in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.field(count).check_non_negative(errors);
    }
    uncounted(&status.field("uncountedTerminatedPods"), errors);
    let changed = Changed { status: &status, before: &before };
    finished(&changed, errors);
    indexes(job, &changed, errors);
    if changed.any(&["ready", "active"]) && number(&status, "ready") > number(&status, "active") {
        errors.push(status.field("ready").invalid("cannot set more ready pods than active"));
    }
    success_criteria(job, &status, errors);
    transitions(job, old, errors);
}

fn number(status: &At<'_>, name: &str) -> i64 {
    status.field(name).integer().unwrap_or(0)
}

/// The status before and after an update. Most rules hold for changed fields only, so that a Job whose stored status
/// breaks them can still be updated.
struct Changed<'s, 'a> {
    status: &'s At<'a>,
    before: &'s At<'a>,
}

impl Changed<'_, '_> {
    fn any(&self, fields: &[&str]) -> bool {
        fields.iter().any(|field| self.status.field(field).value != self.before.field(field).value)
    }

    /// Returns whether the condition is true now and was not before.
    fn became(&self, kind: &str) -> bool {
        has_condition(self.status, kind) && !has_condition(self.before, kind)
    }

    fn finished(&self) -> bool {
        self.became("Complete") || self.became("Failed")
    }
}

fn uncounted(pods: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for uid in ["succeeded", "failed"].into_iter().flat_map(|list| pods.field(list).items().collect::<Vec<_>>()) {
        if uid.is_empty() {
            errors.push(uid.invalid("must not be empty"));
        } else if seen.contains(&uid.value) {
            errors.push(uid.duplicate());
        } else {
            seen.push(uid.value);
        }
    }
}

/// Checks that the conditions of a finished Job do not contradict each other, that its times are set, and that it has
/// no active pods.
fn finished(changed: &Changed<'_, '_>, errors: &mut Errors) {
    let status = changed.status;
    let (complete, failed) = (has_condition(status, "Complete"), has_condition(status, "Failed"));
    let (conditions, started, completed) =
        (status.field("conditions"), status.field("startTime"), status.field("completionTime"));
    let decided = changed.became("Complete") || changed.became("Failed");
    let mut refuse = |is_wrong: bool, why: &str| {
        if is_wrong {
            errors.push(invalid_without_value(&conditions, why));
        }
    };
    refuse(decided && complete && failed, "cannot set Complete=True and Failed=true conditions");
    refuse(
        (decided || changed.became("FailureTarget")) && complete && has_condition(status, "FailureTarget"),
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    let timed = changed.any(&["completionTime"]) || changed.became("Complete");
    if timed && completed.is_set() && !complete {
        errors.push(completed.invalid("cannot set completionTime when there is no Complete=True condition"));
    }
    if timed && !completed.is_set() && complete {
        errors.push(completed.required("completionTime is required for Complete jobs"));
    }
    if changed.any(&["startTime", "completionTime"])
        && started.is_set()
        && completed.is_set()
        && completed.text() < started.text()
    {
        errors.push(completed.invalid("must be equal to or after `startTime`"));
    }
    let mut refuse = |is_wrong: bool, why: &str| {
        if is_wrong {
            errors.push(invalid_without_value(&conditions, why));
        }
    };
    refuse(
        changed.became("Failed") && !has_condition(status, "FailureTarget"),
        "cannot set Failed=True condition without the FailureTarget=true condition",
    );
    refuse(
        changed.became("Complete") && !has_condition(status, "SuccessCriteriaMet"),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
    );
    let is_finished = complete || failed;
    let checked = |field: &str| is_finished && (changed.finished() || changed.any(&[field]));
    if checked("active") && number(status, "active") > 0 {
        errors.push(status.field("active").invalid("active>0 is invalid for finished job"));
    }
    if checked("startTime") && !started.is_set() {
        errors.push(started.required("startTime is required for finished job"));
    }
    let uncounted = status.field("uncountedTerminatedPods");
    if checked("uncountedTerminatedPods")
        && ["succeeded", "failed"].iter().any(|list| !uncounted.field(list).is_empty())
    {
        errors.push(uncounted.invalid("must be empty for finished job"));
    }
}

fn is_indexed(job: &At<'_>) -> bool {
    job.down("spec.completionMode").text() == "Indexed"
}

fn indexes(job: &At<'_>, changed: &Changed<'_, '_>, errors: &mut Errors) {
    let status = changed.status;
    let (completed, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let per_index = job.down("spec.backoffLimitPerIndex").is_set();
    let completions = job.down("spec.completions").integer();
    let check = |at: &At<'_>, name: &str, errors: &mut Errors| {
        if let Some(Err(why)) = completions.map(|completions| count_indexes(at.text(), completions)) {
            errors.push(at.invalid_text(format!("error parsing {name}: {why}")));
        }
    };
    if changed.any(&["completedIndexes"]) && is_indexed(job) {
        check(&completed, "completedIndexes", errors);
    }
    if changed.any(&["failedIndexes"]) && per_index && failed.is_set() {
        check(&failed, "failedIndexes", errors);
    }
    if changed.any(&["completedIndexes"]) && !completed.is_empty() && !is_indexed(job) {
        errors.push(completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode"));
    }
    if changed.any(&["failedIndexes"]) && failed.is_set() && !per_index {
        errors.push(failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null"));
    }
    let is_finished = has_condition(status, "Complete") || has_condition(status, "Failed");
    let terminating = status.field("terminating");
    if is_finished && (changed.finished() || changed.any(&["terminating"])) && number(status, "terminating") > 0 {
        errors.push(terminating.invalid("terminating>0 is invalid for finished job"));
    }
}

/// Checks the condition `SuccessCriteriaMet` against the success policy and the other conditions.
fn success_criteria(job: &At<'_>, status: &At<'_>, errors: &mut Errors) {
    let met = has_condition(status, "SuccessCriteriaMet");
    let conditions = status.field("conditions");
    for (other, shown) in [("Failed", "Failed=true"), ("FailureTarget", "FailureTarget=true")] {
        if met && has_condition(status, other) {
            let why = format!("cannot set SuccessCriteriaMet=True and {shown} conditions");
            errors.push(invalid_without_value(&conditions, &why));
        }
    }
    if job.down("spec.successPolicy").is_set() && !met && has_condition(status, "Complete") {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.push(invalid_without_value(&conditions, why));
    }
}

/// Refuses to take back what a status has recorded: terminal conditions, counts, times.
fn transitions(job: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (job.field("status"), old.field("status"));
    let conditions = status.field("conditions");
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if has_condition(&before, kind) && !has_condition(&status, kind) {
            let why = format!("cannot disable the terminal {kind}=True condition");
            errors.push(invalid_without_value(&conditions, &why));
        }
    }
    for counter in ["failed", "succeeded"] {
        if number(&status, counter) < number(&before, counter) {
            let why = format!("cannot decrease the {counter} counter");
            errors.push(status.field(counter).invalid_as(&number(&status, counter).into(), why));
        }
    }
    let (completed, completed_before) = (status.field("completionTime"), before.field("completionTime"));
    if completed.is_set() && completed_before.is_set() && completed.value != completed_before.value {
        errors.push(completed.invalid(IMMUTABLE));
    }
    let (started, started_before) = (status.field("startTime"), before.field("startTime"));
    if started_before.is_set() && started.value != started_before.value && !job.down("spec.suspend").is_true() {
        errors.push(started.invalid("field is immutable for unsuspended job once set"));
    }
    let met = |status: &At<'_>| has_condition(status, "SuccessCriteriaMet");
    if met(&before) && !met(&status) {
        let why = "cannot disable the SuccessCriteriaMet=True condition";
        errors.push(invalid_without_value(&conditions, why));
    }
    if has_condition(&before, "Complete") && !met(&before) && met(&status) {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.push(invalid_without_value(&conditions, why));
    }
}
