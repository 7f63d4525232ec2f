//! apps: the workloads that keep pods running.
//!
//! Corresponds to pkg/registry/apps/rest.

use super::Resource;
use super::columns::workload;
use super::fields::{SelectableField, UnknownField};
use super::row::Group;

const APPS: Group = Group { name: "apps", version: "v1", package: "io.k8s.api.apps.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        APPS.namespaced("controllerrevisions", "ControllerRevision").columns(workload::controller_revision()),
        APPS.namespaced("daemonsets", "DaemonSet").short("ds").category("all").status().columns(workload::daemon_set()),
        APPS.namespaced("deployments", "Deployment")
            .short("deploy")
            .category("all")
            .scale()
            .status()
            .columns(workload::deployment()),
        APPS.namespaced("replicasets", "ReplicaSet")
            .short("rs")
            .category("all")
            .scale()
            .status()
            .columns(workload::replica_set()),
        APPS.namespaced("statefulsets", "StatefulSet")
            .short("sts")
            .category("all")
            .scale()
            .status()
            .columns(workload::stateful_set())
            // Kubernetes accepts this path, although a StatefulSet has no such field.
            .selectable(vec![SelectableField::with("status.successful", |_| String::new())], UnknownField::ForGoType),
    ]
}
