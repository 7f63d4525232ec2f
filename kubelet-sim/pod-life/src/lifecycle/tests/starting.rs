//! How pods start, run, and are restarted.

use super::*;

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
    let story = json!({"orrery.dev/run-for": "2s", "orrery.dev/exit-code": "1,1,1,0", "orrery.dev/ready-after": "1s"});
    let spec = json!({"restartPolicy": "OnFailure", "containers": [{"name": "web", "image": "nginx:1.29"}]});
    Life::of(spec, story).until(120_000).check(&expect![[r#"
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
fn an_image_whose_name_cannot_be_parsed_is_waited_for() {
    let mut life = Life::of(json!({"containers": [{"name": "web", "image": "Nginx"}]}), json!({})).until(11_000);
    life.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx".into());
    life.until(30_000).check(&expect![[r#"
        0.0s  Pending web=InvalidImageName
                ! InspectFailed: Failed to apply default image tag "Nginx": couldn't parse image name "Nginx": invalid reference format: repository name (library/Nginx) must be lowercase spec.containers{web}
                ! Failed: Error: InvalidImageName spec.containers{web}
        10.0s Pending web=InvalidImageName
                ! InspectFailed: Failed to apply default image tag "Nginx": couldn't parse image name "Nginx": invalid reference format: repository name (library/Nginx) must be lowercase spec.containers{web}
                ! Failed: Error: InvalidImageName spec.containers{web}
        11.0s Running Ready web=running+
                  Pulling: Pulling image "nginx" spec.containers{web}
                  Pulled: Successfully pulled image "nginx" in 400ms (400ms including waiting). Image size: 44142715 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}
