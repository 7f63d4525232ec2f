//! Tests the simulated cloud: it sets the provider IDs of new nodes and the external addresses of Services.

use crate::{cluster_with, program};
use component_base::lifecycle::PARENT_PIPE;
use e2e::store::Store;
use std::fs::File;
use std::process::{Child, Command, Stdio};

/// Process of `orrery cloud-controller-manager`, which `up` does not start. It is killed when this value is dropped.
struct Cloud(Child);

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_cloud_names_nodes_and_gives_services_addresses() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &["--kubelet-sim-arg=cloud-provider=external"]);
    let kubectl = cluster.kubectl();
    let taints = kubectl.ok("get nodes -o jsonpath={.items[*].spec.taints}");
    assert_eq!(taints.matches("node.cloudprovider.kubernetes.io/uninitialized").count(), 3, "{taints}");
    kubectl.ok("run early --image=nginx");
    e2e::wait::until("an Event says that every node is tainted", || {
        kubectl.ok("events --for=pod/early").contains("3 node(s) had untolerated taint")
    });
    kubectl.ok("create service loadbalancer web --tcp=80");
    let child = Command::new(program())
        .args([
            "cloud-controller-manager",
            "--cloud-provider=orrery",
            "--secure-port=0",
            "--configure-cloud-routes=false",
        ])
        .args(["--use-service-account-credentials", "--leader-elect=true"])
        .arg(format!("--kubeconfig={}", cluster.data_dir.join("kubeconfig").display()))
        .env(PARENT_PIPE, "1") // it ends with this process
        .stdin(Stdio::piped())
        .stderr(File::create(directory.path().join("cloud.log")).unwrap())
        .spawn()
        .unwrap();
    let _cloud = Cloud(child);
    e2e::wait::until("the node is named", || {
        kubectl.ok("get node node-1 -o jsonpath={.spec.providerID}/{.spec.taints}") == "orrery://node-1/"
    });
    kubectl.ok("wait --for=condition=Ready pod/early --timeout=60s");
    e2e::wait::until("the service has an address", || kubectl.ok("get services web").contains("203.0.113.1"));
    e2e::wait::until("an Event reports the load balancer", || {
        kubectl.ok("events --for=service/web").contains("EnsuredLoadBalancer")
    });
    assert!(kubectl.ok("get leases -n kube-system").contains("cloud-controller-manager"));
    kubectl.ok("delete service web --timeout=30s");
    assert!(kubectl.fails("get service web").contains("NotFound"));
}
