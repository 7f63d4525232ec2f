//! Validates Deployments, ReplicaSets, ReplicationControllers, DaemonSets, StatefulSets, ControllerRevisions and
//! PodTemplates.
//!
//! Corresponds to pkg/apis/apps/validation.

use super::{int_or_percent, pod, selector, storage};
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

/// Returns a structure as it is printed in errors, under the names of its Go fields.
fn shown(at: &At<'_>, go_fields: &[(&str, &str)]) -> String {
    let parts: Vec<String> = go_fields.iter().map(|(go, name)| format!("{go:?}:{}", at.field(name).value)).collect();
    format!("{{{}}}", parts.join(","))
}

fn unsupported_strategy(at: &At<'_>, supported: &str) -> FieldError {
    let shown = shown(at, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]);
    FieldError {
        field: at.path.clone(),
        reason: "FieldValueNotSupported",
        message: format!("Unsupported value: {shown}: supported values: {supported}"),
    }
}

/// Checks the selector and the template of a ReplicaSet. The template is not checked if the selector is invalid.
fn selector_and_template(spec: &At<'_>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector::is_invalid(&selector) {
        errors.push(selector.invalid_shown(selector::shown(&selector), "invalid label selector"));
        return;
    }
    selector::check_match(&selector, &template, errors);
    pod::template(&template, errors);
    selector::check_long_running(&template, "ReplicaSet", errors);
}

/// Annotation for the field `rollbackTo` of older API versions.
pub const ROLLBACK: &str = "deprecated.deployment.rollback.to";

pub fn deployment(_context: &Context<'_>, deployment: &At<'_>, errors: &mut Errors) {
    let spec = deployment.field("spec");
    spec.field("replicas").check_non_negative(errors);
    selector::check_required(&spec.field("selector"), "deployment", errors);
    selector_and_template(&spec, errors);
    deployment_strategy(&spec.field("strategy"), errors);
    spec.field("minReadySeconds").check_non_negative(errors);
    spec.field("revisionHistoryLimit").check_non_negative(errors);
    let rollback = deployment.down("metadata.annotations").field(ROLLBACK).text().parse::<i64>();
    if let Some(revision) = rollback.ok().filter(|revision| *revision < 0) {
        At::new("spec.rollback.version", &json!(revision)).check_non_negative(errors);
    }
    let deadline = spec.field("progressDeadlineSeconds");
    deadline.check_non_negative(errors);
    let ready_s = spec.field("minReadySeconds").integer().unwrap_or(0);
    if deadline.integer().is_some_and(|deadline_s| deadline_s <= ready_s) {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn deployment_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
            }
        }
        "RollingUpdate" if !rolling.is_set() => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            int_or_percent::check(&unavailable, errors);
            int_or_percent::check(&surge, errors);
            if int_or_percent::value(&unavailable) == 0 && int_or_percent::value(&surge) == 0 {
                errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
            }
            int_or_percent::check_at_most_100_percent(&unavailable, errors);
        }
        _ => errors.push(unsupported_strategy(strategy, "\"Recreate\", \"RollingUpdate\"")),
    }
}

pub fn selector_update(_context: &Context<'_>, object: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    object.down("spec.selector").check_unchanged(&old.down("spec.selector"), errors);
}

/// Checks that the counts of a status are not negative, and that none of `parts` exceeds `replicas`.
fn replica_counts(status: &At<'_>, counts: &[&str], parts: &[&str], errors: &mut Errors) {
    for count in counts {
        status.field_if_defined(count).check_non_negative(errors);
    }
    let number = |name: &str| status.field(name).integer().unwrap_or(0);
    for part in parts {
        if number(part) > number("replicas") {
            let at = status.field(part);
            errors.push(at.invalid_as(&number(part).into(), "cannot be greater than status.replicas"));
        }
    }
    if number("availableReplicas") > number("readyReplicas") {
        let at = status.field("availableReplicas");
        errors.push(at.invalid("cannot be greater than readyReplicas"));
    }
}

pub fn deployment_status(_context: &Context<'_>, deployment: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let status = deployment.field("status");
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    replica_counts(&status, &counts, &["updatedReplicas", "readyReplicas", "availableReplicas"], errors);
    collision_count(&status, old, errors);
}

/// Checks that `collisionCount` does not decrease.
fn collision_count(status: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let count = status.field("collisionCount");
    let before = old.down("status.collisionCount").integer();
    // An absent count is less than any number.
    if count.integer() < before {
        errors.push(count.invalid_as(&count.integer().unwrap_or(0).into(), "cannot be decremented"));
    }
}

pub fn replica_set(_context: &Context<'_>, set: &At<'_>, errors: &mut Errors) {
    let spec = set.field("spec");
    spec.field("replicas").check_non_negative(errors);
    spec.field("minReadySeconds").check_non_negative(errors);
    selector::check_required(&spec.field("selector"), "deployment", errors);
    selector_and_template(&spec, errors);
}

pub fn replica_set_status(_context: &Context<'_>, set: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ];
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    replica_counts(&set.field("status"), &counts, &parts, errors);
}

pub fn replication_controller(_context: &Context<'_>, controller: &At<'_>, errors: &mut Errors) {
    let spec = controller.field("spec");
    spec.field("minReadySeconds").check_non_negative(errors);
    let selected = spec.field("selector");
    if selected.is_empty() {
        errors.push(selected.required(""));
    }
    spec.field("replicas").check_non_negative(errors);
    let template = spec.field("template");
    if !template.is_set() {
        errors.push(template.required(""));
        return;
    }
    let labels = selector::labels_of(template.down("metadata.labels").value);
    let wanted = selector::labels_of(selected.value);
    if !wanted.iter().all(|(key, value)| labels.get(key) == Some(value)) {
        errors.push(template.down("metadata.labels").invalid(selector::MISMATCH));
    }
    pod::template(&template, errors);
    selector::check_long_running(&template, "ReplicationController", errors);
}

pub fn daemon_set(_context: &Context<'_>, set: &At<'_>, errors: &mut Errors) {
    let spec = set.field("spec");
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    selector::check(&selected, errors);
    if !selector::is_invalid(&selected) {
        selector::check_match(&selected, &template, errors);
    }
    if selected.is_set() && selected.field("matchLabels").is_empty() && selected.field("matchExpressions").is_empty() {
        errors.push(selected.invalid("empty selector is invalid for daemonset"));
    }
    pod::template(&template, errors);
    selector::check_long_running(&template, "DaemonSet", errors);
    spec.field("minReadySeconds").check_non_negative(errors);
    daemon_set_strategy(&spec.field("updateStrategy"), errors);
    spec.field("revisionHistoryLimit").check_non_negative(errors);
}

fn daemon_set_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for number in [&unavailable, &surge] {
                int_or_percent::check(number, errors);
            }
            for number in [&unavailable, &surge] {
                int_or_percent::check_at_most_100_percent(number, errors);
            }
            match (int_or_percent::value(&unavailable) != 0, int_or_percent::value(&surge) != 0) {
                (true, true) => errors.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
                (false, false) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
                _ => {}
            }
        }
        _ => errors.push(unsupported_strategy(strategy, "\"RollingUpdate\", \"OnDelete\"")),
    }
}

pub fn daemon_set_update(context: &Context<'_>, set: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    selector_update(context, set, old, errors);
    daemon_set(context, set, errors);
}

pub fn daemon_set_status(_context: &Context<'_>, set: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let status = set.field("status");
    for count in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ] {
        status.field(count).check_non_negative(errors);
    }
    collision_count(&status, old, errors);
}

pub fn stateful_set(_context: &Context<'_>, set: &At<'_>, errors: &mut Errors) {
    stateful_set_spec(&set.field("spec"), Write::Create, errors);
}

/// The write for which the spec of a StatefulSet is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Create,
    /// An update, which does not validate immutable fields.
    Update,
    /// An update of an object whose spec was invalid before. Its template is not validated either.
    UpdateOfInvalid,
}

fn stateful_set_spec(spec: &At<'_>, write: Write, errors: &mut Errors) {
    let policy = spec.field("podManagementPolicy");
    match policy.text() {
        "" => errors.push(policy.required("")),
        "OrderedReady" | "Parallel" => {}
        _ => errors.push(policy.invalid("must be 'OrderedReady' or 'Parallel'")),
    }
    stateful_set_strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        retention.field(when).check_optional_enum(&["Retain", "Delete"], errors);
    }
    if write == Write::Create {
        for claim in spec.field("volumeClaimTemplates").items() {
            storage::claim_spec(&claim.field("spec"), errors);
        }
    }
    spec.field("replicas").check_non_negative(errors);
    spec.field("minReadySeconds").check_non_negative(errors);
    spec.down("ordinals.start").check_non_negative(errors);
    if write == Write::Create && !spec.field("serviceName").is_empty() {
        spec.field("serviceName").check(names::dns1123_label, errors);
    }
    let (selected, template) = (spec.field("selector"), spec.field("template"));
    selector::check_required(&selected, "statefulset", errors);
    if selector::is_invalid(&selected) {
        let mut error = selected.invalid_shown(selector::shown(&selected), "");
        error.message.truncate(error.message.len() - ": ".len());
        errors.push(error);
    } else {
        if !selector::matches_everything(&selected) {
            selector::check_match(&selected, &template, errors);
        }
        let completed = template_with_claims(spec);
        let completed = At::new(template.path.clone(), &completed);
        if write != Write::UpdateOfInvalid {
            pod::template(&completed, errors);
        }
        // As in Kubernetes, the metadata of the template is validated a second time.
        pod::template_metadata(&completed, errors);
    }
    selector::check_long_running(&template, "StatefulSet", errors);
}

/// Returns the template as the controller completes it. Each claim template becomes a volume and replaces one of the
/// same name. The controller also sets host name and subdomain.
fn template_with_claims(spec: &At<'_>) -> Value {
    let mut template = spec.field("template").value.clone();
    let Some(pod) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let mut volumes: Vec<Value> = Vec::new();
    for claim in spec.field("volumeClaimTemplates").items() {
        let name = claim.down("metadata.name").text();
        if !volumes.iter().any(|volume| volume["name"] == name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    if volumes.is_empty() {
        return template;
    }
    let claimed = volumes.len();
    for volume in pod.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        if !volumes[..claimed].iter().any(|claim| claim["name"] == volume["name"]) {
            volumes.push(volume.clone());
        }
    }
    pod.insert("volumes".to_owned(), Value::Array(volumes));
    template
}

fn stateful_set_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => errors.push(strategy.required("")),
        "OnDelete" => {
            if rolling.is_set() {
                let shown = shown(&rolling, &[("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")]);
                errors.push(rolling.invalid_shown(shown, "only allowed for updateStrategy 'RollingUpdate'"));
            }
        }
        "RollingUpdate" => {
            rolling.field("partition").check_non_negative(errors);
            let unavailable = rolling.field("maxUnavailable");
            int_or_percent::check(&unavailable, errors);
            if unavailable.is_set() && int_or_percent::value(&unavailable) == 0 {
                errors.push(unavailable.invalid("cannot be 0"));
            }
            int_or_percent::check_at_most_100_percent(&unavailable, errors);
        }
        _ => {
            let shown = shown(strategy, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]);
            errors.push(strategy.invalid_shown(shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

const STATEFUL_SET_UPDATABLE: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub fn stateful_set_update(_context: &Context<'_>, set: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let mut before = Errors::new();
    stateful_set_spec(&old.field("spec"), Write::Update, &mut before);
    let write = if before.is_empty() { Write::Update } else { Write::UpdateOfInvalid };
    stateful_set_spec(&set.field("spec"), write, errors);
    let immutable = |set: &At<'_>| -> Vec<(String, Value)> {
        let fields = set.field("spec").map().into_iter().flatten();
        let fields = fields.filter(|(name, _)| !STATEFUL_SET_UPDATABLE.contains(&name.as_str()));
        fields.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if immutable(set) != immutable(old) {
        errors.push(set.field("spec").forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

pub fn stateful_set_status(_context: &Context<'_>, set: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let status = set.field("status");
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    replica_counts(&status, &counts, &parts, errors);
    collision_count(&status, old, errors);
}

pub fn pod_template(_context: &Context<'_>, template: &At<'_>, errors: &mut Errors) {
    pod::template(&template.field("template"), errors);
}

/// Validates a ControllerRevision: its number, and its data, which can be any object.
pub fn controller_revision(_context: &Context<'_>, revision: &At<'_>, errors: &mut Errors) {
    revision.field("revision").check_non_negative(errors);
    match revision.field("data").value {
        Value::Null => errors.push(revision.field("data").required("data is mandatory")),
        Value::Object(_) => {}
        _ => errors.push(revision.field("data").required("data must be a valid JSON object")),
    }
}

pub fn controller_revision_update(_context: &Context<'_>, revision: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    revision.field("revision").check_non_negative(errors);
    revision.field("data").check_unchanged(&old.field("data"), errors);
}

/// Returns the warnings about a template that is new or has changed.
pub fn template_warnings(context: &Context<'_>, object: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
    let generation = |object: &At<'_>| object.down("metadata.generation").value.clone();
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return Vec::new();
    }
    let resource = context.served.resource.as_ref();
    let template = match resource {
        "cronjobs" => object.down("spec.jobTemplate.spec.template"),
        "podtemplates" => object.field("template"),
        _ => object.down("spec.template"),
    };
    let names_pods = !matches!(resource, "daemonsets" | "podtemplates" | "statefulsets");
    let name = names_pods.then(|| pod::warnings::name(object, old, "Pod names and hostnames")).flatten();
    let mut found: Vec<String> = name.into_iter().chain(pod::warnings::template(&template)).collect();
    let limit = object.field_if_defined("spec").field_if_defined("revisionHistoryLimit");
    if limit.integer().is_some_and(|limit| limit < 0) {
        let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
        found.push(format!("{}: {why}", limit.path));
    }
    found
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tutorials;
