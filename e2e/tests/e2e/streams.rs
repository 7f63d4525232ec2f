//! Tests logs, exec, attach and port forwarding, from the node's agent through the API server to a stock `kubectl`.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, signal};
use e2e::store::Store;
use e2e::wait;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: web, image: example.org/web, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pulls, annotations: {orrery.dev/pull-error: not found}}
spec: {nodeName: node-1, containers: [{name: main, image: nowhere/none}]}
"#;

#[test]
fn logs_exec_attach_and_port_forward() {
    for store in [Store::Memory, Store::Embedded] {
        let directory = tempfile::tempdir().unwrap();
        let cluster = cluster(directory.path(), store);
        let kubectl = cluster.kubectl();
        kubectl.with_input("apply -f -", TALKER).succeeded();
        kubectl.ok("wait --for=condition=Ready pod/talker pod/web --timeout=60s");
        logs(&kubectl);
        commands(&kubectl);
        copies(&kubectl, directory.path());
        // Streams do not use the store, so one store suffices for them.
        let protocols: &[Protocol] = match store {
            Store::Memory => &[Protocol::WebSocket, Protocol::Spdy],
            _ => &[],
        };
        for protocol in protocols.iter().copied() {
            exec_streams(&kubectl, protocol);
            attach(&kubectl, protocol);
            ports(&kubectl, protocol);
        }
        attached_runs(&kubectl);
        permissions(&kubectl);
        a_followed_log_ends(&cluster);
        unreachable_agent(&kubectl);
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
    let refused = kubectl.fails("exec talker -- vi -R");
    assert!(refused.contains(r#"exec: "vi": executable file not found in $PATH"#), "{refused}");
    assert!(refused.contains("command terminated with exit code 127"), "{refused}");
    let refused = kubectl.fails("exec pulls -- ls");
    assert!(refused.contains(r#"unable to upgrade connection: container not found ("main")"#), "{refused}");
    let token = kubectl.ok("exec talker -- cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    assert_eq!(token.split('.').count(), 3, "{token}");
}

/// Copies a folder into a container and back with `kubectl cp`.
fn copies(kubectl: &Kubectl, directory: &Path) {
    let source = directory.join("source");
    std::fs::create_dir_all(source.join("inner")).unwrap();
    let long = "0123456789".repeat(10_000);
    std::fs::write(source.join("inner/long.txt"), &long).unwrap();
    std::fs::write(source.join("empty"), "").unwrap();
    let (source, target) = (source.to_str().unwrap(), directory.join("target"));
    kubectl.ok_args(&["cp", source, "talker:/tmp/copied", "-c", "side"]);
    let counted = kubectl.ok("exec talker -c side -- sh -c cat</tmp/copied/inner/long.txt|wc");
    assert_eq!(counted.split_whitespace().last(), Some("100000"), "{counted}");
    kubectl.ok_args(&["cp", "talker:/tmp/copied", target.to_str().unwrap(), "-c", "side"]);
    assert!(std::fs::read_to_string(target.join("inner/long.txt")).unwrap() == long);
    assert_eq!(std::fs::read(target.join("empty")).unwrap(), b"");
    let one = directory.join("hostname");
    kubectl.ok_args(&["cp", "default/talker:/etc/hostname", one.to_str().unwrap(), "-c", "side"]);
    assert_eq!(std::fs::read_to_string(one).unwrap(), "talker\n");
    let missing = kubectl.run("cp talker:/none /dev/null -c side");
    let all = format!("{}{}", missing.stdout, missing.stderr);
    assert!(all.contains("tar: /none: No such file or directory"), "{all}");
}

/// A protocol that kubectl can use for streams.
#[derive(Clone, Copy, Debug)]
enum Protocol {
    WebSocket,
    Spdy,
}

impl Protocol {
    fn command(self, kubectl: &Kubectl, line: &str) -> Command {
        let mut command = kubectl.command(&line.split(' ').collect::<Vec<_>>());
        if let Self::Spdy = self {
            for feature in ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"] {
                command.env(feature, "false");
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a command line with `input` on its standard input.
    fn run(self, kubectl: &Kubectl, line: &str, input: &str) -> Output {
        let mut child = self.command(kubectl, line).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

fn exec_streams(kubectl: &Kubectl, protocol: Protocol) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let whole: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let echoed = protocol.run(kubectl, "exec -i talker -c main -- cat", &whole);
    assert!(echoed.status.success(), "{protocol:?}: {}", text(&echoed.stderr));
    assert!(text(&echoed.stdout) == whole, "{protocol:?}: {} bytes came back", echoed.stdout.len());
    let script = "env | grep WORD | wc -l\ncat none 2>/dev/null || echo gone >&2\nexit 7\n";
    let ended = protocol.run(kubectl, "exec -i talker -c main -- sh", script);
    assert_eq!((text(&ended.stdout).as_str(), ended.status.code()), ("1\n", Some(7)), "{protocol:?}");
    let errors = text(&ended.stderr);
    assert!(errors.starts_with("gone\n") && errors.contains("exit code 7"), "{protocol:?}: {errors}");
    // The command goes on after the end of its input.
    let drained = protocol.run(kubectl, "exec -i talker -c main -- sh -c cat>/dev/null;echo;hostname", "ignored");
    assert_eq!(text(&drained.stdout), "\ntalker\n", "{protocol:?}: {}", text(&drained.stderr));
}

fn attach(kubectl: &Kubectl, protocol: Protocol) {
    let mut child = protocol.command(kubectl, "attach talker -c main -i").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The container's output goes on, and it echoes its input.
    assert!(lines.any(|line| line == "tick"), "{protocol:?}");
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    assert!(lines.any(|line| line == "typed"), "{protocol:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Runs pods with `kubectl run -i`, which attaches to the container's own command.
fn attached_runs(kubectl: &Kubectl) {
    let said = kubectl.ok_args(&[
        "run",
        "once",
        "-i",
        "--rm",
        "--image=busybox",
        "--restart=Never",
        "--",
        "sh",
        "-c",
        "echo hello; hostname",
    ]);
    assert!(said.contains("hello\nonce\n") && said.contains(r#"pod "once" deleted"#), "{said}");
    let shell = kubectl.with_input("run shell -i --rm --image=busybox --restart=Never", "echo $HOSTNAME\nexit 4\n");
    assert_eq!((shell.success, shell.stdout.contains("shell\n")), (false, true), "{} {}", shell.stdout, shell.stderr);
    assert!(shell.stderr.contains("terminated (Error)"), "{}", shell.stderr);
    let debugger = "debug web -i --image=busybox --target=web --profile=general --container=look -- sh";
    let seen = kubectl.with_input(debugger, "echo inside\nexit\n").succeeded();
    assert!(seen.contains("inside\n"), "{seen}");
    // A simulated command ends with the exit code that its words name.
    kubectl.ok_args(&["create", "job", "fails", "--image=busybox", "--", "sh", "-c", "echo no; exit 3"]);
    wait::until("the job's pod has failed", || {
        let code = "jsonpath={.items[*].status.containerStatuses[0].state.terminated.exitCode}";
        kubectl.ok_args(&["get", "pods", "-l", "job-name=fails", "-o", code]).contains('3')
    });
    kubectl.ok_args(&["run", "loops", "--image=busybox", "--", "sh", "-c", "echo again"]);
    wait::until("it is started again and again", || kubectl.ok("get pod loops").contains("CrashLoopBackOff"));
}

fn ports(kubectl: &Kubectl, protocol: Protocol) {
    for (target, port) in [("pod/web", 8080), ("service/web", 80)] {
        let mut child = protocol.command(kubectl, &format!("port-forward {target} :{port}")).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = forwarded(&lines.next().expect("an address, or it failed"));
        let expected = "container web of image example.org/web, port 8080.\n";
        // Two connections at the same time, and then one after another.
        let mut first = TcpStream::connect(&address).unwrap();
        write!(first, "GET /first HTTP/1.1\r\nHost: web\r\n").unwrap();
        for path in ["/a?b=c", "/d"] {
            let page = fetch(&address, path);
            assert!(page.starts_with("HTTP/1.1 200 OK"), "{protocol:?} {target}: {page}");
            assert!(
                page.contains(expected) && page.contains(&format!("GET {path}\n")),
                "{protocol:?} {target}: {page}"
            );
        }
        let page = finish(first);
        assert!(page.contains("GET /first\n"), "{protocol:?} {target}: {page}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // No process listens on port 81.
    let mut child = protocol.command(kubectl, "port-forward pod/web :81").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(fetch(&forwarded(&lines.next().unwrap()), "/"), "");
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    assert!(errors.contains("error forwarding port 81 to pod "), "{protocol:?}: {errors}");
    assert!(errors.contains("dial tcp4 127.0.0.1:81: connect: connection refused"), "{protocol:?}: {errors}");
    assert!(errors.contains("lost connection to pod"), "{protocol:?}: {errors}");
}

/// Returns the address in a line of `kubectl port-forward`: `Forwarding from 127.0.0.1:34567 -> 8080`.
fn forwarded(line: &str) -> String {
    line.split(' ').nth(2).unwrap_or_else(|| panic!("{line}")).to_owned()
}

fn fetch(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: web\r\n").unwrap();
    finish(stream)
}

/// Ends a request, and reads until the other side closes.
fn finish(mut stream: TcpStream) -> String {
    stream.write_all(b"Connection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    // A port without a listener closes the stream.
    let _ = stream.read_to_string(&mut page);
    page
}

/// Checks that a user with the verb `get` only cannot run commands or forward ports.
fn permissions(kubectl: &Kubectl) {
    kubectl.ok("create role reader --verb=get --resource=pods,pods/exec,pods/portforward,pods/log");
    kubectl.ok("create rolebinding reader --role=reader --user=jane");
    kubectl.ok("logs talker -c side --as=jane");
    let refused = kubectl.fails("exec talker --as=jane -- true");
    assert!(refused.contains(r#"User "jane" cannot create resource "pods/exec""#), "{refused}");
    let refused = kubectl.fails("port-forward web :8080 --as=jane");
    assert!(refused.contains(r#"User "jane" cannot create resource "pods/portforward""#), "{refused}");
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
    // When the agent ends, the log ends too.
    let (mut child, mut lines) = follow("talker");
    lines.next().unwrap().unwrap();
    signal("KILL", cluster.component("kubelet-sim").unwrap());
    lines.for_each(drop);
    child.wait().unwrap();
    wait::until("the next agent answers", || kubectl.run("logs talker -c main").success);
}

fn unreachable_agent(kubectl: &Kubectl) {
    kubectl.ok("annotate node node-1 orrery.dev/agent-endpoint=127.0.0.1:1 --overwrite");
    let refused = kubectl.fails("logs pulls");
    let expected = r#"Get "https://127.0.0.1:1/containerLogs/default/pulls/main": dial tcp 127.0.0.1:1: connect: connection refused"#;
    assert!(refused.contains(expected), "{refused}");
    kubectl.ok("annotate node node-1 orrery.dev/agent-endpoint-");
    let refused = kubectl.fails("logs pulls");
    assert!(refused.contains(r#"the agent of node "node-1" cannot be reached"#), "{refused}");
}
