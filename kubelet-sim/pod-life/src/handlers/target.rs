//! Decides the outcome of a probe from the container's spec when no story does, and words its failure.
//!
//! Corresponds to pkg/probe. The server that a container's command starts is asked, if it is simulated (`served`).
//! Otherwise a declared port answers, whatever the path. A command runs beside the container's own, if
//! that is simulated.
//!
//! Deviation: an image's own command is not asked. A probe of a port fails if containers of the pod declare ports, but not this one;
//! a pod that declares none answers on all. A command that uses files of which nothing is known succeeds.

use crate::entrypoint;
use crate::handlers::served::{self, Answer};
use crate::outcomes::{Outcome, Outcomes};
use crate::view::ContainerView;
use component_base::duration::format_duration;
use proto::kinds::IntOrString;
use proto::kinds::api::core::v1::{Container, ContainerPort, PodSpec, Probe};
use std::time::Duration;

/// Returns the outcomes of a probe that no story decides.
pub fn outcomes(view: &ContainerView<'_>, probe: &Probe) -> Outcomes {
    let succeeds = match (&probe.exec, port(&view.spec, probe)) {
        (Some(exec), _) if entrypoint::is_simulated(&view.spec) => {
            let command = exec.command.clone().unwrap_or_default();
            let changes = entrypoint::outcomes_beside(&view.spec, &command, timeout(probe));
            return Outcomes::of_changes(&changes);
        }
        (Some(exec), _) => {
            let Container { image, env, volume_mounts, working_dir, .. } = view.spec.clone().into_owned();
            let command = exec.command.clone();
            let shell = Container { image, env, volume_mounts, working_dir, command, ..Default::default() };
            match entrypoint::known_end_of_other(&shell) {
                Some(end) if end.after.is_none_or(|after| after >= timeout(probe)) => {
                    return Outcomes::always(Outcome::Timeout);
                }
                Some(end) => end.exit_code == 0,
                None => true,
            }
        }
        (None, Some(port)) => match served(view, probe, port) {
            Some(found) => {
                let outcome = |(after, answer): (Duration, Answer)| (after, answer.outcome());
                return Outcomes::of_changes(&found.into_iter().map(outcome).collect::<Vec<_>>());
            }
            None => answers(view.pod, port),
        },
        // A name that no port has, or no handler at all.
        (None, None) => probe.http_get.is_none() && probe.tcp_socket.is_none(),
    };
    Outcomes::always(if succeeds { Outcome::Success } else { Outcome::Failure })
}

/// Returns what a kubelet reports of a probe that did not succeed, as in `HTTP probe failed with statuscode: 503`.
/// `by_story` is true if the container answers, but badly.
pub fn output(view: &ContainerView<'_>, probe: &Probe, outcome: Outcome, by_story: bool) -> String {
    let is_late = outcome == Outcome::Timeout;
    let timeout = format_duration(timeout(probe));
    let host = probe.http_get.as_ref().and_then(|http| http.host.as_deref());
    let host = host.or(probe.tcp_socket.as_ref().and_then(|tcp| tcp.host.as_deref())).filter(|host| !host.is_empty());
    let pod_ip = view.pod_ip.map(|ip| ip.to_string()).unwrap_or_default();
    let address = address(host.unwrap_or(&pod_ip), port(&view.spec, probe).unwrap_or_default());
    let refused = format!("dial tcp {address}: connect: connection refused");
    if let Some(exec) = &probe.exec {
        let command = exec.command.clone().unwrap_or_default().join(" ");
        return if is_late {
            format!("command timed out: {command:?} timed out after {timeout}")
        } else {
            String::new()
        };
    }
    if probe.grpc.is_some() {
        return match (is_late, by_story) {
            (true, _) => {
                format!("timeout: failed to connect service {address:?} within {timeout}: context deadline exceeded")
            }
            (false, true) => "service unhealthy (responded with \"NOT_SERVING\")".to_owned(),
            (false, false) => format!("error: failed to connect service {address:?}: {refused}"),
        };
    }
    if let Some(http) = &probe.http_get {
        let scheme = http.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let path = http.path.as_deref().unwrap_or_default().trim_start_matches('/');
        let url = format!("{scheme}://{address}/{path}");
        return match (is_late, by_story) {
            (true, _) => {
                format!("Get {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
            }
            (false, true) => "HTTP probe failed with statuscode: 503".to_owned(),
            (false, false) => match failed_status(view, probe) {
                Some(status) => format!("HTTP probe failed with statuscode: {status}"),
                None => format!("Get {url:?}: {refused}"),
            },
        };
    }
    if is_late { format!("dial tcp {address}: i/o timeout") } else { refused }
}

/// Returns what the container's own simulated server answers. A port that it never serves may be that of another
/// container, if one declares it.
fn served(view: &ContainerView<'_>, probe: &Probe, port: u16) -> Option<Vec<(Duration, Answer)>> {
    if probe.grpc.is_some() {
        return None;
    }
    let found = served::answers(&view.spec, probe, port, timeout(probe))?;
    let is_never_open = found.iter().all(|(_, answer)| *answer == Answer::Refused);
    let others = view.pod.containers.iter().filter(|other| other.name != view.spec.name);
    let is_of_other =
        others.flat_map(|other| other.ports.iter().flatten()).any(|p| p.container_port == i32::from(port));
    (!is_never_open || !is_of_other).then_some(found)
}

/// Returns the status by which the container's own server has failed a probe.
fn failed_status(view: &ContainerView<'_>, probe: &Probe) -> Option<u16> {
    let answers = served(view, probe, port(&view.spec, probe)?)?;
    answers.into_iter().rev().find_map(|(_, answer)| match answer {
        Answer::Status(status) if answer.outcome() == Outcome::Failure => Some(status),
        _ => None,
    })
}

fn timeout(probe: &Probe) -> Duration {
    crate::handlers::probe::seconds(probe.timeout_seconds, 1)
}

/// Returns the port that a probe asks; `None` without one, or when no port of the container has its name.
fn port(container: &Container, probe: &Probe) -> Option<u16> {
    if let Some(grpc) = &probe.grpc {
        return u16::try_from(grpc.port).ok();
    }
    let http = probe.http_get.as_ref().map(|http| &http.port);
    number(container, http.or(probe.tcp_socket.as_ref().map(|tcp| &tcp.port))?)
}

fn number(container: &Container, port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(port) => u16::try_from(*port).ok(),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
            named.map(|port| port.container_port).and_then(|port| u16::try_from(port).ok()).or(name.parse().ok())
        }
    }
}

/// True when a container of the pod listens on the port that a handler of this container asks, by number or name.
pub fn listens(pod: &PodSpec, container: &Container, port: &IntOrString) -> bool {
    number(container, port).is_some_and(|port| answers(pod, port))
}

/// True when some container of the pod listens on this TCP port: they share one network.
fn answers(pod: &PodSpec, port: u16) -> bool {
    let sidecars = pod.init_containers.iter().flatten();
    let declared = || pod.containers.iter().chain(sidecars.clone()).flat_map(|c| c.ports.iter().flatten());
    let is_tcp = |port: &ContainerPort| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    declared().next().is_none() || declared().any(|p| is_tcp(p) && p.container_port == i32::from(port))
}

/// Joins a host and a port; an IPv6 address gets brackets.
fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
