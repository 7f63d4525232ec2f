//! Resources: the requests of containers that run at the same time add up, and the highest sum counts.

use crate::{Cluster, Rejection, Settings, spec};
use proto::kinds::api::core::v1::{Container, Node, Pod};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::Quantity;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Amounts by resource: thousandths of a CPU, and whole numbers of everything else.
pub type Amounts = BTreeMap<String, i64>;

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

#[derive(Default, Deserialize)]
#[serde(default)]
struct Point {
    utilization: i64,
    score: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FitArgs {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    scoring_strategy: ScoringStrategy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BalanceArgs {
    resources: Vec<Weighted>,
}

pub fn amounts(quantities: Option<&BTreeMap<String, WireQuantity>>) -> Amounts {
    let amount = |(name, quantity): (&String, &WireQuantity)| {
        let quantity = Quantity::try_from(quantity).ok()?;
        Some((name.clone(), if name == "cpu" { quantity.milli_value() } else { quantity.value() }))
    };
    quantities.into_iter().flatten().filter_map(amount).collect()
}

fn get(amounts: &Amounts, name: &str) -> i64 {
    amounts.get(name).copied().unwrap_or(0)
}

fn sum<'a>(all: impl IntoIterator<Item = &'a Amounts>) -> Amounts {
    let mut sum = Amounts::new();
    for (name, amount) in all.into_iter().flatten() {
        let total = sum.entry(name.clone()).or_insert(0_i64);
        *total = total.saturating_add(*amount);
    }
    sum
}

fn highest<'a>(all: impl IntoIterator<Item = &'a Amounts>) -> Amounts {
    let mut highest = Amounts::new();
    for (name, amount) in all.into_iter().flatten() {
        let most = highest.entry(name.clone()).or_insert(*amount);
        *most = (*most).max(*amount);
    }
    highest
}

/// Returns the requests of a pod.
pub fn of(pod: &Pod) -> Amounts {
    requests(pod, &Amounts::new())
}

/// Returns the requests of a pod, with a use that is assumed for containers without any. If the pod as a whole has
/// requests, it is assumed only of resources that the pod does not request at all.
fn with_assumed(pod: &Pod) -> Amounts {
    let mut assumed = Amounts::from([("cpu".to_owned(), 100), ("memory".to_owned(), 200 << 20)]);
    if !pod_level(pod).is_empty() {
        let requested = of(pod);
        assumed.retain(|name, _| !requested.contains_key(name));
    }
    requests(pod, &assumed)
}

/// Returns what the pod as a whole requests.
fn pod_level(pod: &Pod) -> Amounts {
    let mut amounts = amounts(spec(pod).resources.as_ref().and_then(|r| r.requests.as_ref()));
    amounts.retain(|name, _| name == "cpu" || name == "memory" || name.starts_with("hugepages-"));
    amounts
}

/// Returns true if the node can never do the resize that the pod asks for.
fn is_infeasible(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.any(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"))
}

/// Returns the largest of the desired, the allocated and the actual requests of a container.
fn of_container(pod: &Pod, container: &Container) -> Amounts {
    let desired = amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()));
    let status = pod.status.clone().unwrap_or_default();
    let all = [status.container_statuses, status.init_container_statuses];
    let known = all.into_iter().flatten().flatten().find(|status| status.name == container.name);
    let Some(known) = known.filter(|known| known.resources.is_some()) else { return desired };
    let actual = amounts(known.resources.as_ref().and_then(|r| r.requests.as_ref()));
    let allocated = amounts(known.allocated_resources.as_ref());
    if is_infeasible(pod) { highest([&actual, &allocated]) } else { highest([&desired, &actual, &allocated]) }
}

fn requests(pod: &Pod, assumed: &Amounts) -> Amounts {
    let spec = spec(pod);
    let asks = |container: &Container| {
        let mut asks = assumed.clone();
        asks.extend(of_container(pod, container));
        asks
    };
    let (mut moments, mut sidecars) = (Vec::new(), Vec::new());
    for init in spec.init_containers.iter().flatten() {
        let started = asks(init);
        moments.push(sum(sidecars.iter().chain([&started])));
        if init.restart_policy.as_deref() == Some("Always") {
            sidecars.push(started);
        }
    }
    let apps: Vec<Amounts> = spec.containers.iter().map(asks).collect();
    moments.push(sum(sidecars.iter().chain(&apps)));
    let mut requests = highest(&moments);
    let of_pod_level = pod_level(pod);
    if !of_pod_level.is_empty() {
        let status = pod.status.clone().unwrap_or_default();
        let overhead = amounts(spec.overhead.as_ref());
        let without = |mut reported: Amounts| {
            reported.iter_mut().for_each(|(name, amount)| *amount -= get(&overhead, name));
            reported.retain(|name, _| name == "cpu" || name == "memory" || name.starts_with("hugepages-"));
            reported
        };
        let actual = without(amounts(status.resources.as_ref().and_then(|r| r.requests.as_ref())));
        let allocated = without(amounts(status.allocated_resources.as_ref()));
        let is_reported =
            status.resources.is_some_and(|r| r.requests.is_some()) || status.allocated_resources.is_some();
        let desired = if is_reported && is_infeasible(pod) { Amounts::new() } else { of_pod_level };
        requests.extend(highest([&desired, &actual, &allocated]));
    }
    sum([&requests, &amounts(spec.overhead.as_ref())])
}

pub fn allocatable(node: &Node) -> Amounts {
    amounts(node.status.as_ref().and_then(|s| s.allocatable.as_ref()))
}

/// The use of one resource of a node.
struct Use {
    all: i64,
    used: i64,
    weight: i64,
}

impl Cluster {
    fn used(&self, node: &Node, by: fn(&Pod) -> Amounts) -> Amounts {
        sum(&self.pods_on(node).map(|pod| by(pod)).collect::<Vec<_>>())
    }

    pub(crate) fn lacks_resources(&self, settings: &Settings, pod: &Pod, node: &Node) -> Option<Rejection> {
        let args: FitArgs = settings.args("NodeResourcesFit");
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
        let has_devices = settings.pre_filters.iter().any(|plugin| plugin == "DynamicResources");
        let is_backed = |name: &str| has_devices && get(&all, name) == 0 && self.backing(name).is_some();
        let others = wanted.keys().map(String::as_str);
        let others = others.filter(|name| !first.contains(name) && !is_ignored(name) && !is_backed(name));
        for name in first.into_iter().chain(others) {
            let (wanted, all) = (get(&wanted, name), get(&all, name));
            if wanted > 0 && wanted > all - get(&used, name) {
                reasons.push(format!("Insufficient {name}"));
                is_resolvable &= wanted <= all;
            }
        }
        (!reasons.is_empty()).then_some(Rejection { plugin: "NodeResourcesFit", reasons, is_resolvable })
    }

    /// Returns the use of the resources that count, with the pod.
    fn uses(
        &self,
        settings: &Settings,
        counted: Vec<Weighted>,
        pod: &Pod,
        node: &Node,
        before: bool,
        assumed: bool,
    ) -> Vec<Use> {
        let by = if assumed { with_assumed } else { of };
        let (all, wanted) = (allocatable(node), of(pod));
        let (with, without) = (self.used(node, by), self.used(node, of));
        let added = if before { Amounts::new() } else { by(pod) };
        let counted = if counted.is_empty() {
            ["cpu", "memory"].map(|name| Weighted { name: name.to_owned(), weight: 1 }).into()
        } else {
            counted
        };
        let is_extended = |name: &str| !["cpu", "memory", "ephemeral-storage"].contains(&name);
        let counts = |one: &Weighted| !is_extended(&one.name) || get(&wanted, &one.name) > 0;
        let has_devices = settings.pre_filters.iter().any(|plugin| plugin == "DynamicResources");
        let used = |name: &str| {
            let used = if ["cpu", "memory"].contains(&name) { &with } else { &without };
            get(used, name).saturating_add(get(&added, name))
        };
        counted
            .into_iter()
            .filter(counts)
            .map(|one| {
                let weight = one.weight.max(1);
                match get(&all, &one.name) {
                    // The devices that stand for the resource.
                    0 if has_devices && is_extended(&one.name) => {
                        let (all, taken) = self.device_totals(node, &one.name);
                        Use { all, used: taken.saturating_add(get(&added, &one.name)), weight }
                    }
                    all => Use { all, used: used(&one.name), weight },
                }
            })
            .filter(|one| one.all > 0)
            .collect()
    }
}

/// Returns the weighted mean of the scores of the resources, as the scoring strategy says.
pub fn fit_score(cluster: &Cluster, settings: &Settings, pod: &Pod, node: &Node) -> i64 {
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
    let uses = cluster.uses(settings, resources, pod, node, false, true);
    let scored: Vec<(i64, i64)> = uses.iter().map(|one| (score(one), one.weight)).collect();
    // Of a ratio, resources without points do not count.
    let counted: Vec<&(i64, i64)> = scored.iter().filter(|(score, _)| !by_ratio || *score > 0).collect();
    let weights: i64 = counted.iter().map(|(_, weight)| weight).sum();
    let total: i64 = counted.iter().map(|(score, weight)| score * weight).sum();
    match weights {
        0 => 0,
        _ if by_ratio => (total as f64 / weights as f64).round() as i64,
        _ => total / weights,
    }
}

/// Returns how much more evenly the resources are used with the pod: from 50 to 100, and 75 for no difference. `None` if
/// the pod requests none of them.
pub fn balance_scores(cluster: &Cluster, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
    let counted = || settings.args::<BalanceArgs>("NodeResourcesBalancedAllocation").resources;
    let mut names: Vec<String> = counted().into_iter().map(|one| one.name).collect();
    if names.is_empty() {
        names = vec!["cpu".to_owned(), "memory".to_owned()];
    }
    let wanted = of(pod);
    if !names.iter().any(|name| get(&wanted, name) > 0) {
        return None;
    }
    let even = |node: &Node, before: bool| {
        let uses = cluster.uses(settings, counted(), pod, node, before, false);
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
    Some(fit.iter().map(|node| 50 + (50 + even(node, false) - even(node, true)) / 2).collect())
}

/// Returns ten times the value of the function that is a line between the points, and constant outside.
fn on_line(points: &[Point], at: i64) -> i64 {
    let Some(right) = points.iter().position(|point| at <= point.utilization) else {
        return points.last().map_or(0, |last| last.score * 10);
    };
    let Some(left) = right.checked_sub(1).map(|left| &points[left]) else { return points[right].score * 10 };
    let right = &points[right];
    left.score * 10 + (right.score - left.score) * 10 * (at - left.utilization) / (right.utilization - left.utilization)
}
