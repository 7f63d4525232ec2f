//! Topology-aware hints: spreads a Service's endpoints over zones by the zones' share of the cluster's CPU.
//!
//! A Service asks for them by the annotation `service.kubernetes.io/topology-mode: Auto`. Corresponds to
//! k8s.io/endpointslice/topologycache.
//!
//! ```text
//!   zones a and b have 6 and 2 CPUs; 4 endpoints, 2 in each zone
//!   share of the endpoints         a: 3      b: 1
//!   hints, first the own zone      a a b b
//!   b gives one to a               a a a b
//! ```
//!
//! Deviation: hints follow from the endpoints and nodes alone. Kubernetes leaves those of unchanged slices as they are while no
//! zone gets more than its maximum, so they also depend on what was there before.

use super::desired::{Desired, Group, Identity};
use proto::kinds::api::core::v1::{Node, Service};
use proto::kinds::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForZone};
use proto::meta::node_labels::ZONE;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// The annotations that turn hints on; the older name counts first.
const ANNOTATIONS: [&str; 2] = ["service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"];
/// Nodes with these labels are not counted.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// How much more traffic than the average an endpoint may get.
const OVERLOAD_THRESHOLD: f64 = 0.2;

const NO_ZONE: &str = "One or more endpoints do not have a zone specified";
const ENABLED: &str = "Topology Aware Hints has been enabled";
const DISABLED: &str = "Topology Aware Hints has been disabled";
const NO_NODES: &str = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes";
const FEW_ENDPOINTS: &str = "Insufficient number of endpoints";
const OVERLOAD: &str =
    "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";

/// The share of each zone in the CPU of all ready nodes; `None` if a node lacks its zone or its CPU, or if there are fewer than
/// two zones.
pub type Shares = Option<BTreeMap<String, f64>>;

/// The result for one address type: an event about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Hints are there now, and were not before.
    Enabled(String),
    /// There are no hints, for this reason.
    Disabled(String),
}

/// Returns whether the Service asks for hints by its annotation.
pub fn is_auto(service: &Service) -> bool {
    let annotations = service.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| ANNOTATIONS.iter().find_map(|name| all.get(*name)));
    value.is_some_and(|value| value == "Auto" || value == "auto")
}

/// What a node counts for: nothing, a zone with an amount of CPU, or a reason to give no hints at all.
#[derive(PartialEq, Eq)]
enum Counted<'n> {
    Not,
    Cpu(&'n str, i64),
    Unknown,
}

fn counted(node: &Node) -> Counted<'_> {
    let label = |name: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let status = node.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let is_ready = conditions.find(|condition| condition.type_ == "Ready").is_some_and(|ready| ready.status == "True");
    if !is_ready || EXCLUDED.iter().any(|excluded| label(excluded).is_some()) {
        return Counted::Not;
    }
    let cpu = status.and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    let cpu = cpu.and_then(|cpu| Quantity::parse(&cpu.0).ok()).map_or(0, |cpu| cpu.milli_value());
    match label(ZONE).filter(|zone| !zone.is_empty() && cpu != 0) {
        Some(zone) => Counted::Cpu(zone, cpu),
        None => Counted::Unknown,
    }
}

/// Returns whether hints may differ after the change of a node.
pub fn concerns_hints(old: &Node, new: &Node) -> bool {
    counted(old) != counted(new)
}

pub fn shares<'n>(nodes: impl Iterator<Item = &'n Node>) -> Shares {
    let mut by_zone: BTreeMap<String, i64> = BTreeMap::new();
    for node in nodes {
        match counted(node) {
            Counted::Not => {}
            Counted::Cpu(zone, cpu) => *by_zone.entry(zone.to_owned()).or_default() += cpu,
            Counted::Unknown => return None,
        }
    }
    let total: i64 = by_zone.values().sum();
    let by_share = by_zone.iter().map(|(zone, cpu)| (zone.clone(), *cpu as f64 / total as f64));
    (by_zone.len() >= 2).then(|| by_share.collect())
}

/// Returns whether one of the slices has hints for zones.
fn has_hints(slice: &EndpointSlice) -> bool {
    let mut hints = slice.endpoints.iter().flatten().filter_map(|endpoint| endpoint.hints.as_ref());
    hints.any(|hints| hints.for_zones.is_some())
}

/// Gives hints to the desired endpoints of one address type, if the Service asks for them. The other endpoints keep those
/// of `spec.trafficDistribution`.
pub fn apply(
    service: &Service,
    address_type: &str,
    desired: &mut Desired,
    existing: &[impl AsRef<EndpointSlice>],
    shares: &Shares,
) -> Option<Outcome> {
    let with_type = |text: &str| format!("{text}, addressType: {address_type}");
    let had_hints = existing.iter().any(|slice| has_hints(slice.as_ref()));
    if !is_auto(service) {
        let distributes = service.spec.as_ref().is_some_and(|spec| spec.traffic_distribution.is_some());
        return (had_hints && !distributes).then(|| Outcome::Disabled(with_type(DISABLED)));
    }
    let mut endpoints: Vec<&mut Endpoint> = of_type(desired, address_type).map(|(_, endpoint)| endpoint).collect();
    endpoints.iter_mut().for_each(|endpoint| endpoint.hints = None);
    endpoints.retain(|endpoint| endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true)));
    match zones(&endpoints, shares) {
        Err(reason) => Some(Outcome::Disabled(with_type(&reason))),
        Ok(zones) => {
            for (endpoint, zone) in endpoints.iter_mut().zip(zones) {
                endpoint.hints = Some(EndpointHints { for_zones: Some(vec![ForZone { name: zone }]), for_nodes: None });
            }
            (!had_hints).then(|| Outcome::Enabled(with_type(ENABLED)))
        }
    }
}

fn of_type<'d>(desired: &'d mut Desired, address_type: &str) -> impl Iterator<Item = (&'d Identity, &'d mut Endpoint)> {
    let groups = desired.iter_mut().filter(move |(group, _): &(&Group, _)| group.address_type == address_type);
    groups.flat_map(|(_, endpoints)| endpoints.iter_mut())
}

/// Returns the zone for which each endpoint is to serve.
fn zones(endpoints: &[&mut Endpoint], shares: &Shares) -> Result<Vec<String>, String> {
    let Some(shares) = shares else { return Err(NO_NODES.to_owned()) };
    let wanted = wanted(shares, endpoints.len())?;
    let own = endpoints.iter().map(|endpoint| endpoint.zone.clone().filter(|zone| !zone.is_empty()));
    let mut zones = own.collect::<Option<Vec<String>>>().ok_or_else(|| NO_ZONE.to_owned())?;
    let mut present: BTreeMap<&str, usize> = BTreeMap::new();
    for zone in &zones {
        *present.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) = transfers(&wanted, &present);
    for zone in &mut zones {
        let (Some(left), Some(mut to)) =
            (giving.get_mut(zone.as_str()).filter(|left| **left > 0), receiving.first_entry())
        else {
            continue;
        };
        *left -= 1;
        *to.get_mut() -= 1;
        zone.clone_from(to.key());
        if *to.get() == 0 {
            to.remove();
        }
    }
    Ok(zones)
}

/// Returns how many endpoints each zone is to have. Refuses when some zone would get so few that they are overloaded.
fn wanted(shares: &BTreeMap<String, f64>, count: usize) -> Result<BTreeMap<&str, f64>, String> {
    let with_counts = |text: &str| format!("{text} ({count} endpoints, {} zones)", shares.len());
    if shares.len() > count {
        return Err(with_counts(FEW_ENDPOINTS));
    }
    let mut remaining = count;
    let mut wanted = BTreeMap::new();
    for (zone, share) in shares {
        let desired = share * count as f64;
        let minimum = (desired * (1.0 / (1.0 + OVERLOAD_THRESHOLD))).ceil();
        remaining = remaining.checked_sub(minimum as usize).ok_or_else(|| with_counts(OVERLOAD))?;
        wanted.insert(zone.as_str(), desired.max(minimum));
    }
    Ok(wanted)
}

/// Returns how many endpoints zones give to others, and how many zones get. Whole endpoints move from the zone with most too
/// many to the one with most too few, while that makes the numbers better.
fn transfers(
    wanted: &BTreeMap<&str, f64>,
    present: &BTreeMap<&str, usize>,
) -> (BTreeMap<String, usize>, BTreeMap<String, usize>) {
    let surplus = |zone: &str, wanted: f64| present.get(zone).copied().unwrap_or(0) as f64 - wanted;
    let mut too_many: BTreeMap<&str, f64> =
        wanted.iter().map(|(zone, wanted)| (*zone, surplus(zone, *wanted))).collect();
    let mut too_few: BTreeMap<&str, f64> = too_many.iter().map(|(zone, surplus)| (*zone, -surplus)).collect();
    let (mut giving, mut receiving) = (BTreeMap::new(), BTreeMap::new());
    while let (Some((from, give)), Some((to, need))) = (most(&too_many), most(&too_few)) {
        if (give < 1.0 && need < 1.0) || give < 0.5 || need < 0.5 {
            break;
        }
        *giving.entry(from.to_owned()).or_default() += 1;
        *receiving.entry(to.to_owned()).or_default() += 1;
        too_many.insert(from, give - 1.0);
        too_few.insert(to, need - 1.0);
    }
    (giving, receiving)
}

/// Returns the zone with the largest positive number; the first one by name if there are several.
fn most<'z>(zones: &BTreeMap<&'z str, f64>) -> Option<(&'z str, f64)> {
    let positive = zones.iter().filter(|(_, number)| **number > 0.0);
    positive.map(|(zone, number)| (*zone, *number)).rev().max_by(|(_, one), (_, other)| one.total_cmp(other))
}

#[cfg(test)]
mod tests;
