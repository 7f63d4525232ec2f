//! `World`: the devices in reach of one node, and what others have of them. It judges whole choices, and takes the first that
//! keeps all rules.

use crate::cluster::Pool;
use crate::nodes::selector_matches;
use crate::{Cluster, Named};
use cel::device::DeviceExpression;
use component_helpers::device_claims::devices;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::{
    CapacityRequestPolicy, Device, DeviceClass, DeviceConstraint, DeviceRequest, DeviceRequestAllocationResult,
    DeviceSelector, DeviceToleration, ResourceClaim, ResourceSlice, ResourceSliceSpec,
};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::{Format, Quantity};
use std::collections::{BTreeMap, BTreeSet};

/// The most devices of one claim.
const MAX_RESULTS: usize = 32;

/// The alternative and the devices that a request gets.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub alternative: usize,
    devices: Vec<usize>,
}

/// A device that the node can reach.
struct Known<'a> {
    slice: &'a ResourceSliceSpec,
    device: &'a Device,
}

/// One alternative of one request.
struct Wanted<'a> {
    claim: usize,
    request: &'a str,
    name: Option<&'a str>,
    class: &'a str,
    count: Option<usize>,
    is_admin: bool,
    selectors: &'a [DeviceSelector],
    tolerations: &'a [DeviceToleration],
    capacity: BTreeMap<String, Quantity>,
}

pub struct World<'a> {
    classes: &'a Named<DeviceClass>,
    known: Vec<Known<'a>>,
    /// All devices of these pools that use up counters, be they in reach or not.
    published: Vec<Known<'a>>,
    /// Free counters by pool, set and name, without what is allocated.
    counters: BTreeMap<(String, String, String, String), Quantity>,
    has_unusable_pool: bool,
    /// What claims have of each device, by driver, pool and name.
    taken: BTreeMap<(&'a str, &'a str, &'a str), Taken>,
}

/// What claims have of a device.
#[derive(Default)]
struct Taken {
    /// True if a claim has it alone.
    is_exclusive: bool,
    /// The consumed capacity of shares; `None` without any.
    shared: Option<BTreeMap<String, Quantity>>,
}

/// The pools that a node may reach, with their slices.
type Pools<'a> = BTreeMap<&'a Pool, &'a [ResourceSlice]>;

/// Returns what claims have of the devices of some pools.
fn taken<'a>(claims: &'a Named<ResourceClaim>, pools: &Pools<'_>) -> BTreeMap<(&'a str, &'a str, &'a str), Taken> {
    let mut all: BTreeMap<_, Taken> = BTreeMap::new();
    let is_near = |it: &DeviceRequestAllocationResult| {
        pools.keys().any(|(driver, pool)| (driver, pool) == (&it.driver, &it.pool))
    };
    let results = claims.iter().flat_map(devices).filter(|it| it.admin_access != Some(true));
    for result in results.filter(|it| is_near(it)) {
        let taken = all.entry((&*result.driver, &*result.pool, &*result.device)).or_default();
        taken.is_exclusive |= result.share_id.is_none();
        if result.share_id.is_some() {
            let sums = taken.shared.get_or_insert_default();
            for (name, more) in result.consumed_capacity.iter().flatten() {
                *sums.entry(name.clone()).or_insert(Quantity::ZERO) += amount(more);
            }
        }
    }
    all
}

fn amount(text: &WireQuantity) -> Quantity {
    Quantity::try_from(text).unwrap_or(Quantity::ZERO)
}

fn concerns(
    node: &Node,
    name: Option<&str>,
    all: Option<bool>,
    selector: Option<&proto::kinds::api::core::v1::NodeSelector>,
) -> bool {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name == node.name(),
        None => all == Some(true) || selector.is_some_and(|selector| selector_matches(selector, node)),
    }
}

fn is_in_reach(slice: &ResourceSliceSpec, device: &Device, node: &Node) -> bool {
    match slice.per_device_node_selection {
        Some(true) => concerns(node, device.node_name.as_deref(), device.all_nodes, device.node_selector.as_ref()),
        _ => concerns(node, slice.node_name.as_deref(), slice.all_nodes, slice.node_selector.as_ref()),
    }
}

/// Counts the devices of a class in reach of a node, and those of them that claims have. `None` if an expression fails.
pub fn totals(cluster: &Cluster, node: &Node, class: &DeviceClass) -> Option<(i64, i64)> {
    let pools = cluster.devices.slices.near(node.name());
    let taken = taken(&cluster.devices.claims, &pools);
    let (mut all, mut used) = (0, 0);
    for slice in pools.values().copied().flatten().map(|slice| &slice.spec) {
        for device in slice.devices.iter().flatten().filter(|device| is_in_reach(slice, device, node)) {
            let value = cel::device::value(&slice.driver, device);
            let mut matches = true;
            for selector in class.spec.selectors.iter().flatten() {
                let expression = DeviceExpression::compile(&selector.cel.as_ref()?.expression).ok()?;
                matches &= expression.matches(&value).ok()?;
                if !matches {
                    break;
                }
            }
            if matches {
                all += 1;
                used += i64::from(taken.contains_key(&(&*slice.driver, &*slice.pool.name, &*device.name)));
            }
        }
    }
    Some((all, used))
}

impl<'a> World<'a> {
    pub fn of(cluster: &'a Cluster, node: &Node) -> Self {
        // Other pools cannot give a device, and the counters of a pool are its own.
        let pools = cluster.devices.slices.near(node.name());
        let mut world = Self {
            classes: &cluster.devices.classes,
            known: Vec::new(),
            published: Vec::new(),
            counters: BTreeMap::new(),
            has_unusable_pool: false,
            taken: taken(&cluster.devices.claims, &pools),
        };
        let mut last = Vec::new();
        for slices in pools.into_values() {
            let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
            let mut slices: Vec<&ResourceSlice> =
                slices.iter().filter(|slice| Some(slice.spec.pool.generation) == newest).collect();
            slices.sort_by_key(|slice| slice.name());
            let devices =
                slices.iter().flat_map(|slice| slice.spec.devices.iter().flatten().map(|it| (&slice.spec, it)));
            let devices: Vec<(&ResourceSliceSpec, &Device)> = devices.collect();
            let reached = devices.iter().filter(|(slice, device)| is_in_reach(slice, device, node));
            let reached: Vec<Known<'_>> = reached.map(|(slice, device)| Known { slice, device }).collect();
            let is_complete = slices.iter().all(|slice| slice.spec.pool.resource_slice_count == slices.len() as i64);
            if !is_complete {
                world.has_unusable_pool |= !reached.is_empty();
                continue;
            }
            for slice in &slices {
                for set in slice.spec.shared_counters.iter().flatten() {
                    for (name, counter) in &set.counters {
                        let key =
                            (slice.spec.driver.clone(), slice.spec.pool.name.clone(), set.name.clone(), name.clone());
                        world.counters.insert(key, amount(&counter.value));
                    }
                }
            }
            let consuming =
                devices.iter().filter(|(_, it)| it.consumes_counters.as_ref().is_some_and(|all| !all.is_empty()));
            world.published.extend(consuming.map(|(slice, device)| Known { slice, device }));
            // Devices that need a preparation come last.
            let waits = |it: &Known<'_>| it.device.binding_conditions.as_ref().is_some_and(|all| !all.is_empty());
            if reached.iter().any(waits) { last.extend(reached) } else { world.known.extend(reached) }
        }
        world.known.extend(last);
        world
    }

    /// Returns what the first choice gives to each request of each claim; `None` if no choice keeps all rules.
    pub fn first_choice(&self, claims: &[&ResourceClaim]) -> Option<Vec<Choice>> {
        let mut wanted: Vec<Vec<Wanted<'_>>> = Vec::new();
        for (number, claim) in claims.iter().enumerate() {
            let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
            wanted.extend(requests.map(|request| alternatives(number, request)));
        }
        let selected = |one: &Wanted<'_>| (0..self.known.len()).filter(|number| self.selects(one, *number)).collect();
        let selected: Vec<Vec<Vec<usize>>> = wanted.iter().map(|all| all.iter().map(selected).collect()).collect();
        self.choose(claims, &wanted, &selected, &mut Vec::new())
    }

    fn choose(
        &self,
        claims: &[&ResourceClaim],
        wanted: &[Vec<Wanted<'_>>],
        selected: &[Vec<Vec<usize>>],
        chosen: &mut Vec<Choice>,
    ) -> Option<Vec<Choice>> {
        let Some(alternatives) = wanted.get(chosen.len()) else {
            return self.keeps_all_rules(claims, wanted, chosen).then(|| chosen.clone());
        };
        for (alternative, one) in alternatives.iter().enumerate() {
            let selected_here = &selected[chosen.len()][alternative];
            let sets = match one.count {
                Some(count) => subsets(selected_here, count),
                None if self.has_unusable_pool => Vec::new(),
                None => vec![selected_here.clone()],
            };
            for devices in sets.into_iter().filter(|devices| one.count.is_some() || !devices.is_empty()) {
                chosen.push(Choice { alternative, devices });
                let found = self.choose(claims, wanted, selected, chosen);
                if found.is_some() {
                    return found;
                }
                chosen.pop();
            }
        }
        None
    }

    /// Returns true if the class and the request select a device.
    fn selects(&self, wanted: &Wanted<'_>, number: usize) -> bool {
        let Known { slice, device } = self.known[number];
        let class = self.classes.get(wanted.class);
        let of_class = class.and_then(|class| class.spec.selectors.as_deref()).unwrap_or_default();
        let value = cel::device::value(&slice.driver, device);
        of_class.iter().chain(wanted.selectors).all(|selector| {
            let expression = selector.cel.as_ref().map(|cel| DeviceExpression::compile(&cel.expression));
            matches!(expression, Some(Ok(expression)) if expression.matches(&value) == Ok(true))
        })
    }

    fn is_shared(&self, number: usize) -> bool {
        self.known[number].device.allow_multiple_allocations == Some(true)
    }

    /// Returns what other claims have of a device: whether one has it alone, and the consumed capacity of shares.
    fn others(&self, known: &Known<'_>) -> (bool, Option<BTreeMap<String, Quantity>>) {
        let name = (&*known.slice.driver, &*known.slice.pool.name, &*known.device.name);
        self.taken.get(&name).map_or((false, None), |taken| (taken.is_exclusive, taken.shared.clone()))
    }

    fn keeps_all_rules(&self, claims: &[&ResourceClaim], wanted: &[Vec<Wanted<'_>>], chosen: &[Choice]) -> bool {
        let given: Vec<(&Wanted<'_>, usize)> = wanted
            .iter()
            .zip(chosen)
            .flat_map(|(all, choice)| choice.devices.iter().map(|device| (&all[choice.alternative], *device)))
            .collect();
        let numbers: BTreeSet<usize> = given.iter().map(|(_, device)| *device).collect();
        let per_claim = |claim: usize| given.iter().filter(move |(one, _)| one.claim == claim);
        (0..claims.len()).all(|claim| per_claim(claim).count() <= MAX_RESULTS)
            && given.iter().all(|(one, device)| tolerates(one, self.known[*device].device))
            && numbers.iter().all(|device| self.may_be_used(*device, &given))
            && self.has_counters(&given)
            && claims.iter().enumerate().all(|(number, claim)| {
                let constraints = claim.spec.devices.iter().flat_map(|devices| devices.constraints.iter().flatten());
                let own: Vec<&(&Wanted<'_>, usize)> = per_claim(number).collect();
                constraints.into_iter().all(|constraint| self.meets(constraint, &own))
            })
    }

    /// Returns true if these users may have a device at the same time, beside other claims.
    fn may_be_used(&self, number: usize, given: &[(&Wanted<'_>, usize)]) -> bool {
        let users: Vec<&Wanted<'_>> = given.iter().filter(|(_, it)| *it == number).map(|(one, _)| *one).collect();
        let (is_exclusive, shared) = self.others(&self.known[number]);
        let device = self.known[number].device;
        if !self.is_shared(number) {
            let fits = |one: &&Wanted<'_>| consumed(one, device).is_some_and(|it| exceeds(device, &[it]).is_none());
            // With admin access, a claim may use a device once beside all others.
            let once = |place: usize, one: &Wanted<'_>| {
                let before = &users[..place];
                match one.is_admin {
                    true => before.iter().all(|other| other.claim != one.claim),
                    false => before.is_empty() && !is_exclusive,
                }
            };
            return users.iter().all(fits) && users.iter().enumerate().all(|(place, one)| once(place, one));
        }
        // A claim may have the device alone since a time when claims could not share it.
        if is_exclusive && users.iter().any(|one| !one.is_admin) {
            return false;
        }
        let mut amounts: Vec<BTreeMap<String, Quantity>> = shared.into_iter().collect();
        for one in users {
            let Some(more) = consumed(one, device) else { return false };
            amounts.push(more);
        }
        exceeds(device, &amounts).is_none()
    }

    /// Returns true if the counters suffice for the new devices, which come one after the other.
    fn has_counters(&self, given: &[(&Wanted<'_>, usize)]) -> bool {
        let mut free = self.counters.clone();
        let key = |known: &Known<'_>, set: &str, name: &str| {
            let slice = known.slice;
            (slice.driver.clone(), slice.pool.name.clone(), set.to_owned(), name.to_owned())
        };
        let consumption = |known: &Known<'_>| {
            let sets = known.device.consumes_counters.iter().flatten();
            let all = sets.flat_map(|set| {
                set.counters.iter().map(|(name, it)| (set.counter_set.clone(), name.clone(), amount(&it.value)))
            });
            all.map(|(set, name, amount)| (key(known, &set, &name), amount)).collect::<Vec<_>>()
        };
        let is_allocated = |known: &Known<'_>| {
            let (is_exclusive, shared) = self.others(known);
            is_exclusive || shared.is_some()
        };
        for known in self.published.iter().filter(|known| is_allocated(known)) {
            for (key, amount) in consumption(known) {
                free.entry(key).and_modify(|free| *free -= amount);
            }
        }
        let mut seen = BTreeSet::new();
        for (_, number) in given {
            let known = &self.known[*number];
            // A shared device uses up its counters once.
            if self.is_shared(*number) && (!seen.insert(*number) || self.others(known).1.is_some()) {
                continue;
            }
            for (key, amount) in consumption(known) {
                match free.get_mut(&key) {
                    Some(free) if *free >= amount => *free -= amount,
                    _ => return false,
                }
            }
        }
        true
    }

    fn meets(&self, constraint: &DeviceConstraint, own: &[&(&Wanted<'_>, usize)]) -> bool {
        let named = constraint.requests.clone().unwrap_or_default();
        let concerns = |one: &Wanted<'_>| {
            let full = one.name.map(|name| format!("{}/{name}", one.request));
            named.is_empty() || named.iter().any(|name| name == one.request || Some(name) == full.as_ref())
        };
        let concerned = own.iter().filter(|(one, _)| concerns(one));
        let (attribute, is_match) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => (attribute, true),
            (None, Some(attribute)) => (attribute, false),
            (None, None) => return false,
        };
        let value = |number: usize| {
            let Known { slice, device } = self.known[number];
            let attributes = device.attributes.as_ref()?;
            let own_domain = format!("{}/", slice.driver);
            let found = attributes.get(attribute).or_else(|| attributes.get(attribute.strip_prefix(&own_domain)?))?;
            Some(format!("{:?} {:?} {:?} {:?}", found.bool, found.int, found.string, found.version))
        };
        let values: Vec<Option<String>> = concerned.map(|(_, number)| value(*number)).collect();
        let different: BTreeSet<&Option<String>> = values.iter().collect();
        !values.contains(&None) && if is_match { different.len() <= 1 } else { different.len() == values.len() }
    }
}

impl Copy for Known<'_> {}

impl Clone for Known<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

fn alternatives(claim: usize, request: &DeviceRequest) -> Vec<Wanted<'_>> {
    let count = |mode: &Option<String>, count: Option<i64>| match mode.as_deref() {
        Some("All") => None,
        _ => Some(usize::try_from(count.unwrap_or(1)).unwrap_or(0)),
    };
    let capacity = |all: Option<&BTreeMap<String, WireQuantity>>| {
        all.into_iter().flatten().map(|(name, text)| (name.clone(), amount(text))).collect()
    };
    if let Some(one) = &request.exactly {
        return vec![Wanted {
            claim,
            request: &request.name,
            name: None,
            class: &one.device_class_name,
            count: count(&one.allocation_mode, one.count),
            is_admin: one.admin_access == Some(true),
            selectors: one.selectors.as_deref().unwrap_or_default(),
            tolerations: one.tolerations.as_deref().unwrap_or_default(),
            capacity: capacity(one.capacity.as_ref().and_then(|it| it.requests.as_ref())),
        }];
    }
    let listed = request.first_available.iter().flatten().map(|one| Wanted {
        claim,
        request: &request.name,
        name: Some(&one.name),
        class: &one.device_class_name,
        count: count(&one.allocation_mode, one.count),
        is_admin: false,
        selectors: one.selectors.as_deref().unwrap_or_default(),
        tolerations: one.tolerations.as_deref().unwrap_or_default(),
        capacity: capacity(one.capacity.as_ref().and_then(|it| it.requests.as_ref())),
    });
    listed.collect()
}

fn tolerates(wanted: &Wanted<'_>, device: &Device) -> bool {
    let hard = device.taints.iter().flatten().filter(|taint| taint.effect != "None");
    hard.into_iter().all(|taint| {
        wanted.tolerations.iter().any(|it| {
            let any_or = |own: &Option<String>, is: &str| own.as_deref().is_none_or(|own| own.is_empty() || own == is);
            let value = it.value.clone().unwrap_or_default() == taint.value.clone().unwrap_or_default();
            let has_value = it.operator.as_deref() == Some("Exists") || value;
            any_or(&it.key, &taint.key) && any_or(&it.effect, &taint.effect) && has_value
        })
    })
}

/// Returns what a request takes of a device; `None` if the device has no such capacity, or does not give such an amount.
fn consumed(wanted: &Wanted<'_>, device: &Device) -> Option<BTreeMap<String, Quantity>> {
    let capacity = device.capacity.clone().unwrap_or_default();
    if !wanted.capacity.keys().all(|name| capacity.contains_key(name)) {
        return None;
    }
    let one = |(name, capacity): (String, proto::kinds::api::resource::v1::DeviceCapacity)| {
        let policy = capacity.request_policy.unwrap_or_default();
        let default = policy.default.as_ref().map(amount);
        let taken = match wanted.capacity.get(&name) {
            None => default.unwrap_or_else(|| amount(&capacity.value)),
            Some(asked) => rounded(*asked, &policy),
        };
        (default == Some(taken) || is_valid(taken, &policy)).then_some((name, taken))
    };
    capacity.into_iter().map(one).collect()
}

/// Rounds an amount up to the next one that the policy allows.
fn rounded(asked: Quantity, policy: &CapacityRequestPolicy) -> Quantity {
    if let Some(range) = &policy.valid_range {
        let min = amount(&range.min);
        let step = range.step.as_ref().map_or(0, |step| amount(step).value());
        return match asked {
            _ if asked < min => min,
            _ if step <= 0 => asked,
            _ => {
                let steps = (asked.value() - min.value() + step - 1) / step;
                Quantity::new(min.value() + steps * step, Format::DecimalSI)
            }
        };
    }
    let allowed = policy.valid_values.iter().flatten().map(amount);
    allowed.filter(|value| *value >= asked).min().unwrap_or(asked)
}

fn is_valid(taken: Quantity, policy: &CapacityRequestPolicy) -> bool {
    if let Some(range) = &policy.valid_range {
        let step = range.step.as_ref().map_or(0, |step| amount(step).value());
        let is_on_step = step <= 0 || (taken.value() - amount(&range.min).value()) % step == 0;
        return is_on_step && range.max.as_ref().is_none_or(|max| taken <= amount(max));
    }
    let values = policy.valid_values.clone().unwrap_or_default();
    values.is_empty() || values.iter().any(|value| amount(value) == taken)
}

/// Returns a capacity of which more is taken than there is.
fn exceeds(device: &Device, all: &[BTreeMap<String, Quantity>]) -> Option<String> {
    let mut capacity = device.capacity.iter().flatten();
    let taken = |name: &String| all.iter().filter_map(|one| one.get(name)).fold(Quantity::ZERO, |sum, it| sum + *it);
    capacity.find(|(name, capacity)| taken(name) > amount(&capacity.value)).map(|(name, _)| name.clone())
}

/// Returns the sets of so many numbers, those with small numbers first.
fn subsets(of: &[usize], count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut sets = Vec::new();
    for (place, first) in of.iter().enumerate() {
        for mut rest in subsets(&of[place + 1..], count - 1) {
            rest.insert(0, *first);
            sets.push(rest);
        }
    }
    sets
}
