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
    life.until(40_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        20.0s Running Ready web=running+
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        20.2s Running web=ContainerCreating
                  Pulling: Pulling image "nginx:1.30" spec.containers{web}
        20.7s Running Ready web=running+ x1
                  Pulled: Successfully pulled image "nginx:1.30" in 400ms (400ms including waiting). Image size: 90361073 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        30.0s Running Ready web=running+ x1
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        30.2s Running web=ContainerCreating x1
                  Pulling: Pulling image "nginx:1.31" spec.containers{web}
        30.7s Running Ready web=running+ x2
                  Pulled: Successfully pulled image "nginx:1.31" in 400ms (400ms including waiting). Image size: 143735478 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn a_pod_that_may_not_restart_is_replaced_too() {
    let mut spec = web(&json!({}));
    spec["restartPolicy"] = json!("Never");
    let mut life = Life::of(spec, json!({"orrery.dev/run-for": "1h"})).until(20_000);
    life.pod.spec.as_mut().unwrap().containers[0].image = Some("nginx:1.30".into());
    life.until(30_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        20.0s Running Ready web=running+
                  Killing: Container web definition changed, will be restarted spec.containers{web}
        20.2s Running web=ContainerCreating
                  Pulling: Pulling image "nginx:1.30" spec.containers{web}
        20.7s Running Ready web=running+ x1
                  Pulled: Successfully pulled image "nginx:1.30" in 400ms (400ms including waiting). Image size: 90361073 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
    "#]]);
}

#[test]
fn a_container_runs_once_its_post_start_hook_is_done() {
    let mut spec = web(&json!({"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "sleep 5"]}}}}));
    spec["containers"].as_array_mut().unwrap().push(json!({"name": "log", "image": "log:1"}));
    Life::of(spec, json!({"orrery.dev/pull-time": "8s"})).until(30_000).check(&expect![[r#"
        0.0s  Pending log=ContainerCreating web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        8.1s  Pending log=ContainerCreating web=ContainerCreating
                  Pulled: Successfully pulled image "nginx:1.29" in 8s (8s including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        13.1s Pending log=ContainerCreating web=running+
                  Pulling: Pulling image "log:1" spec.containers{log}
        16.2s Running Ready log=running+ web=running+
                  Pulled: Successfully pulled image "log:1" in 8s (8s including waiting). Image size: 119746957 bytes. spec.containers{log}
                  Created: Container created spec.containers{log}
                  Started: Container started spec.containers{log}
    "#]]);
}

#[test]
fn a_post_start_hook_that_fails_kills_its_container() {
    let spec = web(&json!({"lifecycle": {"postStart": {"httpGet": {"port": 8080}}}}));
    Life::of(spec, json!({})).until(12_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running web=running
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        0.7s  Running web=Error(143)
        0.8s  Running web=running x1
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        1.0s  Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        11.1s Running web=running x2
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
                ! FailedPostStartHook: PostStartHook failed spec.containers{web}
                  Killing: FailedPostStartHook spec.containers{web}
        11.3s Running web=CrashLoopBackOff x2
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
    "#]]);
}

#[test]
fn a_pre_stop_hook_that_fails_is_reported_and_stops_nothing() {
    let spec = web(&json!({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 3; exit 1"]}}}}));
    Life::of(spec, json!({})).until(10_000).delete(30).until(60_000).check(&expect![[r#"
        0.0s  Pending web=ContainerCreating
                  Pulling: Pulling image "nginx:1.29" spec.containers{web}
        0.5s  Running Ready web=running+
                  Pulled: Successfully pulled image "nginx:1.29" in 400ms (400ms including waiting). Image size: 75439597 bytes. spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
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
    life.until(740_000).check(&expect![[r#"
        700.0sRunning Ready web=running+ x6
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        701.0sRunning web=CrashLoopBackOff x6
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
        721.1sRunning Ready web=running+ x7
                  Pulled: Container image "nginx:1.29" already present on machine and can be accessed by the pod spec.containers{web}
                  Created: Container created spec.containers{web}
                  Started: Container started spec.containers{web}
        722.1sRunning web=CrashLoopBackOff x7
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
    "#]]);
}
