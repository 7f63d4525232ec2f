//! Containers of every kind: what all share, and what only some may have.
//!
//! Corresponds to validateContainers, validateInitContainers and validateEphemeralContainers.

use super::resources::{self, Claims};
use super::volumes::{self, Volumes};
use super::{HostPorts, RESTART_POLICIES, env, handlers, security};
use crate::registry::validation::at::{At, Errors, check_port_number, port_name};
use proto::meta::names;
use serde_json::json;
use std::collections::BTreeSet;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const TERMINATION_POLICIES: &[&str] = &["File", "FallbackToLogsOnError"];
pub const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// What the containers of a pod refer to.
pub struct Shared<'a> {
    pub volumes: &'a Volumes<'a>,
    pub claims: &'a Claims<'a>,
    pub grace_period_s: i64,
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
            errors.push(container.field("name").duplicate());
        }
        restart_policy(&container, errors);
        handlers::lifecycle(&container.field("lifecycle"), shared.grace_period_s, errors);
        handlers::probes(&container, errors);
    }
    host_port_conflicts(containers, &mut BTreeSet::new(), errors);
}

pub fn init(containers: &At<'_>, others: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> = others.items().map(|container| container.field("name").text()).collect();
    for container in containers.items() {
        common(&container, shared, errors);
        restart_policy(&container, errors);
        let is_sidecar = container.field("restartPolicy").text() == "Always";
        if !container.field("name").is_empty() && !names.insert(container.field("name").text()) {
            errors.push(container.field("name").duplicate());
        }
        host_port_conflicts_of(&container, &mut BTreeSet::new(), errors);
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
    }
}

/// Fields that a debugging container may not have: it comes when resources are already given out.
const NOT_EPHEMERAL: &[&str] = &[
    "ports",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resources",
    "resizePolicy",
    "restartPolicy",
];

pub fn ephemeral(spec: &At<'_>, shared: &Shared<'_>, errors: &mut Errors) {
    let named = |list: &str| -> Vec<&str> {
        spec.field(list).items().map(|container| container.field("name").text()).collect()
    };
    let targets: BTreeSet<&str> = named("containers").into_iter().chain(named("initContainers")).collect();
    let mut names = targets.clone();
    for container in spec.field("ephemeralContainers").items() {
        common(&container, shared, errors);
        if !container.field("name").is_empty() && !names.insert(container.field("name").text()) {
            errors.push(container.field("name").duplicate());
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
    resize_policy(&container.field("resizePolicy"), errors);
    security::of_container(&container.field("securityContext"), errors);
}

fn restart_policy(container: &At<'_>, errors: &mut Errors) {
    container.field("restartPolicy").check_optional_enum(RESTART_POLICIES, errors);
}

fn resize_policy(policies: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let name = policy.field("resourceName");
        if !seen.insert(name.text()) {
            errors.push(At::new(policy.path.clone(), name.value).duplicate());
        }
        if !["cpu", "memory"].contains(&name.text()) {
            errors.push(At::new(policies.path.clone(), name.value).not_supported(&["cpu", "memory"]));
        }
        let restart = policy.field("restartPolicy");
        if !["NotRequired", "RestartContainer"].contains(&restart.text()) {
            let supported = ["NotRequired", "RestartContainer"];
            errors.push(At::new(policies.path.clone(), restart.value).not_supported(&supported));
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
        let place = format!("{}/{}/{number}", port.field("protocol").text(), port.field("hostIP").text());
        if taken.contains(&place) {
            errors.push(At::new(port.field("hostPort").path, &json!(place)).duplicate());
        }
        taken.insert(place);
    }
}

/// On the host's network a container's port is the host's.
pub fn host_network(spec: &At<'_>, host_ports: HostPorts, errors: &mut Errors) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            for port in container.field("ports").items() {
                let (inside, outside) = (port.field("containerPort"), port.field("hostPort"));
                let (number, on_host) = (inside.integer().unwrap_or(0), outside.integer().unwrap_or(0));
                let open = host_ports == HostPorts::ToCome && on_host == 0;
                if number != on_host && !open {
                    errors.push(inside.invalid("must match `hostPort` when `hostNetwork` is true"));
                }
            }
        }
    }
}
