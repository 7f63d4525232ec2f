//! `Insight`: the versions in the controllers' caches at the time of each write, and their answered writes.
//!
//! Controllers decide from caches, and each watch has its own lag. A controller keeps its guarantees only with respect to
//! its caches, so the rules on rollouts need to know their versions. Virtual time does not pass while a program computes,
//! so a cache follows its watch at once: a reconcile uses the versions that the wire has delivered when it begins.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The rows whose watches are recorded.
pub const DEPLOYMENTS: &str = "/registry/deployments/";
pub const REPLICA_SETS: &str = "/registry/replicasets/";

/// Versions that were delivered to the controllers' watches: one past state of each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub deployments: u64,
    pub replica_sets: u64,
}

/// The state of a controller when it requested a write.
#[derive(Clone, Debug)]
pub struct Known {
    pub at: Instant,
    pub shown: Shown,
    /// The last answered write of each ReplicaSet, by key.
    pub answered: Arc<BTreeMap<String, Answer>>,
}

/// A write whose answer its writer got.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub version: u64,
    pub asked_at: Instant,
    pub shown: Shown,
    pub answered_at: Instant,
}

/// The versions that one decision may be based on: each cache had some version in this range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub since: Shown,
    pub until: Shown,
}

impl Known {
    /// Returns the window of a write to one of these ReplicaSets, which have one owner. The writes of one reconcile follow
    /// each other at once, and all use the versions at the first request. The caches have all writes that were answered before
    /// the reconcile, since the controllers wait for that.
    pub fn window<'a>(&self, siblings: impl Iterator<Item = &'a String>) -> Window {
        let mut earlier: Vec<&Answer> = siblings.filter_map(|key| self.answered.get(key)).collect();
        earlier.sort_by_key(|answer| answer.answered_at);
        let (mut began, mut since) = (self.at, self.shown);
        while let Some(answer) = earlier.pop_if(|answer| answer.answered_at == began) {
            (began, since) = (answer.asked_at, answer.shown);
        }
        let own = earlier.iter().map(|answer| answer.version).max().unwrap_or(0);
        let mut window = Window { since, until: self.shown };
        window.reaches(own);
        window
    }
}

impl Window {
    /// The window of all versions.
    pub const ANY: Self = {
        let end = Shown { deployments: u64::MAX, replica_sets: u64::MAX };
        Self { since: Shown { deployments: 0, replica_sets: 0 }, until: end }
    };

    /// Narrows the window: no cache of ReplicaSets was older than this version.
    pub fn reaches(&mut self, version: u64) {
        self.since.replica_sets = self.since.replica_sets.max(version);
        self.until.replica_sets = self.until.replica_sets.max(version);
    }
}

/// The recorded versions; clones share them.
#[derive(Clone, Default)]
pub struct Insight(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    shown: Shown,
    answered: Arc<BTreeMap<String, Answer>>,
}

tokio::task_local! {
    /// The state of the controller whose request this task carries out.
    pub static ASKED: Known;
}

impl Insight {
    /// Records the version that was delivered to the controllers' watch of a whole row.
    pub fn show(&self, row: &str, version: u64) {
        let shown = &mut self.0.lock().shown;
        match row {
            DEPLOYMENTS => shown.deployments = version,
            REPLICA_SETS => shown.replica_sets = version,
            _ => {}
        }
    }

    /// Returns the present state of the controllers.
    pub fn known(&self, at: Instant) -> Known {
        let state = self.0.lock();
        Known { at, shown: state.shown, answered: state.answered.clone() }
    }

    /// Records that a controller got the answer to a write.
    pub fn answer(&self, key: String, version: u64, asked: &Known, answered_at: Instant) {
        let answer = Answer { version, asked_at: asked.at, shown: asked.shown, answered_at };
        Arc::make_mut(&mut self.0.lock().answered).insert(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_round_goes_by_what_was_shown_when_it_began() {
        let env = Env::simulated(1);
        let insight = Insight::default();
        let step = Duration::from_millis(7);
        let keys = ["a".to_owned(), "b".to_owned()];
        let at = |version| Shown { deployments: 0, replica_sets: version };
        let window = |known: &Known| known.window(keys.iter());
        insight.show(REPLICA_SETS, 3);
        let first = insight.known(env.now());
        assert_eq!(window(&first), Window { since: at(3), until: at(3) });
        env.sleep(step).await;
        insight.show(REPLICA_SETS, 5);
        insight.answer("a".to_owned(), 6, &first, env.now());
        let second = insight.known(env.now());
        assert_eq!(window(&second), Window { since: at(3), until: at(5) }, "the same round, or a new one");
        env.sleep(step).await;
        insight.answer("b".to_owned(), 7, &second, env.now());
        env.sleep(step).await;
        let later = insight.known(env.now());
        assert_eq!(window(&later), Window { since: at(7), until: at(7) }, "it waits for what it wrote");
        assert_eq!(later.window([].into_iter()), Window { since: at(5), until: at(5) }, "somebody else's");
        insight.show(REPLICA_SETS, 9);
        assert_eq!(window(&insight.known(env.now())), Window { since: at(9), until: at(9) });
    }
}
