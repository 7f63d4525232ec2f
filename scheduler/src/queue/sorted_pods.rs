//! `SortedPods`, the pods of a part of the queue in their order.
//!
//! A pod finds its place by a binary search when it comes, so that few pairs are compared and the first pod costs nothing.
//! Whatever the comparison says, a search ends, and a pod is found again by its arrival.
//!
//! A pod that leaves from the middle keeps its place in the sequence until as many have left as are there. So no removal looks at
//! all pods, and many pods that wait delay nobody.
//!
//! ```text
//! pods that can be compared, in the order of the plugin | the others, the highest priority first
//! ```

use super::order::{Arrived, Order};
use scheduling_framework::QueuedPodInfo;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// So many pods may have left before the sequence is made anew, however few are there.
const MIN_GONE: usize = 64;

#[derive(Default)]
pub struct SortedPods {
    /// The first pod first. It has not left.
    sequence: VecDeque<Arc<Sorted>>,
    /// Number of pods of the sequence that the plugin can compare.
    comparable: usize,
    /// The pods that have not left, by their arrivals. A pod that comes again may have the same arrival.
    pods: BTreeMap<u64, Arc<Sorted>>,
}

struct Sorted {
    pod: Arrived,
    has_left: AtomicBool,
}

impl Sorted {
    fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }
}

impl SortedPods {
    pub fn insert(&mut self, order: &Order, pod: QueuedPodInfo, arrival: u64) {
        let pod = Arrived { pod, arrival };
        let place = match order.can_compare(&pod).then(|| self.search(order, &pod)) {
            Some(Ok(place)) => {
                self.comparable += 1;
                place
            }
            Some(Err(message)) => {
                order.failed(&pod, &message);
                self.place_among_others(&pod)
            }
            None => self.place_among_others(&pod),
        };
        let sorted = Arc::new(Sorted { pod, has_left: AtomicBool::new(false) });
        self.sequence.insert(place, sorted.clone());
        self.pods.insert(arrival, sorted);
    }

    pub fn remove(&mut self, arrival: u64) {
        let Some(sorted) = self.pods.remove(&arrival) else { return };
        sorted.has_left.store(true, Ordering::Relaxed);
        while self.sequence.front().is_some_and(|first| first.has_left()) {
            self.sequence.pop_front();
            self.comparable = self.comparable.saturating_sub(1);
        }
        if self.sequence.len() - self.len() > MIN_GONE.max(self.len()) {
            let comparable = self.sequence.range(..self.comparable).filter(|sorted| !sorted.has_left()).count();
            self.sequence.retain(|sorted| !sorted.has_left());
            self.comparable = comparable;
        }
    }

    /// Returns the uid of the first pod.
    pub fn first(&self) -> Option<&str> {
        self.sequence.front().map(|sorted| sorted.pod.pod.pod_info.uid())
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    fn at(&self, place: usize) -> &Arrived {
        &self.sequence[place].pod
    }

    /// Returns the place of a pod among those that can be compared.
    fn search(&self, order: &Order, pod: &Arrived) -> Result<usize, String> {
        let Some(last) = self.comparable.checked_sub(1) else { return Ok(0) };
        // Most pods come in their order.
        if !order.is_before(pod, self.at(last))? {
            return self.checked(order, pod, self.comparable);
        }
        let (mut from, mut to) = (0, last);
        while from < to {
            let middle = from.midpoint(to);
            if order.is_before(pod, self.at(middle))? { to = middle } else { from = middle + 1 }
        }
        self.checked(order, pod, from)
    }

    /// Compares the pod with the first one too, which shows most of the orders that go in a circle.
    fn checked(&self, order: &Order, pod: &Arrived, place: usize) -> Result<usize, String> {
        if place > 1 && order.is_before(pod, self.at(0))? {
            order.complain(pod, self.at(0), "a pod is before one that is before it by way of others");
        }
        Ok(place)
    }

    fn place_among_others(&self, pod: &Arrived) -> usize {
        let (mut from, mut to) = (self.comparable, self.sequence.len());
        while from < to {
            let middle = from.midpoint(to);
            if Order::is_more_important(pod, self.at(middle)) { to = middle } else { from = middle + 1 }
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use component_base::rng::Random;
    use scheduler_plugins::fixture::{info, pod};
    use scheduling_framework::{Plugin, QueueSort};
    use serde_json::json;
    use std::time::Duration;

    /// A plugin that compares the names of two pods.
    struct ByName(fn(&str, &str) -> Result<bool, String>);

    impl Plugin for ByName {
        fn name(&self) -> &'static str {
            "ByName"
        }
    }

    impl QueueSort for ByName {
        fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String> {
            (self.0)(&a.pod_info.pod.metadata.name.clone().unwrap(), &b.pod_info.pod.metadata.name.clone().unwrap())
        }
    }

    fn order(less: fn(&str, &str) -> Result<bool, String>) -> Order {
        Order::new(Some(Arc::new(ByName(less))))
    }

    fn queued(name: &str, priority: i32, s: u64) -> QueuedPodInfo {
        QueuedPodInfo {
            pod_info: info(pod(name, "1", json!({"priority": priority}))),
            timestamp: Env::simulated(1).now() + Duration::from_secs(s),
            attempts: 0,
            initial_attempt_timestamp: None,
        }
    }

    /// Returns the arrivals of the pods that have not left, in their order.
    fn present(pods: &SortedPods) -> impl Iterator<Item = u64> {
        pods.sequence.iter().filter(|sorted| !sorted.has_left()).map(|sorted| sorted.pod.arrival)
    }

    /// Inserts pods with these names, all at one time, and returns the names in their order.
    fn sorted(order: &Order, names: &[&str]) -> String {
        let mut sorted = SortedPods::default();
        for (arrival, name) in (0..).zip(names) {
            sorted.insert(order, queued(name, 0, 0), arrival);
        }
        drain(&mut sorted)
    }

    fn drain(sorted: &mut SortedPods) -> String {
        let mut names = Vec::new();
        while let Some(name) = sorted.first().map(str::to_owned) {
            sorted.remove(sorted.sequence[0].pod.arrival);
            names.push(name);
        }
        assert!(sorted.is_empty() && sorted.pods.is_empty() && sorted.comparable == 0);
        names.join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn the_plugin_then_time_then_arrival_decide() {
        let by_length = order(|a, b| Ok(a.len() < b.len()));
        assert_eq!(sorted(&by_length, &["ccc", "bb", "a", "aa", "b"]), "a b bb aa ccc");
        let mut by_time = SortedPods::default();
        for (name, s, arrival) in [("late", 2, 0), ("soon", 1, 1), ("next", 2, 2), ("first", 0, 3)] {
            by_time.insert(&by_length, queued(name, 0, s), arrival);
        }
        assert_eq!(drain(&mut by_time), "soon late next first", "the longest name is last");
        assert!(!by_length.has_complained());
    }

    /// Each order is wrong. No pod is lost, and a log says so.
    #[tokio::test(start_paused = true)]
    async fn an_order_that_contradicts_itself_loses_no_pod() {
        let equal_is_less = order(|a, b| Ok(a.len() <= b.len()));
        assert_eq!(sorted(&equal_is_less, &["bb", "a", "aa", "b"]), "a b bb aa", "pods before each other are equal");
        let always = order(|_, _| Ok(true));
        assert_eq!(sorted(&always, &["c", "a", "b"]), "c a b");
        let circle =
            order(|a, b| Ok(matches!((a, b), ("stone", "scissors") | ("scissors", "paper") | ("paper", "stone"))));
        let names = sorted(&circle, &["stone", "scissors", "paper", "stone-too"]);
        assert_eq!(names.split(' ').count(), 4, "{names}");
        for wrong in [equal_is_less, always, circle] {
            assert!(wrong.has_complained());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_cannot_be_compared_are_behind_the_others_by_priority() {
        let fails = order(|a, b| match (a.contains("bad"), b.contains("bad")) {
            (false, false) => Ok(a < b),
            _ => Err("what a name".to_owned()),
        });
        let mut pods = SortedPods::default();
        for (arrival, (name, priority)) in (0..).zip([("bad-1", 0), ("b", 0), ("bad-2", 9), ("bad-3", 0), ("a", -1)]) {
            pods.insert(&fails, queued(name, priority, 0), arrival);
        }
        pods.remove(3);
        assert_eq!(drain(&mut pods), "a b bad-2 bad-1");
        // The pod that comes last is the one whose comparison has failed.
        let odd_pair = order(|a, b| if a != b { Err("only with itself".to_owned()) } else { Ok(false) });
        assert_eq!(sorted(&odd_pair, &["a", "b", "c"]), "a b c");
    }

    /// Pods come and go at random. The order is that of a list that is sorted each time.
    #[tokio::test(start_paused = true)]
    async fn the_order_equals_that_of_a_sorted_list() {
        let by_first_letter = order(|a, b| Ok(a.as_bytes()[0] < b.as_bytes()[0]));
        let random = Random::from_seed(7, "queue");
        let (mut pods, mut model) = (SortedPods::default(), Vec::new());
        for arrival in 0..400_u64 {
            let (letter, s) = (["a", "b", "c"][random.below(3)], random.below(4) as u64);
            pods.insert(&by_first_letter, queued(&format!("{letter}-{arrival}"), 0, s), arrival);
            model.push((letter, s, arrival));
            model.sort_unstable();
            if random.below(3) == 0 {
                let (_, _, gone) = model.remove(random.below(model.len()));
                pods.remove(gone);
            }
            // A pod that is updated keeps its arrival.
            if random.below(4) == 0 && !model.is_empty() {
                let (letter, s, same) = model.swap_remove(random.below(model.len()));
                pods.remove(same);
                pods.insert(&by_first_letter, queued(&format!("{letter}-{same}"), 0, s), same);
                model.push((letter, s, same));
                model.sort_unstable();
            }
            assert!(model.iter().map(|(_, _, arrival)| *arrival).eq(present(&pods)), "after {arrival}");
            assert_eq!((pods.len(), pods.first().is_none()), (model.len(), model.is_empty()));
        }
        // The last ones leave without an order.
        while !model.is_empty() {
            let (_, _, gone) = model.swap_remove(random.below(model.len()));
            pods.remove(gone);
            let mut left: Vec<u64> = model.iter().map(|(_, _, arrival)| *arrival).collect();
            let mut there: Vec<u64> = present(&pods).collect();
            left.sort_unstable();
            there.sort_unstable();
            assert_eq!(left, there);
            assert!(
                pods.sequence.len() - pods.len() <= MIN_GONE.max(pods.len()),
                "a sequence of pods that have left stays short"
            );
        }
        assert!(pods.is_empty() && pods.sequence.is_empty());
    }
}
