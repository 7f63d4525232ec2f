//! Resources: the requests of containers that run at the same time add up, and the highest sum counts.

use crate::{Cluster, Rejection, Settings, spec};
use proto::kinds::api::core::v1::{Container, Node, Pod};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::Quantity;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Amounts by resource: thousandths of a CPU, and whole numbers of everything else.
pub type Amounts<'a> = BTreeMap<&'a str, i64>;

#[derive(Deserialize)]
#[serde(default)]
struct Weighted {
    name: String,
    weight: i64,
}

impl Default for Weighted {
    fn default() -> Self {
        Self { name: String::new(), weight: 1 }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ScoringStrategy {
    r#type: String,
    resources: Vec<Weighted>,
    requested_to_capacity_ratio: Option<Ratio>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ratio {
    shape: Vec<Point>,
}

/// A point of a function from the use of something, in percent, to a score up to 10.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Point {
    utilization: i64,
    score: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FitArgs {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    scoring_strategy: ScoringStrategy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BalanceArgs {
    resources: Vec<Weighted>,
}

pub fn amounts(quantities: Option<&BTreeMap<String, WireQuantity>>) -> Amounts<'_> {
    let mut amounts = Amounts::new();
    for (name, quantity) in quantities.into_iter().flatten() {
        if let Ok(quantity) = Quantity::try_from(quantity) {
            amounts.insert(name, if name == "cpu" { quantity.milli_value() } else { quantity.value() });
        }
    }
    amounts
}

fn get(amounts: &Amounts<'_>, name: &str) -> i64 {
    amounts.get(name).copied().unwrap_or(0)
}

fn add<'a>(sum: &mut Amounts<'a>, more: Amounts<'a>) {
    if sum.is_empty() {
        *sum = more;
        return;
    }
    for (name, amount) in more {
        let total = sum.entry(name).or_insert(0_i64);
        *total = total.saturating_add(amount);
    }
}

/// Raises each amount to the other one, if that is higher.
fn raise<'a>(highest: &mut Amounts<'a>, other: Amounts<'a>) {
    if highest.is_empty() {
        *highest = other;
        return;
    }
    for (name, amount) in other {
        let most = highest.entry(name).or_insert(amount);
        *most = (*most).max(amount);
    }
}

/// Returns the requests of a pod.
pub fn of(pod: &Pod) -> Amounts<'_> {
    requests(pod, &Amounts::new())
}

/// Returns the requests of a pod, with a use that is assumed for containers without any. If the pod as a whole has
/// requests, it is assumed only of resources that the pod does not request at all.
fn with_assumed(pod: &Pod) -> Amounts<'_> {
    let mut assumed = Amounts::from([("cpu", 100), ("memory", 200 << 20)]);
    if !pod_level(pod).is_empty() {
        let requested = of(pod);
        assumed.retain(|name, _| !requested.contains_key(name));
    }
    requests(pod, &assumed)
}

fn is_of_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// Returns what the pod as a whole requests.
fn pod_level(pod: &Pod) -> Amounts<'_> {
    let mut amounts = amounts(spec(pod).resources.as_ref().and_then(|r| r.requests.as_ref()));
    amounts.retain(|name, _| is_of_pod_level(name));
    amounts
}

/// Returns true if the node can never do the resize that the pod asks for.
fn is_infeasible(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"))
}

/// Returns the largest of the desired, the allocated and the actual requests of a container.
fn of_container<'a>(pod: &'a Pod, container: &'a Container) -> Amounts<'a> {
    let desired = amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()));
    let all = pod.status.iter().flat_map(|status| [&status.container_statuses, &status.init_container_statuses]);
    let known = all.flatten().flatten().find(|status| status.name == container.name);
    let Some(known) = known.filter(|known| known.resources.is_some()) else { return desired };
    let mut most = if is_infeasible(pod) { Amounts::new() } else { desired };
    raise(&mut most, amounts(known.resources.as_ref().and_then(|r| r.requests.as_ref())));
    raise(&mut most, amounts(known.allocated_resources.as_ref()));
    most
}

fn requests<'a>(pod: &'a Pod, assumed: &Amounts<'a>) -> Amounts<'a> {
    let spec = spec(pod);
    let asks = |container: &'a Container| {
        let mut asks = of_container(pod, container);
        for (name, amount) in assumed {
            asks.entry(name).or_insert(*amount);
        }
        asks
    };
    // Of each resource, the most that runs at the same time.
    let (mut requests, mut running) = (Amounts::new(), Amounts::new());
    for init in spec.init_containers.iter().flatten() {
        let mut starting = asks(init);
        let is_sidecar = init.restart_policy.as_deref() == Some("Always");
        add(&mut starting, running.clone());
        raise(&mut requests, starting.clone());
        if is_sidecar {
            running = starting;
        }
    }
    spec.containers.iter().for_each(|container| add(&mut running, asks(container)));
    raise(&mut requests, running);
    let overhead = amounts(spec.overhead.as_ref());
    let of_pod_level = pod_level(pod);
    if !of_pod_level.is_empty() {
        let status = pod.status.as_ref();
        let without = |mut reported: Amounts<'a>| {
            reported.iter_mut().for_each(|(name, amount)| *amount -= get(&overhead, name));
            reported.retain(|name, _| is_of_pod_level(name));
            reported
        };
        let actual = status.and_then(|status| status.resources.as_ref()?.requests.as_ref());
        let allocated = status.and_then(|status| status.allocated_resources.as_ref());
        let is_reported = actual.is_some() || allocated.is_some();
        let mut most = if is_reported && is_infeasible(pod) { Amounts::new() } else { of_pod_level };
        raise(&mut most, without(amounts(actual)));
        raise(&mut most, without(amounts(allocated)));
        requests.extend(most);
    }
    add(&mut requests, overhead);
    requests
}

pub fn allocatable(node: &Node) -> Amounts<'_> {
    amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))
}

/// The use of one resource of a node.
struct Use {
    all: i64,
    used: i64,
    weight: i64,
}

/// What a score reads of the pod and the profile, once for all nodes.
struct Scored<'a> {
    /// The resources that count.
    counted: Vec<Weighted>,
    wanted: Amounts<'a>,
    /// What the pod adds to the use of a node.
    added: Amounts<'a>,
    has_devices: bool,
}

fn has_devices(settings: &Settings) -> bool {
    settings.pre_filters.iter().any(|plugin| plugin == "DynamicResources")
}

fn is_extended(name: &str) -> bool {
    !["cpu", "memory", "ephemeral-storage"].contains(&name)
}

impl<'a> Scored<'a> {
    fn of(settings: &Settings, counted: Vec<Weighted>, pod: &'a Pod, added: Amounts<'a>) -> Self {
        let wanted = of(pod);
        let mut counted = if counted.is_empty() {
            ["cpu", "memory"].map(|name| Weighted { name: name.to_owned(), weight: 1 }).into()
        } else {
            counted
        };
        counted.retain(|one| !is_extended(&one.name) || get(&wanted, &one.name) > 0);
        Self { counted, wanted, added, has_devices: has_devices(settings) }
    }
}

impl Cluster {
    fn used(&self, node: &Node, by: for<'b> fn(&'b Pod) -> Amounts<'b>) -> Amounts<'_> {
        let mut sum = Amounts::new();
        self.pods_on(node).for_each(|pod| add(&mut sum, by(pod)));
        sum
    }

    pub(crate) fn lacks_resources(
        &self,
        settings: &Settings,
        args: &FitArgs,
        pod: &Pod,
        node: &Node,
    ) -> Option<Rejection> {
        let (all, used, wanted) = (allocatable(node), self.used(node, of), of(pod));
        let (mut reasons, mut is_resolvable) = (Vec::new(), true);
        if self.pods_on(node).count() as i64 >= get(&all, "pods") {
            reasons.push("Too many pods".to_owned());
        }
        let is_ignored = |name: &str| match name.split_once('/') {
            Some((group, _)) => {
                args.ignored_resources.iter().any(|one| one == name)
                    || args.ignored_resource_groups.iter().any(|one| one == group)
            }
            None => false,
        };
        let first = ["cpu", "memory", "ephemeral-storage"];
        let has_devices = has_devices(settings);
        let is_backed = |name: &str| has_devices && get(&all, name) == 0 && self.backing(name).is_some();
        let others =
            wanted.keys().copied().filter(|name| !first.contains(name) && !is_ignored(name) && !is_backed(name));
        for name in first.into_iter().chain(others) {
            let (wanted, all) = (get(&wanted, name), get(&all, name));
            if wanted > 0 && wanted > all - get(&used, name) {
                reasons.push(format!("Insufficient {name}"));
                is_resolvable &= wanted <= all;
            }
        }
        (!reasons.is_empty()).then_some(Rejection { plugin: "NodeResourcesFit", reasons, is_resolvable })
    }

    /// Returns the use of the resources that count, with what the pod adds or before. `used` are the sums of the pods on
    /// the node: of CPU and memory as the score counts them, and of everything else.
    fn uses(&self, scored: &Scored<'_>, node: &Node, used: (&Amounts<'_>, &Amounts<'_>), before: bool) -> Vec<Use> {
        let all = allocatable(node);
        let added = |name: &str| if before { 0 } else { get(&scored.added, name) };
        let used = |name: &str| {
            let used = if ["cpu", "memory"].contains(&name) { used.0 } else { used.1 };
            get(used, name).saturating_add(added(name))
        };
        scored
            .counted
            .iter()
            .map(|one| {
                let weight = one.weight.max(1);
                match get(&all, &one.name) {
                    // The devices that stand for the resource.
                    0 if scored.has_devices && is_extended(&one.name) => {
                        let (all, taken) = self.device_totals(node, &one.name);
                        Use { all, used: taken.saturating_add(added(&one.name)), weight }
                    }
                    all => Use { all, used: used(&one.name), weight },
                }
            })
            .filter(|one| one.all > 0)
            .collect()
    }
}

/// Returns the weighted mean of the scores of the resources, as the scoring strategy says, for each node.
pub fn fit_scores(cluster: &Cluster, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Vec<i64> {
    let ScoringStrategy { r#type, resources, requested_to_capacity_ratio } =
        settings.args::<FitArgs>("NodeResourcesFit").scoring_strategy;
    let percent = |part: i64, all: i64| (i128::from(part) * 100 / i128::from(all)) as i64;
    let points = requested_to_capacity_ratio.unwrap_or_default().shape;
    let by_ratio = r#type == "RequestedToCapacityRatio";
    let score = |one: &Use| match r#type.as_str() {
        "MostAllocated" => percent(one.used.min(one.all), one.all),
        "RequestedToCapacityRatio" => {
            on_line(&points, if one.used > one.all { 100 } else { percent(one.used, one.all) })
        }
        _ if one.used > one.all => 0,
        _ => percent(one.all - one.used, one.all),
    };
    let scored = Scored::of(settings, resources, pod, with_assumed(pod));
    let of_node = |node: &&Node| {
        let used = (cluster.used(node, with_assumed), cluster.used(node, of));
        let uses = cluster.uses(&scored, node, (&used.0, &used.1), false);
        let scores: Vec<(i64, i64)> = uses.iter().map(|one| (score(one), one.weight)).collect();
        // Of a ratio, resources without points do not count.
        let counted: Vec<&(i64, i64)> = scores.iter().filter(|(score, _)| !by_ratio || *score > 0).collect();
        let weights: i64 = counted.iter().map(|(_, weight)| weight).sum();
        let total: i64 = counted.iter().map(|(score, weight)| score * weight).sum();
        match weights {
            0 => 0,
            _ if by_ratio => (total as f64 / weights as f64).round() as i64,
            _ => total / weights,
        }
    };
    fit.iter().map(of_node).collect()
}

/// Returns how much more evenly the resources are used with the pod: from 50 to 100, and 75 for no difference. `None` if
/// the pod requests none of them.
pub fn balance_scores(cluster: &Cluster, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
    let counted = settings.args::<BalanceArgs>("NodeResourcesBalancedAllocation").resources;
    let scored = Scored::of(settings, counted, pod, of(pod));
    if !scored.counted.iter().any(|one| get(&scored.wanted, &one.name) > 0) {
        return None;
    }
    let even = |node: &Node, used: &Amounts<'_>, before: bool| {
        let uses = cluster.uses(&scored, node, (used, used), before);
        let parts: Vec<f64> = uses.iter().map(|one| (one.used as f64 / one.all as f64).min(1.0)).collect();
        let apart = match parts[..] {
            [] | [_] => 0.0,
            [one, other] => ((one - other) / 2.0).abs(),
            _ => {
                let mean = parts.iter().sum::<f64>() / parts.len() as f64;
                (parts.iter().map(|part| (part - mean) * (part - mean)).sum::<f64>() / parts.len() as f64).sqrt()
            }
        };
        ((1.0 - apart) * 100.0) as i64
    };
    let of_node = |node: &&Node| {
        let used = cluster.used(node, of);
        50 + (50 + even(node, &used, false) - even(node, &used, true)) / 2
    };
    Some(fit.iter().map(of_node).collect())
}

/// Returns ten times the value of the function that is a line between the points, and constant outside.
pub fn on_line(points: &[Point], at: i64) -> i64 {
    let Some(right) = points.iter().position(|point| at <= point.utilization) else {
        return points.last().map_or(0, |last| last.score * 10);
    };
    let Some(left) = right.checked_sub(1).map(|left| &points[left]) else { return points[right].score * 10 };
    let right = &points[right];
    left.score * 10 + (right.score - left.score) * 10 * (at - left.utilization) / (right.utilization - left.utilization)
}
