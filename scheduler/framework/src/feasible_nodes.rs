//! `FeasibleNodes`, the nodes on which a pod fits, as the plugins get them that score.

use crate::cache::node_set;
use crate::cache::{NodeInfo, Snapshot};
use std::ops::Range;

/// Some nodes of a snapshot, in the order in which the search has found them.
pub struct FeasibleNodes<'a> {
    snapshot: &'a Snapshot,
    numbers: &'a [usize],
    /// The same numbers. What is kept in columns is copied a range at a time.
    ranges: Vec<Range<usize>>,
}

impl<'a> FeasibleNodes<'a> {
    /// Returns the nodes with these numbers in the snapshot.
    pub fn new(snapshot: &'a Snapshot, numbers: &'a [usize]) -> Self {
        Self { snapshot, numbers, ranges: node_set::ranges(numbers).collect() }
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the nodes. Scores have the same order.
    pub fn iter(&self) -> impl Iterator<Item = &'a NodeInfo> {
        self.numbers.iter().map(|number| &*self.snapshot.nodes()[*number])
    }

    /// Returns the numbers of the nodes in the snapshot.
    pub fn numbers(&self) -> &'a [usize] {
        self.numbers
    }

    /// Returns the numbers as ranges.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.ranges.iter().cloned()
    }
}
