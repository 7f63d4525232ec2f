//! Tests `docker-compose up` in a fresh clone, and failures of single containers.

use component_base_testing::test_needs;
use e2e::docker::Engine;
use e2e::kubectl::Kubectl;
use e2e::processes::{free_ports, signal};
use e2e::programs::must;
use e2e::{base_images, wait};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROJECT: &str = "orrery-test";
/// Default user ID of the containers.
const USER: &str = "1000";
/// Compose files with one etcd member, and with three.
const ONE_MEMBER: [&str; 1] = ["docker-compose.yml"];
const THREE_MEMBERS: [&str; 2] = ["docker-compose.yml", "compose/etcd-three.yml"];

/// The running containers of the compose files of a clone.
struct Stack<'a> {
    engine: &'a Engine,
    clone: &'a Path,
    files: &'a [&'a str],
    /// True if the nodes are machines of the cloud, whose services run too.
    has_cloud: bool,
    port: u16,
}

impl<'a> Stack<'a> {
    /// Builds and starts everything, and waits until kubectl sees three ready nodes.
    fn up(engine: &'a Engine, clone: &'a Path, files: &'a [&'a str], has_cloud: bool) -> Self {
        let stack = Self { engine, clone, files, has_cloud, port: free_ports() };
        stack.compose("up --detach --build");
        wait::until("three nodes are ready", || {
            let nodes = stack.kubectl().run("get nodes --no-headers");
            nodes.stdout.matches(" Ready ").count() == 3
        });
        stack
    }

    fn compose(&self, line: &str) -> String {
        must(&mut self.command(line))
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.engine.compose();
        command
            .current_dir(self.clone)
            .env("ORRERY_PORT", self.port.to_string())
            .env("ORRERY_CLOUD_PROVIDER", if self.has_cloud { "external" } else { "" })
            .arg(format!("--project-name={PROJECT}"))
            .args(self.files.iter().map(|file| format!("--file={file}")))
            .args(self.has_cloud.then_some("--profile=cloud"))
            .args(line.split_whitespace());
        command
    }

    /// Returns a kubectl with the kubeconfig that the stack has written for the host.
    fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.clone.join("compose/kubeconfig"), self.clone)
    }

    /// Disconnects a service from a network, or reconnects it.
    fn network(&self, what: &str, network: &str, service: &str) {
        let container = self.compose(&format!("ps --quiet {service}"));
        let mut command = self.engine.docker();
        command.args(["network", what]);
        if what == "connect" {
            command.arg(format!("--alias={service}")); // as compose does
        }
        must(command.arg(format!("{PROJECT}_{network}")).arg(container.trim()));
    }

    /// Returns the names of a service's networks.
    fn networks(&self, service: &str) -> String {
        let container = self.compose(&format!("ps --quiet {service}"));
        let format = "--format={{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}";
        must(self.engine.docker().args(["inspect", format, container.trim()])).trim().to_owned()
    }
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = self.command("logs --tail=20").output();
            eprintln!(
                "{}",
                logs.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
            );
        }
        let _ = self.command("down --volumes --timeout=5").output();
    }
}

#[test]
fn the_compose_file() {
    if !test_needs::everything("a Docker engine of its own") {
        return;
    }
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compose");
    let engine = match Engine::start(&data) {
        Ok(engine) => engine,
        Err(why) => return test_needs::skip(&why),
    };
    let clone = clone(&data);
    base_images::make(&engine, crate::program(), &clone, &data);

    let stack = Stack::up(&engine, &clone, &ONE_MEMBER, false);
    only_the_apiserver_reaches_etcd(&stack);
    let services =
        ["etcd", "apiserver", "controller-manager", "scheduler", "proxy-sim", "metrics-server", "node-0", "node-1"];
    nothing_is_root(&stack, &services);
    deploys(&stack);
    usage_is_measured(&stack);
    claims_are_bound(&stack);
    nobody_schedules(&stack);
    nobody_reconciles(&stack);
    the_api_is_away(&stack);
    a_node_is_cut_off(&stack);
    a_killed_store_keeps_everything(&stack);
    a_service_has_too_little_memory(&stack);
    drop(stack);

    let stack = Stack::up(&engine, &clone, &THREE_MEMBERS, true);
    nothing_is_root(&stack, &["etcd", "etcd-1", "etcd-2", "cloud-sim", "cloud-controller-manager"]);
    a_member_is_cut_off(&stack);
    the_nodes_are_machines_of_the_cloud(&stack);
}

/// Copies the working tree, as a fresh clone has it.
fn clone(data: &Path) -> PathBuf {
    let clone = data.join("clone");
    let _ = std::fs::remove_dir_all(&clone);
    std::fs::create_dir_all(&clone).unwrap();
    let copy = "git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C \"$1\"";
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    must(Command::new("sh").args(["-ec", copy, "sh"]).arg(&clone).current_dir(workspace));
    // The containers' user writes the kubeconfig into this folder.
    must(Command::new("chown").arg(format!("{USER}:{USER}")).arg(clone.join("compose")));
    clone
}

fn only_the_apiserver_reaches_etcd(stack: &Stack<'_>) {
    let on = |names: &[&str]| names.iter().map(|name| format!("{PROJECT}_{name}")).collect::<Vec<_>>().join(" ");
    assert_eq!(stack.networks("etcd"), on(&["etcd"]));
    assert_eq!(stack.networks("apiserver"), on(&["control-plane", "etcd", "host"]));
    for service in ["controller-manager", "scheduler", "proxy-sim", "metrics-server", "node-0", "node-1", "node-2"] {
        assert_eq!(stack.networks(service), on(&["control-plane"]), "{service}");
    }
}

/// Checks in the engine and in the kernel that the processes are not root and have no capabilities.
fn nothing_is_root(stack: &Stack<'_>, services: &[&str]) {
    for service in services {
        let container = stack.compose(&format!("ps --quiet {service}"));
        let inspect = |format: &str| {
            must(stack.engine.docker().args(["inspect", &format!("--format={format}"), container.trim()]))
        };
        let configured = inspect("{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}}");
        assert_eq!(configured.trim(), format!("{USER}:{USER} true [ALL]"), "{service}");
        let process = inspect("{{.State.Pid}}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.trim())).unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("Uid:"), [USER; 4].join(" "), "{service}");
        let capabilities = ["CapPrm:", "CapEff:", "CapBnd:"].map(line);
        assert_eq!(capabilities, ["0000000000000000"; 3], "{service}");
        assert_eq!(line("NoNewPrivs:"), "1", "{service}");
    }
}

fn deploys(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    kubectl.ok("create deployment web --image=nginx --replicas=3");
    kubectl.ok("expose deployment web --port=80");
    kubectl.ok("rollout status deployment/web --timeout=60s");
    assert!(kubectl.ok("logs deployment/web").contains("nginx: started from image nginx"));
    assert_eq!(kubectl.ok("exec deployment/web -- echo hello"), "hello\n");
}

/// The nodes are processes of their own, and one program asks them all.
fn usage_is_measured(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    let lines = |what: &str| kubectl.run(what).stdout.lines().count();
    wait::until("the usage of three nodes is known", || lines("top nodes --no-headers") == 3);
    wait::until("the usage of three pods is known", || lines("top pods --no-headers --selector=app=web") == 3);
}

/// The service that registers the metrics-server creates the class, too.
fn claims_are_bound(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let metadata = json!({"name": "data"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec});
    kubectl.with_input("create -f -", &claim.to_string()).succeeded();
    kubectl.ok("wait --for=jsonpath={.status.phase}=Bound pvc/data --timeout=60s");
    kubectl.ok("delete pvc data --timeout=60s");
}

fn ready(kubectl: &Kubectl) -> String {
    kubectl.ok("get deployment web -o jsonpath={.status.readyReplicas}/{.status.replicas}")
}

fn nobody_schedules(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    stack.compose("stop scheduler");
    kubectl.ok("scale deployment/web --replicas=4");
    kubectl.ok("wait --for=jsonpath={.status.replicas}=4 deployment/web --timeout=30s");
    let waiting = kubectl.ok("get pods --field-selector=spec.nodeName= -o jsonpath={.items[*].status.phase}");
    assert_eq!(waiting, "Pending");
    stack.compose("start scheduler");
    kubectl.ok("wait --for=jsonpath={.status.readyReplicas}=4 deployment/web --timeout=60s");
}

fn nobody_reconciles(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    stack.compose("stop controller-manager");
    kubectl.ok("scale deployment/web --replicas=3");
    assert_eq!(ready(&kubectl), "4/4");
    stack.compose("start controller-manager");
    kubectl.ok("wait --for=jsonpath={.status.replicas}=3 deployment/web --timeout=60s");
}

fn the_api_is_away(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    stack.compose("stop apiserver");
    let said = kubectl.fails("get nodes");
    assert!(said.contains("refused") || said.contains("EOF"), "{said}");
    stack.compose("start apiserver");
    wait::until("the API server answers again", || kubectl.run("get --raw /readyz").success);
    assert_eq!(ready(&kubectl), "3/3");
}

fn a_node_is_cut_off(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    stack.network("disconnect", "control-plane", "node-1");
    // The condition changes after the node monitor's grace period.
    kubectl.ok("wait --for=condition=Ready=Unknown node/node-1 --timeout=120s");
    assert!(kubectl.ok("describe node node-1").contains("NodeStatusUnknown"));
    stack.network("connect", "control-plane", "node-1");
    kubectl.ok("wait --for=condition=Ready node/node-1 --timeout=90s");
}

/// Kills a process like the kernel's out-of-memory killer.
fn a_killed_store_keeps_everything(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    kubectl.ok("create configmap kept --from-literal=a=1");
    let container = stack.compose("ps --quiet etcd");
    let process = || must(stack.engine.docker().args(["inspect", "--format={{.State.Pid}}", container.trim()]));
    let first = process();
    signal("KILL", first.trim().parse().unwrap());
    wait::until("etcd was started again", || ![first.trim(), "0"].contains(&process().trim()));
    wait::until("the API server answers again", || kubectl.run("get --raw /readyz").success);
    assert_eq!(kubectl.ok("get configmap kept -o jsonpath={.data.a}"), "1");
}

fn a_service_has_too_little_memory(stack: &Stack<'_>) {
    if must(stack.engine.docker().args(["info", "--format={{.MemoryLimit}}"])).trim() != "true" {
        return test_needs::skip("this kernel lets Docker limit no memory");
    }
    let little = "services: { scheduler: { mem_limit: 16m } }\n";
    std::fs::write(stack.clone.join("little-memory.yml"), little).unwrap();
    stack.compose("--file=little-memory.yml up --detach --no-deps scheduler");
    let expected = "scheduler: too little memory: its limit is 16 MiB, and it needs at least 32 MiB";
    wait::until("the scheduler says why it ends", || stack.compose("logs scheduler").contains(expected));
    stack.compose("up --detach --no-deps scheduler");
    let kubectl = stack.kubectl();
    kubectl.ok("scale deployment/web --replicas=5");
    kubectl.ok("wait --for=jsonpath={.status.readyReplicas}=5 deployment/web --timeout=90s");
}

fn a_member_is_cut_off(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    for (round, member) in ["etcd", "etcd-1", "etcd-2"].into_iter().enumerate() {
        stack.network("disconnect", "etcd", member);
        wait::until("the others take writes", || {
            kubectl.run(&format!("create configmap without-{member} --from-literal=round={round}")).success
        });
        stack.network("connect", "etcd", member);
        kubectl.ok(&format!("get configmap without-{member}"));
    }
    deploys(stack);
}

fn the_nodes_are_machines_of_the_cloud(stack: &Stack<'_>) {
    let kubectl = stack.kubectl();
    for node in ["node-0", "node-1", "node-2"] {
        let fields = r"{.spec.providerID} {.metadata.labels.topology\.kubernetes\.io/zone}";
        let told = kubectl.ok_args(&["get", "node", node, "-o", &format!("jsonpath={fields}")]);
        assert!(told.starts_with(&format!("orrery://{node} ")) && !told.ends_with(' '), "{told}");
    }
    kubectl.ok("expose deployment web --name=front --port=80 --type=LoadBalancer");
    kubectl.ok("wait --for=jsonpath={.status.loadBalancer.ingress[0].ip} service/front --timeout=60s");
    let machines = stack.compose(
        "run --rm -T admin cloud lb --kubeconfig=/pki/admin/kubeconfig --cloud-server=https://cloud-sim:10300",
    );
    let address = kubectl.ok("get service front -o jsonpath={.status.loadBalancer.ingress[0].ip}");
    assert!(machines.contains(&address), "{address} is not in {machines}");
    // The finalizer goes when the load balancer has gone.
    kubectl.ok("delete service front --timeout=60s");
}
