//! The fields of a pod's status, and that they depend only on what happened.

use super::*;

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
    life.sandbox = Sandbox::Addresses(vec!["10.244.0.5".parse().unwrap()]);
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

/// Steps from stored statuses, which lack fractions of seconds, come to the same end as steps from exact ones.
#[test]
fn an_agent_that_forgets_everything_comes_to_the_same_end() {
    let jobs = json!({"restartPolicy": "OnFailure",
        "initContainers": [{"name": "a", "image": "a"}, {"name": "s", "image": "s", "restartPolicy": "Always"}],
        "containers": [{"name": "b", "image": "b"}, {"name": "c", "image": "c"}]});
    let story = json!({"orrery.dev/exit-code": "1,1,0"});
    let lasting = Life::of(jobs.clone(), story.clone()).until(120_000);
    let mut forgetful = Life::of(jobs, story);
    forgetful.forgetful = true;
    let forgetful = forgetful.until(120_000);
    assert_eq!(lasting.line(&lasting.status), forgetful.line(&forgetful.status));
    assert_eq!(lasting.status.phase.as_deref(), Some("Succeeded"));
}

/// A step that is taken twice at the same time changes nothing the second time.
#[test]
fn steps_are_idempotent() {
    let crashes = json!({"orrery.dev/run-for": "5s", "orrery.dev/exit-code": "1"});
    for story in [crashes, json!({"orrery.dev/pull-error": "not found"})] {
        for ms in [0, 450, 501, 5_600, 7_000, 60_000] {
            let mut life = Life::of(nginx(), story.clone()).until(ms);
            life.step();
            let before = life.status.clone();
            life.step();
            assert_eq!(before, life.status, "at {ms} ms");
        }
    }
}
