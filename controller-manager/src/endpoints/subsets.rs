//! Addresses and ports in Endpoints' canonical form: every port stands once, beside all the addresses that offer it.
//!
//! Corresponds to pkg/api/v1/endpoints/util.go (RepackSubsets).

use proto::kinds::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One address of one pod, with what it offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    pub address: EndpointAddress,
    pub is_ready: bool,
    /// None at all for a headless service without ports.
    pub ports: Vec<EndpointPort>,
}

/// Addresses with their readiness, in order; equal sets belong to one subset.
type Addresses = Vec<(EndpointAddress, bool)>;

/// Groups the ports that have the same addresses.
pub fn pack(offers: &[Offer]) -> Vec<EndpointSubset> {
    // A port that nobody offers stands for "no ports".
    let mut by_port: BTreeMap<Option<PortKey>, Addresses> = BTreeMap::new();
    for offer in offers {
        if offer.ports.is_empty() {
            by_port.entry(None).or_default().push((offer.address.clone(), offer.is_ready));
        }
        for port in &offer.ports {
            by_port.entry(Some(PortKey::of(port))).or_default().push((offer.address.clone(), offer.is_ready));
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

/// By address as text, then by the pod's uid.
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

/// The most addresses that one Endpoints object may hold.
pub const MAX_ADDRESSES: usize = 1000;

/// Cuts the addresses to what fits, ready ones before others, each subset in proportion to its size. Answers whether
/// anything was cut.
pub fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let ready = count(subsets, |subset| &mut subset.addresses);
    let not_ready = count(subsets, |subset| &mut subset.not_ready_addresses);
    if ready + not_ready <= MAX_ADDRESSES {
        return false;
    }
    let room_ready = ready.min(MAX_ADDRESSES);
    cut(subsets, |subset| &mut subset.addresses, ready, room_ready);
    cut(subsets, |subset| &mut subset.not_ready_addresses, not_ready, MAX_ADDRESSES - room_ready);
    subsets.retain(|subset| subset.addresses.is_some() || subset.not_ready_addresses.is_some());
    true
}

type Field = fn(&mut EndpointSubset) -> &mut Option<Vec<EndpointAddress>>;

fn count(subsets: &mut [EndpointSubset], field: Field) -> usize {
    subsets.iter_mut().map(|subset| field(subset).as_ref().map_or(0, Vec::len)).sum()
}

/// Keeps `room` of `total` addresses. Shares are rounded up, so that the last subsets may get less.
fn cut(subsets: &mut [EndpointSubset], field: Field, total: usize, room: usize) {
    if total <= room {
        return;
    }
    let mut left = room;
    for addresses in subsets.iter_mut().map(field) {
        let Some(present) = addresses else { continue };
        let share = (present.len() * room).div_ceil(total).min(left);
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

    fn offer(ip: &str, is_ready: bool, ports: &[(&str, i32)]) -> Offer {
        let port = |(name, port): &(&str, i32)| EndpointPort {
            name: Some((*name).to_owned()),
            port: *port,
            ..EndpointPort::default()
        };
        let address = EndpointAddress { ip: ip.to_owned(), ..EndpointAddress::default() };
        Offer { address, is_ready, ports: ports.iter().map(port).collect() }
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
        let cases: Vec<(Vec<Offer>, Vec<&str>)> = vec![
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
        let offers = |ready: usize, not_ready: usize| -> Vec<Offer> {
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
