//! Requests of a kubelet, which registers, reports and runs its pods, and of the kube-proxy on its node.

use super::row::{Caller, FIRST_LIST, Program, Row, STRATEGIC, STREAMED_LIST, WATCH};
use serde_json::{Value, json};

const KUBELET: Program = Program { name: "kubelet", part: "", caller: Caller::User("system:node:n1", "system:nodes") };
const BOOTSTRAP: Program =
    Program { name: "kubelet", part: "", caller: Caller::User("system:bootstrap:abcdef", "system:bootstrappers") };
const PROXY: Program = Program { name: "kube-proxy", part: "", caller: Caller::User("system:kube-proxy", "") };
const ADMIN: Program = Program { name: "kubectl", part: "", caller: Caller::Admin };
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const NODE: &str = "/api/v1/nodes/n1";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Registers the node, and reports until it is ready.
pub fn registers() -> Vec<Row> {
    let node = json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": "n1", "creationTimestamp": null, "labels": {
            "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"
        }},
        "spec": {},
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [ready("False", "KubeletNotReady")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.11"}, {"type": "Hostname", "address": "n1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "6.1", "osImage": "linux",
                "containerRuntimeVersion": "containerd://2.0", "kubeletVersion": "v1.36.2", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"
            }
        }
    });
    let mut other = node.clone();
    other["metadata"]["name"] = json!("n2");
    let report = json!({"status": {
        "$setElementOrder/conditions": [{"type": "MemoryPressure"}, {"type": "Ready"}],
        "conditions": [
            {
                "type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "",
                "lastHeartbeatTime": "2026-01-01T00:00:10Z", "lastTransitionTime": "2026-01-01T00:00:00Z"
            },
            ready("True", "KubeletReady")
        ],
        "$setElementOrder/addresses": [{"type": "InternalIP"}, {"type": "Hostname"}],
        "allocatable": {"ephemeral-storage": "100Gi"}
    }});
    let csi_node = json!({
        "kind": "CSINode", "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": "n1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "{node.uid}"}
        ]},
        "spec": {"drivers": null}
    });
    let one = "fieldSelector=metadata.name%3Dn1";
    vec![
        KUBELET
            .post("/api/v1/nodes", node.clone())
            .keeps("node.uid", "/metadata/uid")
            .sees("/status/capacity/cpu", "4"),
        KUBELET.post("/api/v1/nodes", node).code(409).sees("/reason", "AlreadyExists"),
        KUBELET.post("/api/v1/nodes", other).code(403).sees("/reason", "Forbidden"),
        KUBELET
            .get(format!("/api/v1/nodes?{one}&{FIRST_LIST}"))
            .sees("/items/0/metadata/name", "n1")
            .sees("/items/1", Value::Null),
        KUBELET
            .watch(format!("/api/v1/nodes?{one}&{STREAMED_LIST}"), 2)
            .sees("/0/object/metadata/name", "n1")
            .sees("/1/type", "BOOKMARK"),
        KUBELET
            .patch(format!("{NODE}/status?timeout=10s"), STRATEGIC, report)
            .sees("/status/conditions/0/type", "MemoryPressure")
            .sees("/status/conditions/1/status", "True")
            .sees("/status/conditions/1/reason", "KubeletReady")
            .sees("/status/allocatable/cpu", "4")
            .sees("/status/allocatable/ephemeral-storage", "100Gi")
            .sees("/status/addresses/1/address", "n1"),
        KUBELET.patch("/api/v1/nodes/n2/status?timeout=10s", STRATEGIC, json!({"status": {}})).code(404),
        KUBELET.get(format!("{LEASES}/n1?timeout=10s")).code(404),
        KUBELET
            .post(format!("{LEASES}?timeout=10s"), lease(Value::Null))
            .keeps("heartbeat.revision", "/metadata/resourceVersion"),
        KUBELET
            .put(format!("{LEASES}/n1?timeout=10s"), lease(json!("{heartbeat.revision}")))
            .sees("/spec/holderIdentity", "n1"),
        KUBELET.put(format!("{LEASES}/n2?timeout=10s"), lease(Value::Null)).code(403),
        KUBELET.get("/apis/storage.k8s.io/v1/csinodes/n1").code(404),
        KUBELET
            .post("/apis/storage.k8s.io/v1/csinodes", csi_node)
            .sees("/metadata/ownerReferences/0/uid", "{node.uid}"),
        KUBELET.get(format!("/apis/node.k8s.io/v1/runtimeclasses?{FIRST_LIST}")).sees("/kind", "RuntimeClassList"),
        KUBELET.get(format!("/apis/storage.k8s.io/v1/csidrivers?{FIRST_LIST}")).sees("/kind", "CSIDriverList"),
        KUBELET.get(format!("/api/v1/services?{FIRST_LIST}")).sees("/kind", "ServiceList"),
        // It is refused, since nobody has bound the role to bootstrap tokens, as kubeadm does.
        BOOTSTRAP.post(REQUESTS, certificate_request()).code(403),
        KUBELET
            .post(REQUESTS, certificate_request())
            .keeps("request", "/metadata/name")
            .sees("/spec/username", "system:node:n1")
            .sees("/spec/groups/0", "system:nodes"),
        KUBELET
            .watch(format!("{REQUESTS}?fieldSelector=metadata.name%3D{{request}}&{WATCH}"), 1)
            .sees("/0/object/metadata/name", "{request}"),
    ]
}

fn ready(status: &str, reason: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"
    })
}

fn lease(revision: Value) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": "n1", "namespace": "kube-node-lease", "resourceVersion": revision,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "{node.uid}"}]
        },
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"}
    })
}

fn certificate_request() -> Value {
    json!({
        "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"generateName": "csr-", "creationTimestamp": null},
        "spec": {
            "request": e2e::minimal::CERTIFICATE_REQUEST, "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["key encipherment", "digital signature", "client auth"]
        },
        "status": {}
    })
}

/// Runs the pods that are bound to the node, and ends them.
pub fn runs() -> Vec<Row> {
    let pods = "/api/v1/namespaces/default/pods";
    let mine = "fieldSelector=spec.nodeName%3Dn1";
    let proxied = "labelSelector=%21service.kubernetes.io%2Fheadless%2C%21service.kubernetes.io%2Fservice-proxy-name";
    let status = |uid: &str| {
        json!({
            "metadata": {"uid": uid},
            "status": {
                "$setElementOrder/conditions": [
                    {"type": "PodReadyToStartContainers"}, {"type": "Initialized"}, {"type": "Ready"},
                    {"type": "ContainersReady"}, {"type": "PodScheduled"}
                ],
                "conditions": [
                    condition("PodReadyToStartContainers"), condition("Initialized"), condition("Ready"),
                    condition("ContainersReady")
                ],
                "containerStatuses": [{
                    "name": "web", "image": "nginx", "imageID": "sha256:1", "containerID": "containerd://1",
                    "ready": true, "restartCount": 0, "started": true, "lastState": {},
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
                }],
                "hostIP": "10.0.0.11", "hostIPs": [{"ip": "10.0.0.11"}], "phase": "Running", "podIP": "10.244.0.5",
                "podIPs": [{"ip": "10.244.0.5"}], "startTime": "2026-01-01T00:00:00Z"
            }
        })
    };
    let token = |uid: &str| {
        json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
            "spec": {"audiences": null, "expirationSeconds": 3607, "boundObjectRef": {
                "kind": "Pod", "apiVersion": "v1", "name": "{pod}", "uid": uid
            }},
            "status": {"token": "", "expirationTimestamp": null}
        })
    };
    let tokens = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "{pod}.18b2", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod", "namespace": "default", "name": "{pod}", "uid": "{pod.uid}", "apiVersion": "v1",
            "resourceVersion": "1", "fieldPath": "spec.containers{web}"
        },
        "reason": "BackOff", "message": "Back-off", "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        "type": "Warning",
        "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "n1"
    });
    let again = json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"});
    let map =
        |name: &str| format!("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3D{name}&{WATCH}");
    let gone = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": "{other.uid}"}
    });
    let access = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "spec": {
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": "n1"
            },
            "user": "ada"
        },
        "status": {"allowed": false}
    });
    vec![
        KUBELET
            .get(format!("/api/v1/pods?{mine}&{FIRST_LIST}"))
            .sees("/items/1/spec/nodeName", "n1")
            .sees("/items/2", Value::Null),
        KUBELET
            .watch(format!("/api/v1/pods?{mine}&{STREAMED_LIST}"), 3)
            .sees("/0/type", "ADDED")
            .sees("/2/type", "BOOKMARK"),
        KUBELET
            .get(format!("{pods}/{{pod}}"))
            .repeated()
            .sees("/spec/tolerations/0/key", "node.kubernetes.io/not-ready"),
        KUBELET
            .patch(format!("{pods}/{{pod}}/status"), STRATEGIC, status("{pod.uid}"))
            .sees("/status/phase", "Running")
            .sees("/status/podIPs/0/ip", "10.244.0.5")
            .sees("/status/conditions/0/type", "PodReadyToStartContainers")
            .sees("/status/conditions/4/type", "PodScheduled")
            .sees("/status/containerStatuses/0/started", true),
        KUBELET
            .patch(format!("{pods}/{{pod}}/status"), STRATEGIC, status("another"))
            .code(422)
            .sees("/reason", "Invalid"),
        KUBELET
            .post(tokens, token("{pod.uid}"))
            .sees("/spec/boundObjectRef/name", "{pod}")
            .keeps("pod.token", "/status/token"),
        KUBELET.post(tokens, token("another")).code(403).sees("/reason", "Forbidden"),
        // The pod mounts only the ConfigMap with the cluster's certificate authority.
        KUBELET.watch(map("kube-root-ca.crt"), 1).sees("/0/object/data/ca.crt", "pem"),
        KUBELET.get(map("secret-plans")).code(403).sees("/reason", "Forbidden"),
        KUBELET
            .post("/api/v1/namespaces/default/events", event)
            .sees("/involvedObject/fieldPath", "spec.containers{web}"),
        KUBELET
            .patch("/api/v1/namespaces/default/events/{pod}.18b2", STRATEGIC, again)
            .sees("/count", 2)
            .sees("/reason", "BackOff"),
        KUBELET.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", access).sees("/status/allowed", false),
        ADMIN.get(format!("{pods}/other")).keeps("other.uid", "/metadata/uid"),
        ADMIN
            .delete(format!("{pods}/other"), json!({"propagationPolicy": "Background"}))
            .sees("/metadata/deletionGracePeriodSeconds", 30),
        KUBELET.delete(format!("{pods}/other"), gone).sees("/metadata/name", "other"),
        ADMIN.get(format!("{pods}/other")).code(404),
        PROXY.get(format!("/api/v1/services?{proxied}&{FIRST_LIST}")).sees("/kind", "ServiceList"),
        PROXY
            .get(format!("/apis/discovery.k8s.io/v1/endpointslices?{proxied}&{FIRST_LIST}"))
            .sees("/items/1/endpoints/0/nodeName", "n1"),
        PROXY
            .watch(format!("/api/v1/nodes?fieldSelector=metadata.name%3Dn1&{STREAMED_LIST}"), 2)
            .sees("/1/type", "BOOKMARK"),
    ]
}

fn condition(kind: &str) -> Value {
    json!({
        "type": kind, "status": "True", "observedGeneration": 1, "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    })
}
