//! How pods end: by a deadline or a deletion, container by container.

use super::*;
use crate::notes::NodeTermination;

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
    // This pod never started either: it was deleted before its agent saw it.
    Life::of(nginx(), json!({})).delete(30).until(20_000).check(&expect![[r#"
        0.0s  Failed web=ContainerStatusUnknown(137) -> delete
    "#]]);
}

#[test]
fn a_pod_that_is_deleted_between_two_runs_ends_with_its_last_exit() {
    let story = json!({"orrery.dev/run-for": "1s", "orrery.dev/exit-code": "3"});
    Life::of(nginx(), story).until(6_000).delete(30).until(60_000).check(&expect![[r#"
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
    let story = json!({"run-for.orrery.dev/b": "10m"});
    Life::of(spec, story).until(10_000).delete(30).until(60_000).check(&expect![[r#"
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
    // The last of the grace goes to the second; the first gets the two seconds that every container gets.
    let story = json!({
        "stop-time.orrery.dev/web": "8s", "stop-time.orrery.dev/second": "2s", "stop-time.orrery.dev/first": "9s",
    });
    Life::of(spec, story).until(10_000).delete(10).until(60_000).check(&expect![[r#"
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

/// The container has to be gone before the pod has failed.
#[test]
fn an_evicted_pod_fails_once_its_containers_have_ended() {
    let mut life = Life::of(nginx(), json!({"orrery.dev/stop-time": "5m"})).until(10_000);
    life.notes.termination = Some(NodeTermination {
        asked_at: life.now,
        grace: Duration::from_secs(1),
        reason: "Evicted",
        message: "The node was low on resource: memory. ".to_owned(),
        disruption: Some("low".to_owned()),
    });
    let life = life.until(30_000);
    assert_eq!(life.status.reason.as_deref(), Some("Evicted"));
    assert_eq!(life.status.message.as_deref(), Some("The node was low on resource: memory. "));
    let disrupted = conditions::find(&life.status, conditions::DISRUPTION_TARGET).unwrap();
    assert_eq!(disrupted.reason.as_deref(), Some("TerminationByKubelet"));
    assert_eq!(disrupted.message.as_deref(), Some("low"));
    life.check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.0s Running Ready web=running+
                  Killing: Stopping container web spec.containers{web}
        12.0s Failed web=Error(137)
    "#]]);
}

#[test]
fn a_container_that_uses_more_memory_than_its_limit_is_killed() {
    let spec = json!({"containers": [
        {"name": "web", "image": "nginx:1.29", "resources": {"limits": {"memory": "100Mi"}}}]});
    let story = json!({"orrery.dev/memory": "ramp 0..200Mi/20s"});
    Life::of(spec, story).until(25_000).check_changes(&expect![[r#"
        0.0s  Pending web=ContainerCreating
        0.5s  Running Ready web=running+
        10.5s Running web=OOMKilled(137)
        10.6s Running Ready web=running+ x1
        20.6s Running web=CrashLoopBackOff x1
                ! BackOff: Back-off restarting failed container web in pod web_shop(u1) spec.containers{web}
    "#]]);
}

#[test]
fn a_container_leaves_a_message_when_it_ends() {
    let container = |name: &str, policy: &str, script: &str| json!({"name": name, "image": "busybox", "terminationMessagePolicy": policy, "command": ["sh", "-c", script]});
    let spec = json!({"restartPolicy": "Never", "containers": [
        container("file", "File", "echo hidden; echo -n seen > /dev/termination-log; false"),
        container("log", "FallbackToLogsOnError", "echo one; echo two; false"),
        container("fine", "FallbackToLogsOnError", "echo one"),
        {"name": "story", "image": "server"},
    ]});
    let story = json!({"termination-message.orrery.dev/story": "told", "run-for.orrery.dev/story": "3s"});
    let life = Life::of(spec, story).until(10_000);
    let statuses = life.status.container_statuses.unwrap();
    let message = |name: &str| {
        let status = statuses.iter().find(|status| status.name == name).unwrap();
        status.state.as_ref().unwrap().terminated.as_ref().unwrap().message.clone()
    };
    let messages = ["file", "log", "fine", "story"].map(message);
    assert_eq!(messages, [Some("seen".into()), Some("one\ntwo\n".into()), None, Some("told".into())]);
}

/// A node that looks late sees the end of one run and starts the next in the same step.
#[test]
fn what_was_seen_of_one_run_does_not_end_the_next() {
    let mut life = Life::of(nginx(), json!({})).until(1_000);
    life.live.insert("web".to_owned(), Live { ended: Some((at(2_000), 1)), ..Live::default() });
    life.now = at(5_000);
    life.step();
    let status = &life.status.container_statuses.as_ref().unwrap()[0];
    assert_eq!((status.restart_count, crate::state::running(status)), (1, Some(at(5_000))));
}
