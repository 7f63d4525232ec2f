//! Tests that kubectl prints Kubernetes' messages for bad input, and that nothing is stored.

use crate::cluster;
use e2e::store::Store;

#[test]
fn bad_input_is_refused_with_kubernetes_messages() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    let cases = [
        ("{", "error parsing"),
        ("apiVersion: v1\nkind: Nothing\nmetadata: {name: a}\n", "no matches for kind \"Nothing\""),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_b}\n", "a lowercase RFC 1123 subdomain must consist of"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: [1]}\n", "json: cannot unmarshal array into"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndta: {}\n", "unknown field \"dta\""),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: 1}\n",
            "spec.selector: Required value",
        ),
    ];
    for (manifest, expected) in cases {
        let printed = kubectl.with_input("create -f -", manifest);
        assert!(!printed.success, "{manifest}");
        assert!(printed.stderr.contains(expected), "{manifest}: {}", printed.stderr);
    }
    assert_eq!(kubectl.ok("get configmaps --field-selector=metadata.name!=kube-root-ca.crt -o name"), "");
    assert!(kubectl.fails("get pods -l a=(").contains("unable to parse requirement"));
    assert!(kubectl.fails("get pods --field-selector=spec.x=1").contains("field label not supported: spec.x"));
    let (port, authority) = (cluster.port, cluster.data_dir.join("pki/ca/ca.crt"));
    let trusting = format!("--certificate-authority={}", authority.display());
    for (options, expected) in [
        (format!("https {trusting} --token=wrong"), "You must be logged in to the server"),
        ("https --token=wrong".to_owned(), "certificate signed by unknown authority"),
        ("http --token=wrong".to_owned(), "the server rejected our request for an unknown reason"),
    ] {
        let (scheme, options) = options.split_once(' ').unwrap();
        let line = format!("get pods --kubeconfig=/dev/null --server={scheme}://127.0.0.1:{port} {options}");
        let said = kubectl.fails(&line);
        assert!(said.contains(expected), "{line}: {said}");
    }
    cluster.stop();
}
