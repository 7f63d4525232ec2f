//! `KeptAllocations`: what the search has found for claims of one shape on each node, kept until devices of the node change hands.
//!
//! Invariant: a kept outcome is the one that a search would give now. Claims that are made from one template differ in nothing
//! that the search reads. A placement takes devices of few pools, so that most nodes keep their outcome.
//!
//! ```text
//!   claims of a shape ── node 0: gpu-0 of pool "a"      a claim takes gpu-0 of "b": node 1 is searched again
//!                     ╲─ node 1: gpu-0 of pool "b"
//! ```

use crate::allocator::Allocator;
use crate::demand::Classes;
use crate::pool::Reach;
use crate::refusal::Refusal;
use crate::slices::{PoolId, Slices};
use parking_lot::Mutex;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::{AllocationResult, DeviceClaim, ResourceClaim};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit of the number of shapes. A cluster has a few templates of claims.
const MAX_SHAPES: usize = 16;

/// The allocations of claims on a node, or the reason why there are none.
pub type Outcome = Result<Arc<[AllocationResult]>, Refusal>;

#[derive(Default)]
pub struct KeptAllocations {
    /// The most recently used first.
    shapes: Mutex<Vec<Arc<Shape>>>,
}

/// Claims that the search cannot tell from each other, and what it reads besides the allocated devices.
struct Shape {
    demands: Vec<Option<DeviceClaim>>,
    classes: Classes,
    slices: Arc<Slices>,
    max_steps: usize,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default)]
struct Outcomes {
    /// Version of the pools that is known.
    version: u64,
    /// The outcome for each node, by its number.
    nodes: Vec<Option<(Arc<Node>, Outcome)>>,
    /// The nodes that have a pool in reach.
    users: BTreeMap<PoolId, BTreeSet<usize>>,
}

/// The outcomes for the claims of one cycle.
pub struct KeptForClaims<'a> {
    shape: Arc<Shape>,
    allocator: &'a Allocator,
    claims: Vec<Arc<ResourceClaim>>,
}

impl KeptAllocations {
    /// Returns what is kept for claims like these.
    pub fn of<'a>(&self, allocator: &'a Allocator, claims: Vec<Arc<ResourceClaim>>) -> KeptForClaims<'a> {
        let mut shapes = self.shapes.lock();
        let found = shapes.iter().position(|shape| shape.is_of(allocator, &claims));
        let shape = match found.map(|at| shapes.remove(at)) {
            Some(shape) => shape,
            None => Arc::new(Shape::new(allocator, &claims)),
        };
        // Outcomes of other slices are not asked for again.
        shapes.retain(|other| Arc::ptr_eq(&other.slices, &allocator.slices));
        shapes.truncate(MAX_SHAPES - 1);
        shapes.insert(0, shape.clone());
        drop(shapes);
        shape.outcomes.lock().follow(allocator);
        KeptForClaims { shape, allocator, claims }
    }
}

impl KeptForClaims<'_> {
    /// Returns the outcome for a node. `number` is its own among all nodes, and may change at any time.
    pub fn allocate(&self, number: usize, node: &Arc<Node>) -> Outcome {
        let Self { shape, allocator, claims } = self;
        let mut outcomes = shape.outcomes.lock();
        let is_current = outcomes.version == allocator.changes.version();
        if let Some(Some((known, outcome))) = outcomes.nodes.get(number)
            && is_current
            && Arc::ptr_eq(known, node)
        {
            return outcome.clone();
        }
        let reach = Reach::of(&allocator.slices, node);
        let outcome = allocator.allocate_within(&reach, node, claims).map(Arc::from);
        // The text of an error names a claim.
        if is_current && !matches!(outcome, Err(Refusal::Broken(_))) {
            outcomes.keep(number, node, &reach, outcome.clone());
        }
        outcome
    }
}

impl Shape {
    fn new(allocator: &Allocator, claims: &[Arc<ResourceClaim>]) -> Self {
        Self {
            demands: claims.iter().map(|claim| claim.spec.devices.clone()).collect(),
            classes: allocator.classes.clone(),
            slices: allocator.slices.clone(),
            max_steps: allocator.max_steps,
            outcomes: Mutex::default(),
        }
    }

    fn is_of(&self, allocator: &Allocator, claims: &[Arc<ResourceClaim>]) -> bool {
        let classes = || self.classes.values().zip(allocator.classes.values());
        Arc::ptr_eq(&self.slices, &allocator.slices)
            && self.max_steps == allocator.max_steps
            && self.demands.iter().eq(claims.iter().map(|claim| &claim.spec.devices))
            && self.classes.len() == allocator.classes.len()
            && classes().all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

impl Outcomes {
    /// Forgets the outcomes of nodes whose pools have changed. A state that is older than the known one changes nothing.
    fn follow(&mut self, allocator: &Allocator) {
        let changes = &allocator.changes;
        if changes.version() < self.version {
            return;
        }
        match changes.since(self.version) {
            Some(changed) => {
                for pool in changed {
                    for node in self.users.remove(pool).into_iter().flatten() {
                        self.nodes[node] = None;
                    }
                }
            }
            None => *self = Self::default(),
        }
        self.version = changes.version();
    }

    fn keep(&mut self, number: usize, node: &Arc<Node>, reach: &Reach, outcome: Outcome) {
        if self.nodes.len() <= number {
            self.nodes.resize(number + 1, None);
        }
        self.nodes[number] = Some((node.clone(), outcome));
        for pool in &reach.pools {
            self.users.entry(pool.id.clone()).or_default().insert(number);
        }
    }
}
