//! `Allocator`: the devices that there are and those that are taken, for the claims of one pod on any node.
//!
//! Corresponds to Allocator of k8s.io/dynamic-resource-allocation/structured.

use crate::allocated::AllocatedState;
use crate::demand::{Classes, Demand, Supply};
use crate::pool::{PoolState, Reach};
use crate::pool_changes::PoolChanges;
use crate::refusal::Refusal;
use crate::result;
use crate::search::Search;
use crate::selectors::Selectors;
use crate::slices::Slices;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Allocator {
    pub slices: Arc<Slices>,
    pub allocated: Arc<AllocatedState>,
    /// The changes of `allocated`.
    pub changes: Arc<PoolChanges>,
    /// The classes that the claims name.
    pub classes: Classes,
    pub selectors: Arc<Selectors>,
    /// Limit on the devices that are tried for one node.
    pub max_steps: usize,
}

impl Allocator {
    /// Returns an allocation for each claim, with devices that the node can use, or the reason why there is none.
    pub fn allocate(&self, node: &Node, claims: &[Arc<ResourceClaim>]) -> Result<Vec<AllocationResult>, Refusal> {
        self.allocate_within(&Reach::of(&self.slices, node), node, claims)
    }

    /// Allocates devices in reach of the node.
    pub(crate) fn allocate_within(
        &self,
        reach: &Reach,
        node: &Node,
        claims: &[Arc<ResourceClaim>],
    ) -> Result<Vec<AllocationResult>, Refusal> {
        let Self { classes, selectors, allocated, max_steps, .. } = self;
        let supply = Supply { reach, classes, selectors, allocated };
        let demands: Vec<Demand<'_>> =
            claims.iter().map(|claim| Demand::of(claim, &supply)).collect::<Result<_, _>>()?;
        match Search::new(&supply, demands, *max_steps).run()? {
            Some(found) => Ok(result::build(&found, reach, node)),
            None if reach.pools.iter().any(|pool| matches!(pool.state, PoolState::Invalid(_))) => {
                Err(Refusal::InvalidPools)
            }
            None => Err(Refusal::NotEnough),
        }
    }
}
