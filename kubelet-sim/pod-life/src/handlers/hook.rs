//! The hooks of a container's life: what runs after its start and before its stop.
//!
//! Corresponds to pkg/kubelet/lifecycle.HandlerRunner. When a hook ends follows from its spec: a command is tried in the
//! simulated shell, a declared port answers. Its effects on the container's files and on other pods are real.
//!
//! Deviation: a command whose end the simulated shell cannot predict counts as a success at once, and a request that nobody
//! answers on another host as well.

use crate::entrypoint;
use crate::handlers::target::listens;
use proto::kinds::IntOrString;
use proto::kinds::api::core::v1::{Container, LifecycleHandler, PodSpec};
use std::time::Duration;

/// How a hook ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hook {
    /// Time until it ends; `Duration::MAX` if it never does.
    pub takes: Duration,
    pub succeeds: bool,
}

impl Hook {
    pub fn of(handler: &LifecycleHandler, container: &Container, pod: &PodSpec) -> Self {
        if let Some(sleep) = &handler.sleep {
            let takes = Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0));
            return Self { takes, succeeds: true };
        }
        if let Some(exec) = &handler.exec {
            let shell = Container { command: exec.command.clone(), env: container.env.clone(), ..Default::default() };
            return match entrypoint::known_end(&shell) {
                Some(end) => Self { takes: end.after.unwrap_or(Duration::MAX), succeeds: end.exit_code == 0 },
                None => Self { takes: Duration::ZERO, succeeds: true },
            };
        }
        let port = |port: &IntOrString| listens(pod, container, port);
        let succeeds = handler.http_get.as_ref().is_none_or(|http| port(&http.port));
        Self { takes: Duration::ZERO, succeeds }
    }
}

/// Returns the hook that runs right after the container's process has started.
pub fn post_start(container: &Container, pod: &PodSpec) -> Option<Hook> {
    let handler = container.lifecycle.as_ref()?.post_start.as_ref()?;
    Some(Hook::of(handler, container, pod))
}

/// Returns the hook that runs before the container's process is asked to stop.
pub fn pre_stop(container: &Container, pod: &PodSpec) -> Option<Hook> {
    let handler = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
    Some(Hook::of(handler, container, pod))
}
