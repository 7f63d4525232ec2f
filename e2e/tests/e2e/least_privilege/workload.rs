//! The objects that the administrator creates, so that every component has work.

use e2e::bootstrap_token;
use serde_json::{Value, json};

/// Name of a node that no kubelet reports for.
pub const SILENT_NODE: &str = "silent";
const IMAGE: &str = "nginx:1";

fn object(api_version: &str, kind: &str, namespace: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    for (key, value) in rest.as_object().into_iter().flatten() {
        match (key.as_str(), object[key].as_object_mut()) {
            ("metadata", Some(metadata)) => metadata.extend(value.as_object().cloned().unwrap_or_default()),
            _ => object[key] = value.clone(),
        }
    }
    object
}

fn pod_spec(more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": IMAGE}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

fn pod(name: &str, spec: Value) -> Value {
    object("v1", "Pod", "default", name, json!({"metadata": {"labels": {"app": name}}, "spec": pod_spec(spec)}))
}

/// Returns an object of a kind that creates pods, with one replica.
fn workload(api_version: &str, kind: &str, name: &str) -> Value {
    let labels = json!({"app": name});
    let selector = if kind == "ReplicationController" { labels.clone() } else { json!({"matchLabels": labels}) };
    let template = json!({"metadata": {"labels": labels}, "spec": pod_spec(json!({}))});
    let spec = json!({"replicas": 1, "selector": selector, "template": template});
    object(api_version, kind, "default", name, json!({"spec": spec}))
}

fn job_spec(more: Value) -> Value {
    let mut spec = json!({"template": {"spec": pod_spec(json!({"restartPolicy": "Never"}))}});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// Returns a DaemonSet with a pod on every node, whatever is wrong with the node.
fn daemon_set(name: &str) -> Value {
    let labels = json!({"app": name});
    let spec = pod_spec(json!({"tolerations": [{"operator": "Exists"}]}));
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    object("apps/v1", "DaemonSet", "default", name, json!({"spec": spec}))
}

/// Returns all objects, in the order in which they are created.
pub fn objects() -> Vec<Value> {
    [accounts(), nodes_and_pods(), volumes(), devices(), controllers(), services(), housekeeping(), certificates()]
        .concat()
}

/// Returns a volume of the simulated driver, its claim, and a pod that uses it.
fn volumes() -> Vec<Value> {
    let (modes, size) = (json!(["ReadWriteOnce"]), json!({"storage": "1Gi"}));
    let csi = json!({"driver": "simulated.orrery.dev", "volumeHandle": "disk"});
    let claim_ref = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "disk"});
    let volume = json!({"accessModes": modes, "capacity": size, "csi": csi, "claimRef": claim_ref});
    let claim = json!({
        "accessModes": modes, "resources": {"requests": size}, "volumeName": "disk", "storageClassName": ""
    });
    let source = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    vec![
        object("v1", "PersistentVolumeClaim", "default", "disk", json!({"spec": claim})),
        object("v1", "PersistentVolume", "", "disk", json!({"spec": volume})),
        pod("with-volume", json!({"nodeName": "node-0", "volumes": source})),
    ]
}

/// Returns a template of claims, and a pod that waits for its claim.
fn devices() -> Vec<Value> {
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpus"}]);
    vec![
        object("resource.k8s.io/v1", "ResourceClaimTemplate", "default", "gpus", json!({"spec": {"spec": {}}})),
        pod("with-claim", json!({"schedulingGates": [{"name": "example.com/never"}], "resourceClaims": claims})),
    ]
}

/// Returns the service account that pods need before its controller runs.
fn accounts() -> Vec<Value> {
    vec![object("v1", "ServiceAccount", "default", "default", json!({}))]
}

fn nodes_and_pods() -> Vec<Value> {
    let tolerations = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]);
    let caller = json!({"name": "c", "image": "busybox", "command": ["wget", "-T", "1", "http://web"]});
    let machines = json!({"data": {"machine.node-1": "state: removed"}});
    let slice = |name: &str, driver: &str| {
        let pool = json!({"name": "node-0", "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": driver, "nodeName": "node-0", "pool": pool, "devices": [{"name": "other"}]});
        object("resource.k8s.io/v1", "ResourceSlice", "", name, json!({"spec": spec}))
    };
    vec![
        slice("node-0-gpu.example.com", "gpu.example.com"),
        slice("node-0-gone", "gone.example.com"),
        object("v1", "ConfigMap", "kube-system", "orrery-fleet", machines),
        object("v1", "Node", "", SILENT_NODE, json!({})),
        pod("unassigned", json!({})),
        pod("assigned", json!({"nodeName": "node-0"})),
        pod("on-silent-node", json!({"nodeName": SILENT_NODE, "tolerations": tolerations})),
        pod("to-delete", json!({"nodeName": "node-0"})),
        pod("orphan", json!({"nodeName": "nowhere"})),
        pod("caller", json!({"nodeName": "node-0", "containers": [caller]})),
    ]
}

fn controllers() -> Vec<Value> {
    let job = |name: &str, more: Value| object("batch/v1", "Job", "default", name, json!({"spec": job_spec(more)}));
    let cron = json!({"schedule": "* * * * *", "jobTemplate": {"spec": job_spec(json!({}))}});
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "assigned"}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"});
    let autoscaler = json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3});
    vec![
        workload("apps/v1", "Deployment", "scaled"),
        object("autoscaling/v2", "HorizontalPodAutoscaler", "default", "autoscaler", json!({"spec": autoscaler})),
        workload("apps/v1", "Deployment", "deployment"),
        workload("apps/v1", "ReplicaSet", "replicaset"),
        workload("v1", "ReplicationController", "controller"),
        workload("apps/v1", "StatefulSet", "statefulset"),
        daemon_set("daemons"),
        job("job", json!({})),
        job("brief", json!({"ttlSecondsAfterFinished": 0})),
        object("batch/v1", "CronJob", "default", "every-minute", json!({"spec": cron})),
        object("policy/v1", "PodDisruptionBudget", "default", "budget", json!({"spec": budget})),
    ]
}

fn services() -> Vec<Value> {
    let ports = json!([{"port": 80}]);
    let subsets = json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]);
    vec![
        object("v1", "Service", "default", "web", json!({"spec": {"selector": {"app": "assigned"}, "ports": ports}})),
        object("v1", "Service", "default", "outside", json!({"spec": {"ports": ports}})),
        object("v1", "Endpoints", "default", "outside", json!({"subsets": subsets})),
    ]
}

fn housekeeping() -> Vec<Value> {
    let gone = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}]);
    let label = "part-of-whole";
    let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
    let rules = json!([{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["lamps"]}]);
    let account = json!({"kubernetes.io/service-account.name": "default"});
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["limitranges"], "operations": ["CREATE"]});
    let policy = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "size(object.metadata.name) < 9"}],
    });
    let rbac = "rbac.authorization.k8s.io/v1";
    vec![
        object("v1", "Namespace", "", "new", json!({})),
        object("v1", "Namespace", "", "ending", json!({})),
        object("v1", "ConfigMap", "ending", "content", json!({})),
        object("v1", "ResourceQuota", "new", "quota", json!({"spec": {"hard": {"pods": "3"}}})),
        object("v1", "ConfigMap", "default", "left-behind", json!({"metadata": {"ownerReferences": gone}})),
        object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "", "policy", json!({"spec": policy})),
        object(rbac, "ClusterRole", "", "whole", json!({"aggregationRule": selectors})),
        object(rbac, "ClusterRole", "", "part", json!({"metadata": {"labels": {label: "true"}}, "rules": rules})),
        object(
            "v1",
            "Secret",
            "default",
            "robot",
            json!({"metadata": {"annotations": account}, "type": "kubernetes.io/service-account-token"}),
        ),
    ]
}

fn certificates() -> Vec<Value> {
    let token = json!({"token-id": "past00", "token-secret": "0123456789abcdef", "expiration": "2001-01-01T00:00:00Z"});
    let mut objects = bootstrap_token::objects();
    objects.extend([
        object("v1", "ConfigMap", "kube-public", "cluster-info", json!({"data": {"kubeconfig": "clusters: []"}})),
        object(
            "v1",
            "Secret",
            "kube-system",
            "bootstrap-token-past00",
            json!({"type": "bootstrap.kubernetes.io/token", "stringData": token}),
        ),
    ]);
    objects
}
