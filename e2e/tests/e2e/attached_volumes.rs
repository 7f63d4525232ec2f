//! Tests with a stock `kubectl` that volumes of CSI drivers are attached before pods start, and to one node at a time.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use serde_json::json;

const VOLUME: &str = "kubernetes.io/csi/simulated.orrery.dev^disk-1";

#[test]
fn a_volume_is_attached_where_it_is_used() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    bind(&kubectl, "disk-1", &json!({"driver": "simulated.orrery.dev", "volumeHandle": "disk-1"}));
    one_node_after_the_other(&kubectl);
    drivers_that_fail(&kubectl);
    cluster.stop();
}

/// Creates a claim and a volume that are bound to each other.
fn bind(kubectl: &Kubectl, name: &str, csi: &serde_json::Value) {
    let size = json!({"storage": "1Gi"});
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": name, "storageClassName": ""
    });
    let metadata = json!({"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec});
    let uid = kubectl.with_input("create -f - --output=jsonpath={.metadata.uid}", &claim.to_string()).succeeded();
    let claim_ref = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": uid});
    let spec = json!({"capacity": size, "accessModes": ["ReadWriteOnce"], "csi": csi, "claimRef": claim_ref});
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec});
    kubectl.with_input("create -f -", &volume.to_string()).succeeded();
    let status = json!({"status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": size}}).to_string();
    kubectl.ok_args(&["patch", "pvc", name, "--subresource=status", "--type=merge", "-p", &status]);
}

/// Creates a pod on a node that uses a claim.
fn use_claim(kubectl: &Kubectl, name: &str, node: &str, claim: &str) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [{"name": "c", "image": "nginx", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}});
    kubectl.with_input("create -f -", &pod.to_string()).succeeded();
}

fn runs(kubectl: &Kubectl, pod: &str) {
    kubectl.ok(&format!("wait --for=condition=Ready pod/{pod} --timeout=60s"));
}

/// Waits for an event of a pod with this message.
fn recorded(kubectl: &Kubectl, pod: &str, reason: &str, message: &str) {
    let line = format!(
        "get events --field-selector=involvedObject.name={pod},reason={reason} --output=jsonpath={{..message}}"
    );
    wait::until(&format!("{pod} has an event {reason}: {message}"), || kubectl.ok(&line).contains(message));
}

fn one_node_after_the_other(kubectl: &Kubectl) {
    let of_node = |node: &str, path: &str| kubectl.ok(&format!("get node {node} --output=jsonpath={{.status.{path}}}"));
    use_claim(kubectl, "first", "node-0", "disk-1");
    runs(kubectl, "first");
    recorded(kubectl, "first", "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume \"disk-1\"");
    assert_eq!(of_node("node-0", "volumesAttached[*].name"), VOLUME);
    assert_eq!(of_node("node-0", "volumesInUse[*]"), VOLUME);
    let attachment =
        "get volumeattachments --output=jsonpath={range..items[*]}{.spec.nodeName}={.status.attached},{end}";
    assert_eq!(kubectl.ok(attachment), "node-0=true,");

    use_claim(kubectl, "second", "node-1", "disk-1");
    let refused = "Multi-Attach error for volume \"disk-1\" Volume is already used by pod(s) first";
    recorded(kubectl, "second", "FailedAttachVolume", refused);
    assert_eq!(kubectl.ok("get pod second --output=jsonpath={.status.phase}"), "Pending");

    kubectl.ok("delete pod first --timeout=60s");
    runs(kubectl, "second");
    assert_eq!(kubectl.ok(attachment), "node-1=true,");
    assert_eq!(of_node("node-0", "volumesAttached"), "");
    assert_eq!(of_node("node-0", "volumesInUse"), "");
    assert_eq!(of_node("node-1", "volumesInUse[*]"), VOLUME);

    kubectl.ok("delete pod second --timeout=60s");
    wait::until("nothing is attached", || kubectl.ok(attachment).is_empty());
    // The attacher lets the volume go; other finalizers are no business of this test.
    kubectl.ok("delete pv disk-1 --wait=false");
    let finalizers = "get pv disk-1 --ignore-not-found --output=jsonpath={.metadata.finalizers}";
    wait::until("the attacher lets the volume go", || !kubectl.ok(finalizers).contains("external-attacher"));
}

fn drivers_that_fail(kubectl: &Kubectl) {
    let broken = json!({"orrery.dev/attach-error": "rpc error: code = Internal desc = no slot is free"});
    let csi = json!({"driver": "simulated.orrery.dev", "volumeHandle": "disk-2", "volumeAttributes": broken});
    bind(kubectl, "disk-2", &csi);
    use_claim(kubectl, "third", "node-0", "disk-2");
    let failed = "AttachVolume.Attach failed for volume \"disk-2\" : rpc error: code = Internal desc = no slot is free";
    recorded(kubectl, "third", "FailedAttachVolume", failed);

    // Nobody attaches the volumes of this driver, until its object says that it is a simulated one.
    bind(kubectl, "disk-3", &json!({"driver": "csi.example.com", "volumeHandle": "disk-3"}));
    use_claim(kubectl, "fourth", "node-0", "disk-3");
    let attached =
        "get volumeattachments --output=jsonpath={.items[?(@.spec.attacher==\"csi.example.com\")].status.attached}";
    wait::until("the driver is asked", || kubectl.ok(attached) == "false");
    let annotations = json!({"orrery.dev/simulated": "true"});
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": "csi.example.com", "annotations": annotations}, "spec": {}
    });
    kubectl.with_input("create -f -", &driver.to_string()).succeeded();
    runs(kubectl, "fourth");
    assert_eq!(kubectl.ok(attached), "true");
}
