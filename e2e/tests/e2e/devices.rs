//! Tests with a stock `kubectl` that the scheduler allocates devices to claims, that claims of templates come and go with their
//! pods, and that pods leave tainted devices.

use crate::program;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};

const NODES: &str = r"
name: gpu
devices:
- driver: gpu.example.com
  name: gpu
  count: 4
";

#[test]
fn devices_are_claimed_released_and_tainted() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = directory.path().join("nodes.yaml");
    std::fs::write(&nodes, NODES).unwrap();
    let flag = format!("--node-template={}", nodes.display());
    let (directory, store, port) = (directory.path(), Store::Memory, free_ports());
    let cluster = Cluster::start(&Start { program: program(), directory, store, nodes: 1, port, flags: &[&flag] });
    let kubectl = cluster.kubectl();
    a_template_that_comes_late(&kubectl);
    a_second_pod_waits_for_the_device_of_the_first(&kubectl);
    a_claim_goes_with_its_pod(&kubectl);
    a_shared_claim_is_free_after_its_last_pod(&kubectl);
    a_tainted_device_loses_its_pods(&kubectl);
    an_extended_resource_is_backed_by_a_class(&kubectl);
    cluster.stop();
}

fn create(kubectl: &Kubectl, object: &Value) {
    kubectl.with_input("create -f -", &object.to_string()).succeeded();
}

/// Returns a request for one device, with `extra` in it.
fn request(extra: &Value) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu.example.com"});
    exactly.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
}

/// Creates a template of claims for one device.
fn template(kubectl: &Kubectl, name: &str, extra: &Value) {
    let template = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
        "spec": {"metadata": {"labels": {"team": "vision"}}, "spec": request(extra)},
    });
    create(kubectl, &template);
}

/// Returns a selector of the device with this number.
fn number(index: usize) -> Value {
    let expression = format!("device.attributes['gpu.example.com'].index == {index}");
    json!({"selectors": [{"cel": {"expression": expression}}]})
}

/// Creates a pod with a claim and a command.
fn pod(kubectl: &Kubectl, name: &str, claim: &Value, command: &str) {
    let mut claim = claim.clone();
    claim["name"] = json!("gpu");
    let container = json!({
        "name": "c", "image": "busybox", "command": ["sh", "-c", command], "resources": {"claims": [{"name": "gpu"}]}
    });
    let spec = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], "resourceClaims": [claim],
    });
    create(kubectl, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}));
}

fn from_template(template: &str) -> Value {
    json!({"resourceClaimTemplateName": template})
}

/// Waits until the status of a pod names its claim, and returns the name.
fn claim_of(kubectl: &Kubectl, pod: &str) -> String {
    let line = format!(
        "get pod {pod} --output=jsonpath={{.status.resourceClaimStatuses[?(@.name==\"gpu\")].resourceClaimName}}"
    );
    wait::until(&format!("{pod} has a claim"), || !kubectl.ok(&line).is_empty());
    kubectl.ok(&line)
}

/// Returns the state of a claim, as kubectl prints it.
fn state(kubectl: &Kubectl, claim: &str) -> String {
    let line = kubectl.ok(&format!("get resourceclaim {claim} --no-headers --ignore-not-found"));
    line.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

fn becomes(kubectl: &Kubectl, claim: &str, expected: &str) {
    wait::until(&format!("{claim} is {expected:?}"), || state(kubectl, claim) == expected);
}

/// Waits for an event of a pod with this message.
fn recorded(kubectl: &Kubectl, pod: &str, reason: &str, message: &str) {
    let line = format!(
        "get events --field-selector=involvedObject.name={pod},reason={reason} --output=jsonpath={{..message}}"
    );
    wait::until(&format!("{pod} has an event {reason}: {message}"), || kubectl.ok(&line).contains(message));
}

/// Returns the device that a claim has.
fn device(kubectl: &Kubectl, claim: &str) -> String {
    kubectl.ok(&format!("get resourceclaim {claim} --output=jsonpath={{.status.allocation.devices.results[0].device}}"))
}

fn is_ready(kubectl: &Kubectl, pod: &str) {
    kubectl.ok(&format!("wait --for=condition=Ready pod/{pod} --timeout=120s"));
}

fn a_template_that_comes_late(kubectl: &Kubectl) {
    pod(kubectl, "early", &from_template("gpus"), "sleep 3600");
    let missing = "PodResourceClaim gpu: resource claim template \"gpus\": resourceclaimtemplate.resource.k8s.io \"gpus\" not found";
    recorded(kubectl, "early", "FailedResourceClaimCreation", missing);
    template(kubectl, "gpus", &json!({}));
    let claim = claim_of(kubectl, "early");
    assert!(claim.starts_with("early-gpu-"), "{claim}");
    assert_eq!(
        kubectl.ok("get resourceclaims --selector=team=vision --output=name").trim_end(),
        format!("resourceclaim.resource.k8s.io/{claim}")
    );
    let owner = "{.metadata.ownerReferences[0].kind}/{.metadata.ownerReferences[0].name} {.metadata.annotations.resource\\.kubernetes\\.io/pod-claim-name}";
    assert_eq!(
        kubectl.ok_args(&["get", "resourceclaim", &claim, &format!("--output=jsonpath={owner}")]),
        "Pod/early gpu"
    );
    let no_class = "0/1 nodes are available: request gpu: device class gpu.example.com does not exist.";
    recorded(kubectl, "early", "FailedScheduling", no_class);
    assert_eq!(state(kubectl, &claim), "pending");
    let expression = "device.driver == 'gpu.example.com'";
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    });
    create(kubectl, &class);
    is_ready(kubectl, "early");
    assert_eq!((state(kubectl, &claim).as_str(), device(kubectl, &claim).as_str()), ("allocated,reserved", "gpu-0"));
    kubectl.ok("delete pod early --timeout=120s");
    becomes(kubectl, &claim, "");
}

fn a_second_pod_waits_for_the_device_of_the_first(kubectl: &Kubectl) {
    template(kubectl, "last", &number(3));
    pod(kubectl, "first", &from_template("last"), "sleep 3600");
    is_ready(kubectl, "first");
    pod(kubectl, "second", &from_template("last"), "sleep 3600");
    let taken = "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    recorded(kubectl, "second", "FailedScheduling", taken);
    kubectl.ok("delete pod first --timeout=120s");
    is_ready(kubectl, "second");
    assert_eq!(device(kubectl, &claim_of(kubectl, "second")), "gpu-3");
    kubectl.ok("delete pod second --timeout=120s");
}

fn a_claim_goes_with_its_pod(kubectl: &Kubectl) {
    pod(kubectl, "brief", &from_template("gpus"), "sleep 1");
    let claim = claim_of(kubectl, "brief");
    // The pod is there after its end, and its claim is not.
    kubectl.ok("wait --for=jsonpath={.status.phase}=Succeeded pod/brief --timeout=120s");
    becomes(kubectl, &claim, "");
    assert_eq!(claim_of(kubectl, "brief"), claim, "no other claim is made");
}

fn a_shared_claim_is_free_after_its_last_pod(kubectl: &Kubectl) {
    let shared = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"}, "spec": request(&json!({}))
    });
    create(kubectl, &shared);
    for name in ["one", "two"] {
        pod(kubectl, name, &json!({"resourceClaimName": "shared"}), "sleep 3600");
    }
    kubectl.ok("wait --for=condition=Ready pod/one pod/two --timeout=120s");
    assert_eq!(state(kubectl, "shared"), "allocated,reserved");
    let pods = || {
        let names = kubectl.ok("get resourceclaim shared --output=jsonpath={.status.reservedFor[*].name}");
        let mut names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(pods(), "one two");
    kubectl.ok("delete pod one --timeout=120s");
    wait::until("the claim is reserved for the other pod alone", || pods() == "two");
    kubectl.ok("delete pod two --timeout=120s");
    becomes(kubectl, "shared", "pending");
    wait::until("the claim may be deleted", || {
        kubectl.ok("get resourceclaim shared --output=jsonpath={.metadata.finalizers}").is_empty()
    });
    kubectl.ok("delete resourceclaim shared --timeout=120s");
}

fn a_tainted_device_loses_its_pods(kubectl: &Kubectl) {
    let mut tolerant = number(1);
    tolerant["tolerations"] = json!([{"key": "broken", "operator": "Exists", "effect": "NoExecute"}]);
    template(kubectl, "tolerant", &tolerant);
    template(kubectl, "sensitive", &number(2));
    pod(kubectl, "stays", &from_template("tolerant"), "sleep 3600");
    pod(kubectl, "goes", &from_template("sensitive"), "sleep 3600");
    kubectl.ok("wait --for=condition=Ready pod/stays pod/goes --timeout=120s");
    let claim = claim_of(kubectl, "goes");
    let slice = "gpu-0-gpu.example.com";
    let taints = json!([{"key": "broken", "value": "fan", "effect": "NoExecute"}]);
    let add = |index: usize| json!({"op": "add", "path": format!("/spec/devices/{index}/taints"), "value": taints});
    let patch = json!([add(1), add(2)]).to_string();
    kubectl.ok_args(&["patch", "resourceslice", slice, "--type=json", "-p", &patch]);
    let added = format!("get resourceslice {slice} --output=jsonpath={{.spec.devices[2].taints[0].timeAdded}}");
    assert!(kubectl.ok(&added).ends_with('Z'), "the server says when a taint was added");
    recorded(kubectl, "goes", "DeviceTaintManagerEviction", "Marking for deletion");
    kubectl.ok("wait --for=delete pod/goes --timeout=120s");
    becomes(kubectl, &claim, "");
    assert_eq!(kubectl.ok("get pod stays --output=jsonpath={.status.phase}{.metadata.deletionTimestamp}"), "Running");
    // Nobody else gets the device while it is tainted.
    pod(kubectl, "late", &from_template("sensitive"), "sleep 3600");
    recorded(kubectl, "late", "FailedScheduling", "1 cannot allocate all claims");
    let heal = json!([{"op": "remove", "path": "/spec/devices/2/taints"}]).to_string();
    kubectl.ok_args(&["patch", "resourceslice", slice, "--type=json", "-p", &heal]);
    is_ready(kubectl, "late");
    kubectl.ok("delete pod stays late --timeout=120s");
}

/// The pod knows nothing of claims.
fn an_extended_resource_is_backed_by_a_class(kubectl: &Kubectl) {
    let class = json!({"spec": {"extendedResourceName": "example.com/gpu"}}).to_string();
    kubectl.ok_args(&["patch", "deviceclass", "gpu.example.com", "--type=merge", "-p", &class]);
    let container = json!({
        "name": "c", "image": "busybox", "command": ["sleep", "3600"],
        "resources": {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
    });
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [container]});
    create(kubectl, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old"}, "spec": spec}));
    is_ready(kubectl, "old");
    let line = "get pod old --output=jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}";
    let claim = kubectl.ok(line);
    assert!(claim.starts_with("old-extended-resources-"), "{claim}");
    assert_eq!(state(kubectl, &claim), "allocated,reserved");
    kubectl.ok("delete pod old --timeout=120s");
    becomes(kubectl, &claim, "");
}
