//! `Changes`, the nodes of a snapshot that have changed lately, so that sums over all nodes need not look at the others.
//!
//! A version names one state of one snapshot. Versions are unique in the process: if a snapshot's log has a version, then
//! the snapshot was once in that state. A clone has its original's versions up to the moment of cloning, and no later ones.

use crate::cache::generation;
use std::collections::VecDeque;

/// Smallest number of changes that are remembered. A large cluster remembers a part of its number of nodes.
const MIN_REMEMBERED: usize = 1024;
const REMEMBERED_FRACTION: usize = 8;

#[derive(Clone, Debug)]
pub struct Changes {
    /// Version before the first change of the log.
    start: u64,
    /// Versions with the number of the node that changed, the oldest first.
    log: VecDeque<(u64, usize)>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { start: generation::next(), log: VecDeque::new() }
    }
}

impl Changes {
    /// Adds a change of one node. Forgets the oldest ones.
    pub fn record(&mut self, node: usize, all_nodes: usize) {
        self.log.push_back((generation::next(), node));
        if self.log.len() > MIN_REMEMBERED.max(all_nodes / REMEMBERED_FRACTION)
            && let Some((version, _)) = self.log.pop_front()
        {
            self.start = version;
        }
    }

    /// Begins anew, because everything may have changed.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Returns the version of the present state.
    pub fn version(&self) -> u64 {
        self.log.back().map_or(self.start, |(version, _)| *version)
    }

    /// Returns the nodes that have changed since a version, perhaps several times; `None` if the log does not have the
    /// version.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = usize>> {
        let from = match version == self.start {
            true => 0,
            false => self.log.binary_search_by_key(&version, |(version, _)| *version).ok()? + 1,
        };
        Some(self.log.range(from..).map(|(_, node)| *node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(changes: &Changes, version: u64) -> Option<Vec<usize>> {
        changes.since(version).map(Iterator::collect)
    }

    #[test]
    fn a_version_is_known_to_its_own_snapshot_alone() {
        let mut changes = Changes::default();
        let first = changes.version();
        changes.record(7, 10);
        let second = changes.version();
        let mut clone = changes.clone();
        changes.record(8, 10);
        clone.record(9, 10);
        assert_eq!(since(&changes, first), Some(vec![7, 8]));
        assert_eq!(since(&changes, second), Some(vec![8]));
        assert_eq!(since(&clone, second), Some(vec![9]));
        assert_eq!(since(&clone, changes.version()), None, "the clone was never in that state");
        assert_eq!(since(&changes, changes.version()), Some(vec![]));
        changes.restart();
        assert_eq!(since(&changes, second), None);
    }

    #[test]
    fn old_versions_are_forgotten() {
        let mut changes = Changes::default();
        let first = changes.version();
        changes.record(0, 10);
        let second = changes.version();
        (0..MIN_REMEMBERED).for_each(|node| changes.record(node, 10));
        assert_eq!(since(&changes, first), None);
        assert_eq!(since(&changes, second).map(|nodes| nodes.len()), Some(MIN_REMEMBERED));
    }
}
