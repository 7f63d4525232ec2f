//! The cloud's addresses. All of them are made up, and nothing ever connects to one.

use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// Network of load balancers: TEST-NET-3 of RFC 5737.
const BALANCERS: [u8; 3] = [203, 0, 113];
/// Network of machines as the world sees them: that for benchmarks of RFC 2544.
const EXTERNAL: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// The first addresses of a network are the network's own and its gateway's.
const RESERVED: u32 = 2;

/// Returns the address of a machine inside the cloud; `None` past the end of the network.
pub fn internal(network: Ipv4Net, number: u32) -> Option<Ipv4Addr> {
    nth(network, number)
}

/// Returns the address of a machine as the world sees it; `None` past the end of the network.
pub fn external(number: u32) -> Option<Ipv4Addr> {
    nth(Ipv4Net::new(EXTERNAL.0, EXTERNAL.1).expect("15 is a prefix length"), number)
}

fn nth(network: Ipv4Net, number: u32) -> Option<Ipv4Addr> {
    let address = Ipv4Addr::from(u32::from(network.network()).checked_add(number.checked_add(RESERVED)?)?);
    (network.contains(&address) && address != network.broadcast()).then_some(address)
}

/// Returns the addresses that load balancers can have, in the order in which they are given out.
pub fn balancers() -> impl Iterator<Item = Ipv4Addr> {
    let [a, b, c] = BALANCERS;
    (1..=254).map(move |host| Ipv4Addr::new(a, b, c, host))
}

/// Returns true if a load balancer can have this address.
pub fn is_of_balancers(address: Ipv4Addr) -> bool {
    address.octets()[..3] == BALANCERS && !matches!(address.octets()[3], 0 | 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_from_the_number_until_the_network_ends() {
        let small: Ipv4Net = "172.18.0.0/29".parse().unwrap();
        let text = |address: Option<Ipv4Addr>| address.map(|address| address.to_string()).unwrap_or_default();
        assert_eq!(text(internal(small, 0)), "172.18.0.2");
        assert_eq!(text(internal(small, 4)), "172.18.0.6");
        assert_eq!(internal(small, 5), None);
        assert_eq!(text(external(0)), "198.18.0.2");
        assert_eq!(external(u32::MAX), None);
        assert_eq!(balancers().count(), 254);
        assert!(balancers().all(is_of_balancers));
        assert!(!is_of_balancers("203.0.113.0".parse().unwrap()));
    }
}
