//! `Run`: one run of a container, from its start to its end, as the container's status shows it.
//!
//! Corresponds to GetContainerStatus of the container runtime, as far as logs and processes depend on it.

use proto::kinds::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use proto::kinds::jiff::{Timestamp, Unit};

/// One run of a container, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The number of runs before this one.
    pub number: i32,
    pub started_at: Timestamp,
    /// The time of its end and its exit code; `None` while it runs.
    pub end: Option<(Timestamp, i32)>,
}

impl Run {
    /// Returns the last run, or with `previous` the one before it. The error is worded as the kubelet words it.
    pub fn of(status: &ContainerStatus, pod: &str, previous: bool) -> Result<Self, String> {
        let name = &status.name;
        let state = status.state.clone().unwrap_or_default();
        let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let before = status.restart_count - i32::from(state.running.is_some() || state.terminated.is_some());
        if previous {
            let missing = || format!("previous terminated container {name:?} in pod {pod:?} not found");
            return last.map(|exit| Self::ended(before, exit)).ok_or_else(missing);
        }
        if let Some(running) = &state.running {
            let started_at = running.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| whole(time.0));
            return Ok(Self { number: status.restart_count, started_at, end: None });
        }
        if let Some(exit) = &state.terminated {
            return Ok(Self::ended(status.restart_count, exit));
        }
        if let Some(exit) = last {
            return Ok(Self::ended(before, exit));
        }
        let reason = state.waiting.and_then(|waiting| waiting.reason).unwrap_or_default();
        Err(match reason.as_str() {
            "" => format!("container {name:?} in pod {pod:?} is waiting to start - no logs yet"),
            "ErrImagePull" => format!("container {name:?} in pod {pod:?} is waiting to start: image can't be pulled"),
            "ImagePullBackOff" => {
                format!("container {name:?} in pod {pod:?} is waiting to start: trying and failing to pull image")
            }
            reason => format!("container {name:?} in pod {pod:?} is waiting to start: {reason}"),
        })
    }

    fn ended(number: i32, exit: &ContainerStateTerminated) -> Self {
        let time = |time: &Option<proto::kinds::metav1::Time>| {
            time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| whole(time.0))
        };
        Self { number, started_at: time(&exit.started_at), end: Some((time(&exit.finished_at), exit.exit_code)) }
    }
}

/// Cuts a time to the second, as the API server stores it. The fractions that an agent remembers must not move a line.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time.round(Unit::Second).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn what_never_ran_has_no_log() {
        let status = |state: Value, last: Value, restarts: i32| -> ContainerStatus {
            let status = json!({
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": restarts,
                "state": state, "lastState": last,
            });
            serde_json::from_value(status).unwrap()
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let exit = json!({"terminated": {
            "exitCode": 1, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z",
        }});
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:09.25Z"}});
        let first = Run { number: 0, started_at: at(0), end: Some((at(5), 1)) };
        let second = Run { number: 1, started_at: at(9), end: None };
        let not_yet = |why: &str| Err(format!("container \"c\" in pod \"p\" is waiting to start: {why}"));
        let nothing_before = || Err("previous terminated container \"c\" in pod \"p\" not found".to_owned());
        for (state, last, restarts, previous, expected) in [
            (waiting("ContainerCreating"), json!({}), 0, false, not_yet("ContainerCreating")),
            (waiting("ErrImagePull"), json!({}), 0, false, not_yet("image can't be pulled")),
            (waiting("ImagePullBackOff"), json!({}), 0, false, not_yet("trying and failing to pull image")),
            (waiting("CrashLoopBackOff"), exit.clone(), 0, false, Ok(first.clone())),
            (waiting("CrashLoopBackOff"), exit.clone(), 0, true, Ok(first.clone())),
            (running.clone(), exit.clone(), 1, false, Ok(second)),
            (running.clone(), exit.clone(), 1, true, Ok(first.clone())),
            (running, json!({}), 0, true, nothing_before()),
            (exit, json!({}), 0, false, Ok(first)),
        ] {
            assert_eq!(Run::of(&status(state.clone(), last, restarts), "p", previous), expected, "{state}");
        }
    }
}
