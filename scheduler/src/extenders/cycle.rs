//! A scheduling cycle that asks extenders between the steps of the pure cycle.
//!
//! Corresponds to findNodesThatPassExtenders and prioritizeNodes of pkg/scheduler/schedule_one.go.

use super::Extenders;
use component_base::rng::Random;
use scheduling_framework::cache::Snapshot;
use scheduling_framework::configuration::plugin_sets::Point;
use scheduling_framework::cycle::{self, Decision, Rotation, Search};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FitError, Nominated, Profile};

/// The reason for which a cycle has no node.
#[derive(Debug)]
pub enum CycleError {
    NoFit(FitError),
    /// An extender that is not ignorable has failed.
    Extender(String),
}

impl From<FitError> for CycleError {
    fn from(error: FitError) -> Self {
        Self::NoFit(error)
    }
}

/// Finds the node for a pod. Without extenders it awaits nothing.
pub async fn schedule_one(
    extenders: &Extenders,
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    random: &Random,
) -> Result<Decision, CycleError> {
    if extenders.is_empty() {
        return Ok(cycle::schedule_one(profile, state, pod, snapshot, nominated, rotation, random)?);
    }
    let candidates = cycle::pre_filter(profile, state, pod, snapshot)?;
    let (began, mut found) = (state.timings.begin(), None);
    if let Some(node) = cycle::nominated_node(profile, state, pod, snapshot, nominated, &candidates) {
        let mut search = Search::of_one(snapshot, node);
        match extenders.filter(pod, &mut search).await {
            Ok(()) => found = Some(search).filter(|search| !search.feasible.is_empty()),
            Err(error) => tracing::warn!(pod = pod.key, error, "the nominated node was not evaluated"),
        }
    }
    let search = match found {
        Some(search) => search,
        None => {
            let compared = !profile.score.is_empty() || extenders.compare_nodes();
            let mut search = cycle::search(profile, state, pod, snapshot, nominated, rotation, &candidates, compared);
            extenders.filter(pod, &mut search).await.map_err(CycleError::Extender)?;
            search
        }
    };
    state.timings.end(began, Point::Filter, search.code());
    let search = search.or_no_fit()?;
    let mut scores = cycle::score(profile, state, pod, &search);
    state.end_search();
    if search.feasible.len() > 1 {
        scores.extend(extenders.prioritize(pod, &search.nodes()).await);
    }
    Ok(cycle::choose(profile, search, scores, rotation, random))
}
