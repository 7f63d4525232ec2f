//! The `kubernetes` Service and its endpoints: how pods find the API server.
//!
//! Corresponds to pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers.

use super::{ensure, own_mutation};
use crate::authn::UserInfo;
use crate::registry::cache_failure;
use crate::registry::mutation::Edit;
use crate::server::Server;
use proto::Status;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

/// Creates the network's ServiceCIDR, the Service and its endpoints, and keeps the endpoints at this server's address.
pub async fn reconcile(server: &Arc<Server>) -> Result<(), Status> {
    let registry = &server.registry;
    let ip = server.config.advertised_ip();
    let port = server.config.serving.secure_port.unwrap_or(crate::config::DEFAULT_SECURE_PORT);
    let range = server.config.service_cluster_ip_range.trunc();
    ensure(registry, "networking.k8s.io", "servicecidrs", service_cidr(&range.to_string())).await?;
    ensure(registry, "", "services", service(first_address(range))).await?;
    let parts = [
        ("", "endpoints", endpoints(ip, port), "subsets"),
        ("discovery.k8s.io", "endpointslices", endpoint_slice(ip, port), "endpoints"),
    ];
    for (group, resource, wanted, _) in &parts {
        ensure(registry, group, resource, wanted.clone()).await?;
    }
    for (group, resource, wanted, part) in &parts {
        set_part(server, group, resource, wanted, part).await?;
    }
    Ok(())
}

/// The service network's first address is the API server's.
fn first_address(range: ipnet::IpNet) -> IpAddr {
    match range {
        ipnet::IpNet::V4(net) => IpAddr::V4((u32::from(net.network()) + 1).into()),
        ipnet::IpNet::V6(net) => IpAddr::V6((u128::from(net.network()) + 1).into()),
    }
}

async fn set_part(server: &Arc<Server>, group: &str, resource: &str, wanted: &Value, part: &str) -> Result<(), Status> {
    let registry = &server.registry;
    let (target, row) = registry.row_of(group, resource)?;
    let current = row.cacher.get_latest(NAMESPACE, NAME).await.map_err(cache_failure)?;
    let is_right = |object: &Value| object.get(part) == wanted.get(part) && object.get("ports") == wanted.get("ports");
    if current.is_none_or(|object| is_right(&object.value())) {
        return Ok(());
    }
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, NAMESPACE, NAME);
    let edit = Edit(|object: &Value| {
        let mut object = object.clone();
        for key in [part, "ports"] {
            match wanted.get(key) {
                Some(value) => object[key] = value.clone(),
                None => drop(object.as_object_mut().and_then(|o| o.remove(key))),
            }
        }
        Ok(object)
    });
    registry.update(&mut mutation, &edit).await.map(|_| ())
}

fn service_cidr(range: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": NAME},
        "spec": {"cidrs": [range]},
    })
}

fn service(ip: IpAddr) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"provider": "kubernetes", "component": "apiserver"}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip.to_string(),
            "clusterIPs": [ip.to_string()],
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    })
}

fn endpoints(ip: IpAddr, port: u16) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": ip.to_string()}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    })
}

fn endpoint_slice(ip: IpAddr, port: u16) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}
