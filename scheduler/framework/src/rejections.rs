//! `Rejections`, the nodes that reject a pod in one cycle, each with the reason.
//!
//! Corresponds to framework.NodeToStatus. Nodes are numbers in the cycle's snapshot, and equal reasons are stored once: in
//! a large cluster, all nodes reject a pod for a few reasons.

use crate::Rejection;
use crate::cache::node_set::{self, WORD};
use std::sync::Arc;

/// Number of distinct reasons that are compared with a new one. A plugin may give a reason of its own for each node; such
/// reasons are stored without a search.
pub const MAX_COMPARED: usize = 16;

#[derive(Clone, Debug, Default)]
pub struct Rejections {
    /// Reasons, with the number of nodes of each.
    reasons: Vec<(Arc<Rejection>, usize)>,
    nodes: Vec<Rejected>,
    count: usize,
}

/// Nodes of one word that have one reason. A word may come several times.
#[derive(Clone, Copy, Debug)]
struct Rejected {
    word: u32,
    /// Place of the reason.
    reason: u32,
    nodes: u64,
}

impl Rejections {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a node that has no reason yet.
    pub fn push(&mut self, node: usize, rejection: &Arc<Rejection>) {
        self.push_word(node / WORD, node_set::bit(node), rejection);
    }

    /// Adds nodes of one word that have no reason yet.
    pub fn push_word(&mut self, word: usize, nodes: u64, rejection: &Arc<Rejection>) {
        if nodes == 0 {
            return;
        }
        let (reason, count) = (self.place(rejection), nodes.count_ones() as usize);
        self.reasons[reason].1 += count;
        self.count += count;
        let (word, reason) = (number(word), number(reason));
        let mut of_word = self.nodes.iter_mut().rev().take_while(|rejected| rejected.word == word);
        match of_word.find(|rejected| rejected.reason == reason) {
            Some(rejected) => rejected.nodes |= nodes,
            None => self.nodes.push(Rejected { word, reason, nodes }),
        }
    }

    /// Adds a node, or replaces its reason.
    pub fn set(&mut self, node: usize, rejection: Rejection) {
        if let Some(rejected) = self.nodes.iter_mut().find(|rejected| rejected.has(node)) {
            rejected.nodes &= !node_set::bit(node);
            self.reasons[rejected.reason as usize].1 -= 1;
            self.count -= 1;
        }
        self.push(node, &Arc::new(rejection));
    }

    fn place(&mut self, rejection: &Arc<Rejection>) -> usize {
        let compared = &self.reasons[..self.reasons.len().min(MAX_COMPARED)];
        let same = compared.iter().position(|(reason, _)| Arc::ptr_eq(reason, rejection));
        same.or_else(|| compared.iter().position(|(reason, _)| reason == rejection)).unwrap_or_else(|| {
            self.reasons.push((rejection.clone(), 0));
            self.reasons.len() - 1
        })
    }

    /// Returns the reason of a node. It searches all of them: `by_number` serves callers that ask about many nodes.
    pub fn of(&self, node: usize) -> Option<&Rejection> {
        let rejected = self.nodes.iter().find(|rejected| rejected.has(node))?;
        Some(&self.reasons[rejected.reason as usize].0)
    }

    /// Returns the reasons of all nodes of a snapshot of this size.
    pub fn by_number(&self, nodes: usize) -> Vec<Option<&Rejection>> {
        let mut reasons = vec![None; nodes];
        for rejected in &self.nodes {
            for node in node_set::numbers(rejected.word as usize, rejected.nodes).filter(|node| *node < nodes) {
                reasons[node] = Some(&*self.reasons[rejected.reason as usize].0);
            }
        }
        reasons
    }

    /// Returns the reasons, with the number of nodes of each. A reason may come twice.
    pub fn counts(&self) -> impl Iterator<Item = (&Rejection, usize)> {
        self.reasons.iter().filter(|(_, nodes)| *nodes > 0).map(|(reason, nodes)| (&**reason, *nodes))
    }
}

impl Rejected {
    fn has(&self, node: usize) -> bool {
        self.word == number(node / WORD) && self.nodes & node_set::bit(node) != 0
    }
}

fn number(number: usize) -> u32 {
    u32::try_from(number).expect("a cluster has fewer than 2^32 nodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_are_counted_together() {
        let reason = |text: &str| Rejection::unschedulable("x", text.to_owned());
        let mut rejections = Rejections::default();
        let (full, also_full) = (Arc::new(reason("full")), Arc::new(reason("full")));
        rejections.push(7, &full);
        rejections.push(2, &also_full);
        rejections.push(3, &Arc::new(reason("tainted")));
        rejections.set(2, reason("tainted"));
        rejections.set(5, reason("slow"));
        let counts: Vec<(String, usize)> =
            rejections.counts().map(|(reason, nodes)| (reason.reasons.join(""), nodes)).collect();
        assert_eq!(counts, [("full".to_owned(), 1), ("tainted".to_owned(), 2), ("slow".to_owned(), 1)]);
        assert_eq!((rejections.len(), rejections.of(2), rejections.of(4)), (4, Some(&reason("tainted")), None));
        let numbers = rejections.by_number(6);
        assert_eq!(numbers.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, true, false, true]);
    }

    #[test]
    fn a_reason_for_each_node_costs_no_search() {
        let mut rejections = Rejections::default();
        for node in 0..100 {
            rejections.push(node, &Arc::new(Rejection::unschedulable("x", format!("{}", node % 50))));
        }
        assert_eq!(rejections.counts().map(|(_, nodes)| nodes).sum::<usize>(), 100);
        assert_eq!(rejections.of(77).map(|reason| reason.reasons.join("")), Some("27".to_owned()));
    }
}
