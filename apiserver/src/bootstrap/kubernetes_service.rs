//! `KubernetesService`: the Service `kubernetes` and its endpoints, by which pods reach the API servers.
//!
//! Corresponds to pkg/controlplane/controller/kubernetesservice and pkg/controlplane/reconcilers.

use super::master_leases::{Address, Lease, MasterLease};
use super::shared_flags;
use crate::config::{Config, DEFAULT_SECURE_PORT, EndpointReconcilerType};
use access::authn::Authentication;
use registry::Registry;
use registry::own_write::{change, ensure};
use registry::post_start::{Hook, Milestone, PostStartHooks};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use storage::Storage;

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

/// Creates the `kubernetes` Service with its ServiceCIDR, and keeps its endpoints up to date.
#[derive(Debug)]
pub struct KubernetesService {
    /// The service network's ranges, the primary one first.
    ranges: Vec<String>,
    address: IpAddr,
    endpoints: EndpointReconciler,
}

/// Decides which servers the endpoints list.
#[derive(Debug)]
enum EndpointReconciler {
    /// Lists every server with a current lease.
    Lease(MasterLease),
    /// Lists this server: no other one uses its store.
    Alone(Address),
    /// Leaves the endpoints to another program.
    None,
}

impl KubernetesService {
    pub fn new(config: &Config, authentication: &Authentication, storage: Arc<dyn Storage>) -> Self {
        let own =
            Address { ip: config.advertised_ip(), port: config.serving.secure_port.unwrap_or(DEFAULT_SECURE_PORT) };
        let endpoints = match config.endpoint_reconciler_type {
            EndpointReconcilerType::None => EndpointReconciler::None,
            EndpointReconcilerType::Lease if storage.is_shared() => {
                let flags = shared_flags::own(config, authentication);
                EndpointReconciler::Lease(MasterLease::new(storage, Lease { address: own, flags }))
            }
            EndpointReconcilerType::Lease => EndpointReconciler::Alone(own),
        };
        let ranges = config.service_cluster_ip_range.iter().map(|range| range.trunc().to_string()).collect();
        Self { ranges, address: address(config), endpoints }
    }

    /// Renews this server's lease, creates what is missing, and updates the endpoints.
    pub async fn reconcile(&self, registry: &Registry, hooks: &PostStartHooks) -> registry::Result<()> {
        if let EndpointReconciler::Lease(lease) = &self.endpoints {
            lease.renew().await?;
        }
        ensure(registry, "networking.k8s.io", "servicecidrs", service_cidr(&self.ranges)).await?;
        hooks.finished(Hook::ServiceCidr);
        ensure(registry, "", "services", service(self.address)).await?;
        if !hooks.has_reached(Milestone::Bootstrapped) {
            compare_ranges(registry, &self.ranges).await?;
        }
        match &self.endpoints {
            EndpointReconciler::Lease(lease) => list_leaseholders(registry, lease).await,
            EndpointReconciler::Alone(own) => list(registry, &[*own]).await,
            EndpointReconciler::None => Ok(()),
        }
    }

    /// Gives up this server's lease, so that clients turn to the other servers.
    pub async fn leave(&self, registry: &Registry) -> registry::Result<()> {
        let EndpointReconciler::Lease(lease) = &self.endpoints else { return Ok(()) };
        lease.give_up().await?;
        list_leaseholders(registry, lease).await
    }
}

/// Warns if the cluster was set up with other ranges. Adds the second IP family to a cluster that has only the first.
async fn compare_ranges(registry: &Registry, own: &[String]) -> registry::Result<()> {
    let resource = ("networking.k8s.io", "servicecidrs");
    let Ok((_, row)) = registry.row_of(resource.0, resource.1) else { return Ok(()) };
    let stored = row.cacher.get_latest("", NAME).await?;
    let stored = stored.map(|object| object.peek()["spec"]["cidrs"].clone()).unwrap_or_default();
    if own.len() == 2 && stored == json!(own[..1]) {
        return change(registry, resource, ("", NAME), |cidr| {
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
             other flags, or an earlier one had. Services get addresses of the cluster's ServiceCIDRs"
        );
    }
    Ok(())
}

/// Lists the servers with a current lease. If there is none, the endpoints stay as they are, as in Kubernetes.
async fn list_leaseholders(registry: &Registry, own: &MasterLease) -> registry::Result<()> {
    let leases = own.current_leases().await?;
    own.compare(&leases);
    match leases.iter().map(|lease| lease.address).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        addresses => list(registry, addresses).await,
    }
}

/// Creates the Endpoints and the EndpointSlice, and makes them list these addresses.
async fn list(registry: &Registry, addresses: &[Address]) -> registry::Result<()> {
    let parts = [
        ("", "endpoints", endpoints(addresses), "subsets"),
        ("discovery.k8s.io", "endpointslices", endpoint_slice(addresses), "endpoints"),
    ];
    for (group, resource, wanted, _) in &parts {
        ensure(registry, group, resource, wanted.clone()).await?;
    }
    for (group, resource, wanted, part) in &parts {
        set_part(registry, group, resource, wanted, part).await?;
    }
    Ok(())
}

/// Returns the address of the `kubernetes` Service: the first one of the primary range.
pub fn address(config: &Config) -> IpAddr {
    let range = config.service_cluster_ip_range.first().expect("a flag with a default has a value").trunc();
    match range {
        ipnet::IpNet::V4(net) => IpAddr::V4((u32::from(net.network()) + 1).into()),
        ipnet::IpNet::V6(net) => IpAddr::V6((u128::from(net.network()) + 1).into()),
    }
}

/// Updates one field and the ports of an object, if they differ from the wanted ones.
async fn set_part(
    registry: &Registry,
    group: &str,
    resource: &str,
    wanted: &Value,
    part: &str,
) -> registry::Result<()> {
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

/// Groups addresses by port. The subsets are ordered by their lowest addresses.
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

/// Makes the EndpointSlice. It has one port and one IP family: those of the first subset, as in Kubernetes.
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
