//! `NodeJudge`, the filters of one cycle, made ready to judge many nodes of a snapshot.
//!
//! Gives the same verdicts as `Profile::run_filter`: the first filter in the profile's order that rejects a node.

use crate::cache::Snapshot;
use crate::kept_results::Verdicts;
use crate::pod_info::PodInfo;
use crate::{CycleState, Filter, Profile, Rejection, Rejections};
use std::sync::Arc;

/// A filter that has read its data and judges nodes by their numbers. Returns the rejection.
pub type FilterByNumber<'a> = Box<dyn Fn(usize) -> Option<Arc<Rejection>> + 'a>;

pub struct NodeJudge<'a> {
    profile: &'a Profile,
    state: &'a CycleState,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    generations: &'a [u64],
    verdicts: &'a mut Verdicts,
    /// Filters that are not local, with their places in the profile.
    others: Vec<(usize, FilterByNumber<'a>)>,
}

/// Returns the places in the profile of the filters that run and are local.
pub fn local_filters(profile: &Profile, state: &CycleState) -> Vec<usize> {
    running(profile, state).filter(|(_, filter)| filter.is_local(state)).map(|(at, _)| at).collect()
}

/// Returns true if all filters that run are local.
pub fn all_are_local(profile: &Profile, state: &CycleState) -> bool {
    running(profile, state).all(|(_, filter)| filter.is_local(state))
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
        Self { profile, state, pod, snapshot, generations: snapshot.generations(), verdicts, others }
    }

    /// Returns true if the pod fits on the node. Otherwise adds its rejection. A node that is known to fit costs a look at
    /// two numbers.
    #[inline]
    pub fn fits(&mut self, node: usize, rejections: &mut Rejections) -> bool {
        let is_known = self.others.is_empty() && self.verdicts.is_known_to_fit(node, self.generations[node]);
        is_known || self.passes_filters(node, rejections)
    }

    fn passes_filters(&mut self, node: usize, rejections: &mut Rejections) -> bool {
        let Self { profile, state, pod, snapshot, .. } = *self;
        let local = self.verdicts.of(&profile.filter, state, pod, snapshot, node);
        let before_local = |at: &usize| local.is_none_or(|(first, _)| at < first);
        let others = self.others.iter().take_while(|(at, _)| before_local(at));
        if let Some(rejection) = others.map(|(_, filter)| filter(node)).find(Option::is_some).flatten() {
            rejections.push(node, &rejection);
            return false;
        }
        local.inspect(|(_, rejection)| rejections.push(node, rejection)).is_none()
    }
}
