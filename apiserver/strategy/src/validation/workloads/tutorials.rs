//! Tests StatefulSets like those of Kubernetes' tutorials: they are accepted, and mistakes in them are reported.

use crate::testing::{create, update};
use serde_json::{Value, json};

fn claim(name: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    })
}

fn stateful_set(name: &str, pod: Value, claims: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "serviceName": name, "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            "volumeClaimTemplates": claims,
        },
    })
}

/// Returns a web server with its pages in a PersistentVolumeClaim.
pub fn web() -> Value {
    let nginx = json!({
        "name": "nginx", "image": "registry.example/nginx:1",
        "ports": [{"name": "web", "containerPort": 80}],
        "volumeMounts": [{"name": "www", "mountPath": "/usr/share/nginx/html"}],
    });
    stateful_set(
        "web",
        json!({"terminationGracePeriodSeconds": 10, "containers": [nginx]}),
        json!([claim("www", "1Gi")]),
    )
}

/// Returns a ZooKeeper ensemble with pod anti-affinity, exec probes, and a user of its own.
fn zookeeper() -> Value {
    let anti_affinity = json!([{
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["zk"]}]},
        "topologyKey": "kubernetes.io/hostname",
    }]);
    let probe =
        json!({"exec": {"command": ["sh", "-c", "ready 2181"]}, "initialDelaySeconds": 10, "timeoutSeconds": 5});
    let ports = json!([
        {"containerPort": 2181, "name": "client"},
        {"containerPort": 2888, "name": "server"},
        {"containerPort": 3888, "name": "leader-election"},
    ]);
    let server = json!({
        "name": "server", "image": "registry.example/zookeeper:3", "imagePullPolicy": "Always",
        "resources": {"requests": {"memory": "1Gi", "cpu": "0.5"}}, "ports": ports,
        "command": ["sh", "-c", "start --servers=3 --data_dir=/var/lib/zookeeper/data"],
        "readinessProbe": probe, "livenessProbe": probe,
        "volumeMounts": [{"name": "datadir", "mountPath": "/var/lib/zookeeper"}],
    });
    let pod = json!({
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti_affinity}},
        "containers": [server],
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
    });
    let mut set = stateful_set("zk", pod, json!([claim("datadir", "10Gi")]));
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    set["spec"]["podManagementPolicy"] = json!("OrderedReady");
    set
}

/// Returns a replicated database: init containers and a backup container share the claim, and the template has more
/// volumes.
fn mysql() -> Value {
    let data = json!({"name": "data", "mountPath": "/var/lib/mysql", "subPath": "mysql"});
    let conf = json!({"name": "conf", "mountPath": "/etc/mysql/conf.d"});
    let init = json!([
        {"name": "init-mysql", "image": "registry.example/mysql:5", "command": ["bash", "-c", "write-config"],
         "volumeMounts": [{"name": "conf", "mountPath": "/mnt/conf.d"}, {"name": "config-map", "mountPath": "/mnt/config-map"}]},
        {"name": "clone-mysql", "image": "registry.example/xtrabackup:1", "command": ["bash", "-c", "clone"],
         "volumeMounts": [data, conf]},
    ]);
    let probe = json!({"exec": {"command": ["mysqladmin", "ping"]}, "initialDelaySeconds": 30, "periodSeconds": 10, "timeoutSeconds": 5});
    let containers = json!([
        {"name": "mysql", "image": "registry.example/mysql:5",
         "env": [{"name": "MYSQL_ALLOW_EMPTY_PASSWORD", "value": "1"}],
         "ports": [{"name": "mysql", "containerPort": 3306}],
         "volumeMounts": [data, conf],
         "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}},
         "livenessProbe": probe, "readinessProbe": probe},
        {"name": "xtrabackup", "image": "registry.example/xtrabackup:1",
         "ports": [{"name": "xtrabackup", "containerPort": 3307}],
         "command": ["bash", "-c", "serve-backups"],
         "volumeMounts": [data, conf],
         "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}},
    ]);
    let volumes = json!([{"name": "conf", "emptyDir": {}}, {"name": "config-map", "configMap": {"name": "mysql"}}]);
    let pod = json!({"initContainers": init, "containers": containers, "volumes": volumes});
    stateful_set("mysql", pod, json!([claim("data", "10Gi")]))
}

/// Returns a Cassandra ring whose seeds are named after the StatefulSet, with a StorageClass.
fn cassandra() -> Value {
    let ports = json!([
        {"containerPort": 7000, "name": "intra-node"}, {"containerPort": 7001, "name": "tls-intra-node"},
        {"containerPort": 7199, "name": "jmx"}, {"containerPort": 9042, "name": "cql"},
    ]);
    let env = json!([
        {"name": "MAX_HEAP_SIZE", "value": "512M"},
        {"name": "CASSANDRA_SEEDS", "value": "cassandra-0.cassandra.default.svc.cluster.local"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]);
    let node = json!({
        "name": "cassandra", "image": "registry.example/cassandra:13", "imagePullPolicy": "Always",
        "ports": ports, "env": env,
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "nodetool drain"]}}},
        "readinessProbe": {"exec": {"command": ["/bin/bash", "-c", "/ready-probe.sh"]}, "initialDelaySeconds": 15, "timeoutSeconds": 5},
        "volumeMounts": [{"name": "cassandra-data", "mountPath": "/cassandra_data"}],
    });
    let mut data = claim("cassandra-data", "1Gi");
    data["spec"]["storageClassName"] = json!("fast");
    stateful_set("cassandra", json!({"terminationGracePeriodSeconds": 500, "containers": [node]}), json!([data]))
}

#[test]
fn the_tutorials_are_accepted_and_scale() {
    for set in [web(), zookeeper(), mysql(), cassandra()] {
        let name = set["metadata"]["name"].clone();
        assert_eq!(create(set.clone()), [""; 0], "{name}");
        let mut scaled = set.clone();
        scaled["spec"]["replicas"] = json!(5);
        assert_eq!(update(set, scaled), [""; 0], "{name}");
    }
}

#[test]
fn a_mount_needs_a_volume_or_a_claim() {
    let mut set = web();
    set["spec"]["volumeClaimTemplates"] = json!([]);
    let missing = "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"www\"";
    assert_eq!(create(set.clone()), [missing]);
    set["spec"]["template"]["spec"]["volumes"] = json!([{"name": "www", "emptyDir": {}}]);
    assert_eq!(create(set), [""; 0]);
}

#[test]
fn a_claim_template_replaces_a_volume_of_the_same_name() {
    let mut set = web();
    // The volume has no source, but the claim template replaces it. A claim may be a block device, too.
    set["spec"]["template"]["spec"]["volumes"] = json!([{"name": "www"}, {"name": "b", "emptyDir": {}}]);
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "b", "mountPath": "/b"}]);
    set["spec"]["template"]["spec"]["containers"][0]["volumeDevices"] =
        json!([{"name": "www", "devicePath": "/dev/w"}]);
    set["spec"]["volumeClaimTemplates"] = json!([claim("www", "1Gi"), claim("www", "1Gi")]);
    assert_eq!(create(set), [""; 0]);
}
