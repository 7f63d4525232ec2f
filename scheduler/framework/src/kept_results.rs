//! `KeptResults`, what plugins have found about a pod's needs and one node alone. It is kept until the node changes.
//!
//! Invariant: a kept verdict or score is the one that the plugins would give now. It has the generation of its node, and
//! only pods that need the same of a node share it. Plugins that look at other nodes too are not kept: see
//! `Filter::is_local` and `Score::is_local`.

use crate::cache::Snapshot;
use crate::kept_candidates::KeptCandidates;
use crate::local_scores::LocalScores;
use crate::nominated_verdicts::NominatedVerdicts;
use crate::per_shape::shapes_to_keep;
use crate::pod_info::PodInfo;
use crate::verdicts::Verdicts;
use parking_lot::Mutex;
use std::fmt;

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
        self.verdicts.follow(local, snapshot);
        (&mut self.verdicts, &mut self.with_nominated)
    }

    /// Returns the candidates of preemption.
    pub fn candidates(&mut self) -> &mut KeptCandidates {
        &mut self.candidates
    }

    pub fn scores(&mut self) -> &mut LocalScores {
        &mut self.scores
    }
}
