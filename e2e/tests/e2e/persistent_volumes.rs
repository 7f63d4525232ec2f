//! Tests with a stock `kubectl` that claims get volumes, keep their data, and go when nobody uses them.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, signal};
use e2e::store::Store;
use e2e::wait;

/// A claim of the default class, a pod that writes to it and a pod that reads from it.
const DATA: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  restartPolicy: Never
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - {name: c, image: busybox, command: [sh, -c, "echo kept > /data/f"], volumeMounts: [{name: data, mountPath: /data}]}
"#;

const READER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - {name: c, image: busybox, command: [sh, -c, "cat /data/f; sleep 3600"], volumeMounts: [{name: data, mountPath: /data}]}
"#;

/// A claim that begins with the data of the first one, and a pod that uses it.
const CLONE: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: clone}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 2Gi}}
  dataSource: {kind: PersistentVolumeClaim, name: data}
---
apiVersion: v1
kind: Pod
metadata: {name: second}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: data, persistentVolumeClaim: {claimName: clone}}]
  containers:
  - {name: c, image: busybox, command: [sleep, "3600"], volumeMounts: [{name: data, mountPath: /data}]}
"#;

/// Two volumes of an administrator, and a claim that both fit.
const RETAINED: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: large}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: manual, hostPath: {path: /srv/large}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: small}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: manual, hostPath: {path: /srv/small}}
"#;

const MANUAL_CLAIM: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: records}
spec: {storageClassName: manual, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

const SCRATCH: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: nginx, volumeMounts: [{name: scratch, mountPath: /scratch}]}]
  volumes:
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
"#;

/// A class whose volumes cannot be made, because it has no room.
const FULL: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: full}
provisioner: orrery.dev/simulated
parameters: {capacity: 10Mi}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: unmet}
spec: {storageClassName: full, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

/// A claim that the class has room for.
const MET: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: met}
spec: {storageClassName: full, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Mi}}}
"#;

/// A class whose volumes are made where their first pod runs, and a claim of it.
const LATE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: orrery.dev/simulated
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: late}
spec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

/// A class without a provisioner, and a StatefulSet whose pods use its volumes.
const LOCAL: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"#;

#[test]
fn claims_keep_their_data_and_volumes_their_claims() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    assert!(kubectl.ok("get storageclasses").contains("standard (default)   orrery.dev/simulated   Delete"));
    what_a_pod_writes_is_there_for_the_next(&kubectl);
    files_outlast_the_agent(&cluster);
    a_clone_has_the_data_of_its_source(&kubectl);
    a_claim_grows(&kubectl);
    a_claim_in_use_stays(&cluster);
    a_retained_volume_is_given_to_nobody(&kubectl);
    an_ephemeral_claim_lives_as_long_as_its_pod(&kubectl);
    a_full_class_says_so(&kubectl);
    the_free_capacity_is_published(&kubectl);
    a_claim_waits_for_its_first_consumer(&kubectl);
    local_volumes_choose_the_node(&kubectl);
    cluster.stop();
}

fn apply(kubectl: &Kubectl, manifests: &str) {
    kubectl.with_input("apply -f -", manifests).succeeded();
}

fn phase(kubectl: &Kubectl, object: &str) -> String {
    kubectl.ok(&format!("get {object} --output=jsonpath={{.status.phase}}"))
}

fn reaches(kubectl: &Kubectl, object: &str, phase: &str) {
    kubectl.ok(&format!("wait --for=jsonpath={{.status.phase}}={phase} {object} --timeout=60s"));
}

/// Waits for an event about an object.
fn recorded(kubectl: &Kubectl, name: &str, reason: &str, message: &str) {
    let line = format!(
        "get events --field-selector=involvedObject.name={name},reason={reason} --output=jsonpath={{..message}}"
    );
    wait::until(&format!("{name} has an event {reason}"), || kubectl.ok(&line).contains(message));
}

fn is_gone(kubectl: &Kubectl, object: &str) {
    wait::until(&format!("{object} is gone"), || kubectl.ok(&format!("get {object} --ignore-not-found")).is_empty());
}

fn what_a_pod_writes_is_there_for_the_next(kubectl: &Kubectl) {
    apply(kubectl, DATA);
    reaches(kubectl, "pvc/data", "Bound");
    reaches(kubectl, "pod/writer", "Succeeded");
    apply(kubectl, READER);
    kubectl.ok("wait --for=condition=Ready pod/reader --timeout=60s");
    assert_eq!(kubectl.ok("logs reader"), "kept\n");
    let uid = kubectl.ok("get pvc data --output=jsonpath={.metadata.uid}");
    assert_eq!(kubectl.ok("get pvc data --output=jsonpath={.spec.volumeName}"), format!("pvc-{uid}"));
    recorded(kubectl, "data", "ProvisioningSucceeded", &format!("Successfully provisioned volume pvc-{uid}"));
}

fn files_outlast_the_agent(cluster: &Cluster) {
    let kubectl = cluster.kubectl();
    kubectl.ok_args(&[
        "exec",
        "reader",
        "--",
        "sh",
        "-c",
        "mkdir -p /data/a && echo more >> /data/f && mv /data/f /data/a/f",
    ]);
    let before = cluster.component("kubelet-sim").expect("it runs");
    signal("KILL", before);
    wait::until("the agent runs again", || cluster.component("kubelet-sim").is_some_and(|now| now != before));
    let read = ["exec", "reader", "--", "cat", "/data/a/f"];
    wait::until("the agent answers", || kubectl.run_args(&read).success);
    assert_eq!(kubectl.ok_args(&read), "kept\nmore\n");
}

fn a_clone_has_the_data_of_its_source(kubectl: &Kubectl) {
    let (claim, _) = CLONE.split_once("---").expect("the claim comes first");
    apply(kubectl, &claim.replace("name: clone", "name: small").replace("2Gi", "1Mi"));
    let why = "error, new PVC request must be greater than or equal in size to the specified PVC data source, \
               requested 1048576 but source is 1073741824";
    recorded(kubectl, "small", "ProvisioningFailed", why);
    kubectl.ok("delete pvc small");
    apply(kubectl, CLONE);
    kubectl.ok("wait --for=condition=Ready pod/second --timeout=60s");
    let read = |pod: &str| kubectl.ok_args(&["exec", pod, "--", "cat", "/data/a/f"]);
    assert_eq!(read("second"), "kept\nmore\n");
    // From now on each has its own.
    kubectl.ok_args(&["exec", "second", "--", "sh", "-c", "echo other > /data/a/f"]);
    assert_eq!((read("second"), read("reader")), ("other\n".to_owned(), "kept\nmore\n".to_owned()));
    kubectl.ok("delete pod second");
    kubectl.ok("delete pvc clone");
}

fn a_claim_grows(kubectl: &Kubectl) {
    let patch = r#"{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}"#;
    kubectl.ok_args(&["patch", "pvc", "data", "--patch", patch]);
    kubectl.ok("wait --for=jsonpath={.status.capacity.storage}=2Gi pvc/data --timeout=60s");
    recorded(kubectl, "data", "ExternalExpanding", "waiting for an external controller to expand this PVC");
}

fn a_claim_in_use_stays(cluster: &Cluster) {
    let kubectl = &cluster.kubectl();
    let volume = kubectl.ok("get pvc data --output=jsonpath={.spec.volumeName}");
    kubectl.ok("delete pvc data --wait=false");
    kubectl.ok("delete pod writer");
    assert!(kubectl.ok("get pvc data").contains("Terminating"), "the reader uses it");
    assert_eq!(phase(kubectl, &format!("pv/{volume}")), "Bound");
    kubectl.ok("delete pod reader");
    let files = cluster.data_dir.join("volumes").join(&volume);
    assert!(files.exists());
    is_gone(kubectl, "pvc/data");
    is_gone(kubectl, &format!("pv/{volume}"));
    assert!(!files.exists(), "the driver has deleted them");
}

fn a_retained_volume_is_given_to_nobody(kubectl: &Kubectl) {
    apply(kubectl, RETAINED);
    apply(kubectl, MANUAL_CLAIM);
    reaches(kubectl, "pvc/records", "Bound");
    assert_eq!(kubectl.ok("get pvc records --output=jsonpath={.spec.volumeName}"), "small", "the smallest that fits");
    kubectl.ok("delete pvc records");
    reaches(kubectl, "pv/small", "Released");
    // The next claim of the same name gets the other volume, and a third one none.
    apply(kubectl, MANUAL_CLAIM);
    reaches(kubectl, "pvc/records", "Bound");
    assert_eq!(kubectl.ok("get pvc records --output=jsonpath={.spec.volumeName}"), "large");
    apply(kubectl, &MANUAL_CLAIM.replace("records", "more"));
    recorded(kubectl, "more", "ProvisioningFailed", "storageclass.storage.k8s.io \"manual\" not found");
    assert_eq!((phase(kubectl, "pvc/more"), phase(kubectl, "pv/small")), ("Pending".into(), "Released".into()));
    // An administrator frees it.
    kubectl.ok_args(&["patch", "pv", "small", "--type=merge", "--patch", r#"{"spec":{"claimRef":null}}"#]);
    reaches(kubectl, "pvc/more", "Bound");
    // A bound volume stays until its claim is gone.
    kubectl.ok("delete pv small --wait=false");
    assert!(kubectl.ok("get pv small").contains("Terminating"));
    kubectl.ok("delete pvc more");
    is_gone(kubectl, "pv/small");
}

fn an_ephemeral_claim_lives_as_long_as_its_pod(kubectl: &Kubectl) {
    apply(kubectl, SCRATCH);
    kubectl.ok("wait --for=condition=Ready pod/worker --timeout=60s");
    assert_eq!(phase(kubectl, "pvc/worker-scratch"), "Bound");
    kubectl.ok("delete pod worker");
    is_gone(kubectl, "pvc/worker-scratch");
}

fn a_full_class_says_so(kubectl: &Kubectl) {
    apply(kubectl, FULL);
    let why = "failed to provision volume with StorageClass \"full\": rpc error: code = ResourceExhausted desc = 0 of 10Mi \
               are in use";
    recorded(kubectl, "unmet", "ProvisioningFailed", why);
    kubectl.ok("delete pvc unmet");
}

fn the_free_capacity_is_published(kubectl: &Kubectl) {
    let path = "--output=jsonpath={.items[?(@.storageClassName==\"full\")].capacity}";
    let free = || kubectl.ok_args(&["get", "csistoragecapacities", "--namespace=kube-system", path]);
    wait::until("the class is empty", || free() == "10Mi");
    apply(kubectl, MET);
    wait::until("a volume takes its part", || free() == "6Mi");
    kubectl.ok("delete pvc met");
    wait::until("the part is free again", || free() == "10Mi");
}

fn a_claim_waits_for_its_first_consumer(kubectl: &Kubectl) {
    apply(kubectl, LATE);
    recorded(kubectl, "late", "WaitForFirstConsumer", "waiting for first consumer to be created before binding");
    assert_eq!(phase(kubectl, "pvc/late"), "Pending");
    apply(kubectl, &READER.replace("claimName: data", "claimName: late").replace("name: reader", "name: consumer"));
    kubectl.ok("wait --for=condition=Ready pod/consumer --timeout=60s");
    let selected = r"get pvc late --output=jsonpath={.metadata.annotations.volume\.kubernetes\.io/selected-node}";
    let node = kubectl.ok("get pod consumer --output=jsonpath={.spec.nodeName}");
    assert_eq!((kubectl.ok(selected), phase(kubectl, "pvc/late").as_str()), (node, "Bound"));
}

/// Makes a local volume of a node.
fn make_local_volume(kubectl: &Kubectl, node: &str) {
    let volume = format!(
        r#"
apiVersion: v1
kind: PersistentVolume
metadata: {{name: local-{node}}}
spec:
  capacity: {{storage: 2Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {{path: /mnt/disk}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]
"#
    );
    apply(kubectl, &volume);
}

fn local_volumes_choose_the_node(kubectl: &Kubectl) {
    make_local_volume(kubectl, "node-1");
    apply(kubectl, LOCAL);
    recorded(kubectl, "db-1", "FailedScheduling", "node(s) didn't find available persistent volumes to bind");
    make_local_volume(kubectl, "node-2");
    kubectl.ok("rollout status statefulset/db --timeout=60s");
    let nodes = "get pods --selector=app=db --output=jsonpath={.items[*].spec.nodeName}";
    assert_eq!(kubectl.ok(nodes), "node-1 node-2");
}
