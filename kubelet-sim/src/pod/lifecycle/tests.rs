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
    sandbox: Sandbox,
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
            sandbox: Sandbox::Address("10.244.0.5".parse().unwrap()),
            images: BTreeSet::new(),
            told: BTreeSet::new(),
            log: String::new(),
            forgetful: false,
        }
    }

    fn step(&mut self) -> Option<Timestamp> {
        let has_image = |image: &str| self.images.contains(image);
        let latency = Latency::default();
        let (node_ip, sandbox) = ("172.18.0.2".parse().unwrap(), self.sandbox.clone());
        let (pod, status) = (&self.pod, &self.status);
        let view = PodView { pod, status, node_ip, sandbox, has_image: &has_image, latency: &latency };
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
        let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
        let statuses = lists.into_iter().flatten().flatten();
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
              "status": "False",
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
              "lastState": {},
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
              "lastState": {},
              "name": "web",
              "ready": true,
              "resources": {},
              "restartCount": 0,
              "started": true,
              "state": {
                "running": {
                  "startedAt": "2026-01-01T00:00:00Z"
                }
              },
              "user": {
                "linux": {
                  "gid": 0,
                  "supplementalGroups": [
                    0
                  ],
                  "uid": 0
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
        0.0s  Pending bad=ContainerCreating good=ContainerCreating
                  Pulling: Pulling image "a" spec.containers{good}
        0.5s  Pending bad=ContainerCreating good=running+
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.containers{good}
                  Created: Container created spec.containers{good}
                  Started: Container started spec.containers{good}
                  Pulling: Pulling image "b" spec.containers{bad}
        1.0s  Running Ready bad=running+ good=running+
                  Pulled: Successfully pulled image "b" in 400ms (400ms including waiting). Image size: 24623304 bytes. spec.containers{bad}
                  Created: Container created spec.containers{bad}
                  Started: Container started spec.containers{bad}
        5.5s  Running bad=running+ good=Completed(0)
        6.0s  Failed bad=Error(3) good=Completed(0)
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
        6.0s  Running log=running+ pi=Completed(0)
                  Killing: Stopping container log spec.initContainers{log}
        6.2s  Succeeded log=Completed(0) pi=Completed(0)
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
fn an_image_that_is_not_there_is_tried_again_with_growing_delays() {
    let mut life = Life::of(nginx(), json!({"orrery.dev/pull-error": "not found"})).until(45_000);
    life.pod.metadata.annotations = None;
    life.until(60_000).check(&expect![[r#"
        0.0s  Pending web=ErrImagePull
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Failed to pull image "nginx:1.29": not found spec.containers{web}
                ! Failed: Error: ErrImagePull spec.containers{web}
        1.0s  Pending web=ImagePullBackOff
                  BackOff: Back-off pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Error: ImagePullBackOff spec.containers{web}
        10.0s Pending web=ErrImagePull
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Failed to pull image "nginx:1.29": not found spec.containers{web}
                ! Failed: Error: ErrImagePull spec.containers{web}
        11.0s Pending web=ImagePullBackOff
                  BackOff: Back-off pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Error: ImagePullBackOff spec.containers{web}
        30.0s Pending web=ErrImagePull
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Failed to pull image "nginx:1.29": not found spec.containers{web}
                ! Failed: Error: ErrImagePull spec.containers{web}
        31.0s Pending web=ImagePullBackOff
                  BackOff: Back-off pulling image "nginx:1.29" spec.containers{web}
                ! Failed: Error: ImagePullBackOff spec.containers{web}
        45.0s Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn an_image_that_may_not_be_pulled_is_waited_for() {
    let spec = json!({"containers": [{"name": "web", "image": "a", "imagePullPolicy": "Never"}]});
    let mut life = Life::of(spec, json!({})).until(15_000);
    life.images.insert("a".into());
    life.until(60_000).check(&expect![[r#"
        0.0s  Pending web=ErrImageNeverPull
                ! ErrImageNeverPull: Container image "a" is not present with pull policy of Never spec.containers{web}
                ! Failed: Error: ErrImageNeverPull spec.containers{web}
        15.0s Running Ready web=running+
                  Pulled: Container image "a" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
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
    let spec = json!({
        "activeDeadlineSeconds": 20, "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "web", "image": "nginx:1.29"}, {"name": "stubborn", "image": "nginx:1.29"}],
    });
    Life::of(spec, json!({"stop-time.orrery.dev/stubborn": "1m"})).until(60_000).check(&expect![[r#"
        0.0s  Pending stubborn=ContainerCreating web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Pending stubborn=ContainerCreating web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        0.6s  Running Ready stubborn=running+ web=running+
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{stubborn}
                  Created: Container created spec.containers{stubborn}
                  Started: Container started spec.containers{stubborn}
        20.0s Running Ready stubborn=running+ web=running+
                  DeadlineExceeded: Pod was active on the node longer than the specified deadline 
                  Killing: Stopping container web spec.containers{web}
                  Killing: Stopping container stubborn spec.containers{stubborn}
        20.2s Running stubborn=running+ web=Completed(0)
        25.0s Failed stubborn=Error(137) web=Completed(0)
    "#]]);
}

#[test]
fn a_pod_that_never_started_goes_at_once() {
    let life = Life::of(nginx(), json!({"orrery.dev/pull-time": "1h"})).until(10_000).delete(30).until(20_000);
    let life = life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        10.0s Failed web=ContainerStatusUnknown(137) -> delete
    "#]]);
    expect![[r#"[{"image":"nginx:1.29","imageID":"","lastState":{},"name":"web","ready":false,"restartCount":0,"started":false,"state":{"terminated":{"exitCode":137,"message":"The container could not be located when the pod was terminated","reason":"ContainerStatusUnknown"}}}]"#]].assert_eq(&serde_json::to_string(&life.status.container_statuses).unwrap());
    // Nor had this one: it was deleted before its agent saw it.
    Life::of(nginx(), json!({})).delete(30).until(20_000).check(&expect![[r#"
        0.0s  Failed web=ContainerStatusUnknown(137) -> delete
    "#]]);
}

#[test]
fn a_pod_that_is_deleted_between_two_runs_ends_with_its_last_exit() {
    let script = json!({"orrery.dev/run-for": "1s", "orrery.dev/exit-code": "3"});
    Life::of(nginx(), script).until(6_000).delete(30).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        1.5s  Running web=Error(3)
        1.6s  Running Ready web=running+ x1
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        2.6s  Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        6.0s  Failed web=Error(3) x1 -> delete
    "#]]);
}

#[test]
fn a_pod_that_is_deleted_while_it_initializes_fails() {
    let spec = json!({
        "initContainers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}, {"name": "c", "image": "c"}],
        "containers": [{"name": "web", "image": "w"}],
    });
    let script = json!({"run-for.orrery.dev/b": "10m"});
    Life::of(spec, script).until(10_000).delete(30).until(60_000).check(&expect![[r#"
        0.0s  Pending a=PodInitializing b=PodInitializing c=PodInitializing web=PodInitializing
                  Pulling: Pulling image "a" spec.initContainers{a}
        0.5s  Pending a=running b=PodInitializing c=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.initContainers{a}
                  Created: Container created spec.initContainers{a}
                  Started: Container started spec.initContainers{a}
        1.0s  Pending a=Completed(0)+ b=PodInitializing c=PodInitializing web=PodInitializing
                  Pulling: Pulling image "b" spec.initContainers{b}
        1.5s  Pending a=Completed(0)+ b=running c=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "b" in 400ms (400ms including waiting). Image size: 24623304 bytes. spec.initContainers{b}
                  Created: Container created spec.initContainers{b}
                  Started: Container started spec.initContainers{b}
        10.0s Pending a=Completed(0)+ b=running c=PodInitializing web=PodInitializing
                  Killing: Stopping container b spec.initContainers{b}
        10.2s Failed a=Completed(0)+ b=Completed(0)+ c=PodInitializing web=PodInitializing -> delete
    "#]]);
}

#[test]
fn sidecars_go_one_by_one_after_all_others_the_last_first() {
    let spec = json!({
        "initContainers": [
            {"name": "first", "image": "a", "restartPolicy": "Always"},
            {"name": "second", "image": "a", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "web", "image": "a"}],
    });
    // The last of the grace goes to the second; the first gets the two seconds that everybody gets.
    let script = json!({
        "stop-time.orrery.dev/web": "8s", "stop-time.orrery.dev/second": "2s", "stop-time.orrery.dev/first": "9s",
    });
    Life::of(spec, script).until(10_000).delete(10).until(60_000).check(&expect![[r#"
        0.0s  Pending first=PodInitializing second=PodInitializing web=PodInitializing
                  Pulling: Pulling image "a" spec.initContainers{first}
        0.5s  Pending first=running+ second=PodInitializing web=PodInitializing
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.initContainers{first}
                  Created: Container created spec.initContainers{first}
                  Started: Container started spec.initContainers{first}
        0.6s  Pending first=running+ second=running+ web=PodInitializing
                  Pulled: Container image "a" already present on machine and can be accessed by the pod spec.initContainers{second}
                  Created: Container created spec.initContainers{second}
                  Started: Container started spec.initContainers{second}
        0.7s  Running Ready first=running+ second=running+ web=running+
                  Pulled: Container image "a" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.0s Running Ready first=running+ second=running+ web=running+
                  Killing: Stopping container web spec.containers{web}
        18.0s Running first=running+ second=running+ web=Completed(0)
                  Killing: Stopping container second spec.initContainers{second}
        20.0s Running first=running+ second=Completed(0) web=Completed(0)
                  Killing: Stopping container first spec.initContainers{first}
        22.0s Succeeded first=Error(137) second=Completed(0) web=Completed(0) -> delete
    "#]]);
}

#[test]
fn a_pre_stop_hook_delays_the_signal_and_uses_up_grace() {
    let spec = |sleep_s: u32| {
        json!({"containers": [
            {"name": "web", "image": "a", "lifecycle": {"preStop": {"sleep": {"seconds": sleep_s}}}},
        ]})
    };
    Life::of(spec(5), json!({})).until(10_000).delete(30).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "a" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        15.2s Succeeded web=Completed(0) -> delete
    "#]]);
    let stubborn = json!({"orrery.dev/stop-time": "1m"});
    Life::of(spec(40), stubborn).until(10_000).delete(30).until(90_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "a" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        42.0s Failed web=Error(137) -> delete
    "#]]);
}

#[test]
fn an_ephemeral_container_is_started_once_and_counts_for_nothing() {
    let mut life = Life::of(nginx(), json!({"run-for.orrery.dev/debug": "5s"})).until(10_000);
    let ephemeral = json!([{"name": "debug", "image": "busybox"}]);
    life.pod.spec.as_mut().unwrap().ephemeral_containers = Some(serde_json::from_value(ephemeral).unwrap());
    let life = life.until(30_000).delete(30).until(60_000);
    life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        10.0s Running Ready web=running+ debug=ContainerCreating
                  Pulling: Pulling image "busybox" spec.ephemeralContainers{debug}
        10.5s Running Ready web=running+ debug=running
                  Pulled: Successfully pulled image "busybox" in 400ms (400ms including waiting). Image size: 127695960 bytes. spec.ephemeralContainers{debug}
                  Created: Container created spec.ephemeralContainers{debug}
                  Started: Container started spec.ephemeralContainers{debug}
        15.5s Running Ready web=running+ debug=Completed(0)
        30.0s Running Ready web=running+ debug=Completed(0)
                  Killing: Stopping container web spec.containers{web}
        30.2s Succeeded web=Completed(0) debug=Completed(0) -> delete
    "#]]);
}

#[test]
fn a_rejected_pod_has_failed() {
    let life = Life::of(nginx(), json!({}));
    let rejection = Rejection { reason: "OutOfcpu".into(), message: "Node didn't have enough resource: cpu".into() };
    let step = reject(&life.pod, &life.status, &rejection, at(0));
    expect![[r#"{"message":"Pod was rejected: Node didn't have enough resource: cpu","observedGeneration":1,"phase":"Failed","reason":"OutOfcpu","startTime":"2026-01-01T00:00:00Z"}"#]].assert_eq(&serde_json::to_string(&step.status).unwrap());
    let event = &step.events[0];
    assert_eq!((event.warning, event.reason.as_str(), &event.message), (true, "OutOfcpu", &rejection.message));
}

#[test]
fn a_container_says_what_it_was_given() {
    let spec = json!({
        "securityContext": {"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 2000, "supplementalGroups": [3000, 4000]},
        "containers": [{
            "name": "web", "image": "a", "securityContext": {"runAsUser": 7},
            "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
            "volumeMounts": [
                {"name": "data", "mountPath": "/data"},
                {"name": "token", "mountPath": "/token", "readOnly": true},
            ],
        }],
    });
    let life = Life::of(spec, json!({})).until(10_000);
    let status = &life.status.container_statuses.as_ref().unwrap()[0];
    let mut shown = serde_json::to_value(status).unwrap();
    shown.as_object_mut().unwrap().retain(|field, _| {
        ["allocatedResources", "resources", "user", "volumeMounts", "lastState"].contains(&field.as_str())
    });
    expect![[r#"
        {
          "allocatedResources": {
            "cpu": "100m"
          },
          "lastState": {},
          "resources": {
            "limits": {
              "cpu": "1"
            },
            "requests": {
              "cpu": "100m"
            }
          },
          "user": {
            "linux": {
              "gid": 3000,
              "supplementalGroups": [
                3000,
                4000,
                2000
              ],
              "uid": 7
            }
          },
          "volumeMounts": [
            {
              "mountPath": "/data",
              "name": "data"
            },
            {
              "mountPath": "/token",
              "name": "token",
              "readOnly": true,
              "recursiveReadOnly": "Disabled"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn statuses_of_app_containers_stand_by_name() {
    let spec = json!({"containers": [{"name": "z", "image": "a"}, {"name": "a", "image": "a"}]});
    let life = Life::of(spec, json!({"ready-after.orrery.dev/z": "never"})).until(10_000);
    life.check(&expect![[r#"
        0.0s  Pending a=ContainerCreating z=ContainerCreating
                  Pulling: Pulling image "a" spec.containers{z}
        0.5s  Pending a=ContainerCreating z=running
                  Pulled: Successfully pulled image "a" in 400ms (400ms including waiting). Image size: 98495898 bytes. spec.containers{z}
                  Created: Container created spec.containers{z}
                  Started: Container started spec.containers{z}
        0.6s  Running a=running+ z=running
                  Pulled: Container image "a" already present on machine and can be accessed by the pod spec.containers{a}
                  Created: Container created spec.containers{a}
                  Started: Container started spec.containers{a}
    "#]]);
}

#[test]
fn a_pod_waits_for_an_address() {
    let mut life = Life::of(nginx(), json!({}));
    let message = "network is not ready".to_owned();
    life.sandbox = Sandbox::Impossible { reason: "NetworkNotReady", message };
    let mut life = life.until(25_000);
    assert_eq!(life.status.pod_ip, None);
    life.sandbox = Sandbox::Address("10.244.0.5".parse().unwrap());
    let life = life.until(60_000);
    assert_eq!(life.status.pod_ip.as_deref(), Some("10.244.0.5"));
    life.check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                ! NetworkNotReady: network is not ready 
        25.0s Running Ready web=running+
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);

    let mut on_host = Life::of(json!({"hostNetwork": true, "containers": [{"name": "web", "image": "a"}]}), json!({}));
    on_host.sandbox = Sandbox::OnHost;
    on_host.step();
    assert_eq!(on_host.status.pod_ip.as_deref(), Some("172.18.0.2"), "known before anything runs");
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
    let crashes = json!({"orrery.dev/run-for": "5s", "orrery.dev/exit-code": "1"});
    for script in [crashes, json!({"orrery.dev/pull-error": "not found"})] {
        for ms in [0, 450, 501, 5_600, 7_000, 60_000] {
            let mut life = Life::of(nginx(), script.clone()).until(ms);
            life.step();
            let before = life.status.clone();
            life.step();
            assert_eq!(before, life.status, "at {ms} ms");
        }
    }
}
