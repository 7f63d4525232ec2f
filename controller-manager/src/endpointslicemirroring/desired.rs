//! The desired endpoints of manually written Endpoints, grouped by address type and ports.
//!
//! Corresponds to reconciler_helpers.go and addressToEndpoint in pkg/controller/endpointslicemirroring.

use crate::endpoints::subsets::{self, PodEndpoint};
use crate::endpointslice::desired::{Desired, Group, Port, identity};
use proto::kinds::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use proto::kinds::api::discovery::v1::{Endpoint, EndpointConditions};
use std::net::IpAddr;

/// The endpoints to mirror, and the number of addresses that are not mirrored.
#[derive(Debug, Default, PartialEq)]
pub struct Mirrored {
    pub desired: Desired,
    /// Number of invalid addresses.
    pub invalid: usize,
    /// Number of skipped addresses, including the invalid ones.
    pub skipped: usize,
}

/// Returns at most `max_per_subset` addresses of each subset.
pub fn mirrored(endpoints: &Endpoints, max_per_subset: usize) -> Mirrored {
    let mut mirrored = Mirrored::default();
    let unpacked: Vec<PodEndpoint> = endpoints.subsets.iter().flatten().flat_map(unpack).collect();
    for subset in subsets::pack(&unpacked) {
        mirrored.add(&subset, max_per_subset);
    }
    mirrored
}

fn unpack(subset: &EndpointSubset) -> Vec<PodEndpoint> {
    let endpoint = |address: &EndpointAddress, is_ready: bool| PodEndpoint {
        address: address.clone(),
        is_ready,
        ports: subset.ports.clone().unwrap_or_default(),
    };
    let ready = subset.addresses.iter().flatten().map(|address| endpoint(address, true));
    let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| endpoint(address, false));
    ready.chain(not_ready).collect()
}

impl Mirrored {
    fn add(&mut self, subset: &EndpointSubset, max_per_subset: usize) {
        let mut ports: Vec<Port> = subset.ports.iter().flatten().map(port).collect();
        ports.sort();
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        let mut added = 0;
        for (address, is_ready) in ready.chain(not_ready) {
            let Some(family) = family(&address.ip) else {
                self.invalid += 1;
                self.skipped += 1;
                continue;
            };
            if added >= max_per_subset {
                self.skipped += 1;
                continue;
            }
            let endpoint = endpoint(address, is_ready);
            let group = Group { address_type: family.to_owned(), ports: ports.clone() };
            self.desired.entry(group).or_default().insert(identity(&endpoint), endpoint);
            added += 1;
        }
    }
}

fn family(ip: &str) -> Option<&'static str> {
    Some(match ip.parse().ok()? {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    })
}

fn port(port: &EndpointPort) -> Port {
    Port {
        name: port.name.clone().unwrap_or_default(),
        port: Some(port.port),
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        app_protocol: port.app_protocol.clone(),
    }
}

fn endpoint(address: &EndpointAddress, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subset(ready: &[&str], not_ready: &[&str], ports: &[i32]) -> EndpointSubset {
        let address = |ip: &&str| EndpointAddress { ip: (*ip).to_owned(), ..EndpointAddress::default() };
        let port = |number: &i32| EndpointPort { port: *number, ..EndpointPort::default() };
        EndpointSubset {
            addresses: Some(ready.iter().map(address).collect()),
            not_ready_addresses: Some(not_ready.iter().map(address).collect()),
            ports: Some(ports.iter().map(port).collect()),
        }
    }

    fn shown(subsets: Vec<EndpointSubset>) -> (Vec<String>, usize, usize) {
        let endpoints = Endpoints { subsets: Some(subsets), ..Endpoints::default() };
        let mirrored = mirrored(&endpoints, 3);
        let group = |(group, endpoints): (&Group, &std::collections::BTreeMap<_, Endpoint>)| {
            let ports: String =
                group.ports.iter().filter_map(|port| port.port).map(|port| format!(":{port}")).collect();
            let ready = |endpoint: &Endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
            let one = |endpoint: &Endpoint| {
                format!("{}{}", endpoint.addresses[0], if ready(endpoint) == Some(true) { "" } else { "!" })
            };
            format!("{}{ports} {}", group.address_type, endpoints.values().map(one).collect::<Vec<_>>().join(" "))
        };
        (mirrored.desired.iter().map(group).collect(), mirrored.invalid, mirrored.skipped)
    }

    #[test]
    fn subsets_become_groups_of_endpoints() {
        let cases: Vec<(Vec<EndpointSubset>, (Vec<&str>, usize, usize))> = vec![
            (vec![], (vec![], 0, 0)),
            (vec![subset(&["10.0.0.1"], &["10.0.0.2"], &[80])], (vec!["IPv4:80 10.0.0.1 10.0.0.2!"], 0, 0)),
            (vec![subset(&["10.0.0.1", "fd00::1"], &[], &[80])], (vec!["IPv4:80 10.0.0.1", "IPv6:80 fd00::1"], 0, 0)),
            (
                vec![subset(&["10.0.0.1"], &[], &[80]), subset(&["10.0.0.1"], &[], &[443])],
                (vec!["IPv4:80:443 10.0.0.1"], 0, 0),
            ),
            (vec![subset(&["10.0.0.1", "nonsense"], &[], &[80])], (vec!["IPv4:80 10.0.0.1"], 1, 1)),
            (
                vec![subset(&["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"], &["10.0.0.5"], &[80])],
                (vec!["IPv4:80 10.0.0.1 10.0.0.2 10.0.0.3"], 0, 2),
            ),
            (vec![subset(&["10.0.0.1"], &[], &[])], (vec!["IPv4 10.0.0.1"], 0, 0)),
        ];
        for (subsets, (groups, invalid, skipped)) in cases {
            let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
            assert_eq!(shown(subsets.clone()), (groups, invalid, skipped), "{subsets:?}");
        }
    }
}
