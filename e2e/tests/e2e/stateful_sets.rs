//! Tests with a stock `kubectl` that a StatefulSet's pods come, change and go in order, and keep their names.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const WEB: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: nginx}
spec: {clusterIP: None, selector: {app: nginx}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: nginx
  replicas: 3
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: nginx, image: "nginx:1"}]
"#;

/// Two sets without a first pod: one has a claim that no volume serves, the other's name is taken.
const WAITING: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: db, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: late-0}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: other, image: other}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: late}
spec:
  selector: {matchLabels: {app: late}}
  template:
    metadata: {labels: {app: late}}
    spec: {containers: [{name: late, image: "late:1"}]}
"#;

#[test]
fn pods_keep_their_names_through_every_change() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", WEB).succeeded();
    kubectl.with_input("apply -f -", WAITING).succeeded();
    pods_come_in_order(&kubectl);
    pods_go_in_order(&kubectl);
    an_update_can_be_undone(&kubectl);
    a_partition_holds_an_update_back(&kubectl);
    an_orphan_is_adopted(&kubectl);
    obstacles_are_waited_for(&kubectl);
    cluster.stop();
}

/// Returns what a template prints about each pod of `web`, in the order of their names.
fn pods(kubectl: &Kubectl, template: &str) -> Vec<String> {
    let printed =
        kubectl.ok(&format!("get pods --selector=app=nginx --output=jsonpath={{range.items[*]}}{template},{{end}}"));
    printed.split_terminator(',').map(str::to_owned).collect()
}

/// Waits for the end of a rollout, and returns the last line about it.
fn rolled_out(kubectl: &Kubectl) -> String {
    let printed = kubectl.ok("rollout status statefulset/web --timeout=60s");
    printed.lines().last().unwrap_or_default().to_owned()
}

/// Returns the numbers of the revisions that `kubectl rollout history` shows.
fn revisions(kubectl: &Kubectl) -> Vec<String> {
    let history = kubectl.ok("rollout history statefulset/web");
    history.lines().skip(2).filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn set_image(kubectl: &Kubectl, image: &str) {
    kubectl.ok(&format!("set image statefulset/web nginx={image}"));
}

fn recorded(kubectl: &Kubectl, set: &str, reason: &str, message: &str) {
    let fields = format!("involvedObject.kind=StatefulSet,involvedObject.name={set},reason={reason}");
    let line = format!("get events --field-selector={fields} --output=jsonpath={{..message}}");
    wait::until(&format!("{set} has an event {reason}: {message}"), || kubectl.ok(&line).contains(message));
}

fn pods_come_in_order(kubectl: &Kubectl) {
    let complete = rolled_out(kubectl);
    assert!(complete.starts_with("partitioned roll out complete: 3 new pods have been updated"), "{complete}");
    assert_eq!(pods(kubectl, "{.metadata.name}"), ["web-0", "web-1", "web-2"]);
    let created = pods(kubectl, "{.metadata.creationTimestamp}");
    let ready = pods(kubectl, r#"{.status.conditions[?(@.type=="Ready")].lastTransitionTime}"#);
    assert!(ready[0] <= created[1] && ready[1] <= created[2], "created {created:?}, ready {ready:?}");
    let index = r"{.metadata.labels.apps\.kubernetes\.io/pod-index}{.spec.hostname}.{.spec.subdomain}";
    assert_eq!(pods(kubectl, index), ["0web-0.nginx", "1web-1.nginx", "2web-2.nginx"]);
    assert_eq!(kubectl.ok("exec web-1 -- hostname"), "web-1\n");
    recorded(kubectl, "web", "SuccessfulCreate", "create Pod web-0 in StatefulSet web successful");
}

fn pods_go_in_order(kubectl: &Kubectl) {
    kubectl.ok("scale statefulset/web --replicas=1");
    kubectl.ok("wait --for=delete pod/web-1 pod/web-2 --timeout=60s");
    recorded(kubectl, "web", "SuccessfulDelete", "delete Pod web-1 in StatefulSet web successful");
    let deleted =
        "get events --field-selector=involvedObject.name=web,reason=SuccessfulDelete --sort-by=.metadata.name";
    let messages = kubectl.ok(&format!("{deleted} --output=jsonpath={{..message}}"));
    let of = |pod: &str| messages.find(pod).unwrap_or(usize::MAX);
    assert!(of("web-2") < of("web-1"), "{messages}");
    assert_eq!(kubectl.ok("get statefulset web --output=jsonpath={.status.availableReplicas}"), "1");
    kubectl.ok("scale statefulset/web --replicas=2");
    rolled_out(kubectl);
}

fn an_update_can_be_undone(kubectl: &Kubectl) {
    let image = "{.spec.containers[0].image}";
    let revision = || kubectl.ok("get statefulset web --output=jsonpath={.status.currentRevision}");
    let first = revision();
    set_image(kubectl, "nginx:2");
    rolled_out(kubectl);
    assert_eq!(pods(kubectl, image), ["nginx:2", "nginx:2"]);
    assert_ne!(revision(), first);
    assert_eq!(revisions(kubectl), ["1", "2"]);
    assert!(kubectl.ok("rollout history statefulset/web --revision=1").contains("nginx:1"));
    kubectl.ok("rollout undo statefulset/web");
    rolled_out(kubectl);
    assert_eq!(pods(kubectl, image), ["nginx:1", "nginx:1"]);
    assert_eq!(revision(), first, "the same template has the same revision");
    assert_eq!(revisions(kubectl), ["2", "3"]);
    kubectl.ok("rollout restart statefulset/web");
    rolled_out(kubectl);
    let restarted = pods(kubectl, r"{.metadata.annotations.kubectl\.kubernetes\.io/restartedAt}");
    assert!(restarted.iter().all(|at| at.starts_with("20")), "{restarted:?}");
}

fn a_partition_holds_an_update_back(kubectl: &Kubectl) {
    let patch = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}"#;
    kubectl.ok_args(&["patch", "statefulset", "web", "--patch", patch]);
    set_image(kubectl, "nginx:3");
    let complete = rolled_out(kubectl);
    assert!(complete.starts_with("partitioned roll out complete: 1 new pods have been updated"), "{complete}");
    let images = || pods(kubectl, "{.spec.containers[0].image}");
    assert_eq!(images(), ["nginx:1", "nginx:3"]);
    let uid = kubectl.ok("get pod web-0 --output=jsonpath={.metadata.uid}");
    // Without `--wait=false` kubectl could wait for ever: it may see the next pod of this name, and wait for that to go.
    kubectl.ok("delete pod web-0 --wait=false");
    let is_another = || {
        let printed = kubectl.run("get pod web-0 --output=jsonpath={.metadata.uid}");
        printed.success && printed.stdout != uid
    };
    wait::until("web-0 is there again", is_another);
    assert_eq!(images(), ["nginx:1", "nginx:3"], "below the partition the revision stays");
    kubectl.ok("wait --for=condition=Ready pod/web-0 --timeout=60s");
}

/// A set that takes the place of one that was deleted without its pods takes over pods and history.
fn an_orphan_is_adopted(kubectl: &Kubectl) {
    let uids = pods(kubectl, "{.metadata.uid}");
    let set = kubectl.ok("get statefulset web --output=json");
    kubectl.ok("delete statefulset web --cascade=orphan");
    let mut set: serde_json::Value = serde_json::from_str(&set).unwrap();
    let (metadata, spec) = (serde_json::json!({"name": "web"}), set["spec"].take());
    let again = serde_json::json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec});
    kubectl.with_input("create -f -", &again.to_string()).succeeded();
    let ready = "get statefulset web --output=jsonpath={.status.readyReplicas}";
    wait::until("both pods are its own", || kubectl.ok(ready) == "2");
    assert_eq!(pods(kubectl, "{.metadata.uid}"), uids);
    assert_eq!(revisions(kubectl), ["2", "3", "4", "5"]);
}

fn obstacles_are_waited_for(kubectl: &Kubectl) {
    let owner = "get pvc data-db-0 data-db-1 --output=jsonpath={.items[*].metadata.ownerReferences[*].kind}";
    assert_eq!(kubectl.ok(owner), "StatefulSet StatefulSet");
    recorded(kubectl, "db", "SuccessfulCreate", "create Claim data-db-1 Pod db-1 in StatefulSet db success");
    assert_eq!(kubectl.ok("get pods --selector=app=db --output=jsonpath={.items[*].status.phase}"), "Pending Pending");
    let taken = "create Pod late-0 in StatefulSet late failed error: pods \"late-0\" already exists";
    recorded(kubectl, "late", "FailedCreate", taken);
    kubectl.ok("delete pod late-0 --wait=false");
    let ready = || kubectl.ok("get statefulset late --output=jsonpath={.status.readyReplicas}");
    wait::until("the name is free and the pod runs", || ready() == "1");
}
