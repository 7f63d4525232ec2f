//! Allocation of the addresses and node ports of Services, so that two servers never allocate the same one.
//!
//! Each address and each node port is a key of its own in the store; the Service whose write creates the key holds it.
//! Addresses are `IPAddress` objects, as in Kubernetes. Corresponds to
//! pkg/registry/core/service/{ipallocator,portallocator}.
//!
//! Deviation: a node port is a key below `/registry/ranges/servicenodeports`, where Kubernetes keeps one bitmap for all.

pub mod families;
mod service_cidr;

use self::families::Family;
use component_base::rng::Random;
use ipnet::IpNet;
use proto::Object;
use serde_json::{Value, json};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The ranges from which Services get their addresses and node ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    /// IP families of the cluster, the primary one first.
    families: Vec<Family>,
    /// Ranges of both families, in the order in which they are tried.
    ranges: Vec<IpNet>,
    pub node_ports: RangeInclusive<u16>,
}

/// An address or a node port, which only one Service holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reserved {
    Address(IpAddr),
    NodePort(u16),
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "address {address}"),
            Self::NodePort(port) => write!(f, "node port {port}"),
        }
    }
}

/// The Service that holds an address or a node port.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Parses a range of ports, written as `first-last`, both inclusive.
pub fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("--service-node-port-range: {text:?} is not first-last, two ports");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let (first, last): (u16, u16) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    if first == 0 || first > last { Err(wrong()) } else { Ok(first..=last) }
}

/// Validates the values of `--service-cluster-ip-range`.
pub fn check_ranges(ranges: &[IpNet]) -> Result<(), String> {
    const FLAG: &str = "--service-cluster-ip-range";
    if ranges.len() > 2 {
        return Err(format!("{FLAG} must not contain more than two entries"));
    }
    if let [first, second] = ranges
        && families::of_address(first.addr()) == families::of_address(second.addr())
    {
        return Err(format!("{FLAG}[0] and {FLAG}[1] must be of different IP family"));
    }
    let too_large = ranges.iter().find(|range| is_too_large(**range));
    too_large.map_or(Ok(()), |range| {
        let length = range.prefix_len();
        Err(format!("{FLAG}: shortest allowed prefix length for service CIDR is {MIN_IPV6_PREFIX}, got {length}"))
    })
}

fn is_too_large(range: IpNet) -> bool {
    range.addr().is_ipv6() && range.prefix_len() < MIN_IPV6_PREFIX
}

/// Returns the size of the lower band of a range, which is kept for Services that request a certain address or port. It is
/// a fraction of the range, between 16 and `largest`; a range of at most 16 has no lower band.
fn static_band(size: u128, fraction: u128, largest: u128) -> u128 {
    const SMALLEST: u128 = 16;
    if size <= SMALLEST { 0 } else { (size / fraction).clamp(SMALLEST, largest) }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl ServiceNetwork {
    /// Makes the network of a cluster without ServiceCIDRs: it has the ranges of the flags.
    pub fn new(ranges: &[IpNet], node_ports: RangeInclusive<u16>) -> Self {
        let families = ranges.iter().map(|range| families::of_address(range.addr())).collect();
        Self { families, ranges: ranges.iter().map(IpNet::trunc).collect(), node_ports }
    }

    /// Returns the network with the ranges of the ServiceCIDRs that are ready. The ranges of the flags count only as long
    /// as the default ServiceCIDR does not exist.
    #[must_use]
    pub fn with_service_cidrs(&self, service_cidrs: &[Arc<Object>]) -> Self {
        let ranges = service_cidr::ready_ranges(service_cidrs).unwrap_or_else(|| self.ranges.clone());
        Self { families: self.families.clone(), ranges, node_ports: self.node_ports.clone() }
    }

    /// Returns the network with the ranges of all ServiceCIDRs: Services keep the addresses of one that is being deleted.
    #[must_use]
    pub fn with_all_service_cidrs(&self, service_cidrs: &[Arc<Object>]) -> Self {
        let ranges = service_cidr::all_ranges(service_cidrs).unwrap_or_else(|| self.ranges.clone());
        Self { families: self.families.clone(), ranges, node_ports: self.node_ports.clone() }
    }

    pub fn families(&self) -> &[Family] {
        &self.families
    }

    pub fn ranges_of(&self, family: &str) -> impl Iterator<Item = IpNet> {
        self.ranges.iter().copied().filter(move |range| families::of_address(range.addr()) == family)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges_of(families::of_address(address)).any(|range| {
            let (first, last) = hosts(range);
            (first..=last).contains(&number(address))
        })
    }

    /// Returns free addresses of a range in the order to try them: those of the upper band from a random one on, then those
    /// of the lower band.
    pub fn candidates(range: IpNet, taken: &dyn Fn(IpAddr) -> bool, random: &Random) -> Vec<IpAddr> {
        let (first, last) = hosts(range);
        if last < first {
            return Vec::new();
        }
        let address = |number: u128| match range {
            IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
            IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
        };
        let whole = number(range.broadcast()) - number(range.network()) + 1;
        let band = static_band(whole, ADDRESS_FRACTION, MAX_STATIC_ADDRESSES);
        let upper = last - first + 1 - band;
        let start = random.below(usize::try_from(upper).unwrap_or(usize::MAX).max(1)) as u128;
        let in_upper = (0..upper).map(|i| first + band + (start + i) % upper);
        let in_lower = first..first + band;
        in_upper.chain(in_lower).map(address).filter(|ip| !taken(*ip)).take(MAX_ATTEMPTS).collect()
    }

    /// Returns free node ports in the order to try them: those of the upper band from a random one on, then those of the
    /// lower band.
    pub fn port_candidates(&self, taken: &dyn Fn(u16) -> bool, random: &Random) -> Vec<u16> {
        let (first, last) = (*self.node_ports.start(), *self.node_ports.end());
        let size = last - first + 1;
        let band = static_band(u128::from(size), PORT_FRACTION, MAX_STATIC_PORTS);
        let band = u16::try_from(band).unwrap_or(0);
        let upper = usize::from(size - band);
        let start = random.below(upper);
        let in_upper = (0..upper).map(|i| first + band + u16::try_from((start + i) % upper).unwrap_or(0));
        in_upper.chain(first..first + band).filter(|port| !taken(*port)).take(MAX_ATTEMPTS).collect()
    }
}

/// Returns the first and the last address that a Service may have: without the network address, and without the broadcast
/// address of IPv4.
fn hosts(range: IpNet) -> (u128, u128) {
    let last = number(range.broadcast());
    (number(range.network()) + 1, if range.addr().is_ipv4() { last.saturating_sub(1) } else { last })
}

/// The shortest prefix of an IPv6 range: the allocator does not handle more addresses.
const MIN_IPV6_PREFIX: u8 = 64;
/// Size of the lower bands: a fraction of the range, and a limit.
const ADDRESS_FRACTION: u128 = 16;
const MAX_STATIC_ADDRESSES: u128 = 256;
const PORT_FRACTION: u128 = 32;
const MAX_STATIC_PORTS: u128 = 128;
/// Number of candidates that are tried before the range counts as full. Each one that fails was reserved by another write.
const MAX_ATTEMPTS: usize = 64;

/// Value of the label `managed-by` on an `IPAddress` that reserves an address.
pub const MANAGER: &str = "ipallocator.k8s.io";
/// Prefix of the keys that reserve node ports.
pub const NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

/// Returns the object that reserves an address.
pub fn ip_address(address: IpAddr, holder: Holder<'_>) -> Value {
    let family = families::of_address(address);
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": MANAGER,
            },
        },
        "spec": {
            "parentRef": {"group": "", "resource": "services", "namespace": holder.namespace, "name": holder.name},
        },
    })
}

/// Returns the key that reserves a node port.
pub fn node_port_key(port: u16) -> String {
    format!("{NODE_PORTS}{port}")
}

/// Returns the value of the key that reserves a node port.
pub fn node_port_claim(holder: Holder<'_>) -> Value {
    json!({"namespace": holder.namespace, "name": holder.name})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn network(ranges: &[&str]) -> ServiceNetwork {
        let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        ServiceNetwork::new(&ranges, 30000..=30003)
    }

    #[test]
    fn addresses_come_from_the_upper_band_first() {
        let random = Random::from_seed(1, "test");
        for (range, first_of_upper, first, last) in [
            ("10.0.0.0/24", "10.0.0.17", "10.0.0.1", "10.0.0.254"),
            ("10.0.0.0/27", "10.0.0.17", "10.0.0.1", "10.0.0.30"),
            ("10.0.0.0/28", "10.0.0.1", "10.0.0.1", "10.0.0.14"),
            ("10.0.0.0/16", "10.0.1.1", "10.0.0.1", "10.0.255.254"),
            ("fd00::/120", "fd00::11", "fd00::1", "fd00::ff"),
            ("fd00::/64", "fd00::101", "fd00::1", "fd00::ffff:ffff:ffff:ffff"),
        ] {
            let range: IpNet = range.parse().unwrap();
            let [begin, first, last] = [first_of_upper, first, last].map(|text| text.parse::<IpAddr>().unwrap());
            assert_eq!(hosts(range), (number(first), number(last)), "{range}");
            let found = ServiceNetwork::candidates(range, &|_| false, &random);
            let upper = usize::try_from(number(last) - number(begin) + 1).unwrap_or(usize::MAX);
            let in_upper = &found[..found.len().min(upper)];
            assert!(in_upper.iter().all(|ip| (begin..=last).contains(ip)), "{range}: {in_upper:?}");
            // The upper band of the largest range is too long to list.
            if range.prefix_len() > 64 || range.addr().is_ipv4() {
                let only_low = ServiceNetwork::candidates(range, &|ip| ip >= begin, &random);
                let expected = if begin == first { None } else { Some(&first) };
                assert_eq!(only_low.first(), expected, "{range}");
            }
        }
        assert!(ServiceNetwork::candidates("10.0.0.0/24".parse().unwrap(), &|_| true, &random).is_empty());
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_allocated() {
        let one = network(&["10.0.0.0/24"]);
        let inside = |network: &ServiceNetwork, text: &str| network.contains(text.parse().unwrap());
        assert!(!inside(&one, "10.0.0.0") && inside(&one, "10.0.0.1"));
        assert!(inside(&one, "10.0.0.254") && !inside(&one, "10.0.0.255"));
        assert!(!inside(&one, "10.0.1.1") && !inside(&one, "fd00::1"));
        let two = network(&["fd00::/112", "10.0.0.0/24"]);
        assert!(inside(&two, "10.0.0.1") && !inside(&two, "fd00::") && inside(&two, "fd00::1"));
        assert!(inside(&two, "fd00::ffff") && !inside(&two, "fd00::1:0"));
        assert_eq!(two.families(), ["IPv6", "IPv4"]);
    }

    #[test]
    fn ranges_are_one_of_each_family_at_most() {
        for (ranges, expected) in [
            (&["10.0.0.0/16"][..], Ok(())),
            (&["fd00::/108", "10.0.0.0/16"], Ok(())),
            (
                &["10.0.0.0/16", "10.1.0.0/16"],
                Err("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"),
            ),
            (
                &["10.0.0.0/16", "fd00::/108", "10.1.0.0/16"],
                Err("--service-cluster-ip-range must not contain more than two entries"),
            ),
            (
                &["fd00::/48"],
                Err("--service-cluster-ip-range: shortest allowed prefix length for service CIDR is 64, got 48"),
            ),
        ] {
            let parsed: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
            assert_eq!(check_ranges(&parsed), expected.map_err(str::to_owned), "{ranges:?}");
        }
    }

    #[test]
    fn every_port_is_tried_once_and_those_of_the_lower_band_last() {
        let network = network(&["10.0.0.0/24"]);
        let ports = network.port_candidates(&|port| port == 30001, &Random::from_seed(2, "test"));
        assert_eq!(ports.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([30000, 30002, 30003]));
        for (node_ports, first_of_upper) in [(30000..=32767, 30086), (30000..=30049, 30016), (1..=65535, 129)] {
            let network = ServiceNetwork { node_ports: node_ports.clone(), ..network.clone() };
            let ports = network.port_candidates(&|_| false, &Random::from_seed(3, "test"));
            let upper = usize::from(node_ports.end() - first_of_upper + 1).min(ports.len());
            assert!(ports[..upper].iter().all(|port| *port >= first_of_upper), "{node_ports:?}: {ports:?}");
            let low = network.port_candidates(&|port| port >= first_of_upper, &Random::from_seed(3, "test"));
            assert_eq!(low.first(), Some(node_ports.start()), "{node_ports:?}");
        }
    }

    #[test]
    fn a_port_range_is_two_ports() {
        assert_eq!(parse_ports("30000-32767"), Ok(30000..=32767));
        for wrong in ["", "1", "5-2", "0-4", "a-b", "1-70000"] {
            assert!(parse_ports(wrong).is_err(), "{wrong}");
        }
    }
}
