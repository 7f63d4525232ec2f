//! `Order`, the order of two pods in the queue: the QueueSort plugin, then time, then arrival.
//!
//! Corresponds to the less functions of pkg/scheduler/backend/queue.
//!
//! Deviation: of two pods that the QueueSort plugin finds equal, the one that has waited longer is first. Kubernetes leaves their order
//! to its heap, and so that of pods whose comparison contradicts itself.

use scheduling_framework::{QueueSort, QueuedPodInfo};
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// A pod with the number of its arrival, which no other pod has.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub pod: QueuedPodInfo,
    pub arrival: u64,
}

impl Arrived {
    /// The order of pods that the plugin does not order.
    fn age(&self) -> (Instant, u64) {
        (self.pod.timestamp, self.arrival)
    }

    /// The order of pods whose comparison fails.
    fn importance(&self) -> (Reverse<i32>, (Instant, u64)) {
        (Reverse(self.pod.pod_info.priority), self.age())
    }

    fn key(&self) -> &str {
        &self.pod.pod_info.key
    }
}

pub struct Order {
    sort: Option<Arc<dyn QueueSort>>,
    /// True after a contradiction. The next ones are not logged, because there may be one for each pair of pods.
    has_complained: AtomicBool,
}

impl Order {
    /// Orders pods by their age alone without a plugin.
    pub fn new(sort: Option<Arc<dyn QueueSort>>) -> Self {
        Self { sort, has_complained: AtomicBool::new(false) }
    }

    /// Returns true if the plugin can compare the pod at all. It finds no pod before itself.
    pub fn can_compare(&self, pod: &Arrived) -> bool {
        match self.less(pod, pod) {
            Ok(is_before_itself) => {
                if is_before_itself {
                    self.complain(pod, pod, "a pod is before itself");
                }
                true
            }
            Err(message) => {
                self.failed(pod, &message);
                false
            }
        }
    }

    /// Returns true if `a` is before `b`. Exactly one of two pods is before the other, unless the plugin fails.
    pub fn is_before(&self, a: &Arrived, b: &Arrived) -> Result<bool, String> {
        match (self.less(a, b)?, self.less(b, a)?) {
            (true, false) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => Ok(a.age() < b.age()),
            (true, true) => {
                self.complain(a, b, "each of two pods is before the other");
                Ok(a.age() < b.age())
            }
        }
    }

    /// The same for pods that the plugin cannot compare.
    pub fn is_more_important(a: &Arrived, b: &Arrived) -> bool {
        a.importance() < b.importance()
    }

    pub fn failed(&self, pod: &Arrived, message: &str) {
        let (plugin, pod) = (self.name(), pod.key());
        tracing::warn!(plugin, pod, "the comparison failed, so that the pod is behind all others: {message}");
    }

    /// Logs a contradiction once.
    pub fn complain(&self, a: &Arrived, b: &Arrived, what: &str) {
        if !self.has_complained.swap(true, Ordering::Relaxed) {
            let (plugin, pod, other) = (self.name(), a.key(), b.key());
            tracing::warn!(plugin, pod, other, "the order of the queue contradicts itself: {what}");
        }
    }

    fn less(&self, a: &Arrived, b: &Arrived) -> Result<bool, String> {
        self.sort.as_ref().map_or(Ok(false), |sort| sort.less(&a.pod, &b.pod))
    }

    fn name(&self) -> &'static str {
        self.sort.as_ref().map_or("", |sort| sort.name())
    }

    #[cfg(test)]
    pub fn has_complained(&self) -> bool {
        self.has_complained.load(Ordering::Relaxed)
    }
}
