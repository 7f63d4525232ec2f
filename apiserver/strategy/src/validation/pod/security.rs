//! Validates security contexts of pods and containers.
//!
//! Corresponds to ValidatePodSecurityContext and ValidateSecurityContext.

use super::{all_containers, windows};
use crate::validation::paths::descending;
use field_checks::at::{At, Errors};
use serde_json::json;

/// Checks the id of a user or a group.
fn id(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        errors.push(at.invalid("must be between 0 and 2147483647, inclusive"));
    }
}

pub fn of_pod(spec: &At<'_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    context.field("supplementalGroups").items().for_each(|group| id(&group, errors));
    if spec.field("shareProcessNamespace").is_true() && spec.field("hostPID").is_true() {
        let at = At::new(context.path_of("shareProcessNamespace"), spec.field("shareProcessNamespace").value);
        errors.push(at.invalid("ShareProcessNamespace and HostPID cannot both be enabled"));
    }
    sysctls(&context.field("sysctls"), spec, errors);
    context.field("fsGroupChangePolicy").check_optional_enum(&["Always", "OnRootMismatch"], errors);
    seccomp(&context.field("seccompProfile"), errors);
    windows::options(&context.field("windowsOptions"), errors);
    app_armor(&context.field("appArmorProfile"), errors);
    context.field("supplementalGroupsPolicy").check_optional_enum(&["Merge", "Strict"], errors);
    // The feature gate SELinuxMount is off.
    context.field("seLinuxChangePolicy").check_optional_enum(&["Recursive"], errors);
}

fn sysctls(sysctls: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for sysctl in sysctls.items() {
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
        let namespace = if is_network_sysctl(name.text()) { "hostNetwork" } else { "hostIPC" };
        if (is_network_sysctl(name.text()) || is_ipc_sysctl(name.text())) && spec.field(namespace).is_true() {
            errors.push(name.invalid(format!("may not be specified when '{namespace}' is true")));
        }
        seen.push(name.text());
    }
}

/// Returns the name of a sysctl in the form with dots: `net.ipv4.eth0/1.x` for `net/ipv4/eth0.1/x`. A name whose first
/// separator is a dot has this form already.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(first) if name.as_bytes()[first] == b'/' => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn is_network_sysctl(name: &str) -> bool {
    dotted(name).starts_with("net.")
}

fn is_ipc_sysctl(name: &str) -> bool {
    let name = dotted(name);
    name == "kernel.sem" || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
}

/// Checks that a pod with `hostUsers: false` uses no other namespace of the node.
pub fn host_users(spec: &At<'_>, errors: &mut Errors) {
    if spec.field("hostUsers").value != false {
        return;
    }
    // As in Kubernetes, two of the paths have the names of Go fields.
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).is_true() {
            errors.push(At::new(spec.path_of(shown), spec.value).forbidden("when `hostUsers` is false"));
        }
    }
    for container in all_containers(spec) {
        if !container.field("volumeDevices").is_empty() {
            errors.push(container.field("volumeDevices").forbidden("when `hostUsers` is false"));
        }
    }
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

const MAX_APP_ARMOR_BYTES: usize = 4095;
const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Checks the type of a seccomp or AppArmor profile: a file of the node, the container runtime's default, or none.
fn profile_type(profile: &At<'_>, field: &str, errors: &mut Errors) {
    let kind = profile.field("type");
    if kind.is_empty() {
        errors.push(kind.required(&format!("type is required when {field} is set")));
    } else if !PROFILES.contains(&kind.text()) {
        errors.push(kind.not_supported(PROFILES));
    }
}

fn seccomp(profile: &At<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    profile_type(profile, "seccompProfile", errors);
    let (kind, local) = (profile.field("type").text(), profile.field("localhostProfile"));
    if kind == "Localhost" && !local.is_set() {
        errors.push(local.required("must be set when seccomp type is Localhost"));
    } else if kind == "Localhost" {
        // The path must stay in the folder of the profiles.
        descending(&local, errors);
    } else if local.is_set() {
        // As in Kubernetes, the value is the whole profile, under the names of its Go fields.
        let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{}}}", json!(kind), local.value);
        errors.push(local.invalid_shown(shown, "can only be set when seccomp type is Localhost"));
    }
}

fn app_armor(profile: &At<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let local = profile.field("localhostProfile");
    match profile.field("type").text() {
        "Localhost" => {
            if local.text().trim() != local.text() {
                errors.push(local.invalid("must not be padded with whitespace"));
            } else if local.is_empty() {
                errors.push(local.required("must be set when AppArmor type is Localhost"));
            }
            if local.len() > MAX_APP_ARMOR_BYTES {
                errors.push(local.too_long(MAX_APP_ARMOR_BYTES));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errors.push(local.invalid("can only be set when AppArmor type is Localhost"));
            }
        }
        _ => profile_type(profile, "appArmorProfile", errors),
    }
}

pub fn of_container(context: &At<'_>, host_users: bool, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        id(&context.field(field), errors);
    }
    let mount = context.field("procMount");
    mount.check_optional_enum(&["Default", "Unmasked"], errors);
    // An unmasked `/proc` needs a user namespace.
    if host_users && mount.text() == "Unmasked" {
        errors.push(mount.invalid("`hostUsers` must be false to use `Unmasked`"));
    }
    seccomp(&context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").value == false {
        if context.field("privileged").is_true() {
            errors.push(context.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
        }
        let added = context.down("capabilities.add");
        for _ in added.items().filter(|capability| capability.text() == "CAP_SYS_ADMIN") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(context.invalid(why));
        }
    }
    windows::options(&context.field("windowsOptions"), errors);
    app_armor(&context.field("appArmorProfile"), errors);
}

#[cfg(test)]
mod tests {
    use crate::testing::create;
    use serde_json::{Value, json};

    #[test]
    fn only_a_local_profile_has_a_name() {
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
