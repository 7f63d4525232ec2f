//! Security contexts of pods and containers.
//!
//! Corresponds to ValidatePodSecurityContext and ValidateSecurityContext.

use crate::registry::validation::at::{At, Errors};

fn id(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        errors.push(at.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

pub fn of_pod(context: &At<'_>, errors: &mut Errors) {
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    context.field("supplementalGroups").items().for_each(|group| id(&group, errors));
    let mut seen = Vec::new();
    for sysctl in context.field("sysctls").items() {
        let name = sysctl.field("name");
        if name.is_empty() {
            errors.push(name.required(""));
        } else if !is_sysctl(name.text()) {
            errors.push(name.invalid(
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            ));
        } else if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
    }
    context.field("fsGroupChangePolicy").check_optional_enum(&["Always", "OnRootMismatch"], errors);
    context.field("supplementalGroupsPolicy").check_optional_enum(&["Merge", "Strict"], errors);
    seccomp(&context.field("seccompProfile"), errors);
}

fn is_sysctl(name: &str) -> bool {
    let segment = |part: &str| {
        let outer = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = part.as_bytes();
        bytes.first().is_some_and(outer)
            && bytes.last().is_some_and(outer)
            && bytes.iter().all(|b| outer(b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(segment)
}

fn seccomp(profile: &At<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "" => errors.push(kind.required("type is required when seccompProfile is set")),
        "Localhost" if local.is_empty() => {
            errors.push(local.required("must be set when seccomp type is Localhost"));
        }
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.push(local.invalid("can only be set when seccomp type is Localhost"));
            }
        }
        _ => errors.push(kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"])),
    }
}

pub fn of_container(context: &At<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    context.field("procMount").check_optional_enum(&["Default", "Unmasked"], errors);
    seccomp(&context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").value != false {
        return;
    }
    if context.field("privileged").is_true() {
        errors.push(context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    }
    if context.down("capabilities.add").items().any(|capability| capability.text() == "CAP_SYS_ADMIN") {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.push(context.invalid(why));
    }
}
