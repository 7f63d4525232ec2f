//! What a row's cluster has before any pod: nodes that nobody runs, namespaces, and the objects of `Extra`.

use super::node::{name, node, of_size};
use super::rows::{Extra, Row};
use super::template::{BEFORE, CLAIM_TEMPLATE, CSI_DRIVER, DAEMON_NODE, MEASURED};
use crate::bench::Error;
use crate::bench::load::closed_loop;
use crate::bench::objects::post;
use client::Client;
use component_base::env::Env;
use serde_json::{Value, json};

const RESOURCE: &str = "resource.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";
const DEVICE_DRIVER: &str = "test-driver.cdi.k8s.io";
const DEVICE_CLASS: &str = "test-class";
/// Volumes that a node's driver can attach, as in Amazon's cloud.
const MAX_VOLUMES: usize = 39;

fn slice(number: usize, per_node: usize) -> Value {
    let node = name(number);
    let devices: Vec<Value> = (0..per_node).map(|device| json!({"name": format!("device-{device}")})).collect();
    json!({
        "apiVersion": RESOURCE, "kind": "ResourceSlice", "metadata": {"name": format!("{node}-devices")},
        "spec": {
            "driver": DEVICE_DRIVER, "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    })
}

fn csi_node(number: usize) -> Value {
    let node = name(number);
    let driver =
        json!({"name": CSI_DRIVER, "nodeID": node, "topologyKeys": null, "allocatable": {"count": MAX_VOLUMES}});
    json!({"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [driver]}})
}

/// Objects that a row has once.
fn single(row: &Row) -> Vec<(String, Value)> {
    let namespace = |name: &str| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ("/api/v1/namespaces".to_owned(), namespace)
    };
    let mut objects = vec![namespace(BEFORE), namespace(MEASURED)];
    match row.extra {
        Extra::Service => {
            let spec = json!({"selector": {"app": "service"}, "ports": [{"protocol": "TCP", "port": 80}]});
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}, "spec": spec});
            objects.push((format!("/api/v1/namespaces/{MEASURED}/services"), service));
        }
        Extra::DaemonNode => {
            let resources = json!({"cpu": "90000", "memory": "32000000Gi", "pods": "90000"});
            objects.push(("/api/v1/nodes".to_owned(), of_size(DAEMON_NODE, "zone1", &resources)));
        }
        Extra::Devices { .. } => {
            let is_ours = json!({"cel": {"expression": format!("device.driver == {DEVICE_DRIVER:?}")}});
            let class = json!({
                "apiVersion": RESOURCE, "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS},
                "spec": {"selectors": [is_ours]},
            });
            objects.push((format!("/apis/{RESOURCE}/deviceclasses"), class));
            let request = json!({"name": "req-0", "exactly": {"deviceClassName": DEVICE_CLASS}});
            let template = json!({
                "apiVersion": RESOURCE, "kind": "ResourceClaimTemplate", "metadata": {"name": CLAIM_TEMPLATE},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            });
            for namespace in [BEFORE, MEASURED] {
                let collection = format!("/apis/{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates");
                objects.push((collection, template.clone()));
            }
        }
        Extra::Nothing | Extra::CsiDriver | Extra::Gangs => {}
    }
    objects
}

/// Creates everything but the pods and what each of them needs.
pub async fn create(env: &Env, clients: &[Client], row: &Row, nodes: usize) -> Result<(), Error> {
    for (collection, object) in single(row) {
        post(clients[0].clone(), &collection, object).await?;
    }
    let creating = closed_loop(env, clients, nodes, |client, number| async move {
        let zone = row.zones[number % row.zones.len()];
        post(client.clone(), "/api/v1/nodes", node(&name(number), zone)).await?;
        match row.extra {
            Extra::CsiDriver => post(client, &format!("/apis/{STORAGE}/csinodes"), csi_node(number)).await,
            Extra::Devices { per_node } => {
                post(client, &format!("/apis/{RESOURCE}/resourceslices"), slice(number, per_node)).await
            }
            Extra::Nothing | Extra::Service | Extra::DaemonNode | Extra::Gangs => Ok(()),
        }
    });
    creating.await.must_succeed().map(drop)
}
