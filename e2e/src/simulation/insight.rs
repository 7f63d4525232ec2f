//! Insight: what the controllers had been shown when they asked for a write, and which of their writes had been
//! answered.
//!
//! Kubernetes decides from caches, and each watch lags by itself. What a controller promises, it promises of what its
//! caches show; so the rules on rollouts have to know what that was. A cache follows its watch at once, as virtual time
//! does not pass while a program computes: what the wire has let through when a round of decisions begins is what the
//! round goes by.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The rows whose watches tell.
pub const DEPLOYMENTS: &str = "/registry/deployments/";
pub const REPLICA_SETS: &str = "/registry/replicasets/";

/// The versions up to which the controllers' watches have come through: one past state of each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub deployments: u64,
    pub replica_sets: u64,
}

/// What a controller had when it asked for a write.
#[derive(Clone, Debug)]
pub struct Known {
    pub at: Instant,
    pub shown: Shown,
    /// The last answered write of each replica set, by key.
    pub answered: Arc<BTreeMap<String, Answer>>,
}

/// A write that its writer knows to be carried out.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub version: u64,
    pub asked_at: Instant,
    pub shown: Shown,
    pub answered_at: Instant,
}

/// What one decision may have gone by: each cache as of some version between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub since: Shown,
    pub until: Shown,
}

impl Known {
    /// The window of a write of one of these replica sets, which have one owner. Actions of one round follow each other
    /// at once, and all of them go by what was shown when the first was asked for. Whatever was answered before the
    /// round is in every cache that it goes by: the controllers wait for that.
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
    /// Whatever was once true may have been known.
    pub const ANY: Self = {
        let end = Shown { deployments: u64::MAX, replica_sets: u64::MAX };
        Self { since: Shown { deployments: 0, replica_sets: 0 }, until: end }
    };

    /// No cache of replica sets was older than this version.
    pub fn reaches(&mut self, version: u64) {
        self.since.replica_sets = self.since.replica_sets.max(version);
        self.until.replica_sets = self.until.replica_sets.max(version);
    }
}

/// Clones are the same.
#[derive(Clone, Default)]
pub struct Insight(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    shown: Shown,
    answered: Arc<BTreeMap<String, Answer>>,
}

tokio::task_local! {
    /// What the controller knew whose request this task carries out.
    pub static ASKED: Known;
}

impl Insight {
    /// A watch of the controllers on all of a row has come to a version.
    pub fn show(&self, row: &str, version: u64) {
        let shown = &mut self.0.lock().shown;
        match row {
            DEPLOYMENTS => shown.deployments = version,
            REPLICA_SETS => shown.replica_sets = version,
            _ => {}
        }
    }

    /// What the controllers know now.
    pub fn known(&self, at: Instant) -> Known {
        let state = self.0.lock();
        Known { at, shown: state.shown, answered: state.answered.clone() }
    }

    /// A controller hears that what it asked for is carried out.
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
