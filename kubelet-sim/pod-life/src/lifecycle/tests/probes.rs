//! What probes make of a pod: readiness, restarts, and the wait for a slow start.

use super::*;

fn web(probes: &Value) -> Value {
    let mut container = json!({"name": "web", "image": "nginx:1.29", "ports": [{"name": "http", "containerPort": 80}]});
    container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
    json!({"containers": [container]})
}

#[test]
fn readiness_comes_and_goes() {
    let spec = web(&json!({"readinessProbe": {
        "httpGet": {"path": "/healthz", "port": "http"}, "initialDelaySeconds": 5, "periodSeconds": 5,
        "failureThreshold": 2, "successThreshold": 2,
    }}));
    Life::of(spec, json!({"orrery.dev/readiness": "fail, ok@8s, fail@30s, ok@50s"})).until(80_000).check_changes(
        &expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running web=running
        5.5s  Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        15.5s Running Ready web=running+
        30.5s Running Ready web=running+
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        35.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        40.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        45.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        55.5s Running Ready web=running+
    "#]],
    );
}

#[test]
fn a_probe_of_a_port_that_nobody_declares_is_refused() {
    let spec = web(&json!({"readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 20}}));
    Life::of(spec, json!({})).until(30_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running web=running
                ! Unhealthy: Readiness probe failed: dial tcp 10.244.0.5:8080: connect: connection refused spec.containers{web}
        20.5s Running web=running
                ! Unhealthy: Readiness probe failed: dial tcp 10.244.0.5:8080: connect: connection refused spec.containers{web}
    "#]]);
}

#[test]
fn liveness_restarts_with_growing_delays() {
    let spec = web(&json!({"livenessProbe": {
        "httpGet": {"path": "healthz", "port": 80}, "periodSeconds": 5, "failureThreshold": 2,
        "terminationGracePeriodSeconds": 3,
    }}));
    let story = json!({"orrery.dev/liveness": "fail@20s", "orrery.dev/stop-time": "1m"});
    Life::of(spec, story).until(75_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        20.5s Running Ready web=running+
                ! Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        25.5s Running Ready web=running+
                ! Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
                  Killing: Container web failed liveness probe, will be restarted spec.containers{web}
        28.5s Running web=Error(137)
        28.6s Running Ready web=running+ x1
        48.6s Running Ready web=running+ x1
                ! Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        53.6s Running Ready web=running+ x1
                ! Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
                  Killing: Container web failed liveness probe, will be restarted spec.containers{web}
        56.6s Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        66.7s Running Ready web=running+ x2
    "#]]);
}

#[test]
fn a_container_that_may_not_restart_fails_with_its_liveness() {
    let mut spec = web(&json!({"livenessProbe": {"exec": {"command": ["false"]}, "failureThreshold": 1}}));
    spec["restartPolicy"] = json!("Never");
    Life::of(spec, json!({"orrery.dev/run-for": "1h"})).until(60_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
                ! Unhealthy: Liveness probe failed:  spec.containers{web}
                  Killing: Container web failed liveness probe spec.containers{web}
        0.7s  Failed web=Error(143)
    "#]]);
}

#[test]
fn other_probes_wait_for_the_startup_probe() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 10});
    let spec = web(&json!({"startupProbe": probe, "livenessProbe": probe, "readinessProbe": probe}));
    let story = json!({"orrery.dev/startup": "fail, ok@15s", "orrery.dev/liveness": "fail, ok@18s"});
    Life::of(spec, story).until(60_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running web=running
                ! Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        10.5s Running web=running
                ! Unhealthy: Startup probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        20.5s Running Ready web=running+
    "#]]);
}

#[test]
fn a_start_that_takes_too_long_is_given_up() {
    let spec = web(&json!({"startupProbe": {"grpc": {"port": 80}, "failureThreshold": 2, "timeoutSeconds": 4}}));
    Life::of(spec, json!({"orrery.dev/startup": "timeout"})).until(20_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running web=running
        4.5s  Running web=running
                ! Unhealthy: Startup probe failed: timeout: failed to connect service "10.244.0.5:80" within 4s: context deadline exceeded spec.containers{web}
        14.5s Running web=running
                ! Unhealthy: Startup probe failed: timeout: failed to connect service "10.244.0.5:80" within 4s: context deadline exceeded spec.containers{web}
                  Killing: Container web failed startup probe, will be restarted spec.containers{web}
        14.7s Running web=Error(143)
        14.8s Running web=running x1
        18.8s Running web=running x1
                ! Unhealthy: Startup probe failed: timeout: failed to connect service "10.244.0.5:80" within 4s: context deadline exceeded spec.containers{web}
    "#]]);
}

#[test]
fn a_sidecar_holds_the_others_until_it_has_started() {
    let spec = json!({
        "initContainers": [{
            "name": "proxy", "image": "proxy:1", "restartPolicy": "Always",
            "startupProbe": {"tcpSocket": {"port": 15001}, "periodSeconds": 4},
        }],
        "containers": [{"name": "web", "image": "nginx:1.29"}],
    });
    Life::of(spec, json!({"startup.orrery.dev/proxy": "fail, ok@6s"})).until(30_000).check_changes(&expect![[r#"
        0.0s  Pending proxy=PodInitializing web=PodInitializing
        0.5s  Pending proxy=running web=PodInitializing
                ! Unhealthy: Startup probe failed: dial tcp 10.244.0.5:15001: connect: connection refused spec.initContainers{proxy}
        4.5s  Pending proxy=running web=PodInitializing
                ! Unhealthy: Startup probe failed: dial tcp 10.244.0.5:15001: connect: connection refused spec.initContainers{proxy}
        8.5s  Pending proxy=running+ web=PodInitializing
        9.0s  Running Ready proxy=running+ web=running+
    "#]]);
}

#[test]
fn a_pod_that_is_deleted_is_probed_for_readiness_only() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 5, "failureThreshold": 1});
    let spec = web(&json!({"livenessProbe": probe, "readinessProbe": probe}));
    let story = json!({
        "orrery.dev/readiness": "fail@12s", "orrery.dev/liveness": "fail@12s", "orrery.dev/stop-time": "20s",
    });
    Life::of(spec, story).until(10_000).delete(30).until(60_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        15.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        20.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        25.5s Running web=running
                ! Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 spec.containers{web}
        30.0s Succeeded web=Completed(0) -> delete
    "#]]);
}

#[test]
fn an_agent_that_restarts_finds_the_same() {
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 3});
    let spec = web(&json!({"startupProbe": probe, "livenessProbe": probe, "readinessProbe": probe}));
    let story = json!({
        "orrery.dev/startup": "fail, ok@2s", "orrery.dev/readiness": "flap 12s/6s", "orrery.dev/liveness": "fail@60s",
    });
    let lasting = Life::of(spec.clone(), story.clone()).until(300_000);
    let mut forgetful = Life::of(spec, story);
    forgetful.forgetful = true;
    let forgetful = forgetful.until(300_000);
    let seen = |life: &Life| {
        life.log
            .lines()
            .map(|line| line.trim_start_matches(|c| " .s0123456789".contains(c)).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&lasting), seen(&forgetful));
}

#[test]
fn crashes_and_lack_of_memory_end_a_container() {
    let spec = web(&json!({}));
    Life::of(spec.clone(), json!({"orrery.dev/crash-after": "5s"})).until(10_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        5.5s  Running web=Error(1)
        5.6s  Running Ready web=running+ x1
    "#]]);
    Life::of(spec, json!({"orrery.dev/oom-after": "5s"})).until(10_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        5.5s  Running web=OOMKilled(137)
        5.6s  Running Ready web=running+ x1
    "#]]);
}

#[test]
fn a_story_that_cannot_be_told_is_reported_once() {
    let story = json!({"orrery.dev/run-for": "long", "orrery.dev/readiness": "fail"});
    Life::of(web(&json!({})), story).until(10_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                ! InvalidStory: orrery.dev/readiness: no container that it is about has a readinessProbe 
                ! InvalidStory: orrery.dev/run-for: invalid duration "long": want for example 300ms, 5s or 1m30s 
        0.5s  Running Ready web=running+
    "#]]);
}
