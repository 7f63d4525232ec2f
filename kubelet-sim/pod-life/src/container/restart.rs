//! Decides whether a container that has exited is restarted, and how long it waits before that.
//!
//! Corresponds to ContainerShouldRestart of k8s.io/component-helpers and doBackOff of pkg/kubelet/kuberuntime.

use crate::container::back_off::BackOff;
use crate::state::terminated;
use crate::story::ContainerKind;
use crate::view::ContainerView;
use proto::kinds::api::core::v1::{Container, ContainerRestartRule, ContainerStateTerminated, ContainerStatus};
use std::time::Duration;

/// The kubelet's longest crash-loop back-off, MaxCrashLoopBackOff.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// The kubelet's first crash-loop back-off; every further crash doubles it.
pub const BACK_OFF_INITIAL: Duration = Duration::from_secs(10);
const CRASH_BACK_OFF: BackOff = BackOff { initial: BACK_OFF_INITIAL, max: BACK_OFF_MAX };
/// The length of a run that clears the back-off: twice the maximum, as in client-go's flowcontrol.Backoff.
const BACK_OFF_RESET: Duration = Duration::from_secs(600);

/// Returns the first rule of a container about this exit code.
fn rule_for(container: &Container, exit_code: i32) -> Option<&ContainerRestartRule> {
    let mut rules = container.restart_policy_rules.iter().flatten();
    rules.find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            if codes.operator == "NotIn" { !listed } else { listed }
        })
    })
}

/// True when all containers of the pod are restarted because this one has exited with this code.
pub fn restarts_all(view: &ContainerView<'_>, exit_code: i32) -> bool {
    rule_for(&view.spec, exit_code).is_some_and(|rule| rule.action == "RestartAllContainers")
}

/// True when the container is restarted after it has exited with this code.
pub fn restarts(view: &ContainerView<'_>, exit_code: i32) -> bool {
    is_restarted(view.kind, &view.spec, view.pod.restart_policy.as_deref(), exit_code)
}

/// The same by the container's spec and the restart policy of its pod.
pub fn is_restarted(kind: ContainerKind, container: &Container, of_pod: Option<&str>, exit_code: i32) -> bool {
    if kind == ContainerKind::Ephemeral {
        return false;
    }
    if rule_for(container, exit_code).is_some() {
        return true;
    }
    match (kind, container.restart_policy.as_deref().or(of_pod).unwrap_or("Always")) {
        (ContainerKind::Sidecar, _) => true,
        (_, "Never") => false,
        (ContainerKind::App, "Always") => true,
        _ => exit_code != 0,
    }
}

/// True when the container is restarted after a probe has failed, whatever its exit code. Rules on exit codes do not
/// count, because it still runs.
pub fn restarts_after_failure(view: &ContainerView<'_>) -> bool {
    let of_pod = view.pod.restart_policy.as_deref();
    view.spec.restart_policy.as_deref().or(of_pod).unwrap_or("Always") != "Never"
}

/// True when this container has exited and is not restarted.
pub fn is_finished(view: &ContainerView<'_>, status: &ContainerStatus) -> bool {
    terminated(status).is_some_and(|exit| !restarts(view, exit.exit_code))
}

/// True when the run was so long that crashes before it count no more.
pub fn ran_long(exit: &ContainerStateTerminated) -> bool {
    match (&exit.started_at, &exit.finished_at) {
        (Some(from), Some(to)) => to.0.as_second() - from.0.as_second() >= BACK_OFF_RESET.as_secs() as i64,
        _ => false,
    }
}

/// Returns how long a restart waits after this exit: the first not at all, the next ones 10 s, 20 s, … up to five
/// minutes. `crashes` are the restarts since the last long run.
///
/// Deviation: a kubelet that restarts has forgotten all crashes. A simulated one counts on from `restartCount`.
pub fn back_off(exit: &ContainerStateTerminated, crashes: i32) -> Duration {
    match u32::try_from(crashes - 1) {
        Ok(doublings) if !ran_long(exit) => CRASH_BACK_OFF.delay(doublings),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::jiff::Timestamp;
    use proto::kinds::metav1::Time;

    #[test]
    fn crash_loops_wait_longer_each_time() {
        let exit = |ran_s: i64| ContainerStateTerminated {
            started_at: Some(Time(Timestamp::UNIX_EPOCH)),
            finished_at: Some(Time(Timestamp::from_second(ran_s).unwrap())),
            ..Default::default()
        };
        let delays = [0, 1, 2, 3, 4, 5, 6, 50].map(|restarts| back_off(&exit(1), restarts).as_secs());
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(back_off(&exit(600), 6), Duration::ZERO);
    }
}
