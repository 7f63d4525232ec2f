//! Equal parts of one range of addresses, and which of them are taken.
//!
//! Corresponds to pkg/controller/nodeipam/ipam/cidrset.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No more than this many bits number the parts, as in Kubernetes: a larger range would not be handed out in a life.
const MAX_BITS: u8 = 16;

#[derive(Clone, Debug)]
pub struct CidrSet {
    range: IpNet,
    part_prefix: u8,
    taken: BTreeSet<u32>,
    /// Where the search for a free part begins: a part just given back is not handed out again at once.
    next: u32,
}

/// Why a range cannot be parted so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--cluster-cidr {range} cannot be parted into nodes' ranges of /{part_prefix}")]
pub struct BadSize {
    range: IpNet,
    part_prefix: u8,
}

impl CidrSet {
    pub fn new(range: IpNet, part_prefix: u8) -> Result<Self, BadSize> {
        let bits = part_prefix.checked_sub(range.prefix_len());
        match bits {
            Some(bits) if bits <= MAX_BITS && part_prefix <= range.max_prefix_len() => {
                Ok(Self { range: range.trunc(), part_prefix, taken: BTreeSet::new(), next: 0 })
            }
            _ => Err(BadSize { range, part_prefix }),
        }
    }

    fn count(&self) -> u32 {
        1 << (self.part_prefix - self.range.prefix_len())
    }

    /// Takes the next free part; nothing if all are taken.
    pub fn allocate(&mut self) -> Option<IpNet> {
        let count = self.count();
        let free = (0..count).map(|i| (self.next + i) % count).find(|i| !self.taken.contains(i))?;
        self.taken.insert(free);
        self.next = (free + 1) % count;
        Some(self.part(free))
    }

    /// Marks a part that a node has already. Whether it is one of this set's.
    pub fn occupy(&mut self, part: &IpNet) -> bool {
        let Some(i) = self.number(part) else { return false };
        self.taken.insert(i);
        true
    }

    pub fn release(&mut self, part: &IpNet) {
        if let Some(i) = self.number(part) {
            self.taken.remove(&i);
        }
    }

    fn part(&self, i: u32) -> IpNet {
        match self.range {
            IpNet::V4(range) => {
                let address = u32::from(range.network()) + (i << (32 - u32::from(self.part_prefix)).min(31));
                let address = if self.part_prefix == 0 { u32::from(range.network()) } else { address };
                IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from(address), self.part_prefix))
            }
            IpNet::V6(range) => {
                let shift = (128 - u32::from(self.part_prefix)).min(127);
                let address = u128::from(range.network()) + (u128::from(i) << shift);
                IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from(address), self.part_prefix))
            }
        }
    }

    fn number(&self, part: &IpNet) -> Option<u32> {
        if part.prefix_len() != self.part_prefix || !self.range.contains(&part.network()) {
            return None;
        }
        let offset = match (part.network(), self.range.network()) {
            (IpAddr::V4(part), IpAddr::V4(base)) => {
                u128::from(u32::from(part) - u32::from(base)) >> (32 - u32::from(self.part_prefix))
            }
            (IpAddr::V6(part), IpAddr::V6(base)) => {
                (u128::from(part) - u128::from(base)).checked_shr(128 - u32::from(self.part_prefix)).unwrap_or(0)
            }
            _ => return None,
        };
        u32::try_from(offset).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn shown(part: Option<IpNet>) -> String {
        part.map_or("none".to_owned(), |part| part.to_string())
    }

    #[test]
    fn parts_come_in_order_and_run_out() {
        let cases = [
            ("10.244.0.0/16", 24, ["10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"]),
            ("10.0.0.0/30", 31, ["10.0.0.0/31", "10.0.0.2/31", "none"]),
            ("10.0.0.7/32", 32, ["10.0.0.7/32", "none", "none"]),
            ("fd00:10:244::/56", 64, ["fd00:10:244::/64", "fd00:10:244:1::/64", "fd00:10:244:2::/64"]),
        ];
        for (range, prefix, expected) in cases {
            let mut set = CidrSet::new(net(range), prefix).unwrap();
            let got = [(); 3].map(|()| shown(set.allocate()));
            assert_eq!(got, expected, "{range} /{prefix}");
        }
    }

    #[test]
    fn what_is_taken_is_left_out_and_what_is_given_back_comes_last() {
        let mut set = CidrSet::new(net("10.0.0.0/22"), 24).unwrap();
        assert!(set.occupy(&net("10.0.1.0/24")));
        assert!(!set.occupy(&net("10.9.0.0/24")) && !set.occupy(&net("10.0.0.0/25")), "not one of these parts");
        assert_eq!(shown(set.allocate()), "10.0.0.0/24");
        assert_eq!(shown(set.allocate()), "10.0.2.0/24");
        set.release(&net("10.0.0.0/24"));
        assert_eq!(shown(set.allocate()), "10.0.3.0/24");
        assert_eq!(shown(set.allocate()), "10.0.0.0/24");
        assert_eq!(shown(set.allocate()), "none");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (range, prefix) in [("10.0.0.0/16", 8), ("10.0.0.0/8", 25), ("10.0.0.0/16", 33), ("fd00::/40", 64)] {
            assert!(CidrSet::new(net(range), prefix).is_err(), "{range} /{prefix}");
        }
    }
}
