//! Validates the fields of a pod that its operating system does not support, and the Windows options.
//!
//! Corresponds to validateOS and validateWindowsSecurityContextOptions of pkg/apis/core/validation.

use super::all_containers;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;

const MAX_SPEC_BYTES: usize = 64 * 1024;
const MAX_DOMAIN_CHARS: usize = 256;
const MAX_USER_CHARS: usize = 104;

/// Fields of a pod that only Linux supports.
const LINUX_FIELDS: &[&str] = &[
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
];
/// Fields of a container's security context that only Linux supports.
const LINUX_CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks that a pod sets no field which its operating system does not support.
pub fn operating_system(spec: &At<'_>, errors: &mut Errors) {
    let os = spec.field("os");
    if !os.is_set() {
        return;
    }
    match os.field("name").text() {
        "" => errors.push(os.field("name").required("")),
        "linux" => {
            let contexts = all_containers(spec).map(|container| container.field("securityContext"));
            for context in [spec.field("securityContext")].into_iter().chain(contexts) {
                if context.field("windowsOptions").is_set() {
                    let why = "windows options cannot be set for a linux pod";
                    errors.push(context.field("windowsOptions").forbidden(why));
                }
            }
        }
        "windows" => {
            let mut refuse = |at: At<'_>| {
                // An empty list counts as absent, and so does false if the field is no pointer in Kubernetes.
                if at.is_set() && !(at.value.is_array() && at.is_empty()) && (at.is_true() || !is_plain_bool(&at.path))
                {
                    errors.push(at.forbidden("cannot be set for a windows pod"));
                }
            };
            LINUX_FIELDS.iter().for_each(|field| refuse(spec.down(field)));
            for container in all_containers(spec) {
                let context = container.field("securityContext");
                LINUX_CONTAINER_FIELDS.iter().for_each(|field| refuse(context.field(field)));
            }
        }
        // As in Kubernetes, the path is that of `os`, not of its field `name`.
        name => errors.push(At::new(os.path.clone(), &json!(name)).not_supported(&["linux", "windows"])),
    }
}

/// Returns true for the path of a boolean field that is no pointer in Kubernetes.
fn is_plain_bool(path: &str) -> bool {
    path.ends_with("hostPID") || path.ends_with("hostIPC")
}

/// Checks the Windows options in the security context of a pod or a container.
pub fn options(options: &At<'_>, errors: &mut Errors) {
    let name = options.field("gmsaCredentialSpecName");
    if name.is_set() {
        name.check(names::dns1123_subdomain, errors);
    }
    let spec = options.field("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        errors.push(spec.invalid("gmsaCredentialSpec cannot be an empty string"));
    } else if spec.len() > MAX_SPEC_BYTES {
        errors.push(spec.invalid("gmsaCredentialSpec size must be under 64 KiB"));
    }
    let user = options.field("runAsUserName");
    if user.is_set() {
        errors.extend(user_name(user.text()).into_iter().map(|complaint| user.invalid(complaint)));
    }
}

/// Returns the errors of a user name of the form `user` or `DOMAIN\user`.
fn user_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if text.chars().any(char::is_control) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let parts: Vec<&str> = text.split('\\').collect();
    let (domain, user) = match parts.as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut complaints = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= MAX_DOMAIN_CHARS {
            complaints.push(format!("runAsUserName's Domain length must be under {MAX_DOMAIN_CHARS} characters"));
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            complaints.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
        }
    }
    if user.is_empty() {
        complaints.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > MAX_USER_CHARS {
        complaints.push(format!("runAsUserName's User length must not be longer than {MAX_USER_CHARS} characters"));
    }
    const FORBIDDEN: &str = r#""/\:;|=,+*?<>@[]"#;
    if user.contains(|c| FORBIDDEN.contains(c)) {
        complaints.push(format!("runAsUserName's User cannot contain the following characters: {FORBIDDEN}"));
    } else if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        complaints.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    complaints
}

fn is_net_bios(domain: &str) -> bool {
    let inner = |c: char| !r#"\/:*?"<>|"#.contains(c);
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && domain.chars().all(inner)
}

fn is_dns(domain: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(label)
}

/// Checks that either all containers of a pod are HostProcess containers, or none.
pub fn host_processes(spec: &At<'_>, errors: &mut Errors) {
    let host_process = |context: &At<'_>| context.down("windowsOptions.hostProcess").value.as_bool();
    let of_pod = host_process(&spec.field("securityContext"));
    let all: Vec<bool> = all_containers(spec)
        .map(|container| host_process(&container.field("securityContext")).or(of_pod).unwrap_or(false))
        .collect();
    let place = At::new(spec.path.clone(), spec.value);
    if let Some(pod) = of_pod {
        for container in all_containers(spec) {
            if host_process(&container.field("securityContext")).is_some_and(|own| own != pod) {
                let at = container.down("securityContext.windowsOptions.hostProcess");
                errors.push(
                    at.invalid(format!("pod hostProcess value must be identical if both are specified, was {pod}")),
                );
            }
        }
    }
    if !all.contains(&true) {
        return;
    }
    if all.contains(&false) {
        let why = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(place.invalid_as(&json!(""), why));
    }
    if !spec.field("hostNetwork").is_true() {
        let at = spec.field("hostNetwork");
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(at.invalid_as(&json!(false), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::create;
    use serde_json::Value;

    fn pod(more: Value) -> Vec<String> {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(json!({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    }

    #[test]
    fn an_operating_system_refuses_the_fields_of_the_other() {
        let windows =
            json!({"os": {"name": "windows"}, "hostPID": true, "securityContext": {"runAsUser": 1, "sysctls": []}});
        assert_eq!(
            pod(windows),
            [
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ]
        );
        let linux = json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "u"}}});
        assert_eq!(
            pod(linux),
            ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]
        );
    }

    #[test]
    fn user_names_have_the_form_of_windows() {
        for right in ["ContainerAdministrator", "NT AUTHORITY\\Local Service", "corp.example.com\\ann", "a b"] {
            assert_eq!(user_name(right), [""; 0], "{right}");
        }
        for (wrong, complaints) in
            [("", 1), ("a\\b\\c", 1), ("a:b", 1), ("..", 1), (".d\\u", 1), ("d\\", 1), ("a\nb", 1)]
        {
            assert_eq!(user_name(wrong).len(), complaints, "{wrong}");
        }
    }

    #[test]
    fn host_process_containers_use_the_network_of_the_host() {
        let options = |host: bool| json!({"windowsOptions": {"hostProcess": host}});
        let container = |name: &str, host: bool| json!({"name": name, "image": "i", "securityContext": options(host)});
        let mixed = json!({"containers": [container("a", true), container("b", false)]});
        assert_eq!(
            pod(mixed),
            [
                "spec: Invalid value: \"\": If pod contains any hostProcess containers then all containers must be HostProcess containers",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers",
            ]
        );
        assert_eq!(pod(json!({"hostNetwork": true, "securityContext": options(true)})), [""; 0]);
    }
}
