//! `WaitingPods`, the pods that wait until Permit plugins allow or reject them.
//!
//! A waiting pod is assumed on its node and holds its resources there. It holds no worker.
//! Corresponds to pkg/scheduler/framework/runtime/waiting_pods_map.go.

use super::Rejection;
use crate::pod_info::PodInfo;
use component_base::duration::format_duration;
use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Longest time that a pod waits for one plugin.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);

/// Waiting pods by uid. Clones share them.
#[derive(Clone, Default)]
pub struct WaitingPods(Arc<Mutex<BTreeMap<String, Waiting>>>);

struct Waiting {
    pod: Arc<PodInfo>,
    /// Plugins that have not allowed the pod yet, with the time for which they let it wait and its end.
    pending: BTreeMap<&'static str, (Duration, Instant)>,
    /// The first rejection; the pod does not wait any more.
    rejection: Option<Rejection>,
    changed: Arc<Notify>,
}

impl WaitingPods {
    /// Lets a pod wait for these plugins. `wait` returns when it may go on.
    pub fn add(&self, pod: Arc<PodInfo>, waits: BTreeMap<&'static str, Duration>, now: Instant) {
        let limited = waits.into_iter().map(|(plugin, wait)| (plugin, wait.min(MAX_WAIT)));
        let pending = limited.map(|(plugin, wait)| (plugin, (wait, now + wait))).collect();
        let uid = pod.uid().to_owned();
        self.0.lock().insert(uid, Waiting { pod, pending, rejection: None, changed: Arc::default() });
    }

    /// Returns the pods that wait.
    pub fn list(&self) -> Vec<Arc<PodInfo>> {
        self.0.lock().values().map(|waiting| waiting.pod.clone()).collect()
    }

    pub fn contains(&self, uid: &str) -> bool {
        self.0.lock().contains_key(uid)
    }

    /// Allows a pod on behalf of a plugin. The pod goes on when all plugins have allowed it. Returns false if it does not
    /// wait.
    pub fn allow(&self, uid: &str, plugin: &str) -> bool {
        let mut pods = self.0.lock();
        let Some(waiting) = pods.get_mut(uid) else { return false };
        waiting.pending.remove(plugin);
        waiting.changed.notify_one();
        true
    }

    /// Rejects a pod on behalf of a plugin. Returns false if it does not wait.
    pub fn reject(&self, uid: &str, plugin: &'static str, message: &str) -> bool {
        let mut pods = self.0.lock();
        let Some(waiting) = pods.get_mut(uid) else { return false };
        let may_still = waiting.rejection.is_none() && !waiting.pending.is_empty();
        if may_still {
            waiting.rejection = Some(Rejection::unschedulable(plugin, message.to_owned()));
            waiting.changed.notify_one();
        }
        true
    }

    /// Waits until all plugins have allowed the pod, or one of them rejects it or lets its time run out. A pod that does not
    /// wait goes on at once. Returns `None` if the environment shuts down first.
    pub async fn wait(&self, env: &Env, uid: &str) -> Option<Result<(), Rejection>> {
        loop {
            let (changed, first) = match self.step(uid, env.now()) {
                Step::Over(result) => return Some(result),
                Step::Wait { changed, until } => (changed, until),
            };
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return None,
                () = changed.notified() => {}
                () = env.sleep_until(first) => {}
            }
        }
    }

    /// Looks at a pod at a time. If its wait is over, removes it.
    fn step(&self, uid: &str, now: Instant) -> Step {
        let mut pods = self.0.lock();
        let Some(waiting) = pods.get_mut(uid) else { return Step::Over(Ok(())) };
        let first = waiting.pending.iter().min_by_key(|(_, (_, end))| *end).map(|(plugin, times)| (*plugin, *times));
        let result = match (waiting.rejection.take(), first) {
            (Some(rejection), _) => Err(rejection),
            (None, None) => Ok(()),
            (None, Some((plugin, (wait, end)))) if end <= now => {
                let wait = format_duration(wait);
                let why = format!("rejected due to timeout after waiting {wait} at plugin {plugin}");
                Err(Rejection::unschedulable(plugin, why))
            }
            (None, Some((_, (_, end)))) => return Step::Wait { changed: waiting.changed.clone(), until: end },
        };
        pods.remove(uid);
        Step::Over(result)
    }
}

/// What becomes of a waiting pod.
enum Step {
    Over(Result<(), Rejection>),
    Wait { changed: Arc<Notify>, until: Instant },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{info, pod};
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the messages of a pod that waits 10 s for `a` and 20 s for `b`, while `act` runs 5 s after its begin.
    async fn wait(act: impl FnOnce(&WaitingPods) + Send + 'static) -> (u64, Option<String>) {
        let (env, pods) = (Env::simulated(1), WaitingPods::default());
        let (began, waits) = (env.now(), [("a", 10 * SECOND), ("b", 20 * SECOND)]);
        pods.add(info(pod("p", "1", json!({}))), waits.into(), began);
        assert_eq!(pods.list().len(), 1);
        let (acting, clock) = (pods.clone(), env.clone());
        env.spawn(async move {
            clock.sleep(5 * SECOND).await;
            act(&acting);
        });
        let result = pods.wait(&env, "p").await.unwrap();
        assert_eq!(pods.list().len(), 0);
        ((env.now() - began).as_secs(), result.err().map(|rejection| rejection.reasons.join(", ")))
    }

    #[tokio::test(start_paused = true)]
    async fn all_plugins_have_to_allow_a_pod() {
        let allowed = wait(|pods| assert!(pods.allow("p", "b") && pods.allow("p", "a"))).await;
        assert_eq!(allowed, (5, None));
        let timeout =
            |plugin: &str, wait: &str| Some(format!("rejected due to timeout after waiting {wait} at plugin {plugin}"));
        assert_eq!(wait(|pods| assert!(pods.allow("p", "a"))).await, (20, timeout("b", "20s")));
        assert_eq!(wait(|pods| assert!(pods.allow("p", "b"))).await, (10, timeout("a", "10s")));
        assert_eq!(wait(|pods| assert!(!pods.allow("q", "a"))).await, (10, timeout("a", "10s")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_rejection_counts() {
        let rejected = wait(|pods| {
            assert!(pods.reject("p", "b", "no room"));
            assert!(pods.reject("p", "a", "too late") && pods.allow("p", "a"));
        });
        assert_eq!(rejected.await, (5, Some("no room".to_owned())));
        let late = wait(|pods| {
            assert!(pods.allow("p", "a") && pods.allow("p", "b"));
            pods.reject("p", "a", "too late");
        });
        assert_eq!(late.await, (5, None));
    }
}
