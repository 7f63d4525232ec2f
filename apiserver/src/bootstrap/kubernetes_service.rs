//! The `kubernetes` Service and its endpoints: how pods find the API server.
//!
//! Corresponds to pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers.

use super::master_leases::{self, Address, Lease, MasterLease};
use super::shared_flags;
use crate::config::{Config, DEFAULT_SECURE_PORT, EndpointReconcilerType};
use crate::server::Server;
use registry::own_write::{change, ensure};
use registry::post_start::{Hook, Milestone};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

/// Who is listed in the endpoints.
#[derive(Debug)]
pub enum Reconciler {
    /// Every server with a living lease.
    Lease(MasterLease),
    /// This server: the store is its own, so there is no other.
    Alone(Address),
    /// Whoever somebody else puts there.
    None,
}

impl Reconciler {
    pub fn new(server: &Server) -> Self {
        let own = own_address(&server.config);
        match server.config.endpoint_reconciler_type {
            EndpointReconcilerType::None => Self::None,
            EndpointReconcilerType::Lease if server.storage.is_shared() => {
                let flags = shared_flags::own(&server.config, &server.authentication);
                Self::Lease(MasterLease::new(server.storage.clone(), Lease { address: own, flags }))
            }
            EndpointReconcilerType::Lease => Self::Alone(own),
        }
    }
}

fn own_address(config: &Config) -> Address {
    Address { ip: config.advertised_ip(), port: config.serving.secure_port.unwrap_or(DEFAULT_SECURE_PORT) }
}

/// Creates the network's ServiceCIDR, the Service and its endpoints, and keeps the endpoints right.
pub async fn reconcile(server: &Arc<Server>, reconciler: &Reconciler) -> registry::Result<()> {
    let registry = &server.registry;
    if let Reconciler::Lease(lease) = reconciler {
        lease.renew().await?;
    }
    let ranges: Vec<String> =
        server.config.service_cluster_ip_range.iter().map(|range| range.trunc().to_string()).collect();
    ensure(registry, "networking.k8s.io", "servicecidrs", service_cidr(&ranges)).await?;
    server.hooks.finished(Hook::ServiceCidr);
    ensure(registry, "", "services", service(address(&server.config))).await?;
    if !server.hooks.has_reached(Milestone::Bootstrapped) {
        compare_ranges(server, &ranges).await?;
    }
    match reconciler {
        Reconciler::Lease(own) => list_the_living(server, own).await,
        Reconciler::Alone(own) => list(server, &[*own]).await,
        Reconciler::None => Ok(()),
    }
}

/// Two servers of one cluster should give out addresses of the same ranges. A cluster of one family may get a second one.
async fn compare_ranges(server: &Arc<Server>, own: &[String]) -> registry::Result<()> {
    let resource = ("networking.k8s.io", "servicecidrs");
    let Ok((_, row)) = server.registry.row_of(resource.0, resource.1) else { return Ok(()) };
    let stored = row.cacher.get_latest("", NAME).await?;
    let stored = stored.map(|object| object.peek()["spec"]["cidrs"].clone()).unwrap_or_default();
    if own.len() == 2 && stored == json!(own[..1]) {
        return change(&server.registry, resource, ("", NAME), |cidr| {
            let mut cidr = cidr.clone();
            cidr["spec"]["cidrs"] = json!(own);
            cidr
        })
        .await;
    }
    if stored != json!(own) {
        let own = own.join(",");
        tracing::warn!(
            "--service-cluster-ip-range is {own} here, and the cluster was set up with {stored}: another API server has \
             other flags, or an earlier one had. This one gives out addresses of its own ranges"
        );
    }
    Ok(())
}

/// The end of a clean stop: clients are led to the others, if there are any.
pub async fn leave(server: &Arc<Server>, reconciler: &Reconciler) -> registry::Result<()> {
    let Reconciler::Lease(lease) = reconciler else { return Ok(()) };
    lease.give_up().await?;
    list_the_living(server, lease).await
}

/// As in Kubernetes nobody empties the list: the last server stays in it.
async fn list_the_living(server: &Arc<Server>, own: &MasterLease) -> registry::Result<()> {
    let living = master_leases::living(&*server.storage).await?;
    own.compare(&living);
    match living.iter().map(|lease| lease.address).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        living => list(server, living).await,
    }
}

async fn list(server: &Arc<Server>, addresses: &[Address]) -> registry::Result<()> {
    let parts = [
        ("", "endpoints", endpoints(addresses), "subsets"),
        ("discovery.k8s.io", "endpointslices", endpoint_slice(addresses), "endpoints"),
    ];
    for (group, resource, wanted, _) in &parts {
        ensure(&server.registry, group, resource, wanted.clone()).await?;
    }
    for (group, resource, wanted, part) in &parts {
        set_part(server, group, resource, wanted, part).await?;
    }
    Ok(())
}

/// The address of the `kubernetes` Service, which has the primary family alone: the first of the service network.
pub fn address(config: &Config) -> IpAddr {
    let range = config.service_cluster_ip_range.first().expect("a flag with a default has a value").trunc();
    match range {
        ipnet::IpNet::V4(net) => IpAddr::V4((u32::from(net.network()) + 1).into()),
        ipnet::IpNet::V6(net) => IpAddr::V6((u128::from(net.network()) + 1).into()),
    }
}

async fn set_part(
    server: &Arc<Server>,
    group: &str,
    resource: &str,
    wanted: &Value,
    part: &str,
) -> registry::Result<()> {
    let registry = &server.registry;
    let Ok((_, row)) = registry.row_of(group, resource) else { return Ok(()) };
    let current = row.cacher.get_latest(NAMESPACE, NAME).await?;
    let is_right = |object: &Value| object.get(part) == wanted.get(part) && object.get("ports") == wanted.get("ports");
    if current.is_none_or(|object| is_right(&object.value())) {
        return Ok(());
    }
    change(registry, (group, resource), (NAMESPACE, NAME), |object| {
        let mut object = object.clone();
        for key in [part, "ports"] {
            match wanted.get(key) {
                Some(value) => object[key] = value.clone(),
                None => drop(object.as_object_mut().and_then(|o| o.remove(key))),
            }
        }
        object
    })
    .await
}

fn service_cidr(ranges: &[String]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": NAME},
        "spec": {"cidrs": ranges},
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

/// One subset for each port, in the order of their lowest addresses.
fn subsets(addresses: &[Address]) -> Vec<(u16, Vec<IpAddr>)> {
    let mut by_port: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
    for Address { ip, port } in addresses {
        by_port.entry(*port).or_default().push(*ip);
    }
    let mut subsets: Vec<_> = by_port.into_iter().collect();
    subsets.sort_by_key(|(_, ips)| ips.iter().min().copied());
    subsets
}

fn endpoints(addresses: &[Address]) -> Value {
    let subset = |(port, ips): (u16, Vec<IpAddr>)| {
        let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip.to_string()})).collect();
        json!({"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]})
    };
    json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets(addresses).into_iter().map(subset).collect::<Vec<_>>(),
    })
}

/// A slice has one port and one family: those of the first subset, as in Kubernetes.
fn endpoint_slice(addresses: &[Address]) -> Value {
    let (port, ips) = subsets(addresses).into_iter().next().expect("there is at least one server: this one");
    let is_ipv4 = ips[0].is_ipv4();
    let ready = |ip: &IpAddr| json!({"addresses": [ip.to_string()], "conditions": {"ready": true}});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": if is_ipv4 { "IPv4" } else { "IPv6" },
        "endpoints": ips.iter().filter(|ip| ip.is_ipv4() == is_ipv4).map(ready).collect::<Vec<_>>(),
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_is_a_subset_and_the_slice_has_the_first() {
        let addresses = [("10.0.0.1", 7000), ("10.0.0.2", 6443), ("10.0.0.3", 7000)]
            .map(|(ip, port)| Address { ip: ip.parse().unwrap(), port });
        let lists = |value: &Value| value.to_string().matches("10.0.0.").count();
        let both = endpoints(&addresses);
        assert_eq!(both["subsets"][0]["addresses"], json!([{"ip": "10.0.0.1"}, {"ip": "10.0.0.3"}]));
        assert_eq!(both["subsets"][0]["ports"][0]["port"], 7000);
        assert_eq!(both["subsets"][1]["addresses"], json!([{"ip": "10.0.0.2"}]));
        let slice = endpoint_slice(&addresses);
        assert_eq!((lists(&both), lists(&slice), &slice["ports"][0]["port"]), (3, 2, &json!(7000)));
    }
}
