//! Asks the simulated server of a container, ahead of time, what its port answers.
//!
//! Corresponds to pkg/probe/http and pkg/probe/tcp. The container's program runs in the files of its image, as in
//! `entrypoint`, and is asked every second of its first minute. What it answers then holds for ever.

use crate::entrypoint::{self, Ending, Memory};
use crate::outcomes::Outcome;
use proto::kinds::api::core::v1::{Container, Probe};
use proto::kinds::jiff::Timestamp;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use userland::network::http::{Headers, Request, parse_response};
use userland::process::network::{Ends, Protocol};
use userland::process::processes::Processes;

/// Seconds for which the server is asked again and again.
const LOOKS: u64 = 60;
const MAX_TURNS: u32 = 20_000;

/// What a port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Refused,
    TimedOut,
    /// A connection that is asked nothing.
    Open,
    Status(u16),
}

impl Answer {
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Open | Self::Status(200..=399) => Outcome::Success,
            Self::TimedOut => Outcome::Timeout,
            Self::Refused | Self::Status(_) => Outcome::Failure,
        }
    }
}

static ANSWERS: Memory<Option<Vec<(Duration, Answer)>>> = Memory::new();

/// Returns what a probe of a port finds, each answer with the time after the start from which it holds. `None` when the
/// container's program is not simulated, serves nothing, or reads files that are not known.
pub fn answers(container: &Container, probe: &Probe, port: u16, timeout: Duration) -> Option<Vec<(Duration, Answer)>> {
    if entrypoint::ending(container) == Ending::NotSimulated {
        return None;
    }
    let argv = entrypoint::argv(container);
    let request = request(probe);
    let key = format!("{port} {timeout:?} {request:?} {}", entrypoint::key(container, &argv));
    ANSWERS.recall(key, || look(entrypoint::started(container, argv, false), request.as_ref(), port, timeout))
}

/// Returns the request of an HTTP probe.
fn request(probe: &Probe) -> Option<Request> {
    let http = probe.http_get.as_ref()?;
    let path = http.path.as_deref().unwrap_or_default();
    let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut headers: Vec<(String, String)> = vec![("Connection".to_owned(), "close".to_owned())];
    let given = http.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
    headers.extend(given);
    let (method, version) = ("GET".to_owned(), "HTTP/1.1".to_owned());
    Some(Request { method, target, version, headers: Headers(headers), body: Vec::new() })
}

fn look(
    mut processes: Processes,
    request: Option<&Request>,
    port: u16,
    timeout: Duration,
) -> Option<Vec<(Duration, Answer)>> {
    let start = Timestamp::UNIX_EPOCH;
    let mut found: Vec<(Duration, Answer)> = Vec::new();
    let mut has_listened = false;
    for after in (0..=LOOKS).map(Duration::from_secs) {
        let now = processes.now().max(start + after);
        processes.advance(now, MAX_TURNS);
        has_listened |= processes.network().listening().iter().any(|(protocol, _)| *protocol == Protocol::Tcp);
        let answer = ask(&mut processes, request, port, timeout);
        if found.last().is_none_or(|(_, last)| *last != answer) {
            found.push((after, answer));
        }
    }
    (has_listened && !processes.take_used_unknown()).then_some(found)
}

/// Asks the server once.
fn ask(processes: &mut Processes, request: Option<&Request>, port: u16, timeout: Duration) -> Answer {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ends = Ends::direct(SocketAddr::new(local, 40_000), SocketAddr::new(local, port));
    let Some(connection) = processes.network().open(Protocol::Tcp, ends) else { return Answer::Refused };
    let Some(request) = request else { return Answer::Open };
    let _ = connection.push(&request.bytes());
    let until = processes.now() + timeout;
    let mut arrived = Vec::new();
    for now in [processes.now(), until] {
        processes.advance(now, MAX_TURNS);
        let mut is_over = false;
        while let Some(part) = connection.pull().filter(|_| !is_over) {
            is_over = part.is_empty();
            arrived.extend(part);
        }
        match parse_response(&arrived, &request.method, is_over) {
            Ok(response) => return Answer::Status(response.status),
            Err(_) if is_over => return Answer::Refused,
            Err(_) => {}
        }
    }
    Answer::TimedOut
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Returns the answers as `seconds answer`.
    fn asked(container: Value, probe: Value, port: u16) -> Option<String> {
        let container = serde_json::from_value(container).unwrap();
        let probe = serde_json::from_value(probe).unwrap();
        let found = answers(&container, &probe, port, Duration::from_secs(1))?;
        let shown = found.iter().map(|(after, answer)| format!("{} {answer:?}", after.as_secs()));
        Some(shown.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn a_simulated_server_is_asked() {
        let agnhost = |args: &[&str]| json!({"name": "c", "image": "agnhost", "args": args});
        let http = |path: &str| json!({"httpGet": {"path": path, "port": 0}});
        let tcp = json!({"tcpSocket": {"port": 0}});
        let shell = |script: &str| json!({"name": "c", "image": "busybox", "command": ["sh", "-c", script]});
        for (container, probe, port, expected) in [
            (agnhost(&["liveness"]), http("/healthz"), 8080, Some("0 Status(200), 11 Status(500)")),
            (agnhost(&["netexec"]), http("/healthz"), 8080, Some("0 Status(200)")),
            (agnhost(&["netexec"]), http("/echo?code=404"), 8080, Some("0 Status(404)")),
            (agnhost(&["netexec"]), http("/shell?cmd=sleep%2010"), 8080, Some("0 TimedOut")),
            (agnhost(&["netexec"]), http("/"), 81, Some("0 Refused")),
            (agnhost(&["netexec"]), tcp.clone(), 8080, Some("0 Open")),
            (agnhost(&["pause"]), tcp.clone(), 8080, None),
            (json!({"name": "c", "image": "nginx"}), http("/"), 80, None),
            (json!({"name": "c", "image": "shop"}), http("/"), 80, None),
            (shell("sleep 5; nc -lk -p 80 >/dev/null"), tcp, 80, Some("0 Refused, 5 Open")),
        ] {
            assert_eq!(
                asked(container.clone(), probe.clone(), port).as_deref(),
                expected,
                "{container} {probe} {port}"
            );
        }
    }
}
