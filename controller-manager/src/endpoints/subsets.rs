//! Packs addresses and ports into the canonical subsets of Endpoints: each port is in one subset, with all its
//! addresses.
//!
//! Corresponds to pkg/api/v1/endpoints/util.go (RepackSubsets).

use proto::kinds::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One address of one pod, with its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEndpoint {
    pub address: EndpointAddress,
    pub is_ready: bool,
    /// Empty for a headless service without ports.
    pub ports: Vec<EndpointPort>,
}

/// Sorted addresses with their readiness. Ports with equal addresses share a subset.
type Addresses = Vec<(EndpointAddress, bool)>;

/// Groups the ports that have the same addresses.
pub fn pack(endpoints: &[PodEndpoint]) -> Vec<EndpointSubset> {
    // The key `None` is for endpoints without ports.
    let mut by_port: BTreeMap<Option<PortKey>, Addresses> = BTreeMap::new();
    for endpoint in endpoints {
        if endpoint.ports.is_empty() {
            by_port.entry(None).or_default().push((endpoint.address.clone(), endpoint.is_ready));
        }
        for port in &endpoint.ports {
            by_port.entry(Some(PortKey::of(port))).or_default().push((endpoint.address.clone(), endpoint.is_ready));
        }
    }
    let mut groups: Vec<(Addresses, Vec<EndpointPort>)> = Vec::new();
    for (port, mut addresses) in by_port {
        addresses.sort_by(|(one, _), (other, _)| compare(one, other));
        addresses.dedup_by(|(one, _), (other, _)| compare(one, other) == Ordering::Equal);
        let port = port.map(PortKey::into_port);
        match groups.iter_mut().find(|(present, ports)| *present == addresses && ports.is_empty() == port.is_none()) {
            Some((_, ports)) => ports.extend(port),
            None => groups.push((addresses, port.into_iter().collect())),
        }
    }
    groups.into_iter().map(|(addresses, ports)| subset(addresses, ports)).collect()
}

fn subset(addresses: Addresses, ports: Vec<EndpointPort>) -> EndpointSubset {
    let (ready, not_ready): (Addresses, Addresses) = addresses.into_iter().partition(|(_, is_ready)| *is_ready);
    let listed = |addresses: Addresses| {
        (!addresses.is_empty()).then(|| addresses.into_iter().map(|(address, _)| address).collect())
    };
    EndpointSubset {
        addresses: listed(ready),
        not_ready_addresses: listed(not_ready),
        ports: (!ports.is_empty()).then_some(ports),
    }
}

/// Compares addresses as text, then the pods' uids.
fn compare(one: &EndpointAddress, other: &EndpointAddress) -> Ordering {
    let uid = |address: &EndpointAddress| address.target_ref.as_ref().and_then(|target| target.uid.clone());
    one.ip.cmp(&other.ip).then_with(|| uid(one).cmp(&uid(other)))
}

/// A port in sortable form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PortKey {
    name: Option<String>,
    port: i32,
    protocol: Option<String>,
    app_protocol: Option<String>,
}

impl PortKey {
    fn of(port: &EndpointPort) -> Self {
        Self {
            name: port.name.clone(),
            port: port.port,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        }
    }

    fn into_port(self) -> EndpointPort {
        EndpointPort { name: self.name, port: self.port, protocol: self.protocol, app_protocol: self.app_protocol }
    }
}

/// Limit on the addresses in one Endpoints object.
pub const MAX_ADDRESSES: usize = 1000;

/// Truncates the addresses to `MAX_ADDRESSES`. Ready ones have priority, and each subset keeps its proportion. Returns
/// true if any address was removed.
pub fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let ready = count(subsets, |subset| &mut subset.addresses);
    let not_ready = count(subsets, |subset| &mut subset.not_ready_addresses);
    if ready + not_ready <= MAX_ADDRESSES {
        return false;
    }
    let max_ready = ready.min(MAX_ADDRESSES);
    truncate_field(subsets, |subset| &mut subset.addresses, ready, max_ready);
    truncate_field(subsets, |subset| &mut subset.not_ready_addresses, not_ready, MAX_ADDRESSES - max_ready);
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    true
}

type Field = fn(&mut EndpointSubset) -> &mut Option<Vec<EndpointAddress>>;

fn count(subsets: &mut [EndpointSubset], field: Field) -> usize {
    subsets.iter_mut().map(|subset| field(subset).as_ref().map_or(0, Vec::len)).sum()
}

/// Keeps `max` of `total` addresses. Shares are rounded up, so that the last subsets may get fewer.
fn truncate_field(subsets: &mut [EndpointSubset], field: Field, total: usize, max: usize) {
    if total <= max {
        return;
    }
    let mut left = max;
    for addresses in subsets.iter_mut().map(field) {
        let Some(present) = addresses else { continue };
        let share = (present.len() * max).div_ceil(total).min(left);
        left -= share;
        present.truncate(share);
        if present.is_empty() {
            *addresses = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(ip: &str, is_ready: bool, ports: &[(&str, i32)]) -> PodEndpoint {
        let port = |(name, port): &(&str, i32)| EndpointPort {
            name: Some((*name).to_owned()),
            port: *port,
            ..EndpointPort::default()
        };
        let address = EndpointAddress { ip: ip.to_owned(), ..EndpointAddress::default() };
        PodEndpoint { address, is_ready, ports: ports.iter().map(port).collect() }
    }

    fn shown(subsets: &[EndpointSubset]) -> Vec<String> {
        let ips = |addresses: &Option<Vec<EndpointAddress>>| {
            addresses.iter().flatten().map(|address| address.ip.as_str()).collect::<Vec<_>>().join(",")
        };
        let ports = |subset: &EndpointSubset| {
            subset.ports.iter().flatten().map(|port| format!(":{}", port.port)).collect::<String>()
        };
        subsets
            .iter()
            .map(|subset| format!("{}|{}|{}", ips(&subset.addresses), ips(&subset.not_ready_addresses), ports(subset)))
            .collect()
    }

    #[test]
    fn ports_with_the_same_addresses_share_a_subset() {
        let web = [("http", 80)];
        let both = [("http", 80), ("https", 443)];
        let cases: Vec<(Vec<PodEndpoint>, Vec<&str>)> = vec![
            (vec![], vec![]),
            (vec![offer("10.0.0.2", true, &web), offer("10.0.0.10", true, &web)], vec!["10.0.0.10,10.0.0.2||:80"]),
            (vec![offer("10.0.0.1", true, &web), offer("10.0.0.2", false, &web)], vec!["10.0.0.1|10.0.0.2|:80"]),
            (vec![offer("10.0.0.1", true, &both)], vec!["10.0.0.1||:80:443"]),
            (
                vec![offer("10.0.0.1", true, &both), offer("10.0.0.2", true, &web)],
                vec!["10.0.0.1,10.0.0.2||:80", "10.0.0.1||:443"],
            ),
            (
                vec![offer("10.0.0.1", true, &[("http", 80)]), offer("10.0.0.2", true, &[("http", 8080)])],
                vec!["10.0.0.1||:80", "10.0.0.2||:8080"],
            ),
            (vec![offer("10.0.0.1", true, &[])], vec!["10.0.0.1||"]),
        ];
        for (offers, expected) in cases {
            assert_eq!(shown(&pack(&offers)), expected, "{offers:?}");
        }
    }

    #[test]
    fn too_many_addresses_are_cut_ready_ones_kept_first() {
        let offers = |ready: usize, not_ready: usize| -> Vec<PodEndpoint> {
            (0..ready + not_ready)
                .map(|i| offer(&format!("10.0.{}.{}", i / 256, i % 256), i < ready, &[("http", 80)]))
                .collect()
        };
        let cases = [
            (900, 100, false, 900, 100),
            (900, 200, true, 900, 100),
            (1200, 50, true, 1000, 0),
            (0, 1001, true, 0, 1000),
        ];
        for (ready, not_ready, expected_cut, kept_ready, kept_not_ready) in cases {
            let mut subsets = pack(&offers(ready, not_ready));
            assert_eq!(truncate(&mut subsets), expected_cut, "{ready} {not_ready}");
            let kept = (count(&mut subsets, |s| &mut s.addresses), count(&mut subsets, |s| &mut s.not_ready_addresses));
            assert_eq!(kept, (kept_ready, kept_not_ready), "{ready} {not_ready}");
        }
    }
}
