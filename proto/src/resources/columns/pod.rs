//! Columns of pods: readiness, a one-word summary of the containers' states, and restarts.
//!
//! Corresponds to printPod in pkg/printers/internalversion/printers.go.

use super::read::{int_at, items, str_at};
use super::{Column, age, name, read, string, text};
use crate::meta::time;
use serde_json::{Value, json};

pub fn columns() -> Vec<Column> {
    vec![
        name(),
        string("Ready", "How many of the pod's containers are ready.", |pod, _| json!(Summary::of(pod).ready())),
        string("Status", "One word for the state of the pod and its containers.", |pod, _| {
            json!(Summary::of(pod).status)
        }),
        string("Restarts", "How often containers were restarted, and when last.", |pod, now| {
            json!(Summary::of(pod).restarts(now))
        }),
        age(),
        text("IP", "The pod's address.", "/status/podIPs/0/ip").or("<none>").wide(),
        text("Node", "The node that the pod is bound to.", "/spec/nodeName").or("<none>").wide(),
        text("Nominated Node", "The node on which preemption makes room for the pod.", "/status/nominatedNodeName")
            .or("<none>")
            .wide(),
        string("Readiness Gates", "How many of the pod's own readiness conditions hold.", |pod, _| {
            json!(readiness_gates(pod))
        })
        .wide(),
    ]
}

/// Returns the condition of a pod that has run to completion, for clients that fade such rows.
pub fn row_conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match str_at(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// The summary of the containers' statuses.
struct Summary {
    ready: usize,
    total: usize,
    status: String,
    restarts: i64,
    /// RFC 3339 in UTC, whose text order is the order of time. Empty if no container has terminated.
    last_restart: String,
}

/// The number of restarts counted so far, and the time of the last one.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: String,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += int_at(container, "/restartCount");
        let ended = str_at(container, "/lastState/terminated/finishedAt");
        if ended > self.last.as_str() {
            self.last = ended.to_owned();
        }
    }
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let mut summary = Self::before_containers(pod);
        let (initializing, sidecar_restarts) = summary.read_init_containers(pod);
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.read_containers(pod, sidecar_restarts);
        }
        if read::is_deleting(pod) {
            if str_at(pod, "/status/reason") == "NodeLost" {
                summary.status = "Unknown".to_owned();
            } else if !matches!(str_at(pod, "/status/phase"), "Succeeded" | "Failed") {
                summary.status = "Terminating".to_owned();
            }
        }
        summary
    }

    fn before_containers(pod: &Value) -> Self {
        let gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        let status = if items(pod, "/status/conditions").iter().any(gated) {
            "SchedulingGated"
        } else {
            match str_at(pod, "/status/reason") {
                "" => str_at(pod, "/status/phase"),
                reason => reason,
            }
        };
        let sidecars = items(pod, "/spec/initContainers").iter().filter(|c| c["restartPolicy"] == "Always").count();
        Self {
            ready: 0,
            total: items(pod, "/spec/containers").len() + sidecars,
            status: status.to_owned(),
            restarts: 0,
            last_restart: String::new(),
        }
    }

    /// Reads the init containers in order, up to the first that is not done. Returns whether there is one, and the
    /// restarts of sidecars, which count for the running pod, too.
    fn read_init_containers(&mut self, pod: &Value) -> (bool, Restarts) {
        let specs = items(pod, "/spec/initContainers");
        let is_sidecar =
            |status: &Value| specs.iter().any(|c| c["name"] == status["name"] && c["restartPolicy"] == "Always");
        let (mut all, mut sidecars) = (Restarts::default(), Restarts::default());
        let mut initializing = false;
        for (i, container) in items(pod, "/status/initContainerStatuses").iter().enumerate() {
            all.add(container);
            let sidecar = is_sidecar(container);
            if sidecar {
                sidecars.add(container);
            }
            let terminated = container.pointer("/state/terminated").filter(|t| !t.is_null());
            if terminated.is_some_and(|t| int_at(t, "/exitCode") == 0) {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = str_at(container, "/state/waiting/reason");
            self.status = match terminated {
                Some(terminated) => format!("Init:{}", ending(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{i}/{}", specs.len()),
            };
            initializing = true;
            break;
        }
        (self.restarts, self.last_restart) = (all.count, all.last);
        (initializing, sidecars)
    }

    fn read_containers(&mut self, pod: &Value, mut restarts: Restarts) {
        let mut has_running = false;
        // The state of the first container overrides those of the others.
        for container in items(pod, "/status/containerStatuses").iter().rev() {
            restarts.add(container);
            let waiting = str_at(container, "/state/waiting/reason");
            let terminated = container.pointer("/state/terminated").filter(|t| !t.is_null());
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(terminated) = terminated {
                self.status = ending(terminated);
            } else if container["ready"] == true && container.pointer("/state/running").is_some_and(|r| !r.is_null()) {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && has_running {
            self.status = if condition(pod, "Ready") == "True" { "Running" } else { "NotReady" }.to_owned();
        }
        (self.restarts, self.last_restart) = (restarts.count, restarts.last);
    }

    fn ready(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    fn restarts(&self, now_s: i64) -> String {
        if self.restarts == 0 || self.last_restart.is_empty() {
            self.restarts.to_string()
        } else {
            format!("{} ({} ago)", self.restarts, time::since(&self.last_restart, now_s))
        }
    }
}

/// Returns the reason for which a container terminated, in one word.
fn ending(terminated: &Value) -> String {
    let reason = str_at(terminated, "/reason");
    match int_at(terminated, "/signal") {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", int_at(terminated, "/exitCode")),
        signal => format!("Signal:{signal}"),
    }
}

/// Returns the status of the first condition of a type, empty if there is none.
fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let found = items(pod, "/status/conditions").iter().find(|c| c["type"] == kind);
    found.map_or("", |condition| str_at(condition, "/status"))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, str_at(gate, "/conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    /// Ready, status and restarts of a pod with containers `a` and `b`.
    fn shown(spec: Value, status: Value, metadata: Value) -> String {
        let mut pod = json!({"metadata": metadata, "spec": spec, "status": status});
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{"name": "a"}, {"name": "b"}]);
        }
        cells(&columns()[1..4], &pod, 400)
    }

    fn status(status: Value) -> String {
        shown(json!({}), status, json!({}))
    }

    #[test]
    fn containers_speak_for_the_pod() {
        let running = json!({"running": {"startedAt": "2024-01-01T00:00:00Z"}});
        let cases = [
            (json!({"phase": "Pending"}), "0/2 | Pending | 0"),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "restartCount": 2, "state": running},
                    {"name": "b", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
                "1/2 | CrashLoopBackOff | 2",
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
                "0/2 | Completed | 0",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/2 | Evicted | 0"),
            (
                json!({"phase": "Failed", "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
                "0/2 | Signal:9 | 0",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}),
                "0/2 | ExitCode:3 | 0",
            ),
            (
                json!({"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
                "0/2 | SchedulingGated | 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"name": "b", "ready": true, "state": running}]}),
                "1/2 | NotReady | 0",
            ),
            (
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                    {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                    {"name": "b", "ready": true, "state": running}]}),
                "1/2 | Running | 0",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "restartCount": 3, "state": running,
                     "lastState": {"terminated": {"exitCode": 1, "finishedAt": "1970-01-01T00:01:30Z"}}}]}),
                "1/2 | Running | 3 (5m10s ago)",
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(status(object.clone()), expected, "{object}");
        }
    }

    #[test]
    fn init_containers_speak_until_they_are_done() {
        let spec = json!({"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
        let done = json!({"name": "i", "restartCount": 1, "state": {"terminated": {"exitCode": 0}},
            "lastState": {"terminated": {"finishedAt": "1970-01-01T00:06:00Z"}}});
        let cases = [
            (json!([{"name": "i", "state": {"running": {}}}]), "0/3 | Init:0/2 | 0"),
            (json!([{"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}}]), "0/3 | Init:0/2 | 0"),
            (json!([{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]), "0/3 | Init:ErrImagePull | 0"),
            (json!([{"name": "i", "state": {"terminated": {"exitCode": 1}}}]), "0/3 | Init:ExitCode:1 | 0"),
            (
                json!([{"name": "i", "state": {"terminated": {"exitCode": 1, "signal": 15}}}]),
                "0/3 | Init:Signal:15 | 0",
            ),
            (
                json!([{"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
                "0/3 | Init:Error | 4",
            ),
            (
                json!([done, {"name": "s", "state": {"waiting": {"reason": "PodInitializing"}}}]),
                "0/3 | Init:1/2 | 1 (40s ago)",
            ),
            // Once all are done, only the sidecar's restarts count on.
            (
                json!([done, {"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}}]),
                "1/3 | Pending | 2",
            ),
        ];
        for (statuses, expected) in cases {
            let status = json!({"phase": "Pending", "initContainerStatuses": statuses});
            assert_eq!(shown(spec.clone(), status, json!({})), expected, "{statuses}");
        }
    }

    #[test]
    fn deletion_overrides_all_but_the_end() {
        let deleting = json!({"deletionTimestamp": "2024-01-01T00:00:00Z"});
        let status =
            |phase: &str, reason: &str| shown(json!({}), json!({"phase": phase, "reason": reason}), deleting.clone());
        assert_eq!(status("Running", ""), "0/2 | Terminating | 0");
        assert_eq!(status("Succeeded", ""), "0/2 | Succeeded | 0");
        assert_eq!(status("Running", "NodeLost"), "0/2 | Unknown | 0");
    }

    #[test]
    fn the_wide_columns() {
        let pod = json!({
            "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]},
            "status": {"podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "x", "status": "True"}]},
        });
        assert_eq!(cells(&columns()[5..], &pod, 0), "10.0.0.1 | n1 | <none> | 1/2");
        assert_eq!(cells(&columns()[5..], &json!({}), 0), "<none> | <none> | <none> | <none>");
    }
}
