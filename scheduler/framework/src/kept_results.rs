//! `KeptResults`, what plugins have found about a pod's needs and one node alone. It is kept until the node changes.
//!
//! Invariant: a kept verdict or score is the one that the plugins would give now. It has the generation of its node, and
//! only pods that need the same of a node share it. Plugins that look at other nodes too are not kept: see
//! `Filter::is_local` and `Score::is_local`.

use crate::cache::{NodeInfo, Snapshot};
use crate::kept_candidates::KeptCandidates;
use crate::nominated_verdicts::NominatedVerdicts;
use crate::per_shape::shapes_to_keep;
use crate::pod_info::PodInfo;
use crate::rejections::SharedReasons;
use crate::{CycleState, Filter, Rejection, Score};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The results of one profile. A clone begins empty, because its plugins may be replaced.
#[derive(Default)]
pub struct KeptResults(Mutex<Vec<ResultsOfNeeds>>);

impl Clone for KeptResults {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for KeptResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeptResults").field(&self.0.lock().len()).finish()
    }
}

/// The results for pods that need the same of a node.
pub struct ResultsOfNeeds {
    /// One of these pods.
    pod: PodInfo,
    verdicts: Verdicts,
    scores: LocalScores,
    candidates: KeptCandidates,
    with_nominated: NominatedVerdicts,
}

impl KeptResults {
    /// Takes the results out, so that one cycle may use and extend them.
    pub fn take(&self, pod: &PodInfo) -> ResultsOfNeeds {
        let mut all = self.0.lock();
        match all.iter().position(|kept| kept.pod.needs_same_node(pod)) {
            Some(at) => all.remove(at),
            None => ResultsOfNeeds {
                pod: pod.clone(),
                verdicts: Verdicts::default(),
                scores: LocalScores::default(),
                candidates: KeptCandidates::default(),
                with_nominated: NominatedVerdicts::default(),
            },
        }
    }

    pub fn put_back(&self, results: ResultsOfNeeds, nodes: usize) {
        let mut all = self.0.lock();
        all.truncate(shapes_to_keep(nodes) - 1);
        all.insert(0, results);
    }
}

impl ResultsOfNeeds {
    /// Returns the verdicts for a cycle in which these filters are local, by their places in the profile, and those on nodes with
    /// nominated pods.
    pub fn verdicts(&mut self, local: Vec<usize>, snapshot: &Snapshot) -> (&mut Verdicts, &mut NominatedVerdicts) {
        let nodes = snapshot.nodes().len();
        if self.verdicts.local != local || self.verdicts.generations.len() != nodes {
            let reasons = SharedReasons::default();
            let (generations, fitting, rejections) = (vec![0; nodes], vec![0; nodes], vec![None; nodes]);
            self.verdicts = Verdicts { local, generations, fitting, rejections, reasons };
        }
        (&mut self.verdicts, &mut self.with_nominated)
    }

    /// Returns the candidates of preemption.
    pub fn candidates(&mut self) -> &mut KeptCandidates {
        &mut self.candidates
    }

    /// Returns the scores for a cycle in which these plugins score and are local, by their places in the profile.
    pub fn scores(&mut self, local: Vec<usize>, snapshot: &Snapshot) -> &mut LocalScores {
        let nodes = snapshot.nodes().len();
        if self.scores.local != local || self.scores.generations.len() != nodes {
            let scores = local.iter().map(|_| vec![0; nodes]).collect();
            self.scores = LocalScores { local, generations: vec![0; nodes], scores };
        }
        &mut self.scores
    }
}

/// The place of a filter in the profile, and its rejection.
pub type LocalRejection = (usize, Arc<Rejection>);

/// The first rejection of each node by a local filter.
#[derive(Default)]
pub struct Verdicts {
    local: Vec<usize>,
    /// Generation of the node when it was filtered; zero if it was not.
    generations: Vec<u64>,
    /// The same for nodes that no filter rejected, beside each other because every cycle reads many; zero for the others.
    fitting: Vec<u64>,
    rejections: Vec<Option<LocalRejection>>,
    reasons: SharedReasons,
}

impl Verdicts {
    /// Returns true if no local filter rejects the node in this generation, as far as that is known.
    #[inline]
    pub fn is_known_to_fit(&self, node: usize, generation: u64) -> bool {
        generation != 0 && self.fitting[node] == generation
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
        let generation = snapshot.generations()[node];
        if generation == 0 || self.generations[node] != generation {
            let info = &snapshot.nodes()[node];
            let reject = |at: &usize| Some((*at, filters[*at].filter(state, pod, info).err()?));
            let rejection = self.local.iter().find_map(reject);
            self.fitting[node] = if rejection.is_none() { generation } else { 0 };
            self.rejections[node] = rejection.map(|(at, rejection)| (at, self.reasons.share(rejection)));
            self.generations[node] = generation;
        }
        self.rejections[node].as_ref()
    }
}

/// The scores of local plugins, before they are normalized.
#[derive(Default)]
pub struct LocalScores {
    local: Vec<usize>,
    /// Generation of the node when it was scored; zero if it was not.
    generations: Vec<u64>,
    /// Scores of each plugin by node.
    scores: Vec<Vec<i64>>,
}

impl LocalScores {
    /// Scores those of the nodes that have changed.
    pub fn update(
        &mut self,
        plugins: &[(Arc<dyn Score>, i64)],
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &[usize],
    ) {
        let generations = snapshot.generations();
        for node in nodes {
            let generation = generations[*node];
            if generation != 0 && self.generations[*node] == generation {
                continue;
            }
            let info: &NodeInfo = &snapshot.nodes()[*node];
            for (at, scores) in self.local.iter().zip(&mut self.scores) {
                scores[*node] = plugins[*at].0.score(state, pod, info, snapshot);
            }
            self.generations[*node] = generation;
        }
    }

    /// Returns the scores of a plugin, by its place in the profile; `None` if it is not local.
    pub fn of(&self, plugin: usize, nodes: &[usize]) -> Option<Vec<i64>> {
        let scores = &self.scores[self.local.iter().position(|local| *local == plugin)?];
        Some(nodes.iter().map(|node| scores[*node]).collect())
    }
}
