//! Tests `orrery up --cloud`: nodes are machines of a simulated cloud, Services get load balancers of it, and pods routes.

use crate::{cluster_with, program};
use e2e::kubectl::Kubectl;
use e2e::processes::Cluster;
use e2e::store::Store;
use e2e::wait;
use std::process::Command;

/// Runs `orrery cloud`, and returns what it prints.
fn cloud(cluster: &Cluster, line: &str) -> String {
    let (code, text) = try_cloud(cluster, line);
    assert_eq!(code, 0, "{line}: {text}");
    text
}

fn try_cloud(cluster: &Cluster, line: &str) -> (i32, String) {
    let data_dir = format!("--data-dir={}", cluster.data_dir.display());
    let output = Command::new(program()).arg("cloud").args(line.split(' ')).arg(data_dir).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn events(kubectl: &Kubectl, regarding: &str) -> String {
    kubectl.ok(&format!("events --for={regarding}"))
}

#[test]
fn a_cloud_gives_nodes_machines_services_load_balancers_and_pods_routes() {
    let directory = tempfile::tempdir().unwrap();
    let flags =
        ["--cloud", "--cloud-sim-arg=load-balancer-quota=1", "--cloud-controller-manager-arg=node-monitor-period=1s"];
    let cluster = cluster_with(directory.path(), Store::Memory, &flags);
    let kubectl = cluster.kubectl();
    nodes_are_machines(&cluster, &kubectl);
    services_have_load_balancers(&cluster, &kubectl);
    a_node_group_grows_and_shrinks(&cluster, &kubectl);
    a_machine_that_is_off_taints_its_node(&cluster, &kubectl);
    let log = std::fs::read_to_string(cluster.data_dir.join("logs/cloud-controller-manager.log")).unwrap();
    assert!(!log.contains("forbidden"), "{log}");
}

fn nodes_are_machines(cluster: &Cluster, kubectl: &Kubectl) {
    let node = "get node node-1 -o jsonpath={.spec.providerID}/{.spec.taints}";
    wait::until("the node is named and lets pods in", || kubectl.ok(node) == "orrery://node-1/");
    wait::until("the node has the addresses of its machine", || {
        kubectl.ok("get node node-1 -o wide").contains("172.18.0.3    198.18.0.3")
    });
    let labelled = kubectl.ok("get nodes -L topology.kubernetes.io/zone,node.kubernetes.io/instance-type");
    assert!(labelled.contains("orrery-b") && labelled.contains("orrery.simulated"), "{labelled}");
    let condition = "get node node-1 -o jsonpath={.status.conditions[?(@.type==\"NetworkUnavailable\")].reason}";
    wait::until("the node has its route", || kubectl.ok(condition) == "RouteCreated");
    let range = kubectl.ok("get node node-1 -o jsonpath={.spec.podCIDR}");
    let routes = cloud(cluster, "routes");
    assert!(routes.lines().any(|line| line.contains(&range) && line.ends_with("node-1")), "{routes}");
    kubectl.ok("run early --image=nginx");
    kubectl.ok("wait --for=condition=Ready pod/early --timeout=60s");
}

fn services_have_load_balancers(cluster: &Cluster, kubectl: &Kubectl) {
    kubectl.ok("create service loadbalancer web --tcp=80");
    wait::until("the service has an address", || kubectl.ok("get service web").contains("203.0.113.1"));
    wait::until("an Event reports the load balancer", || {
        events(kubectl, "service/web").contains("EnsuredLoadBalancer")
    });
    let balancers = cloud(cluster, "lb");
    assert!(balancers.contains("default/web") && balancers.contains("node-0,node-1,node-2"), "{balancers}");
    let point = "get service web -o jsonpath={.status.loadBalancer.ingress[0].ipMode}{.metadata.finalizers}";
    assert_eq!(kubectl.ok(point), r#"VIP["service.kubernetes.io/load-balancer-cleanup"]"#);

    kubectl.ok("create service loadbalancer second --tcp=80");
    wait::until("an Event says that the quota is used up", || {
        events(kubectl, "service/second").contains("the quota of 1 load balancers is used up")
    });
    kubectl.ok("label node node-2 node.kubernetes.io/exclude-from-external-load-balancers=");
    wait::until("the node is left out", || cloud(cluster, "lb").lines().any(|line| line.ends_with("   node-0,node-1")));
    wait::until("an Event reports new hosts", || events(kubectl, "service/web").contains("UpdatedLoadBalancer"));

    kubectl.ok("delete service web --timeout=30s");
    assert!(!cloud(cluster, "lb").contains("default/web"));
    wait::until("the other service gets a load balancer when it is tried again", || {
        kubectl.ok("get service second").contains("203.0.113.")
    });
    kubectl.ok("delete service second --timeout=30s");
    assert_eq!(cloud(cluster, "lb").lines().count(), 1, "only the headers are left");
}

fn a_node_group_grows_and_shrinks(cluster: &Cluster, kubectl: &Kubectl) {
    let (code, refused) = try_cloud(cluster, "scale 11");
    assert!(code != 0 && refused.contains(r#"size 11 of node group "node" is not from 0 to 10"#), "{refused}");
    assert_eq!(cloud(cluster, "scale 4"), "group/node scaled\n");
    wait::until("a node joins", || kubectl.run("get node node-3").stdout.contains(" Ready "));
    let joined = "get node node-3 -o jsonpath={.spec.providerID}/{.spec.taints}";
    wait::until("it is a machine of the cloud", || kubectl.ok(joined) == "orrery://node-3/");
    cloud(cluster, "scale 3");
    wait::until("the node leaves", || !kubectl.run("get node node-3").success);
    let deleted = "get events -A -o jsonpath={.items[?(@.reason==\"DeletingNode\")].message}";
    let expected = "Deleting node node-3 because it does not exist in the cloud provider";
    wait::until("an Event says why", || kubectl.ok(deleted).contains(expected));
    wait::until("the fleet forgets the machine", || {
        !kubectl.ok("get configmap orrery-fleet -n kube-system -o yaml").contains("node-3")
    });
}

fn a_machine_that_is_off_taints_its_node(cluster: &Cluster, kubectl: &Kubectl) {
    let taints = "get node node-2 -o jsonpath={.spec.taints[*].key}";
    let shutdown = "node.cloudprovider.kubernetes.io/shutdown";
    assert_eq!(cloud(cluster, "stop node-2"), "machine/node-2 stopped\n");
    wait::until("the node is tainted", || kubectl.ok(taints).contains(shutdown));
    cloud(cluster, "start node-2");
    wait::until("the node is back", || kubectl.ok(taints).is_empty());
    let machines = cloud(cluster, "machines");
    assert_eq!(machines.matches("Running").count(), 3, "{machines}");
}
