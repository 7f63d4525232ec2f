//! Bad input gets the code, reason and words of Kubernetes, and nothing is stored.

use crate::{cluster, program};
use std::process::Command;

#[test]
fn bad_requests_are_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), "memory");
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
    assert!(
        kubectl
            .fails("get configmaps --token=wrong --user= --client-certificate= --kubeconfig=/dev/null")
            .contains("connection")
    );
    cluster.stop();
}

#[test]
fn bad_flags_are_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let output = Command::new(program()).args(["up", "--port=70000"]).output().unwrap();
    assert!(!output.status.success());
    let output = Command::new(program()).args(["up", "--sotre=memory"]).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("--sotre"));

    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("format"), "99\n").unwrap();
    let output = Command::new(program()).arg("up").arg(format!("--data-dir={}", data.display())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("written in format 99 by a later version"), "{said}");
    assert_eq!(std::fs::read_to_string(data.join("format")).unwrap(), "99\n");
}
