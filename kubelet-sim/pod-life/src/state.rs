//! Reads the state of a container from its status.

use proto::kinds::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus};
use proto::kinds::jiff::Timestamp;

pub fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

/// Returns when the container started; `None` when it is not running.
pub fn running(status: &ContainerStatus) -> Option<Timestamp> {
    let started_at = status.state.as_ref()?.running.as_ref()?.started_at.as_ref();
    Some(started_at.map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

pub fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref()?.terminated.as_ref()
}

/// Returns how the run before the present one ended.
pub fn last_exit(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

pub fn is_waiting(status: &ContainerStatus) -> bool {
    running(status).is_none() && terminated(status).is_none()
}

pub fn waiting_reason(status: &ContainerStatus) -> Option<&str> {
    status.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// True when the status shows no run, neither a present nor a past one.
pub fn never_ran(status: &ContainerStatus) -> bool {
    is_waiting(status) && last_exit(status).is_none()
}

/// True when no start was tried yet: the status is as when the pod came to the node.
pub fn is_untouched(status: &ContainerStatus) -> bool {
    never_ran(status) && matches!(waiting_reason(status), Some("ContainerCreating" | "PodInitializing"))
}
