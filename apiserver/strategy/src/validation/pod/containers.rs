//! Validates containers: rules for all of them, and for app, init, sidecar and ephemeral containers.
//!
//! Corresponds to validateContainers, validateInitContainers and validateEphemeralContainers.

use super::resources::{self, Claims};
use super::volume_sources::PULL_POLICIES;
use super::volumes::{self, Volumes};
use super::{env, handlers, security};
use field_checks::at::{At, Errors, check_port_number, port_name};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

const TERMINATION_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// The fields of a pod that the rules of its containers refer to.
pub struct Shared<'a> {
    pub volumes: &'a Volumes<'a>,
    pub claims: &'a Claims<'a>,
    pub grace_period_s: Option<i64>,
    /// Restart policy of the pod.
    pub restart_policy: &'a str,
    /// False for a pod with a user namespace of its own.
    pub host_users: bool,
}

pub fn regular(containers: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        common(&container, shared, errors);
        if !names.insert(container.field("name").text()) {
            errors.push(At::new(container.path_of("name"), &json!(container.field("name").text())).duplicate());
        }
        handlers::lifecycle(&container.field("lifecycle"), shared.grace_period_s, errors);
        handlers::probes(&container, errors);
        restart_policy(&container, errors);
    }
    host_port_conflicts(containers, &mut BTreeSet::new(), errors);
}

pub fn init(containers: &At<'_>, others: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = others.items().map(|container| container.field("name").text()).collect();
    for container in containers.items() {
        common(&container, shared, errors);
        restart_policy(&container, errors);
        let is_sidecar = container.field("restartPolicy").text() == "Always";
        let name = container.field("name").text();
        if names.contains(name) {
            errors.push(At::new(container.path_of("name"), &json!(name)).duplicate());
        } else if !name.is_empty() {
            names.insert(name);
        }
        // As in Kubernetes, the path has the index 0 for every container.
        let first = At::new(format!("{}[0]", containers.path), container.value);
        host_port_conflicts_of(&first, &mut BTreeSet::new(), errors);
        if is_sidecar {
            handlers::lifecycle(&container.field("lifecycle"), shared.grace_period_s, errors);
            handlers::probes(&container, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.field(field).is_set() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(container.field(field).forbidden(why));
            }
        }
        for policy in container.field("resizePolicy").items() {
            let restart = policy.field("restartPolicy");
            if restart.text() == "RestartContainer" {
                errors.push(restart.invalid("must not be set to 'RestartContainer' for non-sidecar initContainers"));
            }
        }
    }
}

/// Fields that an ephemeral container may not have: it is added to a pod whose resources are already allocated.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

pub fn ephemeral(spec: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    let named = |list: &str| -> Vec<&str> {
        spec.field(list).items().map(|container| container.field("name").text()).collect()
    };
    let targets: BTreeSet<&str> = named("containers").into_iter().chain(named("initContainers")).collect();
    let mut names = targets.clone();
    for container in spec.field("ephemeralContainers").items() {
        common(&container, shared, errors);
        image_of_pod(&container, errors);
        if !names.insert(container.field("name").text()) {
            errors.push(At::new(container.path_of("name"), &json!(container.field("name").text())).duplicate());
        }
        let target = container.field("targetContainerName");
        if !target.is_empty() && !targets.contains(target.text()) {
            errors.push(target.not_found());
        }
        for field in NOT_EPHEMERAL {
            if !container.field(field).is_empty() {
                errors.push(container.field(field).forbidden("cannot be set for an Ephemeral Container"));
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.field(field).is_empty() {
                    errors.push(mount.field(field).forbidden("cannot be set for an Ephemeral Container"));
                }
            }
        }
    }
}

/// Checks the fields that containers of all kinds have.
fn common(container: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    container.field("name").check_required(names::dns1123_label, errors);
    if container.field("image").is_empty() {
        errors.push(container.field("image").required(""));
    }
    container.field("terminationMessagePolicy").check_enum(TERMINATION_POLICIES, errors);
    ports(&container.field("ports"), errors);
    env::variables(&container.field("env"), errors);
    env::sources(&container.field("envFrom"), errors);
    volumes::mounts(container, shared.volumes, errors);
    container.field("imagePullPolicy").check_enum(PULL_POLICIES, errors);
    resources::of_container(&container.field("resources"), shared.claims, errors);
    resize_policy(&container.field("resizePolicy"), shared.restart_policy, errors);
    security::of_container(&container.field("securityContext"), shared.host_users, errors);
}

/// Checks that the image of a pod's container has no spaces around its name. A template may have them.
pub fn image_of_pod(container: &At<'_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

const CONTAINER_RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const RESTART_ACTIONS: &[&str] = &["Restart", "RestartAllContainers"];
const MAX_RESTART_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Checks the restart policy of a container and its rules for exit codes.
fn restart_policy(container: &At<'_>, errors: &mut Errors) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if policy.is_set() {
        policy.check_optional_enum(CONTAINER_RESTART_POLICIES, errors);
    } else if rules.is_empty() {
        return;
    } else {
        errors.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
    if rules.len() > MAX_RESTART_RULES {
        errors.push(FieldError::too_many(rules.path.clone(), rules.len(), MAX_RESTART_RULES));
    }
    for rule in rules.items() {
        let (action, codes) = (rule.field("action"), rule.field("exitCodes"));
        if !RESTART_ACTIONS.contains(&action.text()) {
            errors.push(At::new(action.path.clone(), &json!(action.text())).not_supported(RESTART_ACTIONS));
        }
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        let operator = codes.field("operator");
        if !["In", "NotIn"].contains(&operator.text()) {
            errors.push(At::new(operator.path.clone(), &json!(operator.text())).not_supported(&["In", "NotIn"]));
        }
        let values = codes.field("values");
        if values.len() > MAX_EXIT_CODES {
            errors.push(FieldError::too_many(values.path.clone(), values.len(), MAX_EXIT_CODES));
        }
    }
}

fn resize_policy(policies: &At<'_>, pod_restart_policy: &str, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let name = policy.field("resourceName");
        if !seen.insert(name.text()) {
            errors.push(At::new(policy.path.clone(), name.value).duplicate());
        }
        // As in Kubernetes, the path is that of the list.
        for (field, supported) in
            [(&name, ["cpu", "memory"]), (&policy.field("restartPolicy"), ["NotRequired", "RestartContainer"])]
        {
            At::new(policies.path.clone(), field.value).check_enum(&supported, errors);
        }
        let restart = policy.field("restartPolicy");
        if pod_restart_policy == "Never" && restart.text() != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(At::new(policies.path.clone(), restart.value).invalid_text(why));
        }
    }
}

fn ports(ports: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let complaints = port_name(name.text());
            if !complaints.is_empty() {
                errors.extend(complaints.into_iter().map(|complaint| name.invalid(complaint)));
            } else if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        match port.field("containerPort").integer() {
            None | Some(0) => errors.push(port.field("containerPort").required("")),
            Some(_) => check_port_number(&port.field("containerPort"), errors),
        }
        if port.field("hostPort").integer().unwrap_or(0) != 0 {
            check_port_number(&port.field("hostPort"), errors);
        }
        port.field("protocol").check_enum(PROTOCOLS, errors);
    }
}

/// Checks that no two containers use the same port, protocol and address of the node.
fn host_port_conflicts(containers: &At<'_>, taken: &mut BTreeSet<String>, errors: &mut Errors) {
    for container in containers.items() {
        host_port_conflicts_of(&container, taken, errors);
    }
}

fn host_port_conflicts_of(container: &At<'_>, taken: &mut BTreeSet<String>, errors: &mut Errors) {
    for port in container.field("ports").items() {
        let number = port.field("hostPort").integer().unwrap_or(0);
        if number == 0 {
            continue;
        }
        let host_port = format!("{}/{}/{number}", port.field("protocol").text(), port.field("hostIP").text());
        if taken.contains(&host_port) {
            errors.push(At::new(port.field("hostPort").path, &json!(host_port)).duplicate());
        }
        taken.insert(host_port);
    }
}

/// Checks that `hostPort` equals `containerPort` in a pod on the host's network. A template may leave `hostPort` out,
/// because it is defaulted in its pods.
pub fn host_network_ports(spec: &At<'_>, is_pod: bool, errors: &mut Errors) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let number = |field: &str| port.field(field).integer().unwrap_or(0);
            let (container_port, host_port) = (number("containerPort"), number("hostPort"));
            if (is_pod || host_port != 0) && container_port != host_port {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(port.field("hostPort").invalid_as(&json!(host_port), why));
            }
        }
    }
}
