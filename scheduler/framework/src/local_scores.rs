//! `LocalScores`, the scores of each node by local plugins before they are normalized, for pods that need the same of a node.
//!
//! Invariant: a known score is the one that the plugin would give now. Scores that nothing normalizes are also kept as their
//! weighted sum, so that a cycle reads one number of a node.

use crate::cache::{NodeSet, Snapshot, node_set};
use crate::feasible_nodes::FeasibleNodes;
use crate::pod_info::PodInfo;
use crate::verdicts::follow;
use crate::{CycleState, MAX_NODE_SCORE, Normalization, Score};
use std::sync::Arc;

#[derive(Default)]
pub struct LocalScores {
    columns: Vec<Column>,
    /// Version of the snapshot that `known` follows.
    version: u64,
    /// Generation of each node when it was scored; zero if it was not.
    generations: Vec<u64>,
    /// Nodes that have not changed since they were scored.
    known: NodeSet,
    /// Weighted sum of the scores of each node that nothing normalizes.
    sums: Vec<i64>,
    /// True if a score was out of range or a sum too large. Then a cycle has to look at each score.
    is_odd: bool,
}

/// The scores of one plugin.
struct Column {
    /// Place of the plugin in the profile.
    plugin: usize,
    normalization: Normalization,
    scores: Vec<i64>,
    /// True if no score was another number than zero so far.
    is_zero: bool,
}

impl LocalScores {
    /// Forgets the scores of nodes that have changed. `local` are the places in the profile of the plugins of this cycle.
    pub fn follow(&mut self, local: &[usize], plugins: &[(Arc<dyn Score>, i64)], snapshot: &Snapshot) {
        let nodes = snapshot.nodes().len();
        if self.generations.len() != nodes || !self.columns.iter().map(|column| &column.plugin).eq(local) {
            let column = |plugin: &usize| Column {
                plugin: *plugin,
                normalization: plugins[*plugin].0.normalization(),
                scores: vec![0; nodes],
                is_zero: true,
            };
            let (generations, known, sums) = (vec![0; nodes], NodeSet::empty(nodes), vec![0; nodes]);
            let columns = local.iter().map(column).collect();
            *self = Self { columns, version: 0, generations, known, sums, is_odd: false };
        }
        follow(&mut self.known, &self.generations, self.version, snapshot);
        self.version = snapshot.version();
    }

    /// Scores those of the nodes that have changed.
    pub fn update(
        &mut self,
        plugins: &[(Arc<dyn Score>, i64)],
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) {
        for nodes in nodes.ranges().flat_map(node_set::words) {
            let word = nodes.start / node_set::WORD;
            for node in node_set::numbers(word, node_set::bits(nodes) & !self.known.word(word)) {
                self.score(plugins, state, pod, snapshot, node);
            }
        }
    }

    fn score(
        &mut self,
        plugins: &[(Arc<dyn Score>, i64)],
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        node: usize,
    ) {
        let (info, row, mut sum) = (&snapshot.nodes()[node], &snapshot.rows()[node], Some(0_i64));
        for column in &mut self.columns {
            let (plugin, weight) = &plugins[column.plugin];
            let by_row = plugin.score_by_row(state, pod, row);
            let score = by_row.unwrap_or_else(|| plugin.score(state, pod, info, snapshot));
            column.scores[node] = score;
            column.is_zero &= score == 0;
            if column.normalization == Normalization::None {
                self.is_odd |= !(0..=MAX_NODE_SCORE).contains(&score);
                sum = weight.checked_mul(score).and_then(|weighted| sum?.checked_add(weighted));
            }
        }
        self.is_odd |= sum.is_none();
        self.sums[node] = sum.unwrap_or(0);
        self.generations[node] = snapshot.generations()[node];
        self.known.set(node, self.generations[node] != 0);
    }

    /// Returns the scores of a plugin, by its place in the profile; `None` if it is not local.
    pub fn of(&self, plugin: usize, nodes: &FeasibleNodes<'_>) -> Option<Vec<i64>> {
        Some(taken(&self.column(plugin)?.scores, nodes))
    }

    /// Returns the weighted sums of the scores that nothing normalizes; `None` if each score has to be looked at.
    pub fn sums(&self, nodes: &FeasibleNodes<'_>) -> Option<Vec<i64>> {
        (!self.is_odd).then(|| taken(&self.sums, nodes))
    }

    /// Returns true if the scores of a plugin are in `sums`, or the same for all nodes.
    pub fn are_summed(&self, plugin: usize) -> bool {
        self.column(plugin).is_some_and(|column| match column.normalization {
            Normalization::None => true,
            Normalization::ToHighest => column.is_zero,
            Normalization::Own => false,
        })
    }

    fn column(&self, plugin: usize) -> Option<&Column> {
        self.columns.iter().find(|column| column.plugin == plugin)
    }
}

/// Returns the numbers that a column has for some nodes.
fn taken(column: &[i64], nodes: &FeasibleNodes<'_>) -> Vec<i64> {
    let mut taken = Vec::with_capacity(nodes.len());
    nodes.ranges().for_each(|nodes| taken.extend_from_slice(&column[nodes]));
    taken
}
