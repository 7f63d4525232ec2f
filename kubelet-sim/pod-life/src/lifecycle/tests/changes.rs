//! Containers that are replaced, hooks that fail, and crashes that are forgotten.

use super::*;

fn web(fields: &Value) -> Value {
    let mut container = json!({"name": "web", "image": "nginx:1.29", "ports": [{"containerPort": 80}]});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"containers": [container]})
}

#[test]
fn another_image_replaces_the_container() {
    let mut life = Life::of(web(&json!({})), json!({"orrery.dev/run-for": "1h"})).until(20_000);
    for _ in 0..2 {
        life.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.30".into());
        life = life.until(30_000);
    }
    life.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.31".into());
    life.until(40_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        20.0s Running Ready web=running+
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        20.2s Running web=ContainerCreating
        20.7s Running Ready web=running+ x1
        30.0s Running Ready web=running+ x1
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        30.2s Running web=ContainerCreating x1
        30.7s Running Ready web=running+ x2
    "#]]);
}

#[test]
fn a_pod_that_may_not_restart_is_replaced_too() {
    let mut spec = web(&json!({}));
    spec["restartPolicy"] = json!("Never");
    let mut life = Life::of(spec, json!({"orrery.dev/run-for": "1h"})).until(20_000);
    life.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.30".into());
    life.until(30_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        20.0s Running Ready web=running+
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        20.2s Running web=ContainerCreating
        20.7s Running Ready web=running+ x1
    "#]]);
}

#[test]
fn a_container_runs_once_its_post_start_hook_is_done() {
    let mut spec = web(&json!({"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "sleep 5"]}}}}));
    spec["containers"].as_array_mut().unwrap().push(json!({"name": "log", "image": "log:1"}));
    Life::of(spec, json!({"orrery.dev/pull-time": "8s"})).until(30_000).check_changes(&expect![[r#"
        0.0s  Pending log=ContainerCreating web=ContainerCreating
        8.1s  Pending log=ContainerCreating web=ContainerCreating
        13.1s Pending log=ContainerCreating web=running+
        16.2s Running Ready log=running+ web=running+
    "#]]);
}

#[test]
fn a_post_start_hook_that_fails_kills_its_container() {
    let spec = web(&json!({"lifecycle": {"postStart": {"httpGet": {"port": 8080}}}}));
    Life::of(spec, json!({})).until(12_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running web=running
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        0.7s  Running web=Error(143)
        0.8s  Running web=running x1
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        1.0s  Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        11.1s Running web=running x2
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        11.3s Running web=CrashLoopBackOff x2
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
    "#]]);
}

#[test]
fn a_pre_stop_hook_that_fails_is_reported_and_stops_nothing() {
    let spec = web(&json!({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 3; exit 1"]}}}}));
    Life::of(spec, json!({})).until(10_000).delete(30).until(60_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        13.0s Running Ready web=running+
                ! FailedPreStopHook: PreStopHook failed spec.containers{web}
        13.2s Succeeded web=Completed(0) -> delete
    "#]]);
}

#[test]
fn ten_good_minutes_clear_the_crashes() {
    let story = |run_for: &str| json!({"orrery.dev/run-for": run_for, "orrery.dev/exit-code": "1"});
    let mut life = Life::of(web(&json!({})), story("1s")).until(60_000);
    let restarts = |life: &Life| life.status.container_statuses.as_ref().unwrap()[0].restart_count;
    assert_eq!(restarts(&life), 3, "after 0, 10 and 20 seconds");
    life.pod.metadata.annotations = serde_json::from_value(story("10m")).unwrap();
    life = life.until(700_000);
    life.pod.metadata.annotations = serde_json::from_value(story("1s")).unwrap();
    life.log.clear();
    life.until(740_000).check_changes(&expect![[r#"
        700.0sRunning Ready web=running+ x6
        701.0sRunning web=CrashLoopBackOff x6
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        721.1sRunning Ready web=running+ x7
        722.1sRunning web=CrashLoopBackOff x7
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
    "#]]);
}

/// The init container runs again, and the container that did not fail is killed, too.
#[test]
fn an_exit_code_restarts_all_containers() {
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}]);
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "init", "image": "a"}],
        "containers": [
            {"name": "watcher", "image": "a", "restartPolicy": "Never", "restartPolicyRules": rules},
            {"name": "worker", "image": "a"},
        ],
    });
    let story = json!({"run-for.orrery.dev/watcher": "10s", "exit-code.orrery.dev/watcher": "88,88,0",
        "run-for.orrery.dev/worker": "25s"});
    let restarting = |life: &Life| {
        let condition = conditions::find(&life.status, conditions::ALL_CONTAINERS_RESTARTING);
        condition.map(|condition| (condition.status.clone(), condition.reason.clone().unwrap_or_default()))
    };
    let shown = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    let life = Life::of(spec, story).until(5_000);
    assert_eq!(restarting(&life), shown("False", ""));
    let life = life.until(11_700);
    assert_eq!(restarting(&life), shown("True", ""));
    let life = life.until(120_000);
    assert_eq!(restarting(&life), shown("False", "PodCompleted"));
    life.check_changes(&expect![[r#"
        0.0s  Pending init=PodInitializing watcher=PodInitializing worker=PodInitializing
        0.5s  Pending init=running watcher=PodInitializing worker=PodInitializing
        1.0s  Pending init=Completed(0)+ watcher=PodInitializing worker=PodInitializing
        1.1s  Pending init=Completed(0)+ watcher=running+ worker=PodInitializing
        1.2s  Running Ready init=Completed(0)+ watcher=running+ worker=running+
        11.1s Running init=Completed(0)+ watcher=Error(88) worker=Error(137)
                  Killing: Stopping container worker spec.containers{worker}
        12.1s Running init=PodInitializing watcher=PodInitializing worker=PodInitializing
        12.1s Running init=running x1 watcher=PodInitializing worker=PodInitializing
        12.6s Running init=Completed(0)+ x1 watcher=PodInitializing worker=PodInitializing
        12.7s Running init=Completed(0)+ x1 watcher=running+ x1 worker=PodInitializing
        12.8s Running Ready init=Completed(0)+ x1 watcher=running+ x1 worker=running+ x1
        22.7s Running init=Completed(0)+ x1 watcher=Error(88) x1 worker=Error(137) x1
                  Killing: Stopping container worker spec.containers{worker}
        23.7s Running init=PodInitializing x1 watcher=PodInitializing x1 worker=PodInitializing x1
        23.7s Running init=running x2 watcher=PodInitializing x1 worker=PodInitializing x1
        24.2s Running init=Completed(0)+ x2 watcher=PodInitializing x1 worker=PodInitializing x1
        32.8s Running init=Completed(0)+ x2 watcher=running+ x2 worker=PodInitializing x1
        32.9s Running Ready init=Completed(0)+ x2 watcher=running+ x2 worker=running+ x2
        42.8s Running init=Completed(0)+ x2 watcher=Completed(0) x2 worker=running+ x2
        57.9s Succeeded init=Completed(0)+ x2 watcher=Completed(0) x2 worker=Completed(0) x2
    "#]]);
}
