//! `CycleExtender`, what takes part in a cycle beside the plugins, and may have to wait for its answers.
//!
//! Corresponds to the use of extenders in pkg/scheduler/schedule_one.go and pkg/scheduler/framework/preemption.

use crate::cache::{NodeInfo, Snapshot};
use crate::cycle::Search;
use crate::plugin_scores::PluginScores;
use crate::pod_info::PodInfo;
use crate::{FitError, PostFilterResult};
use async_trait::async_trait;

/// All extenders together, as a cycle asks them.
#[async_trait]
pub trait CycleExtender: Send + Sync {
    /// Returns true if more than one feasible node is of use.
    fn compares_nodes(&self) -> bool;

    /// Removes nodes from the feasible ones. An error ends the cycle.
    async fn filter(&self, pod: &PodInfo, search: &mut Search<'_>) -> Result<(), String>;

    /// Returns scores that are added to those of the plugins.
    async fn prioritize(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<PluginScores>;

    /// Changes a preemption: refuses candidates, or names other victims.
    async fn process_preemption(
        &self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        result: &mut PostFilterResult,
        error: &mut FitError,
    );
}

/// The reason for which a cycle has no node.
#[derive(Debug)]
pub enum CycleError {
    NoFit(FitError),
    /// A plugin has failed, or an extender that is not ignorable.
    Failed(String),
}

impl From<FitError> for CycleError {
    fn from(error: FitError) -> Self {
        match error {
            FitError::Failed(message) => Self::Failed(message),
            error => Self::NoFit(error),
        }
    }
}
