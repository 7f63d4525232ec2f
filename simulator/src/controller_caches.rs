//! `ControllerCaches`: records the versions in the controllers' caches, and which of their writes were answered.
//!
//! Controllers decide from caches, and each watch has its own lag. A controller keeps its guarantees only with respect
//! to its caches, so the rules about rollouts need the versions in them. Virtual time does not pass while a program
//! computes, so a cache follows its watch at once: a reconcile uses the versions that the wire has delivered when it
//! begins.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// Prefixes of the keys whose watches are recorded.
pub const DEPLOYMENTS: &str = "/registry/deployments/";
pub const REPLICA_SETS: &str = "/registry/replicasets/";

/// The versions that were delivered to the controllers' watches. Each is one past state of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheVersions {
    pub deployments: u64,
    pub replica_sets: u64,
}

/// The state of the controllers when one of them requested a write.
#[derive(Clone, Debug)]
pub struct ControllerState {
    pub at: Instant,
    pub delivered: CacheVersions,
    /// The versions from which on the reconcile may have begun. They are older if it had to wait for its token.
    pub since: CacheVersions,
    /// The last answered write of each ReplicaSet, by key.
    pub answered: Arc<BTreeMap<String, AnsweredWrite>>,
}

/// A write whose answer reached the writer.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredWrite {
    /// The version that the write stored.
    pub version: u64,
    pub requested_at: Instant,
    /// The versions that were delivered when the write was requested.
    pub delivered: CacheVersions,
    pub answered_at: Instant,
}

/// The versions on which one reconcile may be based: each cache had some version in this range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub since: CacheVersions,
    pub until: CacheVersions,
}

impl ControllerState {
    /// Returns the window of a write to one of `siblings`, the ReplicaSets of one owner. The writes of one reconcile
    /// follow each other at once, and all use the versions at the first request. The caches have all writes that were
    /// answered before the reconcile, since the controllers wait for them.
    pub fn window<'a>(&self, siblings: impl Iterator<Item = &'a String>) -> Window {
        let mut earlier: Vec<&AnsweredWrite> = siblings.filter_map(|key| self.answered.get(key)).collect();
        earlier.sort_by_key(|answer| answer.answered_at);
        let (mut began, mut since) = (self.at, self.since);
        while let Some(answer) = earlier.pop_if(|answer| answer.answered_at == began) {
            (began, since) = (answer.requested_at, answer.delivered);
        }
        let own = earlier.iter().map(|answer| answer.version).max().unwrap_or(0);
        let mut window = Window { since, until: self.delivered };
        window.raise_to(own);
        window
    }
}

impl Window {
    /// The window that contains all versions.
    pub const ANY: Self = {
        let end = CacheVersions { deployments: u64::MAX, replica_sets: u64::MAX };
        Self { since: CacheVersions { deployments: 0, replica_sets: 0 }, until: end }
    };

    /// Narrows the window, since the cache of ReplicaSets was not older than this version.
    pub fn raise_to(&mut self, version: u64) {
        self.since.replica_sets = self.since.replica_sets.max(version);
        self.until.replica_sets = self.until.replica_sets.max(version);
    }
}

/// The recorded versions and answers. Clones share them.
#[derive(Clone, Default)]
pub struct ControllerCaches(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    delivered: CacheVersions,
    answered: Arc<BTreeMap<String, AnsweredWrite>>,
    /// The versions when a controller first asked for its token, by its account.
    awaiting_token: BTreeMap<String, CacheVersions>,
    /// When the last token was answered, and the oldest versions when it was asked for.
    got_token: Option<(Instant, CacheVersions)>,
}

tokio::task_local! {
    /// The state of the controllers when one of them sent the request that this task handles.
    pub static REQUESTER: ControllerState;
}

impl ControllerCaches {
    /// Records the version that was delivered to the controllers' watch of all keys below `row`.
    pub fn record_delivered(&self, row: &str, version: u64) {
        let delivered = &mut self.0.lock().delivered;
        match row {
            DEPLOYMENTS => delivered.deployments = version,
            REPLICA_SETS => delivered.replica_sets = version,
            _ => {}
        }
    }

    /// Returns the present state of the controllers; `at` is the present time.
    pub fn state_at(&self, at: Instant) -> ControllerState {
        let state = self.0.lock();
        // A controller that has waited for its token sends its request at once.
        let since = state.got_token.filter(|(got_at, _)| *got_at == at).map_or(state.delivered, |(_, since)| since);
        ControllerState { at, delivered: state.delivered, since, answered: state.answered.clone() }
    }

    /// Records that a controller asks for the token of its account, perhaps again.
    pub fn record_token_request(&self, account: &str) {
        let mut state = self.0.lock();
        let delivered = state.delivered;
        state.awaiting_token.entry(account.to_owned()).or_insert(delivered);
    }

    /// Records that a controller got the token of its account.
    pub fn record_token(&self, account: &str, at: Instant) {
        let mut state = self.0.lock();
        let Some(asked) = state.awaiting_token.remove(account) else { return };
        let since = match state.got_token {
            Some((got_at, other)) if got_at == at => CacheVersions {
                deployments: asked.deployments.min(other.deployments),
                replica_sets: asked.replica_sets.min(other.replica_sets),
            },
            _ => asked,
        };
        state.got_token = Some((at, since));
    }

    /// Records that a controller got the answer to a write.
    pub fn record_answer(&self, key: String, version: u64, requester: &ControllerState, answered_at: Instant) {
        let (requested_at, delivered) = (requester.at, requester.since);
        let answer = AnsweredWrite { version, requested_at, delivered, answered_at };
        Arc::make_mut(&mut self.0.lock().answered).insert(key, answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_uses_the_versions_delivered_when_it_began() {
        let env = Env::simulated(1);
        let caches = ControllerCaches::default();
        let step = Duration::from_millis(7);
        let keys = ["a".to_owned(), "b".to_owned()];
        let at = |version| CacheVersions { deployments: 0, replica_sets: version };
        let window = |state: &ControllerState| state.window(keys.iter());
        caches.record_delivered(REPLICA_SETS, 3);
        let first = caches.state_at(env.now());
        assert_eq!(window(&first), Window { since: at(3), until: at(3) });
        env.sleep(step).await;
        caches.record_delivered(REPLICA_SETS, 5);
        caches.record_answer("a".to_owned(), 6, &first, env.now());
        let second = caches.state_at(env.now());
        assert_eq!(window(&second), Window { since: at(3), until: at(5) }, "the same reconcile, or a new one");
        env.sleep(step).await;
        caches.record_answer("b".to_owned(), 7, &second, env.now());
        env.sleep(step).await;
        let later = caches.state_at(env.now());
        assert_eq!(window(&later), Window { since: at(7), until: at(7) }, "the controller waits for its own writes");
        assert_eq!(later.window([].into_iter()), Window { since: at(5), until: at(5) }, "ReplicaSets of another owner");
        caches.record_delivered(REPLICA_SETS, 9);
        assert_eq!(window(&caches.state_at(env.now())), Window { since: at(9), until: at(9) });
    }

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_waits_for_its_token_uses_older_versions() {
        let env = Env::simulated(1);
        let caches = ControllerCaches::default();
        let at = |deployments| CacheVersions { deployments, replica_sets: 0 };
        let window = || caches.state_at(env.now()).window([].into_iter());
        caches.record_delivered(DEPLOYMENTS, 3);
        caches.record_token_request("deployment-controller");
        caches.record_delivered(DEPLOYMENTS, 5);
        env.sleep(Duration::from_millis(7)).await;
        caches.record_token_request("deployment-controller");
        caches.record_token_request("job-controller");
        caches.record_delivered(DEPLOYMENTS, 6);
        assert_eq!(window(), Window { since: at(6), until: at(6) }, "another controller");
        env.sleep(Duration::from_millis(7)).await;
        caches.record_token("deployment-controller", env.now());
        caches.record_token("job-controller", env.now());
        assert_eq!(window(), Window { since: at(3), until: at(6) });
        env.sleep(Duration::from_millis(7)).await;
        assert_eq!(window(), Window { since: at(6), until: at(6) });
    }
}
