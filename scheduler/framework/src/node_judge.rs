//! `NodeJudge`, the filters of one cycle, made ready to judge many nodes of a snapshot.
//!
//! Gives the same verdicts as `Profile::run_filter`: the first filter in the profile's order that rejects a node. Local
//! filters run only on nodes whose verdict is not known. If the other filters judge by words, 64 nodes are judged at once.

use crate::cache::Snapshot;
use crate::cache::node_set::{self, WORD};
use crate::pod_info::PodInfo;
use crate::verdicts::Verdicts;
use crate::{CycleState, Filter, Profile, Rejection, Rejections};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Number of different rejections that a filter by number may have.
const MAX_REASONS: usize = 4;

/// The nodes of one word that a filter rejects, by the place of the rejection.
pub type RejectedByReason = [u64; MAX_REASONS];

/// A filter that has read its data and judges nodes by their numbers.
pub enum FilterByNumber<'a> {
    /// One after the other. Returns the rejection.
    OfNodes(Box<dyn Fn(usize) -> Option<Arc<Rejection>> + 'a>),
    /// Those of a word at once.
    OfWords(FilterOfWords<'a>),
}

pub struct FilterOfWords<'a> {
    reasons: Vec<Arc<Rejection>>,
    reject: Box<dyn Fn(usize, u64) -> RejectedByReason + 'a>,
}

impl<'a> FilterByNumber<'a> {
    pub fn of_nodes(reject: impl Fn(usize) -> Option<Arc<Rejection>> + 'a) -> Self {
        Self::OfNodes(Box::new(reject))
    }

    /// `reject` gets a word and some of its nodes. A node that it rejects has one of the `reasons`.
    pub fn of_words<const N: usize>(
        reasons: [Rejection; N],
        reject: impl Fn(usize, u64) -> RejectedByReason + 'a,
    ) -> Self {
        const { assert!(N <= MAX_REASONS) };
        Self::OfWords(FilterOfWords { reasons: reasons.map(Arc::new).into(), reject: Box::new(reject) })
    }

    fn rejects(&self, node: usize) -> Option<Arc<Rejection>> {
        match self {
            Self::OfNodes(reject) => reject(node),
            Self::OfWords(FilterOfWords { reasons, reject }) => {
                let rejected = reject(node / WORD, node_set::bit(node));
                let reason = reasons.iter().zip(rejected).find(|(_, nodes)| *nodes != 0);
                reason.map(|(reason, _)| reason.clone())
            }
        }
    }
}

pub struct NodeJudge<'a> {
    profile: &'a Profile,
    state: &'a CycleState,
    pod: &'a PodInfo,
    snapshot: &'a Snapshot,
    verdicts: &'a mut Verdicts,
    /// Filters that are not local, with their places in the profile.
    others: Vec<(usize, FilterByNumber<'a>)>,
    /// True if no filter has to be asked for each node.
    judges_words: bool,
}

/// The nodes that a judge has found so far.
#[derive(Default)]
pub struct Judged {
    pub feasible: Vec<usize>,
    pub rejections: Rejections,
    /// Number of nodes that were judged.
    pub evaluated: usize,
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
        let by_number = |filter: &'a Arc<dyn Filter>| {
            let one_by_one = move |node: usize| filter.filter(state, pod, &snapshot.nodes()[node]).err().map(Arc::new);
            filter.by_number(state, pod, snapshot).unwrap_or_else(|| FilterByNumber::of_nodes(one_by_one))
        };
        let others: Vec<_> = running(profile, state)
            .filter(|(_, filter)| !filter.is_local(state))
            .map(|(at, filter)| (at, by_number(filter)))
            .collect();
        let judges_words = others.iter().all(|(_, filter)| matches!(filter, FilterByNumber::OfWords(_)));
        Self { profile, state, pod, snapshot, verdicts, others, judges_words }
    }

    /// Judges nodes of one word in their order, until `enough` are feasible.
    pub fn judge(&mut self, nodes: Range<usize>, enough: usize, judged: &mut Judged) {
        if self.judges_words {
            let (word, (known, _)) = (nodes.start / WORD, self.verdicts.word(nodes.start / WORD));
            for node in node_set::numbers(word, node_set::bits(nodes.clone()) & !known) {
                self.verdicts.of(&self.profile.filter, self.state, self.pod, self.snapshot, node);
            }
            return self.judge_word(nodes, enough, judged);
        }
        for node in nodes {
            self.judge_one(node, judged);
            if judged.feasible.len() >= enough {
                break;
            }
        }
    }

    fn judge_word(&self, nodes: Range<usize>, enough: usize, judged: &mut Judged) {
        let (word, mut nodes) = (nodes.start / WORD, node_set::bits(nodes));
        let local = nodes & !self.verdicts.word(word).1;
        // The first rejection of each node by another filter: its place in the profile, the reason and the nodes.
        let (mut others, mut left) = (SmallVec::<[_; MAX_REASONS]>::new(), nodes);
        for (at, filter) in &self.others {
            let FilterByNumber::OfWords(filter) = filter else { continue };
            let rejected = (filter.reject)(word, left);
            for (reason, rejected) in filter.reasons.iter().zip(rejected).filter(|(_, rejected)| *rejected != 0) {
                others.push((*at, reason, rejected));
                left &= !rejected;
            }
        }
        let (fitting, missing) = (left & !local, enough - judged.feasible.len());
        let mut found = fitting;
        if fitting.count_ones() as usize >= missing {
            found = node_set::lowest(fitting, missing);
            nodes &= node_set::up_to_highest(found);
        }
        judged.evaluated += nodes.count_ones() as usize;
        node_set::runs(word, found).for_each(|run| judged.feasible.extend(run));
        for (_, reason, rejected) in &others {
            judged.rejections.push_word(word, rejected & nodes & !local, reason);
        }
        self.verdicts.rejections(word, local & nodes, |(first, rejection), mut rejected| {
            for (_, reason, before) in others.iter().filter(|(at, ..)| at < first) {
                judged.rejections.push_word(word, before & rejected, reason);
                rejected &= !before;
            }
            judged.rejections.push_word(word, rejected, rejection);
        });
    }

    /// Judges one node.
    pub fn judge_one(&mut self, node: usize, judged: &mut Judged) {
        judged.evaluated += 1;
        let Self { profile, state, pod, snapshot, .. } = *self;
        let local = self.verdicts.of(&profile.filter, state, pod, snapshot, node);
        let before_local = |at: &usize| local.is_none_or(|(first, _)| at < first);
        let others = self.others.iter().take_while(|(at, _)| before_local(at));
        if let Some(rejection) = others.map(|(_, filter)| filter.rejects(node)).find(Option::is_some).flatten() {
            return judged.rejections.push(node, &rejection);
        }
        match local {
            Some((_, rejection)) => judged.rejections.push(node, rejection),
            None => judged.feasible.push(node),
        }
    }
}
