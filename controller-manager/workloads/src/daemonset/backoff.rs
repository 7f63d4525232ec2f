//! `FailedPodBackoff`: how long a failed pod stays before it is deleted and replaced.
//!
//! Corresponds to failedPodsBackoff in pkg/controller/daemon/daemon_controller.go and to flowcontrol.Backoff of client-go.
//!
//! A node may refuse each new pod at once. Without a wait, controller and node would create and refuse pods as fast as
//! they can. The first failed pod on a node is deleted at once, the next one a second after it, then after 2 s, 4 s, …,
//! up to 15 minutes. A changed DaemonSet begins anew. Nothing is kept across restarts, after which the waits begin anew,
//! too.

use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const INITIAL: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(15 * 60);

/// The waits; clones share them.
#[derive(Clone)]
pub struct FailedPodBackoff {
    env: Env,
    by_set: Arc<Mutex<BTreeMap<String, SetBackoff>>>,
}

/// The waits of one DaemonSet, by node.
struct SetBackoff {
    uid: String,
    observed_generation: i64,
    nodes: BTreeMap<String, NodeBackoff>,
}

#[derive(Clone, Copy)]
struct NodeBackoff {
    wait: Duration,
    since: Instant,
}

impl FailedPodBackoff {
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), by_set: Arc::default() }
    }

    /// Returns the nodes whose failed pods must wait, with the remaining times. `key` is that of the DaemonSet.
    pub fn waits(&self, key: &str, uid: &str, observed_generation: i64) -> BTreeMap<String, Duration> {
        let now = self.env.now();
        let mut by_set = self.by_set.lock();
        let Some(of_set) = by_set.get_mut(key) else { return BTreeMap::new() };
        of_set.nodes.retain(|_, node| !node.has_expired(now));
        let is_current = of_set.uid == uid && of_set.observed_generation == observed_generation;
        if !is_current || of_set.nodes.is_empty() {
            by_set.remove(key);
            return BTreeMap::new();
        }
        let remaining = |node: &NodeBackoff| (node.since + node.wait).saturating_duration_since(now);
        let waits = of_set.nodes.iter().map(|(name, node)| (name.clone(), remaining(node)));
        waits.filter(|(_, wait)| !wait.is_zero()).collect()
    }

    /// Doubles the wait of a node, since its failed pod is deleted now.
    pub fn next(&self, key: &str, uid: &str, observed_generation: i64, node: &str) {
        let now = self.env.now();
        let mut by_set = self.by_set.lock();
        let of_set = by_set.entry(key.to_owned()).or_insert_with(|| SetBackoff {
            uid: uid.to_owned(),
            observed_generation,
            nodes: BTreeMap::new(),
        });
        let former = of_set.nodes.get(node).filter(|node| !node.has_expired(now));
        let wait = former.map_or(INITIAL, |former| (former.wait * 2).min(MAX));
        of_set.nodes.insert(node.to_owned(), NodeBackoff { wait, since: now });
    }

    /// Forgets a deleted DaemonSet.
    pub fn forget(&self, key: &str) {
        self.by_set.lock().remove(key);
    }
}

impl NodeBackoff {
    fn has_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > 2 * MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "default/logs";

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_quarter_of_an_hour() {
        let env = Env::simulated(1);
        let backoff = FailedPodBackoff::new(&env);
        let wait = || backoff.waits(KEY, "u", 1).get("n1").map(Duration::as_secs);
        assert_eq!(wait(), None);
        let mut waits_s = Vec::new();
        for _ in 0..12 {
            backoff.next(KEY, "u", 1, "n1");
            let remaining = wait().unwrap();
            waits_s.push(remaining);
            env.sleep(Duration::from_secs(remaining)).await;
            assert_eq!(wait(), None, "after {remaining} s");
        }
        assert_eq!(waits_s, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        env.sleep(Duration::from_secs(901)).await;
        backoff.next(KEY, "u", 1, "n1");
        assert_eq!(wait(), Some(1), "after half an hour without a failure");
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_generations_and_sets_wait_on_their_own() {
        let env = Env::simulated(1);
        let backoff = FailedPodBackoff::new(&env);
        backoff.next(KEY, "u", 1, "n1");
        backoff.next(KEY, "u", 1, "n1");
        backoff.next(KEY, "u", 1, "n2");
        let waits = |uid: &str, generation: i64| {
            let waits = backoff.waits(KEY, uid, generation);
            waits.into_iter().map(|(node, wait)| format!("{node} {wait:?}")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(waits("u", 1), "n1 2s, n2 1s");
        assert_eq!(waits("u", 2), "", "the DaemonSet has changed");
        backoff.next(KEY, "u", 2, "n1");
        assert_eq!(waits("u", 2), "n1 1s");
        assert_eq!(waits("v", 2), "", "another DaemonSet of the name");
        backoff.next(KEY, "v", 2, "n1");
        backoff.forget(KEY);
        assert_eq!(waits("v", 2), "");
    }
}
