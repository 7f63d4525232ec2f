//! `Search`: tries devices for one request after the other, and goes back where there is no way on.
//!
//! Corresponds to allocateOne and allocateDevice of the structured allocator. The first solution is taken. Devices of one
//! request are tried in their order only, because another order would be the same solution.
//!
//! ```text
//!   claim 0, request "gpu", 2 devices       claim 0, request "nic" (firstAvailable)
//!   [device 0] ── [device 1] ────────────── [alternative 0] ── [device 7] ── found
//!            ╲─── [device 2]                [alternative 1]
//! ```
//!
//! The path is a list of decisions instead of a recursion, so that a pod with many claims cannot exhaust the stack.

use crate::MAX_RESULTS;
use crate::capacity::{self, Consumed};
use crate::counters::Counters;
use crate::demand::{Demand, Supply, Target};
use crate::refusal::Refusal;
use component_helpers::scheduling::tolerations::tolerates_device;
use proto::Kind;
use std::collections::BTreeMap;

/// Limit on the devices that one search tries by default. A search takes at most about a second.
///
/// Deviation: the search is limited by its steps, 25,000 for a second of `filterTimeout`. Kubernetes looks at the clock.
pub const MAX_STEPS: usize = 250_000;

/// The place of a device that is to be found.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    claim: usize,
    request: usize,
    /// The chosen alternative; `None` before the choice.
    alternative: Option<usize>,
    /// Number of the device in the request.
    number: usize,
}

/// A decision on the path.
#[derive(Debug)]
enum Decision {
    Alternative {
        slot: Slot,
        next: usize,
        /// True as long as every alternative so far would have needed more devices than a claim may have.
        is_too_large: bool,
    },
    Device {
        slot: Slot,
        /// The candidate to try next.
        next: usize,
        is_placed: bool,
    },
}

/// The next step of the search.
enum Step {
    Descend(Slot),
    /// The last decision has to be another one.
    GoBack,
    /// The claim would get more devices than it may have. No other choice of devices mends that.
    TooLarge {
        claim: usize,
    },
}

/// A device that is chosen.
#[derive(Debug)]
pub struct Placed {
    pub candidate: usize,
    pub request: usize,
    pub alternative: usize,
    /// What it takes of a device that claims share.
    pub consumed: Option<Consumed>,
    takes_counters: bool,
}

pub struct Search<'a> {
    supply: &'a Supply<'a>,
    demands: Vec<Demand<'a>>,
    path: Vec<Decision>,
    placed: Vec<Vec<Placed>>,
    /// The claims for which a candidate is chosen, by the candidate's number.
    users: BTreeMap<usize, Vec<usize>>,
    /// What the path has taken of candidates that claims share.
    shares: BTreeMap<usize, Vec<Consumed>>,
    counters: Counters,
    /// Whether a candidate is selected, by claim, request, alternative and candidate.
    selected: BTreeMap<(usize, usize, usize, usize), bool>,
    steps: usize,
    max_steps: usize,
}

/// The chosen devices of each claim, and the chosen alternatives of its requests.
pub struct Found<'a> {
    pub demands: Vec<Demand<'a>>,
    pub placed: Vec<Vec<Placed>>,
    pub alternatives: BTreeMap<(usize, usize), usize>,
}

impl<'a> Search<'a> {
    pub fn new(supply: &'a Supply<'a>, demands: Vec<Demand<'a>>, max_steps: usize) -> Self {
        Self {
            supply,
            placed: demands.iter().map(|_| Vec::new()).collect(),
            demands,
            path: Vec::new(),
            users: BTreeMap::new(),
            shares: BTreeMap::new(),
            counters: Counters::default(),
            selected: BTreeMap::new(),
            steps: 0,
            max_steps,
        }
    }

    /// Returns the first solution, or `None` if there is none.
    pub fn run(mut self) -> Result<Option<Found<'a>>, Refusal> {
        let mut step = Step::Descend(Slot::default());
        loop {
            step = match step {
                Step::Descend(slot) => match self.descend(slot) {
                    Some(step) => step,
                    None => return Ok(Some(self.found())),
                },
                Step::GoBack => match self.revise(false)? {
                    Some(step) => step,
                    None => return Ok(None),
                },
                Step::TooLarge { claim } => {
                    let is_choice_left = self.leave(claim);
                    match self.revise(is_choice_left)? {
                        Some(step) => step,
                        None => return Ok(None),
                    }
                }
            };
        }
    }

    fn found(self) -> Found<'a> {
        let alternatives = self.path.iter().filter_map(|decision| match decision {
            Decision::Alternative { slot, next, .. } => Some(((slot.claim, slot.request), next - 1)),
            Decision::Device { .. } => None,
        });
        Found { alternatives: alternatives.collect(), demands: self.demands, placed: self.placed }
    }

    fn target(&self, slot: Slot) -> &Target<'a> {
        &self.demands[slot.claim].requests[slot.request][slot.alternative.unwrap_or(0)]
    }

    /// Adds the decision about a slot, or about the next one if this request has all its devices. Returns `None` when every
    /// claim has.
    fn descend(&mut self, mut slot: Slot) -> Option<Step> {
        loop {
            let Some(request) = self.demands.get(slot.claim)?.requests.get(slot.request) else {
                slot = Slot { claim: slot.claim + 1, ..Slot::default() };
                continue;
            };
            let is_choice = request.iter().any(|target| target.request.parent.is_some());
            if is_choice && slot.alternative.is_none() {
                self.path.push(Decision::Alternative { slot, next: 0, is_too_large: true });
                return Some(Step::GoBack);
            }
            let target = self.target(slot);
            if target.all.as_ref().is_some_and(Vec::is_empty) {
                return Some(Step::GoBack);
            }
            if slot.number >= target.count {
                slot = Slot { claim: slot.claim, request: slot.request + 1, ..Slot::default() };
                continue;
            }
            if self.placed[slot.claim].len() + target.count - slot.number > MAX_RESULTS {
                return Some(Step::TooLarge { claim: slot.claim });
            }
            let next = match self.path.last() {
                Some(Decision::Device { next, .. }) if slot.number > 0 => *next,
                _ => 0,
            };
            self.path.push(Decision::Device { slot, next, is_placed: false });
            return Some(Step::GoBack);
        }
    }

    /// Removes the decisions about devices of a claim, back to its last choice between alternatives. Returns false if the
    /// claim has no such choice.
    fn leave(&mut self, left: usize) -> bool {
        while let Some(decision) = self.path.last() {
            match *decision {
                Decision::Alternative { slot, .. } => return slot.claim == left,
                Decision::Device { slot, .. } if slot.claim != left => return false,
                Decision::Device { slot, is_placed, .. } => {
                    self.path.pop();
                    if is_placed {
                        self.undo(slot);
                    }
                }
            }
        }
        false
    }

    /// Takes the next option of the last decision. Returns `None` if no decision is left.
    fn revise(&mut self, was_too_large: bool) -> Result<Option<Step>, Refusal> {
        match self.path.pop() {
            None => Ok(None),
            Some(Decision::Alternative { slot, next, is_too_large }) => {
                let is_too_large = is_too_large && (next == 0 || was_too_large);
                if next < self.demands[slot.claim].requests[slot.request].len() {
                    self.path.push(Decision::Alternative { slot, next: next + 1, is_too_large });
                    return Ok(Some(Step::Descend(Slot { alternative: Some(next), ..slot })));
                }
                Ok(Some(if is_too_large { Step::TooLarge { claim: slot.claim } } else { Step::GoBack }))
            }
            Some(Decision::Device { slot, next, is_placed }) => {
                if is_placed {
                    self.undo(slot);
                }
                Ok(Some(match self.place_next(slot, next, is_placed)? {
                    Some(next) => {
                        self.path.push(Decision::Device { slot, next, is_placed: true });
                        Step::Descend(Slot { number: slot.number + 1, ..slot })
                    }
                    None => Step::GoBack,
                }))
            }
        }
    }

    /// Places the first candidate from `next` on that can be used, and returns the number after it.
    fn place_next(&mut self, slot: Slot, next: usize, was_placed: bool) -> Result<Option<usize>, Refusal> {
        if let Some(all) = &self.target(slot).all {
            // All devices are needed, so there is one for each slot.
            let candidate = all[slot.number];
            let is_placed = !was_placed && self.place(slot, candidate, true)?;
            return Ok(is_placed.then_some(candidate + 1));
        }
        for candidate in next..self.supply.reach.candidates.len() {
            if self.place(slot, candidate, false)? {
                return Ok(Some(candidate + 1));
            }
        }
        Ok(None)
    }

    /// Chooses a candidate for a slot. Returns false if it cannot be used. `must` makes a violated constraint an error,
    /// because it contradicts the request for all devices.
    fn place(&mut self, slot: Slot, candidate: usize, must: bool) -> Result<bool, Refusal> {
        self.steps += 1;
        if self.steps > self.max_steps {
            return Err(Refusal::TooManySteps);
        }
        let (device, pool) = {
            let candidate = &self.supply.reach.candidates[candidate];
            (candidate.device.clone(), candidate.pool)
        };
        let request = self.target(slot).request;
        if !self.is_free(slot, candidate) || !self.is_selected(slot, candidate)? {
            return Ok(false);
        }
        let Some(consumed) = self.consumed(slot, candidate) else { return Ok(false) };
        let is_shared = device.is_shareable();
        let allocated = self.supply.allocated;
        let is_used_already = allocated.consumed(&device.id).is_some() || self.shares.contains_key(&candidate);
        let has_counters_already = is_shared && is_used_already;
        let takes_counters = !device.consumes.is_empty() && !has_counters_already;
        if takes_counters && !self.counters.suffice(pool, &self.supply.reach.pools[pool], &device, allocated) {
            return Ok(false);
        }
        let repels = |effect: &str| matches!(effect, "NoExecute" | "NoSchedule");
        let mut taints = device.spec().taints.iter().flatten().filter(|taint| repels(&taint.effect));
        if taints.any(|taint| !request.tolerations.iter().any(|toleration| tolerates_device(toleration, taint))) {
            return Ok(false);
        }
        let demand = &mut self.demands[slot.claim];
        if !demand.constraints.iter().all(|constraint| constraint.admits(&request, &device)) {
            let (claim, name, id) = (demand.claim.key(), request.name, &device.id);
            let why = "because a claim constraint would not be satisfied";
            let refusal = Refusal::Broken(format!("claim {claim}, request {name}: cannot add device {id} {why}"));
            return if must { Err(refusal) } else { Ok(false) };
        }
        demand.constraints.iter_mut().for_each(|constraint| constraint.add(&request, &device));
        if takes_counters {
            self.counters.take(pool, &device);
        }
        let consumed = is_shared.then_some(consumed);
        match &consumed {
            Some(consumed) => self.shares.entry(candidate).or_default().push(consumed.clone()),
            None => self.users.entry(candidate).or_default().push(slot.claim),
        }
        let alternative = slot.alternative.unwrap_or(0);
        self.placed[slot.claim].push(Placed {
            candidate,
            request: slot.request,
            alternative,
            consumed,
            takes_counters,
        });
        Ok(true)
    }

    /// Removes the device of a slot, which was placed last.
    fn undo(&mut self, slot: Slot) {
        let Some(placed) = self.placed[slot.claim].pop() else { return };
        let request = self.target(slot).request;
        self.demands[slot.claim].constraints.iter_mut().for_each(|constraint| constraint.remove(&request));
        let candidate = &self.supply.reach.candidates[placed.candidate];
        if placed.takes_counters {
            self.counters.give_back(candidate.pool, &candidate.device);
        }
        match placed.consumed {
            Some(_) => pop(&mut self.shares, placed.candidate),
            None => pop(&mut self.users, placed.candidate),
        }
    }

    /// Returns true if nobody else has the device. With admin access it may be used beside others, but once in a claim.
    fn is_free(&self, slot: Slot, candidate: usize) -> bool {
        let users = self.users.get(&candidate).map(Vec::as_slice).unwrap_or_default();
        match self.target(slot).request.has_admin_access {
            true => !users.contains(&slot.claim),
            false => {
                let id = &self.supply.reach.candidates[candidate].device.id;
                users.is_empty() && !self.supply.allocated.is_exclusive(id)
            }
        }
    }

    fn is_selected(&mut self, slot: Slot, candidate: usize) -> Result<bool, Refusal> {
        let key = (slot.claim, slot.request, slot.alternative.unwrap_or(0), candidate);
        if let Some(known) = self.selected.get(&key) {
            return Ok(*known);
        }
        let device = &self.supply.reach.candidates[candidate].device;
        let claim = self.demands[slot.claim].claim;
        let is_selected = self.target(slot).selects(claim, device, self.supply.selectors)?;
        self.selected.insert(key, is_selected);
        Ok(is_selected)
    }

    /// Returns what the slot would take of the device's capacity; `None` if there is not enough.
    fn consumed(&self, slot: Slot, candidate: usize) -> Option<Consumed> {
        let device = &self.supply.reach.candidates[candidate].device;
        let mut in_use = vec![self.supply.allocated.consumed(&device.id)];
        in_use.extend(self.shares.get(&candidate).into_iter().flatten().map(Some));
        capacity::consumed(&self.target(slot).request, device, &in_use)
    }
}

/// Removes the last item of a list, and the list with its last item.
fn pop<T>(lists: &mut BTreeMap<usize, Vec<T>>, key: usize) {
    if let Some(list) = lists.get_mut(&key) {
        list.pop();
        if list.is_empty() {
            lists.remove(&key);
        }
    }
}
