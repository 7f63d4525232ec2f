//! Tests of the files, the log and the exit of simulated containers, from the pod to its processes.

use super::container::output::{Printed, Run};
use super::logs;
use super::target::ContainerRef;
use crate::config::Settings;
use crate::fleet::Fleet;
use client::Client;
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::network::Network;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use userland::process::streams::Streams;

const AUTHORITY: &str = "apiserver:6443";

/// Starts a fleet of one node; returns it with the server that it speaks to.
async fn fleet() -> (Env, FakeServer, Arc<Fleet>) {
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

fn container_ref(pod: &str) -> ContainerRef {
    let text = |text: &str| text.to_owned();
    ContainerRef { node: text("node-0"), namespace: text("shop"), pod: text(pod), container: text("c") }
}

async fn log(fleet: &Arc<Fleet>, pod: &str) -> String {
    let answer = logs::answer(fleet, container_ref(pod), &[]).await.unwrap();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

fn pod(name: &str, spec: Value) -> Value {
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
    let processes = found.processes(&fleet, "node-0", &run).await;
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
    assert_eq!(log(&fleet, "turns").await, "turn 1\nturn 2\nturn 3\nlast\n");
    let status = server.get("pods", "shop/turns").unwrap()["status"].clone();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 4);
    let found = container_ref("turns").find(&fleet).unwrap();
    let run: Run = logs::run_of(&found, false).unwrap();
    let processes = found.processes(&fleet, "node-0", &run).await;
    let printed = Printed::up_to(run.started_at + Duration::from_secs(3), &mut processes.lock(), &run);
    assert_ne!(printed, Printed::default());
}
