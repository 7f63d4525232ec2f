//! A pod's conditions, derived from the statuses of its containers.
//!
//! Corresponds to pkg/kubelet/status/generate.go.

use crate::state;
use crate::view::is_sidecar;
use proto::kinds::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Time;

/// The conditions that every pod has.
const ALWAYS: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The condition of a pod with a rule that restarts all its containers.
pub const ALL_CONTAINERS_RESTARTING: &str = "AllContainersRestarting";

/// The condition of a pod that is ended by a disruption. Other components may set it, too.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// True for a condition that the kubelet owns. It leaves all others as they are.
pub fn is_owned(type_: &str) -> bool {
    ALWAYS.contains(&type_) || matches!(type_, "PodResizePending" | "PodResizeInProgress" | ALL_CONTAINERS_RESTARTING)
}

/// Says whether all containers of the pod are being restarted.
pub fn set_all_restarting(status: &mut PodStatus, holds: bool, now: Timestamp) {
    let reason = match status.phase.as_deref() {
        Some("Succeeded") => "PodCompleted",
        Some("Failed") => "PodFailed",
        _ => "",
    };
    let value = ConditionValue { holds: holds && reason.is_empty(), reason, message: String::new() };
    let generation = status.observed_generation;
    set(status.conditions.get_or_insert_default(), ALL_CONTAINERS_RESTARTING, value, generation, now);
}

/// Says that the node has ended the pod.
pub fn set_disrupted(status: &mut PodStatus, message: &str, now: Timestamp) {
    let value = ConditionValue { holds: true, reason: "TerminationByKubelet", message: message.to_owned() };
    let generation = status.observed_generation;
    set(status.conditions.get_or_insert_default(), DISRUPTION_TARGET, value, generation, now);
}

/// True once any container was tried: the kubelet learns of the sandbox with its first container.
pub fn has_sandbox(status: &PodStatus) -> bool {
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().any(|status| !state::is_untouched(status))
}

/// True when no container of the pod will run again.
pub fn is_terminal(status: &PodStatus) -> bool {
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

/// Returns a condition of the pod by its type.
pub fn find<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
}

pub fn remove(status: &mut PodStatus, type_: &str) {
    status.conditions.iter_mut().for_each(|conditions| conditions.retain(|condition| condition.type_ != type_));
}

/// The value of a condition.
struct ConditionValue {
    holds: bool,
    reason: &'static str,
    message: String,
}

const HOLDS: ConditionValue = ConditionValue { holds: true, reason: "", message: String::new() };

/// Updates the kubelet's conditions from the rest of the status. A transition time changes only with its condition's
/// value.
pub fn refresh(pod: &Pod, status: &mut PodStatus, now: Timestamp) {
    let sandbox =
        ConditionValue { holds: has_sandbox(status) && !is_terminal(status), reason: "", message: String::new() };
    let containers_ready = containers_ready(pod, status);
    let ready = match containers_ready.holds {
        true => readiness_gates(pod, status),
        false => ConditionValue { message: containers_ready.message.clone(), ..containers_ready },
    };
    let initialized = initialized(pod, status);
    let generation = status.observed_generation;
    let conditions = status.conditions.get_or_insert_default();
    for (type_, verdict) in ALWAYS.into_iter().zip([sandbox, initialized, ready, containers_ready, HOLDS]) {
        set(conditions, type_, verdict, generation, now);
    }
}

fn set(
    conditions: &mut Vec<PodCondition>,
    type_: &str,
    verdict: ConditionValue,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = if verdict.holds { "True" } else { "False" };
    let known = conditions.iter().position(|c| c.type_ == type_);
    let transition = match known.map(|at| &conditions[at]) {
        Some(old) if old.status == status => old.last_transition_time.clone(),
        _ => Some(Time(now)),
    };
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: (!verdict.reason.is_empty()).then(|| verdict.reason.to_owned()),
        message: (!verdict.message.is_empty()).then_some(verdict.message),
        last_probe_time: None,
        last_transition_time: transition.or(Some(Time(now))),
        observed_generation: generation,
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

fn containers_ready(pod: &Pod, status: &PodStatus) -> ConditionValue {
    match status.phase.as_deref() {
        Some("Succeeded") => return ConditionValue { holds: false, reason: "PodCompleted", message: String::new() },
        Some("Failed") => return ConditionValue { holds: false, reason: "PodFailed", message: String::new() },
        _ => {}
    }
    let spec = pod.spec.as_ref();
    let sidecars = spec.iter().flat_map(|s| s.init_containers.iter().flatten()).filter(|c| is_sidecar(c));
    let apps = spec.iter().flat_map(|s| &s.containers);
    let statuses = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let statuses: Vec<&ContainerStatus> = statuses.collect();
    let is_ready = |name: &str| statuses.iter().any(|s| s.name == name && s.ready);
    let unready = sidecars.chain(apps).map(|c| c.name.as_str()).filter(|name| !is_ready(name));
    listed("ContainersNotReady", "containers with unready status", unready)
}

fn initialized(pod: &Pod, status: &PodStatus) -> ConditionValue {
    if status.phase.as_deref() == Some("Succeeded") {
        return ConditionValue { holds: true, reason: "PodCompleted", message: String::new() };
    }
    // Once an app container has run, the pod stays initialized, whatever the init containers do.
    if status.container_statuses.iter().flatten().any(|status| !state::never_ran(status)) {
        return HOLDS;
    }
    let statuses = status.init_container_statuses.as_deref().unwrap_or_default();
    let incomplete = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten()).filter(|container| {
        let known = statuses.iter().find(|s| s.name == container.name);
        !known.is_some_and(|s| if is_sidecar(container) { s.started == Some(true) } else { s.ready })
    });
    listed("ContainersNotInitialized", "containers with incomplete status", incomplete.map(|c| c.name.as_str()))
}

fn readiness_gates(pod: &Pod, status: &PodStatus) -> ConditionValue {
    let gates = pod.spec.iter().flat_map(|s| s.readiness_gates.iter().flatten());
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let closed: Vec<String> = gates
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match conditions.iter().find(|c| c.type_ == *name) {
                None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
                Some(c) if c.status != "True" => {
                    Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {}", c.status))
                }
                Some(_) => None,
            }
        })
        .collect();
    match closed.is_empty() {
        true => HOLDS,
        false => ConditionValue { holds: false, reason: "ReadinessGatesNotReady", message: closed.join(", ") },
    }
}

/// Holds when there are no names; otherwise its message lists them as Go prints lists.
fn listed<'a>(reason: &'static str, what: &str, names: impl Iterator<Item = &'a str>) -> ConditionValue {
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => HOLDS,
        false => ConditionValue { holds: false, reason, message: format!("{what}: [{}]", names.join(" ")) },
    }
}
