//! `SliceMetrics`: how many endpoints and slices there are, and what each round changes.
//!
//! Corresponds to k8s.io/endpointslice/metrics and to pkg/controller/endpointslicemirroring/metrics, which have the same
//! families under two prefixes.

use super::desired::{Desired, Group, Identity, identity};
use super::topology;
use client::{Action, Plan};
use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms, Labels, exponential};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::{Endpoint, EndpointSlice};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bounds of numbers of endpoints.
pub const ENDPOINTS: &[f64] = &exponential::<15>(2.0, 2.0);
/// The default bounds of Prometheus.
const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The names of the families that both controllers have.
pub struct Names {
    pub added: &'static str,
    pub removed: &'static str,
    pub endpoints: &'static str,
    pub slices: &'static str,
    pub desired_slices: &'static str,
    pub changes: &'static str,
    /// The objects whose rounds are counted.
    pub of: &'static str,
}

const OF_SERVICES: Names = Names {
    added: "endpoint_slice_controller_endpoints_added_per_sync",
    removed: "endpoint_slice_controller_endpoints_removed_per_sync",
    endpoints: "endpoint_slice_controller_endpoints_desired",
    slices: "endpoint_slice_controller_num_endpoint_slices",
    desired_slices: "endpoint_slice_controller_desired_endpoint_slices",
    changes: "endpoint_slice_controller_changes",
    of: "Service",
};

/// What there is of one service.
#[derive(Clone, Copy, Default)]
struct Share {
    endpoints: i64,
    slices: i64,
    desired_slices: i64,
}

/// Endpoints that a round adds, updates and removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointChanges {
    pub added: usize,
    pub updated: usize,
    pub removed: usize,
}

pub struct SliceMetrics {
    added: Histograms,
    removed: Histograms,
    endpoints: Gauges,
    slices: Gauges,
    desired_slices: Gauges,
    changes: Counters,
    shares: Mutex<BTreeMap<String, Share>>,
}

impl SliceMetrics {
    pub fn new(env: &Env, names: &Names) -> Self {
        let metrics = env.metrics();
        let per_sync = |what: &str| format!("Number of endpoints {what} on each {} sync", names.of);
        let desired_slices = "Number of EndpointSlices that would exist with perfect endpoint allocation";
        Self {
            added: metrics.histograms(names.added, &per_sync("added"), ENDPOINTS),
            removed: metrics.histograms(names.removed, &per_sync("removed"), ENDPOINTS),
            endpoints: metrics.gauges(names.endpoints, "Number of endpoints desired"),
            slices: metrics.gauges(names.slices, "Number of EndpointSlices"),
            desired_slices: metrics.gauges(names.desired_slices, desired_slices),
            changes: metrics.counters(names.changes, "Number of EndpointSlice changes"),
            shares: Mutex::default(),
        }
    }

    /// Counts a round about a service that has been carried out. Returns what it changed.
    pub fn count_round(
        &self,
        key: &str,
        before: &[Arc<EndpointSlice>],
        desired: &Desired,
        max_per_slice: usize,
        plan: &Plan,
    ) -> EndpointChanges {
        let written = written(plan);
        // Where no slice is written, no endpoint has changed.
        let changes = if written.is_empty() { Default::default() } else { endpoint_changes(before, desired) };
        self.added.get_or_create(&Labels::new()).observe(changes.added as f64);
        self.removed.get_or_create(&Labels::new()).observe(changes.removed as f64);
        for (operation, count) in &written {
            self.changes.get_or_create(&vec![("operation", (*operation).to_owned())]).inc_by(*count);
        }
        let count = |operation| written.get(operation).map_or(0, |count| *count as i64);
        let perfect = desired.values().map(|endpoints| endpoints.len().div_ceil(max_per_slice.max(1)));
        let share = Share {
            endpoints: desired.values().map(BTreeMap::len).sum::<usize>() as i64,
            slices: before.len() as i64 + count("create") - count("delete"),
            desired_slices: perfect.sum::<usize>().max(1) as i64,
        };
        self.replace(key, Some(share));
        changes
    }

    /// Forgets a service that is gone.
    pub fn forget(&self, key: &str) {
        self.replace(key, None);
    }

    fn replace(&self, key: &str, share: Option<Share>) {
        let mut shares = self.shares.lock();
        let before = match share {
            Some(share) => shares.insert(key.to_owned(), share),
            None => shares.remove(key),
        };
        let (before, after) = (before.unwrap_or_default(), share.unwrap_or_default());
        let add = |family: &Gauges, change: i64| {
            family.get_or_create(&Labels::new()).inc_by(change);
        };
        add(&self.endpoints, after.endpoints - before.endpoints);
        add(&self.slices, after.slices - before.slices);
        add(&self.desired_slices, after.desired_slices - before.desired_slices);
    }
}

/// Compares the endpoints of slices with those that are desired.
fn endpoint_changes(before: &[Arc<EndpointSlice>], desired: &Desired) -> EndpointChanges {
    let mut present: BTreeMap<(Group, Identity), &Endpoint> = BTreeMap::new();
    for slice in before {
        let group = Group::of(slice);
        let endpoints = slice.endpoints.iter().flatten();
        present.extend(endpoints.map(|endpoint| ((group.clone(), identity(endpoint)), endpoint)));
    }
    let mut changes = EndpointChanges::default();
    for (group, endpoints) in desired {
        for (identity, endpoint) in endpoints {
            match present.remove(&(group.clone(), identity.clone())) {
                None => changes.added += 1,
                Some(before) => changes.updated += usize::from(before != endpoint),
            }
        }
    }
    changes.removed = present.len();
    changes
}

/// Returns how many slices a plan writes, by the operation.
fn written(plan: &Plan) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for action in plan.actions.iter().filter(|action| action.gvr() == Some(&EndpointSlice::gvr())) {
        let operation = match action {
            Action::Create { .. } => "create",
            Action::Delete { .. } => "delete",
            _ => "update",
        };
        *counts.entry(operation).or_default() += 1;
    }
    counts
}

/// The metrics of the controller of Services with a selector.
pub struct ServiceMetrics {
    slices: SliceMetrics,
    changed: Histograms,
    syncs: Counters,
    by_distribution: Gauges,
    distributions: Mutex<BTreeMap<String, String>>,
}

impl ServiceMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        let changed = "endpoint_slice_controller_endpointslices_changed_per_sync";
        let by_distribution = "endpoint_slice_controller_services_count_by_traffic_distribution";
        Self {
            slices: SliceMetrics::new(env, &OF_SERVICES),
            changed: metrics.histograms(changed, "Number of EndpointSlices changed on each Service sync", DEFAULT),
            syncs: metrics.counters("endpoint_slice_controller_syncs", "Number of EndpointSlice syncs"),
            by_distribution: metrics
                .gauges(by_distribution, "Number of Services using some specific trafficDistribution"),
            distributions: Mutex::default(),
        }
    }

    /// Counts a round: `success`, `stale` or `error`.
    pub fn count_sync(&self, result: &str) {
        self.syncs.get_or_create(&vec![("result", result.to_owned())]).inc();
    }

    pub fn count_round(
        &self,
        service: &Service,
        before: &[Arc<EndpointSlice>],
        desired: &Desired,
        max_per_slice: usize,
        plan: &Plan,
    ) {
        self.slices.count_round(&service.key(), before, desired, max_per_slice, plan);
        let distribution = service.spec.as_ref().and_then(|spec| spec.traffic_distribution.clone()).unwrap_or_default();
        let topology = if topology::is_auto(service) { "Auto" } else { "Disabled" };
        let labels = vec![("topology", topology.to_owned()), ("traffic_distribution", distribution.clone())];
        self.changed.get_or_create(&labels).observe(written(plan).values().sum::<u64>() as f64);
        self.set_distribution(&service.key(), distribution);
    }

    pub fn forget(&self, key: &str) {
        self.slices.forget(key);
        self.set_distribution(key, String::new());
    }

    fn set_distribution(&self, key: &str, distribution: String) {
        let mut distributions = self.distributions.lock();
        let before = match distribution.is_empty() {
            true => distributions.remove(key).unwrap_or_default(),
            false => distributions.insert(key.to_owned(), distribution.clone()).unwrap_or_default(),
        };
        for (value, change) in [(before, -1), (distribution, 1)] {
            if !value.is_empty() {
                self.by_distribution.get_or_create(&vec![("traffic_distribution", value)]).inc_by(change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::{actions, fixture};
    use proto::kinds::api::core::v1::ServiceSpec;

    fn endpoint(address: &str, zone: &str) -> Endpoint {
        Endpoint { addresses: vec![address.to_owned()], zone: Some(zone.to_owned()), ..Endpoint::default() }
    }

    fn slice(name: &str, endpoints: &[Endpoint]) -> Arc<EndpointSlice> {
        Arc::new(EndpointSlice {
            metadata: fixture::meta(name),
            address_type: "IPv4".to_owned(),
            endpoints: Some(endpoints.to_vec()),
            ..EndpointSlice::default()
        })
    }

    fn desired(endpoints: &[Endpoint]) -> Desired {
        let group = Group { address_type: "IPv4".to_owned(), ports: Vec::new() };
        Desired::from([(group, endpoints.iter().map(|endpoint| (identity(endpoint), endpoint.clone())).collect())])
    }

    #[test]
    fn endpoints_are_added_updated_and_removed() {
        let before = [slice("s", &[endpoint("a", "x"), endpoint("b", "x"), endpoint("c", "x")])];
        let after = desired(&[endpoint("b", "x"), endpoint("c", "y"), endpoint("d", "x"), endpoint("e", "x")]);
        assert_eq!(endpoint_changes(&before, &after), EndpointChanges { added: 2, updated: 1, removed: 1 });
    }

    #[test]
    fn totals_follow_the_services() {
        let env = Env::simulated(1);
        let metrics = ServiceMetrics::new(&env);
        let service = |name: &str| {
            let spec = ServiceSpec { traffic_distribution: Some("PreferClose".to_owned()), ..ServiceSpec::default() };
            Service { metadata: fixture::meta(name), spec: Some(spec), ..Service::default() }
        };
        let three = desired(&[endpoint("a", "x"), endpoint("b", "x"), endpoint("c", "x")]);
        let plan = Plan::of([Action::create(&*slice("n", &[])), Action::create(&*slice("o", &[]))]);
        metrics.count_round(&service("web"), &[], &three, 2, &plan);
        metrics.count_round(&service("api"), &[], &three, 100, &Plan::of([Action::create(&*slice("n", &[]))]));
        let removal = Plan::of([actions::delete_exactly(&*slice("o", &[]))]);
        metrics.count_round(&service("web"), &[slice("n", &[]), slice("o", &[])], &desired(&[]), 2, &removal);
        metrics.count_sync("success");
        metrics.forget("default/gone");
        let has = |line: &str| {
            let text = env.metrics().encode();
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        };
        has("endpoint_slice_controller_endpoints_desired 3");
        has("endpoint_slice_controller_num_endpoint_slices 2");
        has("endpoint_slice_controller_desired_endpoint_slices 2");
        has("endpoint_slice_controller_changes{operation=\"create\"} 3");
        has("endpoint_slice_controller_changes{operation=\"delete\"} 1");
        has("endpoint_slice_controller_syncs{result=\"success\"} 1");
        has("endpoint_slice_controller_endpoints_added_per_sync_sum 6.0");
        has("endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 2");
        metrics.forget("default/api");
        has("endpoint_slice_controller_endpoints_desired 0");
        has("endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 1");
    }
}
