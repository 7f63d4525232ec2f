//! The rule that every cluster IP of a Service lies in the range of a ServiceCIDR, and that no ServiceCIDR goes before the
//! addresses that only it contains.
//!
//! A ServiceCIDR that is being deleted still counts: it exists until its finalizer goes. Before there is any, the flags of the
//! API server say the range.
//!
//! The controller sets the finalizer. Addresses are allocated also while it does not run, and then nothing holds back the
//! deletion of a new ServiceCIDR, as in Kubernetes. The range of one that never had the finalizer still counts when it is gone.

use super::fields::{Service, ServiceCidr};
use super::{Rule, RuleViolation, WriteContext, read};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const SERVICES: &str = "/registry/services/specs/";
const SERVICE_CIDRS: &str = "/registry/servicecidrs/";

#[derive(Default)]
pub struct ServiceCidrs {
    ranges: BTreeMap<String, Vec<IpNet>>,
    /// Keys of the ServiceCIDRs that have had their finalizer.
    protected: BTreeSet<String>,
    /// Cluster IPs by the key of their Service.
    addresses: BTreeMap<String, Vec<IpAddr>>,
}

impl ServiceCidrs {
    /// Returns an address of a Service that no range contains.
    fn outside<'a>(&self, addresses: &'a [IpAddr]) -> Option<&'a IpAddr> {
        let is_inside = |address: &IpAddr| self.ranges.values().flatten().any(|range| range.contains(address));
        addresses.iter().find(|address| !self.ranges.is_empty() && !is_inside(address))
    }
}

impl Rule for ServiceCidrs {
    fn prefixes(&self) -> &'static [&'static str] {
        &[SERVICES, SERVICE_CIDRS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(SERVICES) {
            let service = read::<Service>(key, value)?.unwrap_or_default();
            let addresses: Vec<IpAddr> = service.spec.cluster_ips.iter().filter_map(|ip| ip.parse().ok()).collect();
            let outside = self.outside(&addresses).copied();
            self.addresses.insert(key.to_owned(), addresses);
            let what = |address| format!("{key} has {address}, which is in no ServiceCIDR");
            return outside.map_or(Ok(()), |address| Err(RuleViolation::new(what(address))));
        }
        match read::<ServiceCidr>(key, value)? {
            Some(service_cidr) => {
                let ranges = service_cidr.spec.cidrs.iter().filter_map(|cidr| cidr.parse().ok());
                drop(self.ranges.insert(key.to_owned(), ranges.collect()));
                if !service_cidr.metadata.finalizers.is_empty() {
                    self.protected.insert(key.to_owned());
                }
            }
            None if self.protected.remove(key) => drop(self.ranges.remove(key)),
            None => {}
        }
        let left = self.addresses.iter().find_map(|(service, ips)| Some((service, self.outside(ips)?)));
        left.map_or(Ok(()), |(service, address)| {
            let what = format!("{key} is gone, and {service} still has {address}");
            Err(RuleViolation::about(what, [service.clone()]))
        })
    }
}
