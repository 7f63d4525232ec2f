//! Whole lives of pods, as timelines.

use super::*;
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// 2026-01-01T00:00:00Z
const START_S: i64 = 1_767_225_600;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(START_S * 1000 + ms).unwrap()
}

/// A pod and the machine that it lives on.
struct Life {
    pod: Pod,
    status: PodStatus,
    now: Timestamp,
    images: BTreeSet<String>,
    told: BTreeSet<String>,
    log: String,
    /// Keep of each status only what the API server keeps: an agent that starts again before every step.
    forgetful: bool,
}

impl Life {
    fn of(spec: Value, annotations: Value) -> Self {
        let pod = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 1, "annotations": annotations},
            "spec": spec,
        });
        let pod = Pod::decode_value(pod).unwrap();
        let status = PodStatus::default();
        Self {
            pod,
            status,
            now: at(0),
            images: BTreeSet::new(),
            told: BTreeSet::new(),
            log: String::new(),
            forgetful: false,
        }
    }

    fn step(&mut self) -> Option<Timestamp> {
        let has_image = |image: &str| self.images.contains(image);
        let latency = Latency::default();
        let (node_ip, pod_ip) = ("172.18.0.2".parse().unwrap(), Some("10.244.0.5".parse().unwrap()));
        let view =
            PodView { pod: &self.pod, status: &self.status, node_ip, pod_ip, has_image: &has_image, latency: &latency };
        let step = step(&view, self.now);
        let changed = self.line(&step.status) != self.line(&self.status) || step.ended;
        let news: Vec<PodEvent> =
            step.events.into_iter().filter(|event| self.told.insert(event.once.clone())).collect();
        if changed || !news.is_empty() {
            let ms = self.now.as_millisecond() - START_S * 1000;
            let end = if step.ended { " -> delete" } else { "" };
            let time = format!("{:.1}s", ms as f64 / 1000.0);
            writeln!(self.log, "{time:<6}{}{end}", self.line(&step.status)).unwrap();
            for event in news {
                let kind = if event.warning { "!" } else { " " };
                writeln!(self.log, "        {kind} {}: {} {}", event.reason, event.message, event.field_path).unwrap();
            }
        }
        self.images.extend(step.pulled);
        self.status = step.status;
        if self.forgetful {
            self.status = serde_json::from_value(serde_json::to_value(&self.status).unwrap()).unwrap();
        }
        step.wake_at
    }

    fn line(&self, status: &PodStatus) -> String {
        let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        let statuses =
            status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
        let containers = statuses.map(|s| {
            let state = s.state.clone().unwrap_or_default();
            let state = match (state.waiting, state.running, state.terminated) {
                (Some(waiting), _, _) => waiting.reason.unwrap_or_default(),
                (_, Some(_), _) => "running".to_owned(),
                (_, _, Some(exit)) => format!("{}({})", exit.reason.unwrap_or_default(), exit.exit_code),
                _ => "?".to_owned(),
            };
            let restarts = if s.restart_count > 0 { format!(" x{}", s.restart_count) } else { String::new() };
            format!("{}={state}{}{restarts}", s.name, if s.ready { "+" } else { "" })
        });
        let containers: Vec<String> = containers.collect();
        let phase = status.phase.as_deref().unwrap_or("-");
        format!("{phase}{} {}", if ready { " Ready" } else { "" }, containers.join(" "))
    }

    /// Lives until nothing is due or until the time is up.
    fn until(mut self, ms: i64) -> Self {
        loop {
            match self.step() {
                Some(wake_at) if wake_at <= at(ms) => {
                    assert!(wake_at > self.now, "a step that is due at once would never end");
                    self.now = wake_at;
                }
                _ => break,
            }
        }
        self.now = at(ms);
        self
    }

    fn delete(mut self, grace_s: i64) -> Self {
        self.pod.metadata.deletion_grace_period_seconds = Some(grace_s);
        self.pod.metadata.deletion_timestamp = Some(Time(self.now + Duration::from_secs(grace_s as u64)));
        self
    }

    fn check(self, expected: &Expect) -> Self {
        expected.assert_eq(&self.log);
        self
    }
}

fn nginx() -> Value {
    json!({"containers": [{"name": "web", "image": "nginx:1.29"}]})
}

#[test]
fn a_server_starts_serves_and_stops() {
    let life = Life::of(nginx(), json!({})).until(60_000).delete(30).until(120_000);
    life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        60.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        60.2s Succeeded web=Completed(0) -> delete
    "#]]);
}

#[test]
fn its_first_and_its_running_status_are_a_kubelets() {
    let mut life = Life::of(nginx(), json!({}));
    life.step();
    expect![[r#"
        {
          "conditions": [
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "PodReadyToStartContainers"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "Initialized"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "message": "containers with unready status: [web]",
              "observedGeneration": 1,
              "reason": "ContainersNotReady",
              "status": "False",
              "type": "Ready"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "message": "containers with unready status: [web]",
              "observedGeneration": 1,
              "reason": "ContainersNotReady",
              "status": "False",
              "type": "ContainersReady"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "PodScheduled"
            }
          ],
          "containerStatuses": [
            {
              "image": "nginx:1.29",
              "imageID": "",
              "name": "web",
              "ready": false,
              "restartCount": 0,
              "started": false,
              "state": {
                "waiting": {
                  "reason": "ContainerCreating"
                }
              }
            }
          ],
          "hostIP": "172.18.0.2",
          "hostIPs": [
            {
              "ip": "172.18.0.2"
            }
          ],
          "observedGeneration": 1,
          "phase": "Pending",
          "podIP": "10.244.0.5",
          "podIPs": [
            {
              "ip": "10.244.0.5"
            }
          ],
          "startTime": "2026-01-01T00:00:00Z"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&life.status).unwrap());
    let life = life.until(60_000);
    expect![[r#"
        {
          "conditions": [
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "PodReadyToStartContainers"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "Initialized"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "Ready"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "ContainersReady"
            },
            {
              "lastTransitionTime": "2026-01-01T00:00:00Z",
              "observedGeneration": 1,
              "status": "True",
              "type": "PodScheduled"
            }
          ],
          "containerStatuses": [
            {
              "containerID": "containerd://a758fd8b0677823c616280309aeed91a6f53249072c7aa2dc1347666dcbaa55f",
              "image": "docker.io/library/nginx:1.29",
              "imageID": "docker.io/library/nginx@sha256:192ec04d68f1477527690d158f4f156e918e14db27b8bf9c8a6a4c62d70bda79",
              "name": "web",
              "ready": true,
              "restartCount": 0,
              "started": true,
              "state": {
                "running": {
                  "startedAt": "2026-01-01T00:00:00Z"
                }
              }
            }
          ],
          "hostIP": "172.18.0.2",
          "hostIPs": [
            {
              "ip": "172.18.0.2"
            }
          ],
          "observedGeneration": 1,
          "phase": "Running",
          "podIP": "10.244.0.5",
          "podIPs": [
            {
              "ip": "10.244.0.5"
            }
          ],
          "startTime": "2026-01-01T00:00:00Z"
        }"#]].assert_eq(&serde_json::to_string_pretty(&life.status).unwrap());
}

#[test]
fn a_job_completes() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "pi", "image": "perl"}]});
    Life::of(spec, json!({})).until(60_000).check(&expect![[r#"
        0.0s  Pending pi=ContainerCreating
                  Pulling: Pulling image "perl" spec.containers{pi}
        0.5s  Running Ready pi=running+
                  Pulled: Successfully pulled image "perl" in 400ms (400ms including waiting). Image size: 74354345 bytes. spec.containers{pi}
                  Created: Container created spec.containers{pi}
                  Started: Container started spec.containers{pi}
        5.5s  Succeeded pi=Completed(0)
    "#]]);
}

#[test]
fn a_crash_is_tried_again_with_growing_delays() {
    let script = json!({"orrery.dev/run-for": "2s", "orrery.dev/exit-code": "1,1,1,0", "orrery.dev/ready-after": "1s"});
    let spec = json!({"restartPolicy": "OnFailure", "containers": [{"name": "web", "image": "nginx:1.29"}]});
    Life::of(spec, script).until(120_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running web=running
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        1.5s  Running Ready web=running+
        2.5s  Running web=Error(1)
        2.6s  Running web=running x1
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        3.6s  Running Ready web=running+ x1
        4.6s  Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        14.7s Running web=running x2
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        15.7s Running Ready web=running+ x2
        16.7s Running web=CrashLoopBackOff x2
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        36.8s Running web=running x3
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        37.8s Running Ready web=running+ x3
        38.8s Succeeded web=Completed(0) x3
    "#]]);
}

#[test]
fn a_job_that_may_not_restart_fails() {
    let spec = json!({"restartPolicy": "Never", "containers": [
        {"name": "good", "image": "a"}, {"name": "bad", "image": "b"},
    ]});
    Life::of(spec, json!({"exit-code.orrery.dev/bad": "3"})).until(60_000).check(&expect![[r#"
        0.0s  Pending good=ContainerCreating bad=ContainerCreating
                  Pulling: Pulling image "a" spec.containers{good}
        0.5s  Pending good=running+ bad=ContainerCreating
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.containers{good}
                  Created: Container created spec.containers{good}
                  Started: Container started spec.containers{good}
                  Pulling: Pulling image "b" spec.containers{bad}
        1.0s  Running Ready good=running+ bad=running+
                  Pulled: Successfully pulled image "b" in 400ms (400ms including waiting). Image size: 24623304 bytes. spec.containers{bad}
                  Created: Container created spec.containers{bad}
                  Started: Container started spec.containers{bad}
        5.5s  Running good=Completed(0) bad=running+
        6.0s  Failed good=Completed(0) bad=Error(3)
    "#]]);
}

#[test]
fn init_containers_go_first_and_sidecars_stay() {
    let spec = json!({
        "initContainers": [
            {"name": "migrate", "image": "tool:1"},
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "startupProbe": {"initialDelaySeconds": 3}},
            {"name": "warm", "image": "tool:1"},
        ],
        "containers": [{"name": "web", "image": "nginx:1.29", "readinessProbe": {"initialDelaySeconds": 5}}],
    });
    Life::of(spec, json!({})).until(30_000).delete(30).until(90_000).check(&expect![[r#"
        0.0s  Pending migrate=PodInitializing proxy=PodInitializing warm=PodInitializing web=PodInitializing
                  Pulling: Pulling image "tool:1" spec.initContainers{migrate}
        0.5s  Pending migrate=running proxy=PodInitializing warm=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "tool:1" in 400ms (400ms including waiting). Image size: 169010696 bytes. spec.initContainers{migrate}
                  Created: Container created spec.initContainers{migrate}
                  Started: Container started spec.initContainers{migrate}
        1.0s  Pending migrate=Completed(0)+ proxy=PodInitializing warm=PodInitializing web=PodInitializing
                  Pulling: Pulling image "proxy:1" spec.initContainers{proxy}
        1.5s  Pending migrate=Completed(0)+ proxy=running warm=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "proxy:1" in 400ms (400ms including waiting). Image size: 110497028 bytes. spec.initContainers{proxy}
                  Created: Container created spec.initContainers{proxy}
                  Started: Container started spec.initContainers{proxy}
        4.5s  Pending migrate=Completed(0)+ proxy=running+ warm=PodInitializing web=PodInitializing
        4.6s  Pending migrate=Completed(0)+ proxy=running+ warm=running web=PodInitializing
                  Pulled: Container image "tool:1" already present on machine and can be accessed by the pod spec.initContainers{warm}
                  Created: Container created spec.initContainers{warm}
                  Started: Container started spec.initContainers{warm}
        5.1s  Pending migrate=Completed(0)+ proxy=running+ warm=Completed(0)+ web=PodInitializing
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        5.6s  Running migrate=Completed(0)+ proxy=running+ warm=Completed(0)+ web=running
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.6s Running Ready migrate=Completed(0)+ proxy=running+ warm=Completed(0)+ web=running+
        30.0s Running Ready migrate=Completed(0)+ proxy=running+ warm=Completed(0)+ web=running+
                  Killing: Stopping container web spec.containers{web}
        30.2s Running migrate=Completed(0)+ proxy=running+ warm=Completed(0)+ web=Completed(0)
                  Killing: Stopping container proxy spec.initContainers{proxy}
        30.4s Succeeded migrate=Completed(0)+ proxy=Completed(0) warm=Completed(0)+ web=Completed(0) -> delete
    "#]]);
}

#[test]
fn a_sidecar_ends_with_its_job() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "log", "image": "log:1", "restartPolicy": "Always"}],
        "containers": [{"name": "pi", "image": "perl:5"}],
    });
    Life::of(spec, json!({})).until(30_000).check(&expect![[r#"
        0.0s  Pending log=PodInitializing pi=PodInitializing
                  Pulling: Pulling image "log:1" spec.initContainers{log}
        0.5s  Pending log=running+ pi=PodInitializing
                  Pulled: Successfully pulled image "log:1" in 400ms (400ms including waiting). Image size: 119746957 bytes. spec.initContainers{log}
                  Created: Container created spec.initContainers{log}
                  Started: Container started spec.initContainers{log}
                  Pulling: Pulling image "perl:5" spec.containers{pi}
        1.0s  Running Ready log=running+ pi=running+
                  Pulled: Successfully pulled image "perl:5" in 400ms (400ms including waiting). Image size: 184480985 bytes. spec.containers{pi}
                  Created: Container created spec.containers{pi}
                  Started: Container started spec.containers{pi}
        6.0s  Succeeded log=Completed(0) pi=Completed(0)
    "#]]);
}

#[test]
fn a_failing_init_container_fails_a_pod_that_may_not_restart() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "check", "image": "tool:1"}],
        "containers": [{"name": "pi", "image": "perl:5"}],
    });
    Life::of(spec, json!({"exit-code.orrery.dev/check": "1"})).until(30_000).check(&expect![[r#"
        0.0s  Pending check=PodInitializing pi=PodInitializing
                  Pulling: Pulling image "tool:1" spec.initContainers{check}
        0.5s  Pending check=running pi=PodInitializing
                  Pulled: Successfully pulled image "tool:1" in 400ms (400ms including waiting). Image size: 169010696 bytes. spec.initContainers{check}
                  Created: Container created spec.initContainers{check}
                  Started: Container started spec.initContainers{check}
        1.0s  Failed check=Error(1) pi=PodInitializing
    "#]]);
}

#[test]
fn an_image_that_is_not_there_is_backed_off() {
    Life::of(nginx(), json!({"orrery.dev/pull-error": "not found"})).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ImagePullBackOff
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Failed to pull image "nginx:1.29": not found spec.containers{web}
                  BackOff: Back-off pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Error: ImagePullBackOff spec.containers{web}
    "#]]);
}

#[test]
fn a_container_that_ignores_sigterm_is_killed_at_the_end_of_its_grace() {
    let life = Life::of(nginx(), json!({"orrery.dev/stop-time": "5m"})).until(10_000).delete(30).until(90_000);
    life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        40.0s Failed web=Error(137) -> delete
    "#]]);
}

#[test]
fn a_deadline_ends_a_pod() {
    let spec = json!({"activeDeadlineSeconds": 20, "containers": [{"name": "web", "image": "nginx:1.29"}]});
    Life::of(spec, json!({})).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        20.0s Failed web=Error(137)
                  DeadlineExceeded: Pod was active on the node longer than the specified deadline 
    "#]]);
}

#[test]
fn a_pod_that_never_started_goes_at_once() {
    let life = Life::of(nginx(), json!({"orrery.dev/pull-time": "1h"})).until(10_000).delete(30).until(20_000);
    life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        10.0s Pending web=ContainerCreating -> delete
    "#]]);
}

#[test]
fn a_pod_waits_for_an_address() {
    let life = Life::of(nginx(), json!({}));
    let (has_image, latency) = (|_: &str| true, Latency::default());
    let view = PodView {
        pod: &life.pod,
        status: &life.status,
        node_ip: "172.18.0.2".parse().unwrap(),
        pod_ip: None,
        has_image: &has_image,
        latency: &latency,
    };
    let first = step(&view, at(0));
    assert_eq!((first.wake_at, first.status.pod_ip.as_deref()), (None, None));
    assert_eq!(first.status.phase.as_deref(), Some("Pending"));

    let mut on_host = life.pod.clone();
    on_host.spec.as_mut().unwrap().host_network = Some(true);
    let view = PodView { pod: &on_host, ..view };
    let on_host = step(&view, at(0));
    assert_eq!(on_host.status.pod_ip.as_deref(), Some("172.18.0.2"));
    assert!(on_host.wake_at.is_some());
}

/// Whatever a step does, the step taken again from its stored status agrees with one that remembers more.
#[test]
fn an_agent_that_forgets_everything_comes_to_the_same_end() {
    let jobs = json!({"restartPolicy": "OnFailure",
        "initContainers": [{"name": "a", "image": "a"}, {"name": "s", "image": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "b", "image": "b"}, {"name": "c", "image": "c"}]});
    let script = json!({"orrery.dev/exit-code": "1,1,0"});
    let lasting = Life::of(jobs.clone(), script.clone()).until(120_000);
    let mut forgetful = Life::of(jobs, script);
    forgetful.forgetful = true;
    let forgetful = forgetful.until(120_000);
    assert_eq!(lasting.line(&lasting.status), forgetful.line(&forgetful.status));
    assert_eq!(lasting.status.phase.as_deref(), Some("Succeeded"));
}

/// A step that is taken twice at the same time changes nothing the second time.
#[test]
fn steps_are_idempotent() {
    for ms in [0, 450, 501, 5_600, 7_000, 60_000] {
        let mut life = Life::of(nginx(), json!({"orrery.dev/run-for": "5s", "orrery.dev/exit-code": "1"})).until(ms);
        life.step();
        let before = life.status.clone();
        life.step();
        assert_eq!(before, life.status, "at {ms} ms");
    }
}
