//! `NodeJudge`, the filters of one cycle, made ready to judge many nodes of a snapshot.
//!
//! Gives the same verdicts as `Profile::run_filter`: the first filter in the profile's order that rejects a node.

use crate::cache::Snapshot;
use crate::kept_results::Verdicts;
use crate::pod_info::PodInfo;
use crate::{CycleState, Filter, Profile, Rejection};
use std::sync::Arc;

/// A filter that has read its data and judges nodes by their numbers. Returns the rejection.
pub type FilterByNumber<'a> = Box<dyn Fn(usize) -> Option<Arc<Rejection>> + 'a>;

pub struct NodeJudge<'a> {
    profile: &'a Profile,
    state: &'a CycleState,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    verdicts: &'a mut Verdicts,
    /// Filters that are not local, with their places in the profile.
    others: Vec<(usize, FilterByNumber<'a>)>,
}

/// Returns the places in the profile of the filters that run and are local.
pub fn local_filters(profile: &Profile, state: &CycleState) -> Vec<usize> {
    running(profile, state).filter(|(_, filter)| filter.is_local(state)).map(|(at, _)| at).collect()
}

fn running<'a>(profile: &'a Profile, state: &'a CycleState) -> impl Iterator<Item = (usize, &'a Arc<dyn Filter>)> {
    profile.filter.iter().enumerate().filter(|(_, filter)| !state.skip_filter.contains(filter.name()))
}

impl<'a> NodeJudge<'a> {
    /// `verdicts` are those for `local_filters`.
    pub fn new(
        profile: &'a Profile,
        state: &'a CycleState,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        verdicts: &'a mut Verdicts,
    ) -> Self {
        let one_by_one = |filter: &'a Arc<dyn Filter>| -> FilterByNumber<'a> {
            Box::new(move |node| filter.filter(state, pod, &snapshot.nodes()[node]).err().map(Arc::new))
        };
        let others = running(profile, state)
            .filter(|(_, filter)| !filter.is_local(state))
            .map(|(at, filter)| (at, filter.by_number(state, pod, snapshot).unwrap_or_else(|| one_by_one(filter))))
            .collect();
        Self { profile, state, pod, snapshot, verdicts, others }
    }

    /// Returns the rejection of a node; `None` if the pod fits.
    pub fn rejection(&mut self, node: usize) -> Option<Arc<Rejection>> {
        let Self { profile, state, pod, snapshot, .. } = *self;
        let local = self.verdicts.of(&profile.filter, state, pod, snapshot, node);
        let before_local = |at: &usize| local.is_none_or(|(first, _)| at < first);
        let others = self.others.iter().take_while(|(at, _)| before_local(at));
        let rejection = others.map(|(_, filter)| filter(node)).find(Option::is_some).flatten();
        rejection.or_else(|| local.map(|(_, rejection)| rejection.clone()))
    }
}
