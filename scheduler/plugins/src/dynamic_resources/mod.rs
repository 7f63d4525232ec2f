//! DynamicResources gives a pod's ResourceClaims devices that its node can use.
//!
//! PreFilter reads the claims (`pod_claims`). Filter asks the allocator for each node, and checks where claims that are allocated
//! can be used. Reserve keeps the chosen devices from other pods (`tracked_claims`), and PreBind writes them into the claims
//! (`bind`) and waits for drivers that have to prepare them (`binding_conditions`).
//! Corresponds to pkg/scheduler/framework/plugins/dynamicresources.
//!
//! Deviation: an error in a claim or a class, such as an expression that fails, rejects the node, and the pod waits for an event
//! that may mend it. Kubernetes ends the cycle with an error and tries again after the back-off.

mod bind;
mod binding_conditions;
mod device_metrics;
mod extended;
mod pod_claims;
#[cfg(test)]
mod tests;
mod taint_rules;
mod tracked_claims;

use async_trait::async_trait;
pub use bind::Writer;
use client::{Action, DeleteOptions, Informers, Lister};
use component_base::duration::parse_duration;
use component_base::rng::Random;
use component_helpers::device_claims::{FINALIZER, allocation, consumers, has_finalizer};
use component_helpers::scheduling::node_selector::selector_matches;
pub use device_allocation::MAX_STEPS;
use device_allocation::{
    Allocator, KeptAllocations, MAX_ALTERNATIVES, Outcome, Selectors, Slices, alternatives, assign_share_ids,
};
pub use extended::{BACKED, Backed, DeviceClasses};
use extended::{ExtendedClaim, ExtendedResources};
use parking_lot::Mutex;
use pod_claims::{NodeAllocation, PodClaims};
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim, ResourceSlice};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::args::DynamicResourcesArgs;
use scheduling_framework::features::DRA_DEVICE_TAINT_RULES;
use scheduling_framework::node_judge::FilterByNumber;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::profile::normalize_to_highest;
use scheduling_framework::{
    ClusterEvent, CycleState, FailedCycle, FeasibleNodes, Features, Filter, Plugin, PostFilter, PostFilterResult,
    PreBind, PreBindPreFlight, PreEnqueue, PreFilter, PreFilterResult, PreScore, PreScoreResult, Rejection, Reserve,
    Score,
};
use std::sync::Arc;
use std::time::Duration;
use tracked_claims::TrackedClaims;

const NAME: &str = "DynamicResources";
/// Default of `filterTimeout`.
const DEFAULT_FILTER_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than by default a search may take.
const LONGEST_FILTER: usize = 100;

/// The caches that the plugin reads, and what it has derived from them. Clones share both.
#[derive(Clone)]
pub struct Sources {
    claims: Arc<TrackedClaims>,
    /// The claims without the scheduler's own writes.
    cached_claims: Lister<ResourceClaim>,
    classes: DeviceClasses,
    slices: Lister<ResourceSlice>,
    /// The rules that taint devices; `None` while their gate is off.
    taint_rules: Option<Lister<DeviceTaintRule>>,
    /// The slices, arranged; `None` after a change.
    arranged: Arc<Mutex<Arranged>>,
    selectors: Arc<Selectors>,
    kept: Arc<KeptAllocations>,
}

#[derive(Default)]
struct Arranged {
    slices: Arc<Slices>,
    is_current: bool,
}

impl Sources {
    pub fn new(informers: &Informers, features: &Features) -> Self {
        let (claims, slices) = (informers.of::<ResourceClaim>(), informers.of::<ResourceSlice>());
        let mut sources = Self::of(claims.lister(), DeviceClasses::new(&informers.of()), slices.lister());
        let tracked = sources.claims.clone();
        claims.on_event(move |event| tracked.on_event(event));
        let arranged = sources.arranged.clone();
        slices.on_event(move |_| arranged.lock().is_current = false);
        if features.is_on(DRA_DEVICE_TAINT_RULES) {
            let rules = informers.of::<DeviceTaintRule>();
            let arranged = sources.arranged.clone();
            rules.on_event(move |_| arranged.lock().is_current = false);
            sources.taint_rules = Some(rules.lister());
        }
        sources
    }

    pub fn of(claims: Lister<ResourceClaim>, classes: DeviceClasses, slices: Lister<ResourceSlice>) -> Self {
        let (claims, cached_claims) = (Arc::new(TrackedClaims::new(claims.clone())), claims);
        let taint_rules = None;
        Self {
            claims,
            cached_claims,
            classes,
            slices,
            taint_rules,
            arranged: Arc::default(),
            selectors: Arc::default(),
            kept: Arc::default(),
        }
    }

    fn slices(&self) -> Arc<Slices> {
        let mut arranged = self.arranged.lock();
        if !arranged.is_current {
            // A change from here on is a reason to arrange them again.
            arranged.is_current = true;
            let rules = self.taint_rules.as_ref().map(Lister::list).unwrap_or_default();
            let tainted = self.slices.list().into_iter().map(|slice| taint_rules::apply(&rules, slice));
            arranged.slices = Arc::new(Slices::new(tainted, &arranged.slices));
        }
        arranged.slices.clone()
    }
}

#[derive(Clone)]
pub struct DynamicResources {
    pub sources: Sources,
    /// Makes the ids of shares of devices.
    pub random: Random,
    /// Limit on the devices that are tried for one node.
    pub max_steps: usize,
    /// Writes the allocations; `None` where nothing is bound.
    pub writer: Option<Writer>,
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::ResourceClaimChanged { old, new } => self.claim_may_help(pod, old.as_deref(), new.as_deref()),
            ClusterEvent::DevicesChanged | ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => {
                let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
                old.metadata.labels != new.metadata.labels || allocatable(old) != allocatable(new)
            }
            ClusterEvent::PodUpdated { new, .. } => {
                let made = |pod: &PodInfo| pod.pod.status.as_ref().and_then(|it| it.resource_claim_statuses.clone());
                event.pod_if_changed(made) && pod_claims::named(&self.sources.claims, &new.pod).is_ok()
            }
            _ => false,
        }
    }
}

impl DynamicResources {
    /// Returns the plugin with the arguments of a profile.
    pub fn configured(&self, args: &DynamicResourcesArgs) -> Result<Self, String> {
        let mut configured = self.clone();
        configured.max_steps = steps(parse_duration(&args.filter_timeout)?);
        if let Some(writer) = &mut configured.writer {
            writer.binding_timeout = parse_duration(&args.binding_timeout)?;
        }
        Ok(configured)
    }

    /// Returns true if a change of a claim gives a pod its claim, or frees devices.
    fn claim_may_help(&self, pod: &PodInfo, old: Option<&ResourceClaim>, new: Option<&ResourceClaim>) -> bool {
        let Ok(named) = pod_claims::named(&self.sources.claims, &pod.pod) else { return false };
        let is_allocated = |claim: Option<&ResourceClaim>| claim.and_then(allocation).is_some();
        if is_allocated(old) && !is_allocated(new) {
            return true;
        }
        let Some(new) = new else { return false };
        named.iter().any(|claim| claim.uid() == new.uid()) && old.is_none_or(|old| old.status != new.status)
    }

    /// Keeps the devices of a claim from other pods, and returns its allocation with the ids of its shares.
    fn keep(&self, claim: &ResourceClaim, mut allocation: AllocationResult) -> AllocationResult {
        assign_share_ids(&mut allocation, &mut || self.random.uid());
        let mut claim = claim.clone();
        if !has_finalizer(&claim) {
            claim.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        }
        claim.status.get_or_insert_default().allocation = Some(allocation.clone());
        self.sources.claims.reserve(Arc::new(claim));
        allocation
    }

    fn rejection(why: impl Into<std::borrow::Cow<'static, str>>) -> Rejection {
        Rejection::unresolvable(NAME, why)
    }
}

/// Returns how many devices may be tried in a `filterTimeout`: as many more or fewer than by default as it is longer or
/// shorter. Zero is no limit in Kubernetes; here a search always ends.
fn steps(timeout: Duration) -> usize {
    let longest = MAX_STEPS * LONGEST_FILTER;
    if timeout.is_zero() {
        return longest;
    }
    let part = timeout.as_millis().saturating_mul(MAX_STEPS as u128) / DEFAULT_FILTER_TIMEOUT.as_millis();
    usize::try_from(part).unwrap_or(longest).clamp(1, longest)
}

impl PreEnqueue for DynamicResources {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        pod_claims::named(&self.sources.claims, &pod.pod).map(drop).map_err(Self::rejection)
    }

    fn waits_for(&self, pod: &PodInfo) -> Vec<String> {
        pod_claims::missing(&self.sources.claims, &pod.pod)
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        state.write(NAME, PodClaims::default());
        let oldest = self.writer.as_ref().map(Writer::oldest);
        let Sources { claims: tracked, cached_claims, classes: available, .. } = &self.sources;
        let (claims, mut classes) = pod_claims::read(tracked, available, &pod.pod, oldest).map_err(Self::rejection)?;
        let extended = ExtendedResources::of(pod, available, cached_claims);
        if let Some(extended) = &extended {
            classes.extend(extended.classes.values().map(|class| (class.name().to_owned(), class.clone())));
        }
        if claims.is_empty() && extended.is_none() {
            return Ok(PreFilterResult::Skip);
        }
        let is_pending = extended.is_some() || claims.iter().any(|claim| !claim.is_allocated());
        let allocator = is_pending.then(|| {
            let (slices, selectors) = (self.sources.slices(), self.sources.selectors.clone());
            let ((allocated, changes), max_steps) = (self.sources.claims.allocated(), self.max_steps);
            Arc::new(Allocator { slices, allocated, changes, classes, selectors, max_steps })
        });
        if let Some((extended, allocator)) = extended.as_ref().zip(allocator.as_ref()) {
            state.write(BACKED, Backed::new(extended, allocator.clone()));
        }
        state.write(NAME, PodClaims { claims, extended, allocator, ..PodClaims::default() });
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for DynamicResources {
    fn filter(&self, state: &CycleState, pod: &PodInfo, info: &NodeInfo) -> Result<(), Rejection> {
        let (Some(wanted), Some(node)) = (state.read::<PodClaims>(NAME), &info.node) else { return Ok(()) };
        if wanted.extended.as_ref().is_some_and(|extended| extended.stale.is_some()) {
            return Err(Self::rejection("cannot schedule extended resource claim"));
        }
        if let Some(allocator) = &wanted.allocator
            && wanted.findings.lock().of_node(node).is_none()
        {
            let extended = wanted.extended.as_ref().and_then(|extended| extended.claim_on(pod, info));
            let mut claims = wanted.pending();
            claims.extend(extended.iter().map(|extended| extended.claim.clone()));
            let outcome = allocator.allocate(node, &claims).map(Arc::from);
            Self::record(wanted, node, extended, outcome)?;
        }
        Self::check_allocated(wanted, node)
    }

    /// Looks up what was found for equal claims, if there are some to allocate. The claim for extended resources differs from
    /// node to node.
    fn by_number<'a>(
        &'a self,
        state: &'a CycleState,
        _pod: &'a PodInfo,
        snapshot: &'a Snapshot,
    ) -> Option<FilterByNumber<'a>> {
        let wanted = state.read::<PodClaims>(NAME).filter(|wanted| wanted.extended.is_none())?;
        let allocator = wanted.allocator.as_ref()?;
        let kept = self.sources.kept.of(allocator, wanted.pending());
        Some(FilterByNumber::of_nodes(move |number| {
            let node = snapshot.nodes()[number].node.as_ref()?;
            let recorded = Self::record(wanted, node, None, kept.allocate(number, node));
            recorded.and_then(|()| Self::check_allocated(wanted, node)).err().map(Arc::new)
        }))
    }
}

impl DynamicResources {
    /// Keeps what was found on a node for the rest of the cycle.
    fn record(
        wanted: &PodClaims,
        node: &Arc<Node>,
        extended: Option<ExtendedClaim>,
        outcome: Outcome,
    ) -> Result<(), Rejection> {
        let allocations = outcome.map_err(|why| Self::rejection(why.to_string()))?;
        wanted.findings.lock().add(node, NodeAllocation { extended, allocations });
        Ok(())
    }

    /// Checks that the claims that are allocated can be used on a node.
    fn check_allocated(wanted: &PodClaims, node: &Node) -> Result<(), Rejection> {
        let claims = wanted.claims.iter().enumerate();
        let is_unavailable = |claim: &pod_claims::PodClaim| {
            claim.is_stuck || claim.nodes().is_some_and(|selector| !selector_matches(selector, node))
        };
        let unavailable: Vec<usize> =
            claims.filter(|(_, claim)| is_unavailable(claim)).map(|(number, _)| number).collect();
        if unavailable.is_empty() {
            return Ok(());
        }
        wanted.findings.lock().unavailable.extend(unavailable);
        Err(Self::rejection("resourceclaim not available on the node"))
    }
}

impl PostFilter for DynamicResources {
    /// Frees a claim that keeps the pod from every node, if nobody else uses it.
    fn post_filter(&self, failed: &FailedCycle<'_>) -> Result<PostFilterResult, String> {
        let Some(wanted) = failed.state.read::<PodClaims>(NAME) else { return Err("not found".to_owned()) };
        let said = |message: &str, writes| {
            Ok(PostFilterResult { message: message.to_owned(), writes, ..PostFilterResult::default() })
        };
        if wanted.is_empty() {
            return said("no new claims to deallocate", Vec::new());
        }
        let is_idle = |claim: &ResourceClaim| consumers(claim).iter().all(|consumer| consumer.uid == failed.pod.uid());
        let unavailable = wanted.findings.lock().unavailable.clone();
        let mut blocking = unavailable.iter().filter_map(|number| wanted.claims.get(*number));
        match blocking.find(|claim| is_idle(&claim.claim)) {
            Some(claim) => {
                let mut freed = (*claim.claim).clone();
                freed.status = None;
                said("deallocation of ResourceClaim completed", vec![Action::update_status(&freed)])
            }
            None => match wanted.extended.as_ref().and_then(|extended| extended.stale.as_deref()) {
                Some(stale) => said("deletion of ResourceClaim completed", delete(stale)),
                None => said("still not schedulable", Vec::new()),
            },
        }
    }
}

/// Returns the writes that delete a claim of extended resources which is not used.
fn delete(claim: &ResourceClaim) -> Vec<Action> {
    let mut unprotected = claim.clone();
    unprotected.metadata.finalizers.iter_mut().for_each(|all| all.retain(|finalizer| finalizer != FINALIZER));
    let options = DeleteOptions::with_uid(claim.uid());
    let delete = Action::delete::<ResourceClaim>(claim.namespace(), claim.name(), options);
    vec![Action::update(&unprotected), delete]
}

impl PreScore for DynamicResources {
    /// Only lists of alternatives make one node better than another.
    fn pre_score(&self, state: &mut CycleState, _: &PodInfo, _: &Snapshot, _: &FeasibleNodes<'_>) -> PreScoreResult {
        let pending = state.read::<PodClaims>(NAME).map(PodClaims::pending).unwrap_or_default();
        let mut devices = pending.iter().flat_map(|claim| &claim.spec.devices);
        let has_list = devices.any(|devices| devices.requests.iter().flatten().any(|it| it.first_available.is_some()));
        if has_list { PreScoreResult::Score } else { PreScoreResult::Skip }
    }
}

impl Score for DynamicResources {
    /// Returns a point for each alternative that is worse than the chosen one.
    fn score(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(wanted) = state.read::<PodClaims>(NAME) else { return 0 };
        let findings = wanted.findings.lock();
        let Some(found) = node.node.as_ref().and_then(|node| findings.of_node(node)) else { return 0 };
        wanted.pending().iter().zip(found.allocations.iter()).map(|(claim, allocation)| points(claim, allocation)).sum()
    }

    fn normalize(&self, _state: &CycleState, _pod: &PodInfo, _nodes: &FeasibleNodes<'_>, scores: &mut [i64]) {
        normalize_to_highest(scores, false);
    }
}

/// Returns the points of the chosen alternatives of one claim.
fn points(claim: &ResourceClaim, allocation: &AllocationResult) -> i64 {
    let results = || allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    let requests = claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten());
    requests
        .filter(|request| request.exactly.is_none())
        .flat_map(|request| alternatives(request).into_iter().enumerate())
        .filter(|(_, one)| results().any(|result| result.request == one.full_name()))
        .map(|(place, _)| MAX_ALTERNATIVES.saturating_sub(place) as i64)
        .sum()
}

impl Reserve for DynamicResources {
    /// Keeps the devices on the node from other pods.
    fn reserve(&self, state: &mut CycleState, _pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(wanted) = state.read_mut::<PodClaims>(NAME) else { return Ok(()) };
        // From here on nobody reads the allocator: the shared state of allocations may change in place.
        if wanted.allocator.take().is_none() {
            return Ok(());
        }
        let Some(NodeAllocation { extended, allocations }) = wanted.findings.lock().take_chosen(node) else {
            return Err(Self::rejection("claim allocation not found for node"));
        };
        let mut allocations = allocations.to_vec();
        let of_extended = extended.and_then(|extended| Some((extended, allocations.pop()?)));
        let pending = wanted.claims.iter_mut().filter(|claim| !claim.is_allocated());
        for (one, allocation) in pending.zip(allocations) {
            one.chosen = Some(self.keep(&one.claim, allocation));
        }
        wanted.chosen = of_extended.map(|(extended, allocation)| {
            let allocation = self.keep(&extended.claim, allocation);
            (extended, allocation)
        });
        Ok(())
    }

    fn unreserve(&self, state: &CycleState, pod: &PodInfo, _node: &str) {
        let Some(wanted) = state.read::<PodClaims>(NAME) else { return };
        let chosen = wanted.claims.iter().filter(|claim| claim.chosen.is_some());
        chosen.for_each(|claim| self.sources.claims.release(&claim.claim));
        wanted.chosen.iter().for_each(|(extended, _)| self.sources.claims.release(&extended.claim));
        if let Some(writer) = &self.writer {
            bind::unreserve(writer, &self.sources.claims, wanted, pod);
        }
    }
}

#[async_trait]
impl PreBind for DynamicResources {
    fn pre_bind_pre_flight(&self, state: &CycleState, _pod: &PodInfo, _node: &str) -> PreBindPreFlight {
        match state.read::<PodClaims>(NAME) {
            Some(wanted) if !wanted.claims.is_empty() || wanted.chosen.is_some() => PreBindPreFlight::Run,
            _ => PreBindPreFlight::Skip,
        }
    }

    async fn pre_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), String> {
        let (Some(wanted), Some(writer)) = (state.read::<PodClaims>(NAME), &self.writer) else { return Ok(()) };
        bind::bind(writer, &self.sources.claims, wanted, pod, node).await
    }
}
