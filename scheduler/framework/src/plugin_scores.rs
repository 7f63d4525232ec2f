//! `PluginScores`, the scores that one plugin gives the feasible nodes, and `Scores`, those of all plugins.

use crate::MAX_NODE_SCORE;

/// The normalized scores of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginScores {
    pub plugin: &'static str,
    pub weight: i64,
    /// Scores before weighting, in the order of the nodes. Empty if only the totals are wanted.
    pub scores: Vec<i64>,
}

impl PluginScores {
    /// Returns what is wrong with a score that is out of range.
    pub fn check(&self) -> Result<(), String> {
        match self.scores.iter().find(|score| !(0..=MAX_NODE_SCORE).contains(*score)) {
            None => Ok(()),
            Some(score) => Err(format!(
                "applying score defaultWeights on Score plugins: plugin {:?} returns an invalid score {score}, it should in \
                 the range of [0, {MAX_NODE_SCORE}] after normalizing",
                self.plugin
            )),
        }
    }

    /// Adds the weighted scores to totals. Sums that are too large saturate.
    pub fn add_to(&self, totals: &mut [i64]) {
        let pairs = totals.iter_mut().zip(&self.scores);
        // Extenders may give any scores.
        let largest = self.scores.iter().fold(0, |bits, score| bits | score.unsigned_abs());
        match self.weight.unsigned_abs().checked_mul(largest).is_some_and(|product| i64::try_from(product).is_ok()) {
            true => pairs.for_each(|(total, score)| *total = total.saturating_add(self.weight * score)),
            false => pairs.for_each(|(total, score)| *total = total.saturating_add(self.weight.saturating_mul(*score))),
        }
    }
}

/// The scores of the feasible nodes, in their order.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// In the order of the profile.
    pub of_plugins: Vec<PluginScores>,
    /// Weighted sum of each node's scores. It may lack what is the same for all nodes.
    pub totals: Vec<i64>,
}

/// Returns the weighted sum of each node's scores.
pub fn totals(scores: &[PluginScores], nodes: usize) -> Vec<i64> {
    let mut totals = vec![0_i64; nodes];
    scores.iter().for_each(|plugin| plugin.add_to(&mut totals));
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_are_too_large_saturate() {
        let scores = |weight, score| PluginScores { plugin: "x", weight, scores: vec![score, 1] };
        assert_eq!(totals(&[scores(2, 100), scores(3, -7)], 2), [179, 5]);
        assert_eq!(totals(&[scores(2, i64::MAX), scores(3, 7)], 2), [i64::MAX, 5]);
        assert_eq!(totals(&[scores(1, i64::MAX), scores(1, 7)], 2), [i64::MAX, 2]);
        assert_eq!(totals(&[scores(i64::MAX, -2)], 2), [i64::MIN, i64::MAX]);
    }
}
