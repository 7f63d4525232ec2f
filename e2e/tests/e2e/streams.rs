//! Logs, commands and terminals, from the node's agent through the API server to a stock `kubectl`.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, signal};
use e2e::store::Store;
use e2e::wait;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const TALKER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: talker, annotations: {orrery.dev/log: "tick\ntock", orrery.dev/log-every: 200ms}}
spec: {containers: [{name: main, image: nginx, env: [{name: WORD, value: hi}]}, {name: side, image: busybox}]}
---
apiVersion: v1
kind: Pod
metadata: {name: crasher, annotations: {orrery.dev/run-for: 1s, orrery.dev/exit-code: "3"}}
spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pulls, annotations: {orrery.dev/pull-error: not found}}
spec: {nodeName: node-1, containers: [{name: main, image: nowhere/none}]}
"#;

#[test]
fn what_containers_say_and_do_reaches_kubectl() {
    for store in [Store::Memory, Store::Embedded] {
        let directory = tempfile::tempdir().unwrap();
        let cluster = cluster(directory.path(), store);
        let kubectl = cluster.kubectl();
        kubectl.with_input("apply -f -", TALKER).succeeded();
        kubectl.ok("wait --for=condition=Ready pod/talker --timeout=60s");
        logs(&kubectl);
        commands(&kubectl);
        permissions(&kubectl);
        a_followed_log_ends(&cluster);
        nobody_answers(&kubectl);
        cluster.stop();
    }
}

fn logs(kubectl: &Kubectl) {
    let log = kubectl.ok("logs talker -c main");
    assert!(log.starts_with("main: started from image nginx\n"), "{log}");
    wait::until("it has said both of its words", || {
        kubectl.ok("logs talker -c main --tail=2").lines().collect::<Vec<_>>().concat().contains("ticktock")
    });
    assert_eq!(kubectl.ok("logs talker -c main --limit-bytes=5"), "main:");
    assert!(kubectl.ok("logs talker --all-containers --prefix").contains("[pod/talker/main] tick"));
    let refused = kubectl.fails("logs talker -c none");
    assert!(refused.contains("container none is not valid for pod talker"), "{refused}");
    let refused = kubectl.fails("logs pulls");
    let expected = r#"Error from server (BadRequest): container "main" in pod "pulls" is waiting to start: "#;
    assert!(refused.contains(expected), "{refused}");
    wait::until("it has crashed", || {
        kubectl.ok("get pod crasher -o jsonpath={.status.containerStatuses[0].restartCount}") != "0"
    });
    let last_words = kubectl.ok("logs crasher --previous");
    assert!(last_words.ends_with("main: failed with exit code 3\n"), "{last_words}");
}

fn commands(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok_args(&["exec", "talker", "--", "sh", "-c", "echo $WORD; hostname"]), "hi\ntalker\n");
    assert_eq!(kubectl.with_input("exec -i talker -- cat", "a\nb").succeeded(), "a\nb");
    let script = "cd /etc\ncat hostname\nexit 4\necho never\n";
    let ended = kubectl.with_input("exec -i talker -- sh", script);
    assert_eq!((ended.success, ended.stdout.as_str()), (false, "talker\n"));
    assert!(ended.stderr.contains("command terminated with exit code 4"), "{}", ended.stderr);
    let refused = kubectl.fails("exec talker -- nginx -t");
    assert!(refused.contains(r#"exec: "nginx": executable file not found in $PATH"#), "{refused}");
    assert!(refused.contains("command terminated with exit code 127"), "{refused}");
    let refused = kubectl.fails("exec pulls -- ls");
    assert!(refused.contains(r#"unable to upgrade connection: container not found ("main")"#), "{refused}");
    let token = kubectl.ok("exec talker -- cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3, "{token}");
}

/// Who may only read must not run commands by way of GET.
fn permissions(kubectl: &Kubectl) {
    kubectl.ok("create role reader --verb=get --resource=pods,pods/exec,pods/log");
    kubectl.ok("create rolebinding reader --role=reader --user=jane");
    kubectl.ok("logs talker -c side --as=jane");
    let refused = kubectl.fails("exec talker --as=jane -- true");
    assert!(refused.contains(r#"User "jane" cannot create resource "pods/exec""#), "{refused}");
}

fn a_followed_log_ends(cluster: &Cluster) {
    let kubectl = cluster.kubectl();
    let follow = |pod: &str| {
        let mut command = kubectl.command(&["logs", "-f", pod, "-c", "main"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    };
    kubectl.ok("run brief --image=nginx --restart=Never --overrides={\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"nginx\"}]}}");
    wait::until("it runs", || kubectl.run("logs brief").success);
    let (mut child, lines) = follow("brief");
    assert_eq!(lines.last().unwrap().unwrap(), "main: done");
    assert!(child.wait().unwrap().success());
    // With the agent the log ends, too, and nobody waits for ever.
    let (mut child, mut lines) = follow("talker");
    lines.next().unwrap().unwrap();
    signal("KILL", cluster.component("kubelet-sim").unwrap());
    lines.for_each(drop);
    child.wait().unwrap();
    wait::until("the next agent answers", || kubectl.run("logs talker -c main").success);
}

fn nobody_answers(kubectl: &Kubectl) {
    kubectl.ok("annotate node node-1 orrery.dev/agent-endpoint=127.0.0.1:1 --overwrite");
    let refused = kubectl.fails("logs pulls");
    let expected = r#"Get "https://127.0.0.1:1/containerLogs/default/pulls/main": dial tcp 127.0.0.1:1: connect: connection refused"#;
    assert!(refused.contains(expected), "{refused}");
    kubectl.ok("annotate node node-1 orrery.dev/agent-endpoint-");
    let refused = kubectl.fails("logs pulls");
    assert!(refused.contains(r#"the agent of node "node-1" cannot be reached"#), "{refused}");
}
