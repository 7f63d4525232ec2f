//! Security contexts of pods and containers.
//!
//! Corresponds to ValidatePodSecurityContext and ValidateSecurityContext.

use super::windows;
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
    profile(&context.field("seccompProfile"), "seccomp", errors);
    profile(&context.field("appArmorProfile"), "AppArmor", errors);
    windows::options(&context.field("windowsOptions"), errors);
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

/// A `/proc` that shows more than a container should see is for pods with users of their own.
pub fn unmasked_mounts(spec: &At<'_>, errors: &mut Errors) {
    if spec.field("hostUsers").value == false {
        return;
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            let mount = container.down("securityContext.procMount");
            if mount.text() == "Unmasked" {
                errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
            }
        }
    }
}

const MAX_APP_ARMOR_BYTES: usize = 4095;

/// What confines a container's processes: a profile of the container runtime, of the node, or none.
fn profile(profile: &At<'_>, what: &str, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    let name = local.text();
    match kind.text() {
        "" => {
            let field = profile.path.rsplit('.').next().unwrap_or_default();
            errors.push(kind.required(&format!("type is required when {field} is set")));
        }
        "Localhost" if name.trim() != name && what == "AppArmor" => {
            errors.push(local.invalid("must not be padded with whitespace"));
        }
        "Localhost" if local.is_empty() => {
            errors.push(local.required(&format!("must be set when {what} type is Localhost")));
        }
        "Localhost" if what == "AppArmor" && name.len() > MAX_APP_ARMOR_BYTES => {
            errors.push(local.too_long(MAX_APP_ARMOR_BYTES));
        }
        // Another file of the node would be out of the profiles' directory.
        "Localhost" if what == "seccomp" && (name.starts_with('/') || name.split('/').any(|part| part == "..")) => {
            let why = if name.starts_with('/') { "must be a relative path" } else { "must not contain '..'" };
            errors.push(local.invalid(why));
        }
        "Localhost" => {}
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.push(local.invalid(format!("can only be set when {what} type is Localhost")));
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
    profile(&context.field("seccompProfile"), "seccomp", errors);
    profile(&context.field("appArmorProfile"), "AppArmor", errors);
    windows::options(&context.field("windowsOptions"), errors);
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

#[cfg(test)]
mod tests {
    use crate::registry::validation::testing::create;
    use serde_json::{Value, json};

    #[test]
    fn a_profile_of_the_node_has_a_name_and_no_other_has() {
        let pod = |profile: Value| {
            let containers = json!([{"name": "c", "image": "i"}]);
            let context = json!({"appArmorProfile": profile});
            create(
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers, "securityContext": context}}),
            )
        };
        let at = "spec.securityContext.appArmorProfile";
        let cases = [
            (json!({"type": "Localhost", "localhostProfile": "k8s"}), None),
            (
                json!({"type": "Localhost"}),
                Some("localhostProfile: Required value: must be set when AppArmor type is Localhost"),
            ),
            (
                json!({"type": "Localhost", "localhostProfile": " a"}),
                Some("localhostProfile: Invalid value: \" a\": must not be padded with whitespace"),
            ),
            (
                json!({"type": "Unconfined", "localhostProfile": "a"}),
                Some("localhostProfile: Invalid value: \"a\": can only be set when AppArmor type is Localhost"),
            ),
            (json!({}), Some("type: Required value: type is required when appArmorProfile is set")),
            (
                json!({"type": "Odd"}),
                Some(
                    "type: Unsupported value: \"Odd\": supported values: \"Localhost\", \"RuntimeDefault\", \"Unconfined\"",
                ),
            ),
        ];
        for (profile, error) in cases {
            let expected: Vec<String> = error.into_iter().map(|error| format!("{at}.{error}")).collect();
            assert_eq!(pod(profile.clone()), expected, "{profile}");
        }
    }
}
