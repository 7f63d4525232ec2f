//! Tests of the files, the log and the exit of simulated containers, from the pod to its processes.

use super::container::output::Printed;
use super::logs;
use super::target::ContainerRef;
use crate::config::Settings;
use crate::fleet::Fleet;
use crate::runtime::run::Run;
use client::Client;
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::network::Network;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use userland::process::streams::Streams;

pub const AUTHORITY: &str = "apiserver:6443";

/// Starts a fleet of one node; returns it with the server that it speaks to.
pub async fn fleet() -> (Env, FakeServer, Arc<Fleet>) {
    let env = Env::simulated(5);
    let server = FakeServer::new(&env);
    if let Network::InProcess(registry) = env.network() {
        registry.register(AUTHORITY, server.service());
    }
    let connection = Connection { server: format!("https://{AUTHORITY}"), ..Connection::default() };
    let client = Client::connect(&env, &connection, "kubelet-sim").unwrap();
    let (fleet, informers) = Fleet::new(client.in_env(&env), Settings { nodes: 1, ..Settings::default() }, env.clone());
    let running = fleet.clone();
    env.spawn(async move { running.start(informers).await });
    env.sleep(Duration::from_secs(1)).await;
    let mut node = server.get("nodes", "node-0").unwrap();
    node["spec"]["podCIDR"] = json!("10.244.3.0/24");
    server.put("nodes", node);
    (env, server, fleet)
}

pub fn container_ref(pod: &str) -> ContainerRef {
    let text = |text: &str| text.to_owned();
    ContainerRef { node: text("node-0"), namespace: text("shop"), pod: text(pod), container: text("c") }
}

pub async fn log(fleet: &Arc<Fleet>, pod: &str) -> String {
    let answer = logs::answer(fleet, container_ref(pod), &[]).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

pub fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_container_sees_its_volumes_and_variables() {
    let (env, server, fleet) = fleet().await;
    server.put(
        "configmaps",
        json!({
            "metadata": {"name": "game", "namespace": "shop"}, "data": {"lives": "3", "level": "hard"},
        }),
    );
    let script = "cat /config/deep/lives; echo; stat -c '%a %F' /config/..data/deep/lives /config/deep; echo $LEVEL $(HOSTNAME_IS); \
                  cat /one; echo; echo x >/scratch/f; ls /scratch; echo no >/config/x; echo end >/dev/termination-log; sleep 600";
    let volumes = json!([
        {"name": "config", "configMap": {
            "name": "game", "defaultMode": 0o400, "items": [{"key": "lives", "path": "deep/lives", "mode": 0o640}],
        }},
        {"name": "all", "configMap": {"name": "game"}},
        {"name": "scratch", "emptyDir": {}},
    ]);
    let container = json!({
        "name": "c", "image": "busybox", "command": ["sh", "-c", script],
        "env": [
            {"name": "HOSTNAME_IS", "value": "me"},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "game", "key": "level"}}},
        ],
        "volumeMounts": [
            {"name": "config", "mountPath": "/config", "readOnly": true},
            {"name": "all", "mountPath": "/one", "subPath": "level"},
            {"name": "scratch", "mountPath": "/scratch"},
        ],
    });
    server.put("pods", pod("reader", json!({"nodeName": "node-0", "containers": [container], "volumes": volumes})));
    env.sleep(Duration::from_secs(10)).await;
    let expected = "3\n640 regular file\n777 symbolic link\nhard me\nhard\nf\n";
    let refused = "sh: can't create /config/x: Read-only file system\n";
    assert_eq!(log(&fleet, "reader").await, format!("{expected}{refused}"));

    // A second process of the container shares its files; a changed map reaches them.
    server.put(
        "configmaps",
        json!({"metadata": {"name": "game", "namespace": "shop"}, "data": {"lives": "9", "level": "x"}}),
    );
    env.sleep(Duration::from_secs(120)).await;
    let found = container_ref("reader").find(&fleet).unwrap();
    let run = logs::run_of(&found, false).unwrap();
    let processes = found.processes(&fleet.context_of("node-0"), &run).await;
    let argv = ["sh", "-c", "cat /scratch/f /config/deep/lives /one /dev/termination-log; ps | grep -c 'sh -c'"];
    let mut processes = processes.lock();
    let pid = processes.start(argv.map(str::to_owned).to_vec(), Streams::of_client(false, false)).unwrap();
    processes.advance_to(env.wall());
    let printed: Vec<u8> = processes.take_outputs(pid).into_iter().flat_map(|output| output.bytes).collect();
    assert_eq!(String::from_utf8(printed).unwrap(), "x\n9hardend\n2\n");
}

#[tokio::test(start_paused = true)]
async fn a_log_is_what_the_command_prints_and_ends_with_it() {
    let (env, server, fleet) = fleet().await;
    let script = "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo turn $i; sleep 2; done; echo -n last; exit 4";
    let container = json!({"name": "c", "image": "busybox", "command": ["sh", "-c"], "args": [script]});
    server
        .put("pods", pod("turns", json!({"nodeName": "node-0", "containers": [container], "restartPolicy": "Never"})));
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(log(&fleet, "turns").await, "turn 1\nturn 2\nturn 3\nlast");
    let status = server.get("pods", "shop/turns").unwrap()["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
    let found = container_ref("turns").find(&fleet).unwrap();
    let run: Run = logs::run_of(&found, false).unwrap();
    let processes = found.processes(&fleet.context_of("node-0"), &run).await;
    let printed = Printed::up_to(run.started_at + Duration::from_secs(3), &mut processes.lock(), &run);
    assert_ne!(printed, Printed::default());
}

/// The exit code follows from a ConfigMap, and so does the message that the process leaves.
#[tokio::test(start_paused = true)]
async fn a_job_ends_as_its_command_ends_whatever_it_reads() {
    let (env, server, fleet) = fleet().await;
    let map = |code: &str| json!({"metadata": {"name": "m", "namespace": "shop"}, "data": {"code": code}});
    server.put("configmaps", map("3"));
    let script = "sleep 2; cat /etc/m/code > /dev/termination-log; echo last; exit $(cat /etc/m/code)";
    let spec = json!({
        "nodeName": "node-0", "restartPolicy": "Never", "volumes": [{"name": "m", "configMap": {"name": "m"}}],
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "m", "mountPath": "/etc/m"}]}],
    });
    server.put("pods", pod("job", spec));
    env.sleep(Duration::from_secs(20)).await;
    let status = server.get("pods", "shop/job").unwrap()["status"].clone();
    let exit = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&status["phase"], &exit["exitCode"], &exit["message"]), (&json!("Failed"), &json!(3), &json!("3")));
    assert_eq!(log(&fleet, "job").await, "last\n");
}

/// One container waits for what another one writes into their common volume.
#[tokio::test(start_paused = true)]
async fn containers_of_a_pod_see_what_the_others_write() {
    let (env, server, _fleet) = fleet().await;
    let container = |name: &str, script: &str| {
        json!({"name": name, "image": "busybox", "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]})
    };
    let spec = json!({
        "nodeName": "node-0", "restartPolicy": "Never", "volumes": [{"name": "shared", "emptyDir": {}}],
        "containers": [
            container("reader", "until test -f /shared/done; do sleep 1; done; exit 5"),
            container("writer", "sleep 10; touch /shared/done"),
        ],
    });
    server.put("pods", pod("pair", spec));
    env.sleep(Duration::from_secs(30)).await;
    let status = server.get("pods", "shop/pair").unwrap()["status"].clone();
    let codes: Vec<_> = status["containerStatuses"].as_array().unwrap().iter().collect();
    let codes: Vec<_> = codes.iter().map(|status| &status["state"]["terminated"]["exitCode"]).collect();
    assert_eq!(codes, [&json!(5), &json!(0)], "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_a_client_ends_has_ended() {
    let (env, server, fleet) = fleet().await;
    let container = json!({"name": "c", "image": "busybox", "command": ["sh", "-c", "trap 'exit 7' TERM; while true; do sleep 1; done"]});
    server.put("pods", pod("loop", json!({"nodeName": "node-0", "containers": [container]})));
    env.sleep(Duration::from_secs(10)).await;
    let found = container_ref("loop").find(&fleet).unwrap();
    let run = logs::run_of(&found, false).unwrap();
    let node = fleet.context_of("node-0");
    let processes = found.processes(&node, &run).await;
    node.runtime.touch(&found.key(&run));
    let kill = ["kill", "1"].map(str::to_owned).to_vec();
    processes.lock().advance_to(env.wall());
    processes.lock().start(kill, Streams::of_client(false, false)).unwrap();
    processes.lock().advance_to(env.wall());
    fleet.wake(&found.pod);
    env.sleep(Duration::from_secs(5)).await;
    let status = server.get("pods", "shop/loop").unwrap()["status"]["containerStatuses"][0].clone();
    assert_eq!((&status["restartCount"], &status["lastState"]["terminated"]["exitCode"]), (&json!(1), &json!(7)));
}

/// Two pods after each other use one claim.
#[tokio::test(start_paused = true)]
async fn what_is_written_to_a_claim_is_there_for_the_next_pod() {
    let (env, server, fleet) = fleet().await;
    let spec = |script: &str| {
        json!({
            "nodeName": "node-0", "restartPolicy": "Never",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        })
    };
    server.put("pods", pod("writer", spec("echo kept > /data/f")));
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(server.get("pods", "shop/writer").unwrap()["status"]["phase"], "Pending", "there is no claim");
    let claim = |phase: &str| {
        json!({"metadata": {"name": "data", "namespace": "shop", "uid": "claim"}, "spec": {"volumeName": "pv"},
            "status": {"phase": phase}})
    };
    server.put("persistentvolumeclaims", claim("Bound"));
    let volume = json!({"metadata": {"name": "pv", "uid": "volume"}, "spec": {"claimRef": {"uid": "claim"}}});
    server.put("persistentvolumes", volume);
    env.sleep(Duration::from_secs(20)).await;
    assert_eq!(server.get("pods", "shop/writer").unwrap()["status"]["phase"], "Succeeded");
    server.put("pods", pod("reader", spec("cat /data/f")));
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(log(&fleet, "reader").await, "kept\n");
}
