//! `Recent`, the results for the last few different inputs.
//!
//! Nodes that follow each other are in different zones, and those of one zone often give the same input. So a few results
//! serve thousands of nodes.

use smallvec::SmallVec;

/// Number of results. Clusters rarely have more zones than this, and searching more would cost as much as what it spares.
const RESULTS: usize = 4;

pub struct Recent<K, V> {
    results: SmallVec<[(K, V); RESULTS]>,
    /// Place of the oldest result.
    oldest: usize,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { results: SmallVec::new(), oldest: 0 }
    }
}

impl<K: PartialEq, V: Copy> Recent<K, V> {
    /// Returns the result for an input, which depends on nothing else.
    pub fn of(&mut self, input: K, compute: impl FnOnce(&K) -> V) -> V {
        if let Some((_, result)) = self.results.iter().find(|(known, _)| *known == input) {
            return *result;
        }
        let result = compute(&input);
        if self.results.len() < RESULTS {
            self.results.push((input, result));
        } else {
            self.results[self.oldest] = (input, result);
            self.oldest = (self.oldest + 1) % RESULTS;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_results_are_kept() {
        let (mut recent, mut computed) = (Recent::default(), Vec::new());
        for input in [1, 2, 1, 2, 3, 4, 1, 5, 1, 2] {
            let result = recent.of(input, |input| {
                computed.push(*input);
                10 * *input
            });
            assert_eq!(result, 10 * input);
        }
        assert_eq!(computed, [1, 2, 3, 4, 5, 1, 2]);
    }
}
