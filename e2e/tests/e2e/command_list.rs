//! Runs every `kubectl` command that the README lists, on each storage engine.

use crate::{cluster, etcd};
use e2e::kubectl::Kubectl;
use e2e::processes::Cluster;
use e2e::store::Store;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

const WEB_SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/web-shop.yaml");

#[test]
fn every_command_on_the_embedded_store() {
    everything(Store::Embedded);
}

#[test]
fn every_command_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    everything(Store::Etcd(&etcd));
}

fn everything(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), store);
    let kubectl = cluster.kubectl();
    deploy(&kubectl);
    read(&kubectl);
    watch(&kubectl);
    service_rules(&cluster, &kubectl);
    roll_out(&kubectl);
    web_shop(&kubectl, directory.path());
    change(&kubectl, directory.path());
    nodes(&kubectl);
    node_identity(&cluster);
    discover(&kubectl);
    delete(&kubectl);
    cluster.stop();
}

fn deploy(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok("create deployment web --image=nginx --replicas=3"), "deployment.apps/web created\n");
    assert_eq!(kubectl.ok("expose deployment web --port=80"), "service/web exposed\n");
    let status = kubectl.ok("rollout status deployment/web --timeout=90s");
    assert!(status.ends_with("deployment \"web\" successfully rolled out\n"), "{status}");
}

fn read(kubectl: &Kubectl) {
    let all = kubectl.ok("get all");
    for expected in
        ["deployment.apps/web", "replicaset.apps/web-", "service/web", "service/kubernetes", "3/3", "Running"]
    {
        assert!(all.contains(expected), "{expected} in:\n{all}");
    }
    let wide = kubectl.ok("get pods -o wide");
    let header = wide.lines().next().unwrap_or_default();
    let columns: Vec<&str> = header.split_whitespace().collect();
    let expected =
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"];
    assert_eq!(columns, expected);
    assert_eq!(wide.lines().count(), 4, "{wide}");
    assert!(wide.lines().skip(1).all(|line| line.contains("node-") && line.contains("10.244.")), "{wide}");
    assert!(kubectl.ok("get deployment web -o yaml").contains("kind: Deployment\n"));
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.status.availableReplicas}"), "3");
    assert_eq!(kubectl.ok("get deployment,service web -o name"), "deployment.apps/web\nservice/web\n");
    let described = kubectl.ok("describe deployment web");
    assert!(described.contains("3 desired | 3 updated | 3 total | 3 available | 0 unavailable"), "{described}");
    assert!(described.contains("ScalingReplicaSet"), "{described}");
    let pod = kubectl.ok("describe pods -l app=web");
    for event in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(pod.contains(event), "{event} in:\n{pod}");
    }
    let events = kubectl.ok("get events");
    assert!(events.contains("SuccessfulCreate") && events.contains("Scheduled"), "{events}");
    let endpoints = kubectl
        .ok("get endpointslices -l kubernetes.io/service-name=web -o jsonpath={.items[*].endpoints[*].addresses[0]}");
    assert_eq!(endpoints.split_whitespace().count(), 3, "{endpoints}");
}

/// Checks that `get -w` prints changes that happen while it runs.
fn watch(kubectl: &Kubectl) {
    let mut child = kubectl
        .command(&["get", "configmaps", "-w", "--no-headers", "--field-selector=metadata.name=watched"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    kubectl.ok("create configmap watched --from-literal=a=1");
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("watched") && first.split_whitespace().nth(1) == Some("1"), "{first}");
    kubectl.ok_args(&["patch", "configmap", "watched", "-p", r#"{"data":{"b":"2"}}"#]);
    let second = lines.next().unwrap().unwrap();
    assert!(second.split_whitespace().nth(1) == Some("2"), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
    kubectl.ok("delete configmap watched");
}

/// Checks that every node's proxy has the Service's rules, one per endpoint.
fn service_rules(cluster: &Cluster, kubectl: &Kubectl) {
    let ip = kubectl.ok("get service web -o jsonpath={.spec.clusterIP}");
    for node in ["node-0", "node-1", "node-2"] {
        let rules = cluster.rules(node, |rules| rules.matches("DNAT").count() >= 4);
        assert!(rules.contains(&format!("-A KUBE-SERVICES -d {ip}/32 -p tcp")), "{rules}");
        assert_eq!(rules.matches("default/web -> 10.244.").count(), 3, "{rules}");
    }
}

fn roll_out(kubectl: &Kubectl) {
    kubectl.ok("scale deployment web --replicas=5");
    kubectl.ok("rollout status deployment/web --timeout=90s");
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.status.readyReplicas}"), "5");
    kubectl.ok("set image deployment/web nginx=nginx:1.27");
    kubectl.ok("rollout status deployment/web --timeout=90s");
    let images = kubectl.ok(
        "get pods -l app=web -o jsonpath={.items[*].spec.containers[0].image} --field-selector=status.phase=Running",
    );
    assert!(images.split_whitespace().filter(|image| *image == "nginx:1.27").count() >= 5, "{images}");
    let history = kubectl.ok("rollout history deployment/web");
    assert!(history.contains("REVISION") && history.contains("\n1 ") && history.contains("\n2 "), "{history}");
    kubectl.ok("rollout undo deployment/web");
    kubectl.ok("rollout status deployment/web --timeout=90s");
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}"), "nginx");
    kubectl.ok("rollout pause deployment/web");
    kubectl.ok("rollout resume deployment/web");
    kubectl.ok("rollout restart deployment/web");
    kubectl.ok("rollout status deployment/web --timeout=90s");
}

fn web_shop(kubectl: &Kubectl, directory: &Path) {
    let first = kubectl.ok(&format!("apply -f {WEB_SHOP}"));
    assert_eq!(first.lines().filter(|line| line.ends_with(" created")).count(), 12, "{first}");
    let again = kubectl.ok(&format!("apply -f {WEB_SHOP}"));
    assert_eq!(again.lines().filter(|line| line.ends_with(" unchanged")).count(), 11, "{again}");
    // kubectl compares a list of claim templates as a whole, and without the defaults that the server has set.
    assert!(again.lines().any(|line| line == "statefulset.apps/orders configured"), "{again}");
    let generation = "-n shop get statefulset orders --output=jsonpath={.metadata.generation}";
    assert_eq!(kubectl.ok(generation), "1", "nothing has changed");
    kubectl.ok("-n shop rollout status deployment/storefront --timeout=90s");
    kubectl.ok("-n shop wait --for=condition=Available deployment/storefront --timeout=60s");

    assert!(kubectl.run(&format!("diff -f {WEB_SHOP}")).success, "nothing differs right after an apply");
    let changed = directory.join("changed.yaml");
    std::fs::write(&changed, std::fs::read_to_string(WEB_SHOP).unwrap().replace("currency: EUR", "currency: CHF"))
        .unwrap();
    let diff = kubectl.run(&format!("diff -f {}", changed.display()));
    assert!(!diff.success && diff.stdout.contains("+  currency: CHF"), "{diff:?}");
    let applied = kubectl.ok(&format!("apply -f {}", changed.display()));
    assert!(applied.contains("configmap/settings configured"), "{applied}");

    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: server-side, namespace: shop}\ndata: {a: '1'}\n";
    let applied = kubectl.with_input("apply --server-side -f -", settings).succeeded();
    assert_eq!(applied, "configmap/server-side serverside-applied\n");
    let other = settings.replace("'1'", "'2'");
    let conflict = kubectl.with_input("apply --server-side --field-manager=other -f -", &other);
    assert!(!conflict.success && conflict.stderr.contains("conflict with \"kubectl\""), "{conflict:?}");
    kubectl.with_input("apply --server-side --field-manager=other --force-conflicts -f -", &other).succeeded();
    assert_eq!(kubectl.ok("-n shop get configmap server-side -o jsonpath={.data.a}"), "2");
}

fn change(kubectl: &Kubectl, directory: &Path) {
    kubectl.ok("label deployment web tier=front");
    assert_eq!(kubectl.ok("get deployments -l tier=front -o name"), "deployment.apps/web\n");
    kubectl.ok("annotate deployment web note=hello");
    kubectl.ok("label deployment web tier-");
    for (kind, patch) in [
        (
            "strategic",
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"nginx","env":[{"name":"A","value":"1"}]}]}}}}"#,
        ),
        ("merge", r#"{"metadata":{"annotations":{"note":null}}}"#),
        ("json", r#"[{"op":"replace","path":"/spec/replicas","value":4}]"#),
    ] {
        kubectl.ok_args(&["patch", "deployment", "web", "--type", kind, "-p", patch]);
    }
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.template.spec.containers[0].env[0].name}"), "A");
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.metadata.annotations.note}"), "");
    kubectl.ok("wait --for=jsonpath={.status.readyReplicas}=4 deployment/web --timeout=90s");

    let editor = directory.join("editor.sh");
    std::fs::write(&editor, "sed -i 's/replicas: 4/replicas: 2/' \"$1\"\n").unwrap();
    let edit =
        kubectl.command(&["edit", "deployment", "web"]).env("KUBE_EDITOR", format!("sh {}", editor.display())).output();
    assert_eq!(String::from_utf8_lossy(&edit.unwrap().stdout), "deployment.apps/web edited\n");
    kubectl.ok("wait --for=jsonpath={.status.readyReplicas}=2 deployment/web --timeout=90s");
}

fn nodes(kubectl: &Kubectl) {
    assert_eq!(kubectl.ok("cordon node-0"), "node/node-0 cordoned\n");
    assert!(kubectl.ok("get node node-0").contains("Ready,SchedulingDisabled"));
    kubectl.ok("drain node-0 --ignore-daemonsets --delete-emptydir-data --timeout=120s");
    let left = kubectl.ok("get pods -A --field-selector=spec.nodeName=node-0 -o name");
    assert_eq!(left, "", "a drained node is empty");
    kubectl.ok("uncordon node-0");
    kubectl.ok("rollout status deployment/web --timeout=90s");
    let described = kubectl.ok("describe node node-1");
    for expected in ["PodCIDR:", "Lease:", "KubeletReady", "Allocated resources:"] {
        assert!(described.contains(expected), "{expected} in:\n{described}");
    }
}

/// Checks that NodeRestriction is enabled: the process that simulates all nodes must impersonate a node to act for it.
fn node_identity(cluster: &Cluster) {
    let fleet = cluster.kubectl_of("kubelet-sim");
    let as_node_0 = "--as=system:node:node-0 --as-group=system:nodes";
    let refused = fleet.fails("annotate node node-0 a=b");
    assert!(refused.contains("User \"system:orrery:node-fleet\" cannot get resource \"nodes\""), "{refused}");
    assert_eq!(fleet.ok(&format!("annotate node node-0 a=b {as_node_0}")), "node/node-0 annotated\n");
    let another = "apiVersion: v1\nkind: Node\nmetadata: {name: node-9}\n";
    let refused = fleet.with_input(&format!("create --validate=false -f - {as_node_0}"), another);
    assert!(refused.stderr.contains("node \"node-0\" is not allowed to modify node \"node-9\""), "{refused:?}");
}

fn discover(kubectl: &Kubectl) {
    let explained = kubectl.ok("explain deployment.spec.strategy.rollingUpdate.maxSurge");
    assert!(explained.contains("FIELD: maxSurge <IntOrString>"), "{explained}");
    assert!(kubectl.ok("explain pods --recursive").contains("terminationGracePeriodSeconds"));
    let resources = kubectl.ok("api-resources -o wide --no-headers");
    assert_eq!(resources.lines().count(), 69, "{resources}");
    assert!(kubectl.ok("api-versions").contains("resource.k8s.io/v1\n"));
    assert!(kubectl.ok("version").contains("Server Version: v1.36."));
    assert!(kubectl.ok("cluster-info").contains("is running at"));
    assert_eq!(kubectl.ok("auth can-i create deployments"), "yes\n");
    assert!(kubectl.ok("auth whoami").contains("kubernetes-admin"));
    let pod = kubectl.ok("get pods -l app=web -o name");
    let logs = kubectl.ok(&format!("logs {}", pod.lines().next().unwrap()));
    assert!(logs.contains(": started from image "), "{logs}");
}

fn delete(kubectl: &Kubectl) {
    kubectl.ok("delete deployment/web service/web");
    kubectl.ok("wait --for=delete pod -l app=web --timeout=90s");
    assert_eq!(kubectl.ok("get replicasets,pods -o name"), "");
    kubectl.ok(&format!("delete -f {WEB_SHOP} --timeout=120s"));
    assert!(kubectl.fails("get namespace shop").contains("NotFound"));
}
