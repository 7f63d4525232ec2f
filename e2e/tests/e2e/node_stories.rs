//! Tests with a stock `kubectl` what simulated nodes do with pods that fail probes, lack files or are resized.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: moody, labels: {app: moody}, annotations: {orrery.dev/readiness: fail}}
spec:
  containers:
  - name: web
    image: nginx
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Service
metadata: {name: moody}
spec: {selector: {app: moody}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: sick, annotations: {orrery.dev/liveness: "fail@2s", orrery.dev/livenes: fail}}
spec:
  containers:
  - name: web
    image: nginx
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 1, failureThreshold: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: lacking}
spec:
  volumes: [{name: config, configMap: {name: game}}]
  containers:
  - name: web
    image: nginx
    env: [{name: KEY, valueFrom: {secretKeyRef: {name: keys, key: key}}}]
    volumeMounts: [{name: config, mountPath: /etc/game}]
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: web, image: nginx, resources: {requests: {cpu: 100m}}}]}
"#;

#[test]
fn pods_are_as_their_stories_say() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", PODS).succeeded();
    readiness_changes_endpoints(&kubectl);
    liveness_restarts(&kubectl);
    missing_files_delay_a_pod(&kubectl);
    a_resize_needs_capacity(&kubectl);
    cluster.stop();
}

/// Waits for an event about a pod.
fn recorded(kubectl: &Kubectl, pod: &str, reason: &str, message: &str) {
    let line = format!(
        "get events --field-selector=involvedObject.name={pod},reason={reason} --output=jsonpath={{..message}}"
    );
    wait::until(&format!("{pod} has an event {reason}"), || kubectl.ok(&line).contains(message));
}

fn readiness_changes_endpoints(kubectl: &Kubectl) {
    let serving = || {
        let slices = "get endpointslices -l kubernetes.io/service-name=moody";
        kubectl.ok(&format!("{slices} --output=jsonpath={{.items[*].endpoints[*].conditions.ready}}")).trim().to_owned()
    };
    wait::until("it is not ready", || serving() == "false");
    for (story, expected) in [("ok", "true"), ("fail", "false"), ("ok", "true")] {
        kubectl.ok(&format!("annotate --overwrite pod moody orrery.dev/readiness={story}"));
        wait::until(&format!("readiness is {expected}"), || serving() == expected);
    }
    recorded(kubectl, "moody", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503");
    let node = kubectl.ok("get pod moody --output=jsonpath={.spec.nodeName}");
    let page = |path: &str| kubectl.ok(&format!("get --raw /api/v1/nodes/{node}/proxy/{path}"));
    let counted = r#"container="web",namespace="default",pod="moody",pod_uid=""#;
    assert!(page("metrics/probes").contains(counted), "{}", page("metrics/probes"));
    let used = r#"container_memory_working_set_bytes{container="web",namespace="default",pod="moody"} 8388608"#;
    assert!(page("metrics/resource").contains(used), "{}", page("metrics/resource"));
}

fn liveness_restarts(kubectl: &Kubectl) {
    let restarts = "get pod sick --output=jsonpath={.status.containerStatuses[0].restartCount}";
    wait::until("it was restarted", || kubectl.ok(restarts) != "0");
    recorded(kubectl, "sick", "Unhealthy", "Liveness probe failed:");
    recorded(kubectl, "sick", "Killing", "Container web failed liveness probe, will be restarted");
    recorded(kubectl, "sick", "InvalidStory", "orrery.dev/livenes: no word of a story");
}

fn missing_files_delay_a_pod(kubectl: &Kubectl) {
    let why = "MountVolume.SetUp failed for volume \"config\" : configmap \"game\" not found";
    recorded(kubectl, "lacking", "FailedMount", why);
    kubectl.ok("create configmap game --from-literal=lives=3");
    recorded(kubectl, "lacking", "Failed", "Error: secret \"keys\" not found");
    wait::until("the status says so", || kubectl.ok("get pod lacking").contains("CreateContainerConfigError"));
    kubectl.ok("create secret generic keys --from-literal=key=blue");
    kubectl.ok("wait --for=condition=Ready pod/lacking --timeout=60s");
    let seen = kubectl.ok_args(&["exec", "lacking", "--", "sh", "-c", "cat /etc/game/lives; echo $KEY"]);
    assert_eq!(seen, "3blue\n");
}

fn a_resize_needs_capacity(kubectl: &Kubectl) {
    let resize = |cpu: &str| {
        let patch =
            format!(r#"{{"spec":{{"containers":[{{"name":"web","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#);
        kubectl.ok_args(&["patch", "pod", "small", "--subresource=resize", "--patch", &patch]);
    };
    resize("200m");
    recorded(kubectl, "small", "ResizeCompleted", "Pod resize completed");
    let actual = "get pod small --output=jsonpath={.status.containerStatuses[0].resources.requests.cpu}";
    assert_eq!(kubectl.ok(actual), "200m");
    resize("1000");
    recorded(kubectl, "small", "ResizeInfeasible", "Node didn't have enough capacity: cpu, requested: 1000000");
    assert!(kubectl.ok("get pod small --output=jsonpath={.status.conditions[*].type}").contains("PodResizePending"));
    assert_eq!(kubectl.ok(actual), "200m");
}
