//! Insight: which replica sets the controllers had been shown when they asked for a write.
//!
//! Kubernetes decides from caches, and each watch lags by itself. What a controller promises, it promises of what its
//! caches show; so the rules on rollouts have to know what that was.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones are the same.
#[derive(Clone, Default)]
pub struct Insight(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The version up to which the controllers' watch on replica sets has come through.
    shown: u64,
    /// The same when each of the writes now under way set off.
    asked: BTreeMap<u64, u64>,
    next: u64,
}

/// A write under way, until it is dropped.
pub struct Asked {
    insight: Insight,
    number: u64,
}

impl Insight {
    /// The row whose watch tells.
    pub const ROW: &str = "/registry/replicasets/";

    pub fn show(&self, version: u64) {
        self.0.lock().shown = version;
    }

    /// A controller sends a write.
    pub fn ask(&self) -> Asked {
        let mut state = self.0.lock();
        let (shown, number) = (state.shown, state.next);
        state.next += 1;
        state.asked.insert(number, shown);
        drop(state);
        Asked { insight: self.clone(), number }
    }

    /// The least that somebody knew who has a write under way: whose write it is that has just been carried out is not
    /// told apart.
    pub fn least(&self) -> u64 {
        let state = self.0.lock();
        state.asked.values().min().copied().unwrap_or(state.shown)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.insight.0.lock().asked.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_keeps_what_was_known_when_it_set_off() {
        let insight = Insight::default();
        insight.show(3);
        let first = insight.ask();
        insight.show(7);
        let second = insight.ask();
        assert_eq!(insight.least(), 3);
        drop(first);
        assert_eq!(insight.least(), 7);
        drop(second);
        insight.show(9);
        assert_eq!(insight.least(), 9);
    }
}
