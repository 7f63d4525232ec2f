//! Tests ServiceCIDRs: one extends the range of Services, and waits for its addresses when it is deleted.

use crate::cluster_with;
use e2e::store::Store;
use e2e::wait;

const MORE: &str = r#"
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: more}
spec: {cidrs: [10.9.0.0/28]}
"#;

const NEEDED: &str = "False Terminating There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

#[test]
fn a_service_cidr_extends_the_range_until_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let flags = ["--apiserver-arg=service-cluster-ip-range=10.96.0.0/29"];
    let cluster = cluster_with(directory.path(), Store::Memory, &flags);
    let kubectl = cluster.kubectl();
    let ready = |name: &str| {
        let path = "-o=jsonpath={range .status.conditions[?(@.type==\"Ready\")]}{.status} {.reason} {.message}{end}";
        kubectl.ok_args(&["get", "servicecidr", name, path])
    };
    wait::until("the default range is ready", || ready("kubernetes") == "True  Kubernetes Service CIDR is ready");
    let fill = |number: usize| kubectl.run(&format!("create service clusterip fill-{number} --tcp=80"));
    let full =
        (0..6).map(fill).find(|answer| !answer.success).expect("the range has six addresses, and some are taken");
    assert!(full.stderr.contains("failed to allocate a serviceIP: range is full"), "{}", full.stderr);

    kubectl.with_input("create -f -", MORE).succeeded();
    kubectl.ok("wait servicecidr/more --for=condition=Ready --timeout=60s");
    // The address that is asked for comes first: a free one is drawn, and could be the same.
    kubectl.ok("create service clusterip second --clusterip=10.9.0.1 --tcp=80");
    kubectl.ok("create service clusterip third --tcp=80");
    let addresses = kubectl.ok("get ipaddresses");
    assert!(addresses.contains("10.9.0.1 ") && addresses.contains("services/default/second"), "{addresses}");

    kubectl.ok("delete servicecidr more --wait=false");
    wait::until("the range waits for its addresses", || ready("more") == NEEDED);
    let full = kubectl.run("create service clusterip fourth --tcp=80");
    assert!(full.stderr.contains("range is full"), "{}", full.stderr);
    kubectl.ok("delete service second third");
    kubectl.ok("wait servicecidr/more --for=delete --timeout=60s");
    cluster.stop();
}
