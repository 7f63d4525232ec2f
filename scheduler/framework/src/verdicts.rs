//! `Verdicts`, the first rejection of each node by a local filter, for pods that need the same of a node.
//!
//! Invariant: a known verdict is the one that the filters would give now. The nodes that fit are a set, so that a cycle reads
//! 64 verdicts at once.

use crate::cache::{NodeSet, Snapshot, node_set};
use crate::pod_info::PodInfo;
use crate::rejections::MAX_COMPARED;
use crate::{CycleState, Filter, Rejection};
use std::sync::Arc;

/// The place of a filter in the profile, and its rejection.
pub type LocalRejection = (usize, Arc<Rejection>);

#[derive(Default)]
pub struct Verdicts {
    /// Places in the profile of the filters.
    local: Vec<usize>,
    /// Version of the snapshot that `known` follows.
    version: u64,
    /// Generation of each node when it was filtered; zero if it was not.
    generations: Vec<u64>,
    /// Nodes that have not changed since they were filtered.
    known: NodeSet,
    /// Nodes that no filter has rejected.
    fitting: NodeSet,
    /// Place in `rejections` for each node that some filter has rejected.
    places: Vec<u32>,
    /// Each different rejection once, as far as they are compared.
    rejections: Vec<LocalRejection>,
}

impl Verdicts {
    fn new(local: Vec<usize>, nodes: usize) -> Self {
        let (known, fitting) = (NodeSet::empty(nodes), NodeSet::empty(nodes));
        let (generations, places) = (vec![0; nodes], vec![0; nodes]);
        Self { local, version: 0, generations, known, fitting, places, rejections: Vec::new() }
    }

    /// Forgets the verdicts on nodes that have changed. `local` are the places in the profile of the filters of this cycle.
    pub fn follow(&mut self, local: Vec<usize>, snapshot: &Snapshot) {
        let nodes = snapshot.nodes().len();
        // Some plugins give each node a reason of its own.
        let has_too_many = self.rejections.len() > nodes + MAX_COMPARED;
        if self.local != local || self.generations.len() != nodes || has_too_many {
            *self = Self::new(local, nodes);
        }
        follow(&mut self.known, &self.generations, self.version, snapshot);
        self.version = snapshot.version();
    }

    /// Returns the nodes of a word whose verdicts are known, and those that fit.
    #[inline]
    pub fn word(&self, word: usize) -> (u64, u64) {
        (self.known.word(word), self.fitting.word(word))
    }

    /// Calls `reject` with the known rejections of some nodes of a word that do not fit, and the nodes of each. Nodes that
    /// follow each other and have the same rejection come together.
    pub fn rejections(&self, word: usize, nodes: u64, mut reject: impl FnMut(&LocalRejection, u64)) {
        let mut run: Option<(u32, u64)> = None;
        for node in node_set::numbers(word, nodes) {
            let (place, bit) = (self.places[node], node_set::bit(node));
            run = match run {
                Some((same, nodes)) if same == place => Some((same, nodes | bit)),
                other => {
                    other.iter().for_each(|(place, nodes)| reject(&self.rejections[*place as usize], *nodes));
                    Some((place, bit))
                }
            };
        }
        run.iter().for_each(|(place, nodes)| reject(&self.rejections[*place as usize], *nodes));
    }

    /// Returns the known rejection of a node that does not fit.
    fn rejection(&self, node: usize) -> &LocalRejection {
        &self.rejections[self.places[node] as usize]
    }

    /// Returns the first rejection of a node by a local filter, and runs the filters if the node has changed.
    pub fn of(
        &mut self,
        filters: &[Arc<dyn Filter>],
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        node: usize,
    ) -> Option<&LocalRejection> {
        if !self.known.contains(node) {
            let (info, row) = (&snapshot.nodes()[node], &snapshot.rows()[node]);
            let reject = |at: &usize| {
                let verdict = filters[*at].filter_by_row(state, pod, row);
                Some((*at, verdict.unwrap_or_else(|| filters[*at].filter(state, pod, info)).err()?))
            };
            let rejection = self.local.iter().find_map(reject);
            self.fitting.set(node, rejection.is_none());
            if let Some((at, rejection)) = rejection {
                self.places[node] = self.place(at, rejection);
            }
            self.generations[node] = snapshot.generations()[node];
            self.known.set(node, self.generations[node] != 0);
        }
        (!self.fitting.contains(node)).then(|| self.rejection(node))
    }

    fn place(&mut self, at: usize, rejection: Rejection) -> u32 {
        let mut compared = self.rejections.iter().take(MAX_COMPARED);
        let place = compared.position(|(other, known)| *other == at && **known == rejection).unwrap_or_else(|| {
            self.rejections.push((at, Arc::new(rejection)));
            self.rejections.len() - 1
        });
        u32::try_from(place).expect("there are little more rejections than nodes")
    }
}

/// Updates the set of the nodes that have their present generation in `generations`, which was right for a version of the
/// snapshot.
pub fn follow(known: &mut NodeSet, generations: &[u64], version: u64, snapshot: &Snapshot) {
    let is_known = |node: usize| generations[node] != 0 && generations[node] == snapshot.generations()[node];
    match snapshot.changed_since(version) {
        Some(changed) => changed.for_each(|node| known.set(node, is_known(node))),
        None => (0..generations.len()).for_each(|node| known.set(node, is_known(node))),
    }
}
