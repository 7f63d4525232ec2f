//! Validates the annotations that Kubernetes itself reads on pods: mirror pods, deletion costs, seccomp, AppArmor.
//!
//! Corresponds to ValidatePodSpecificAnnotations, validateSeccompAnnotationsAndFields and
//! validateAppArmorAnnotationsAndFieldsMatchOnCreate.

use super::all_containers;
use crate::validation::paths::descending;
use field_checks::at::{At, Errors};
use serde_json::json;

pub const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

pub fn validate(annotations: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && spec.field("nodeName").is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    let cost = annotations.key(DELETION_COST);
    if cost.is_set() && !is_deletion_cost(cost.text()) {
        errors.push(cost.invalid("must be a 32bit integer"));
    }
    let of_pod = annotations.map().and_then(|all| all.get(SECCOMP_POD));
    for (key, value) in
        of_pod.map(|value| (SECCOMP_POD, value)).into_iter().chain(with_prefix(annotations, SECCOMP_CONTAINER))
    {
        seccomp(&At::new(annotations.path_of(key), value), errors);
    }
    for (key, value) in with_prefix(annotations, APP_ARMOR) {
        let (at, container) = (annotations.key(key), key.strip_prefix(APP_ARMOR).unwrap_or_default());
        if !has_container(spec, container) {
            errors.push(at.invalid_as(&json!(container), "container not found"));
        }
        let profile = value.as_str().unwrap_or_default();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            errors.push(at.invalid(format!("invalid AppArmor profile name: {profile:?}")));
        }
    }
}

fn with_prefix<'a>(annotations: &At<'a>, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a serde_json::Value)> {
    let all = annotations.map().into_iter().flatten();
    all.map(|(key, value)| (key.as_str(), value)).filter(move |(key, _)| key.starts_with(prefix))
}

/// Returns true for a deletion cost: a 32-bit number without a plus sign and without leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = text == "0" || !digits.starts_with(['0', '+']);
    text.parse::<i32>().is_ok() && plain
}

fn seccomp(at: &At<'_>, errors: &mut Errors) {
    match at.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        profile => match profile.strip_prefix("localhost/") {
            Some(path) => descending(&At::new(at.path.clone(), &json!(path)), errors),
            None => errors.push(at.invalid("must be a valid seccomp profile")),
        },
    }
}

fn has_container(spec: &At<'_>, name: &str) -> bool {
    all_containers(spec).any(|container| container.field("name").text() == name)
}

/// Checks that the seccomp and AppArmor annotations of a new pod agree with the fields that replaced them.
pub fn agree_with_fields(pod: &At<'_>, errors: &mut Errors) {
    let (annotations, spec) = (pod.down("metadata.annotations"), pod.field("spec"));
    let of_pod = spec.down("securityContext.seccompProfile");
    if of_pod.is_set() && annotations.key(SECCOMP_POD).is_set() {
        check_agreement("seccomp", annotations.key(SECCOMP_POD).text(), &of_pod, &of_pod, errors);
    }
    for container in all_containers(&spec) {
        let profile = container.down("securityContext.seccompProfile");
        let annotation = annotations.key(&format!("{SECCOMP_CONTAINER}{}", container.field("name").text()));
        if profile.is_set() && annotation.is_set() {
            check_agreement("seccomp", annotation.text(), &profile, &profile, errors);
        }
    }
    if spec.down("os.name").text() == "windows" {
        return;
    }
    let of_pod = spec.down("securityContext.appArmorProfile");
    for container in all_containers(&spec) {
        let own = container.down("securityContext.appArmorProfile");
        let profile = if own.is_set() { &own } else { &of_pod };
        let annotation = annotations.key(&format!("{APP_ARMOR}{}", container.field("name").text()));
        if profile.is_set() && annotation.is_set() {
            check_agreement("apparmor", annotation.text(), profile, &own, errors);
        }
    }
}

/// Checks that an annotation agrees with a profile. Errors have the path of `reported_at`.
fn check_agreement(what: &str, annotation: &str, profile: &At<'_>, reported_at: &At<'_>, errors: &mut Errors) {
    let fits = match profile.field("type").text() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default"),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            Some(name) if profile.field("localhostProfile").value == name => true,
            Some(_) => {
                let why = format!("{what} profile in annotation and field must match");
                errors.push(reported_at.field("localhostProfile").forbidden(why));
                return;
            }
            None => false,
        },
        _ => true,
    };
    if !fits {
        errors.push(reported_at.field("type").forbidden(format!("{what} type in annotation and field must match")));
    }
}
