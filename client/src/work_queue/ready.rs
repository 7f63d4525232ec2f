//! `Ready`: the ready keys of a work queue, in order of arrival, some of them before the others.
//!
//! Corresponds to the priority queue of sigs.k8s.io/controller-runtime, with two priorities and a share for the lower one.

use std::collections::VecDeque;
use tokio::time::Instant;

/// Preferred keys that are handed out one after another while ordinary ones wait. Then an ordinary one comes.
const MAX_IN_A_ROW: u32 = 15;

/// Returns true for a key that is handed out before ordinary ones. It is asked when the key becomes ready.
pub(super) type Preference<Key> = Box<dyn Fn(&Key) -> bool + Send + Sync>;

/// Ready keys, each with the time at which it became ready.
pub(super) struct Ready<Key> {
    preferred: VecDeque<(Key, Instant)>,
    ordinary: VecDeque<(Key, Instant)>,
    prefers: Option<Preference<Key>>,
    /// Preferred keys that were handed out since the last ordinary one.
    in_a_row: u32,
}

impl<Key> Ready<Key> {
    pub(super) fn new() -> Self {
        Self { preferred: VecDeque::new(), ordinary: VecDeque::new(), prefers: None, in_a_row: 0 }
    }

    /// Changes the order of keys that become ready from now on.
    pub(super) fn prefer(&mut self, prefers: Preference<Key>) {
        self.prefers = Some(prefers);
    }

    pub(super) fn push(&mut self, key: Key, since: Instant) {
        let is_preferred = self.prefers.as_ref().is_some_and(|prefers| prefers(&key));
        let line = if is_preferred { &mut self.preferred } else { &mut self.ordinary };
        line.push_back((key, since));
    }

    pub(super) fn pop(&mut self) -> Option<(Key, Instant)> {
        let is_their_turn = self.in_a_row < MAX_IN_A_ROW || self.ordinary.is_empty();
        if is_their_turn && let Some(first) = self.preferred.pop_front() {
            self.in_a_row += 1;
            return Some(first);
        }
        self.in_a_row = 0;
        self.ordinary.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.preferred.len() + self.ordinary.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
