//! Tests with a stock `kubectl` that nodes with identities of their own, as the compose file has them, follow rules, stages and
//! the commands of `orrery node`.

use crate::node_behaviour::{define_stages, recorded};
use crate::program;
use crate::shortest_command_lines::Running;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::processes::free_ports;
use e2e::programs::must;
use e2e::store::Store;
use e2e::wait;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An API server without other components, and processes with one node each.
pub struct SingleNodes {
    pub server: ApiServer,
    directory: PathBuf,
}

impl SingleNodes {
    /// Starts the API server, and issues the certificates of `node-0` and `node-1`.
    pub async fn issue(directory: &Path) -> Self {
        let server = ApiServer::start(program(), directory, Store::Memory).await;
        let folder = format!("--dir={}", server.data_dir.pki().display());
        let url = format!("--server={}", server.admin.server);
        must(Command::new(program()).args(["certs", "--nodes=node-0,node-1", &folder, &url]));
        Self { server, directory: directory.to_owned() }
    }

    /// Path of the kubeconfig with a node's identity.
    pub fn kubeconfig(&self, node: &str) -> PathBuf {
        self.server.data_dir.pki().join("nodes").join(node).join("kubeconfig")
    }

    fn admins_kubeconfig(&self) -> PathBuf {
        self.server.data_dir.pki_of("admin").join("kubeconfig")
    }

    pub fn admin(&self) -> Kubectl {
        Kubectl::new(&self.admins_kubeconfig(), &self.directory)
    }

    /// Starts the process of a node.
    pub fn start(&self, number: u32) -> Running {
        let node = format!("node-{number}");
        let own = self.directory.join(&node);
        std::fs::create_dir(&own).unwrap();
        let arguments = [
            format!("--kubeconfig={}", self.kubeconfig(&node).display()),
            format!("--first-node={number}"),
            format!("--port={}", free_ports()),
        ];
        let fixed = ["--nodes=1", "--impersonate-nodes=false", "--cert-dir=made"].map(str::to_owned);
        Running::start(&own, "kubelet-sim", &[arguments, fixed].concat())
    }

    /// Runs a pod on a node. No controller gives nodes ranges of addresses, and none publishes the authority's certificate
    /// that would be mounted beside a token.
    pub fn bind(&self, pod: &str, node: &str, arguments: &[&str]) {
        let spec = json!({"nodeName": node, "hostNetwork": true, "automountServiceAccountToken": false});
        let overrides = format!("--overrides={}", json!({"spec": spec}));
        let made = self.admin().run_args(&[&["run", pod, &overrides][..], arguments].concat());
        assert!(made.success, "{made:?}");
    }

    /// Runs `orrery node` as the administrator.
    fn command(&self, line: &str) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.admins_kubeconfig().display());
        must(Command::new(program()).arg("node").args(line.split(' ')).arg(kubeconfig))
    }
}

const STAGES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fails}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {chaos: "true"}
    matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]
  next: {statusTemplate: '{phase: Failed, reason: Chaos}'}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: wrong}
spec: {resourceRef: {kind: Pod}, selector: {}, next: {statusTemplates: x}}
"#;

const RULES: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: orrery-behaviour, namespace: kube-system}
data:
  rules: |
    - images: ["busybox:*"]
      words: {run-for: 1s, exit-code: "7"}
    - words: {livenes: fail}
"#;

#[tokio::test]
async fn nodes_with_identities_of_their_own_follow_rules_stages_and_commands() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = SingleNodes::issue(directory.path()).await;
    let admin = nodes.admin();
    define_stages(&admin);
    admin.with_input("apply -f -", STAGES).succeeded();
    admin.with_input("apply -f -", RULES).succeeded();
    admin.ok("create serviceaccount default");
    let _processes = [nodes.start(0), nodes.start(1)];
    for node in ["node-0", "node-1"] {
        wait::until("the node is there", || admin.run(&format!("get node {node}")).success);
    }
    rules_and_stages_are_followed(&nodes, &admin);
    each_acts_on_its_own_machine(&nodes, &admin);
}

fn rules_and_stages_are_followed(nodes: &SingleNodes, admin: &Kubectl) {
    for (batch, node) in [("batch-0", "node-0"), ("batch-1", "node-1")] {
        nodes.bind(batch, node, &["--image=busybox:1", "--restart=Never"]);
        let code =
            format!("get pod {batch} --output=jsonpath={{.status.containerStatuses[0].state.terminated.exitCode}}");
        wait::until("the container has ended", || admin.ok(&code) == "7");
    }
    recorded(admin, "kube-system", "orrery-behaviour", "InvalidBehaviour", "data.rules[1].words.livenes: no word");
    recorded(admin, "default", "wrong", "InvalidStage", "spec.next.statusTemplates: unknown field");
    nodes.bind("wild", "node-1", &["--image=nginx", "--labels=chaos=true"]);
    admin.ok("wait --for=jsonpath={.status.reason}=Chaos pod/wild --timeout=60s");
    for place in ["-n kube-system --field-selector=reason=InvalidBehaviour", "--field-selector=reason=InvalidStage"] {
        let events = admin.ok(&format!("get events -o name {place}"));
        assert_eq!(events.lines().count(), 1, "both nodes have found the mistake: {events}");
    }
}

fn each_acts_on_its_own_machine(nodes: &SingleNodes, admin: &Kubectl) {
    for (web, node) in [("web-0", "node-0"), ("web-1", "node-1")] {
        nodes.bind(web, node, &["--image=nginx"]);
        admin.ok(&format!("wait --for=condition=Ready pod/{web} --timeout=60s"));
    }
    assert_eq!(nodes.command("restart node-1"), "node/node-1 restarted\n");
    let restarts =
        |web: &str| admin.ok(&format!("get pod {web} -o jsonpath={{.status.containerStatuses[0].restartCount}}"));
    wait::until("the containers of the machine have started again", || restarts("web-1") == "1");
    assert_eq!(restarts("web-0"), "0");

    assert_eq!(nodes.command("fill-disk node-0"), "node/node-0 disk filled\n");
    let pressure = |node: &str| {
        let path = "{.status.conditions[?(@.type=='DiskPressure')].status}";
        admin.ok_args(&["get", "node", node, "-o", &format!("jsonpath={path}")])
    };
    wait::until("the disk is full", || pressure("node-0") == "True");
    assert_eq!(pressure("node-1"), "False");

    assert_eq!(nodes.command("remove node-1"), "node/node-1 removed\n");
    assert!(admin.fails("get node node-1").contains("NotFound"));
    // An agent does not register a second time, unless its machine has been off.
    assert_eq!(nodes.command("add node-1"), "node-1 added\n");
    wait::until("the machine is back", || admin.run("get node node-1").success);
}
