//! Tests the order and the time in which pods leave the queue.

use super::*;
use component_base::env::Env;
use proto::Kind;
use scheduler_plugins::fixture::{Objects, info, node, pod, profile};
use scheduling_framework::{Plugin, QueueSort};
use serde_json::json;

struct TestQueue {
    queue: SchedulingQueue,
    start: Instant,
}

impl TestQueue {
    fn new() -> Self {
        let start = Env::simulated(1).now();
        Self { queue: SchedulingQueue::new(Arc::new(profile(Objects::default()).into()), start), start }
    }

    fn at(&self, s: u64) -> Instant {
        self.start + Duration::from_secs(s)
    }

    fn add(&mut self, name: &str, priority: i32, s: u64) {
        let at = self.at(s);
        self.queue.add(info(pod(name, "1", json!({"priority": priority}))), at);
    }

    fn pop(&mut self, s: u64) -> Option<QueuedPod> {
        let at = self.at(s);
        self.queue.pop(at)
    }

    fn name(&mut self, s: u64) -> String {
        self.pop(s).map_or("-".to_owned(), |queued| queued.info.pod.name().to_owned())
    }

    fn fail(&mut self, queued: QueuedPod, by: &'static str, s: u64) {
        let at = self.at(s);
        self.queue.add_unschedulable(queued, [by].into(), at);
    }

    fn event(&mut self, event: ClusterEvent, s: u64) {
        let at = self.at(s);
        self.queue.on_event(&event, at);
    }
}

fn new_node() -> ClusterEvent {
    ClusterEvent::NodeAdded(node("n1", "a", json!({})))
}

const FIT: &str = "NodeResourcesFit";

#[tokio::test(start_paused = true)]
async fn the_highest_priority_is_first_and_then_the_longest_wait() {
    let mut test = TestQueue::new();
    for (name, priority, s) in [("late", 0, 2), ("early", 0, 1), ("vip", 9, 3), ("early-too", 0, 1)] {
        test.add(name, priority, s);
    }
    assert_eq!([4, 4, 4, 4, 4].map(|s| test.name(s)), ["vip", "early", "early-too", "late", "-"]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_waits_for_an_event_that_helps_and_for_its_back_off() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let queued = test.pop(0).unwrap();
    test.fail(queued, FIT, 0);
    assert_eq!(test.name(60), "-", "nothing has happened");
    let small = node("n1", "a", json!({"status": {"allocatable": {"cpu": "10m"}}}));
    test.event(ClusterEvent::NodeAdded(small), 60);
    assert_eq!(test.name(60), "-", "that node is too small");
    test.event(new_node(), 60);
    let queued = test.pop(60).unwrap();
    assert_eq!(queued.attempts, 2);

    // After the second failure, the back-off is two seconds, behind all active pods.
    test.fail(queued, FIT, 60);
    test.event(new_node(), 61);
    assert_eq!(test.queue.lengths(), [0, 1, 0, 0]);
    test.add("other", 0, 61);
    assert_eq!([test.name(61), test.name(61)], ["other", "web"], "no other pod is active");
}

#[tokio::test(start_paused = true)]
async fn back_off_ends_by_the_second_and_then_the_highest_priority_is_first() {
    let mut test = TestQueue::new();
    for (name, priority) in [("early", 0), ("late", 0), ("vip", 9)] {
        test.add(name, priority, 0);
    }
    let queued: Vec<QueuedPod> = (0..3).map(|_| test.pop(0).unwrap()).collect();
    // Back-off ends at 1, 2 and 2.
    for (queued, (name, s)) in queued.into_iter().zip([("vip", 1), ("early", 0), ("late", 1)]) {
        assert_eq!(queued.info.pod.name(), name);
        test.fail(queued, FIT, s);
    }
    test.event(new_node(), 1);
    assert_eq!(test.queue.lengths(), [0, 3, 0, 0]);
    // All back-offs are over, so that the priority alone decides. At 2, only that of `early` is.
    test.add("new", 0, 2);
    assert_eq!([2, 2, 2, 2].map(|s| test.name(s)), ["early", "new", "vip", "late"]);
}

#[tokio::test(start_paused = true)]
async fn events_during_a_cycle_count_at_its_end() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let queued = test.pop(0).unwrap();
    test.event(new_node(), 0);
    test.fail(queued, FIT, 0);
    assert_eq!(test.queue.lengths(), [0, 1, 0, 0], "straight to back-off");
    assert_eq!(test.name(1), "web");

    // The pod itself is updated while it is in flight.
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let queued = test.pop(0).unwrap();
    let (old, at) = (queued.info.clone(), test.at(0));
    test.queue.update(old, info(pod("web", "10m", json!({}))), at);
    test.fail(queued, FIT, 0);
    assert_eq!(test.queue.lengths(), [0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn unschedulable_pods_are_tried_again_without_an_event() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let queued = test.pop(0).unwrap();
    test.fail(queued, FIT, 0);
    assert_eq!(test.queue.next_due(), Some(test.at(300)));
    assert!(test.pop(299).is_none());
    let queued = test.pop(300).unwrap();
    assert!(queued.was_flushed);
    test.fail(queued, FIT, 300);
    test.event(new_node(), 301);
    assert!(!test.pop(320).unwrap().was_flushed, "an event has woken it");
}

/// Pods that fit nowhere are not in the way of one that does, and no event that does not help them wakes them.
#[tokio::test(start_paused = true)]
async fn many_unschedulable_pods_delay_nobody() {
    const MANY: usize = 10_000;
    let mut test = TestQueue::new();
    for number in 0..MANY {
        test.add(&format!("huge-{number}"), 5, 0);
    }
    for _ in 0..MANY {
        let queued = test.pop(0).unwrap();
        test.fail(queued, FIT, 0);
    }
    test.add("small", 0, 20);
    assert_eq!([test.name(20), test.name(20)], ["small", "-"], "although its priority is lower");
    let tiny = node("n1", "a", json!({"status": {"allocatable": {"cpu": "10m"}}}));
    test.event(ClusterEvent::NodeAdded(tiny), 30);
    test.add("small-too", 0, 30);
    assert_eq!([test.name(30), test.name(30)], ["small-too", "-"], "the new node helps none of them");
    // Each has one more try for an event that may help, and one for the time-out.
    test.event(new_node(), 40);
    let mut tries = 0;
    while let Some(queued) = test.pop(40) {
        tries += 1;
        test.fail(queued, FIT, 40);
    }
    assert_eq!((tries, test.queue.lengths()), (MANY, [0, 0, MANY, 0]));
    assert_eq!(test.name(41), "-");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_gated_until_the_last_gate_is_removed() {
    let mut test = TestQueue::new();
    let gated = |gates: serde_json::Value| info(pod("web", "1", json!({"schedulingGates": gates})));
    let (two, one, none) =
        (gated(json!([{"name": "a"}, {"name": "b"}])), gated(json!([{"name": "b"}])), gated(json!([])));
    let at = test.at(0);
    test.queue.add(two.clone(), at);
    test.event(new_node(), 1);
    assert_eq!(test.queue.lengths(), [0, 0, 0, 1]);
    test.queue.update(two, one.clone(), at);
    assert_eq!(test.name(2), "-");
    test.queue.update(one, none, at);
    assert_eq!(test.name(3), "web");
}

/// Returns what is said of each pod that is held: its name, since when, by which plugin and why, and what it waits for.
fn held(test: &TestQueue) -> Vec<String> {
    let line = |held: held::HeldPod<'_>| {
        let (name, since) = (held.queued.info.pod.name(), (held.since - test.start).as_secs());
        let why = held.rejection.map_or("nothing".to_owned(), |it| format!("{}: {}", it.plugin, it.reasons.join(", ")));
        format!("{name} since {since} s by {why}; {}", held.waits_for.join("; "))
    };
    test.queue.held().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn a_held_pod_says_who_holds_it_since_when_and_what_it_waits_for() {
    let mut test = TestQueue::new();
    let at = test.at(7);
    test.queue.present = at;
    let gated = info(pod("gated", "1", json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]})));
    test.queue.add(gated, at);
    test.add("vip", 9, 7);
    let queued = test.pop(7).unwrap();
    // Its victims are evicted, and an event would have woken it.
    test.queue.begin_preemption("vip");
    test.queue.present = test.at(9);
    test.fail(queued, FIT, 9);
    test.event(new_node(), 30);
    let by_gates = "gated since 7 s by SchedulingGates: waiting for scheduling gates: [a b]; an update of the pod that \
                    removes the scheduling gate a; an update of the pod that removes the scheduling gate b";
    let by_preemption = "vip since 9 s by DefaultPreemption: waiting for the preemption for this pod to be finished; ";
    assert_eq!(
        held(&test),
        [by_gates.to_owned(), by_preemption.to_owned() + "the end of the requests that evict its victims"]
    );
    test.queue.await_last_victim("vip", "u-1");
    assert!(held(&test)[1].ends_with("the deletion of its last victim, the pod with the uid u-1"));
    let at = test.at(31);
    test.queue.end_preemption("vip", at);
    assert_eq!(held(&test), [by_gates]);
}

#[tokio::test(start_paused = true)]
async fn removed_pods_do_not_come_back() {
    let mut test = TestQueue::new();
    test.add("active", 0, 0);
    test.queue.remove("active");
    test.add("waiting", 0, 0);
    let queued = test.pop(0).unwrap();
    test.fail(queued, FIT, 0);
    test.queue.remove("waiting");
    test.event(new_node(), 1);
    assert_eq!((test.name(400), test.queue.lengths()), ("-".to_owned(), [0; 4]));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_tried_again_after_an_error_and_its_back_off() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..6 {
        let queued = test.pop(now).unwrap();
        let at = test.at(now);
        test.queue.add_unschedulable(queued, BTreeSet::new(), at);
        let due = test.queue.next_due().unwrap() - test.start;
        waits.push(due.as_secs() - now);
        now = due.as_secs();
    }
    // The pod waits until the end of its back-off window, although no other pod is in the queue.
    assert_eq!(waits, [2, 3, 5, 9, 11, 11]);
}

#[tokio::test(start_paused = true)]
async fn an_activated_pod_keeps_its_place_in_the_order() {
    let mut test = TestQueue::new();
    test.add("old", 0, 0);
    let queued = test.pop(0).unwrap();
    test.fail(queued, FIT, 1);
    test.add("young", 0, 5);
    test.event(new_node(), 6);
    assert_eq!([test.name(6), test.name(6)], ["old", "young"]);
}

#[tokio::test(start_paused = true)]
async fn a_nomination_outlives_updates_that_do_not_show_it_yet() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let (old, at) = (test.queue.get("web").unwrap().clone(), test.at(1));
    test.queue.nominated.set(old.clone(), "n1");
    let nominated = |test: &TestQueue| {
        test.queue.nominated.of_equal_or_higher_priority(&info(pod("x", "1", json!({}))), "n1").count()
    };
    test.queue.update(old.clone(), info(pod("web", "1", json!({}))), at);
    assert_eq!(nominated(&test), 1);
    let mut shown = pod("web", "1", json!({}));
    shown["status"] = json!({"nominatedNodeName": "n1"});
    let shown = info(shown);
    test.queue.update(old.clone(), shown.clone(), at);
    assert_eq!(nominated(&test), 1);
    test.queue.update(shown, old, at);
    assert_eq!(nominated(&test), 0, "taken back");
}

#[tokio::test(start_paused = true)]
async fn updates_of_other_unschedulable_pods_have_no_effect() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    test.add("db", 0, 0);
    let (web, db) = (test.pop(0).unwrap(), test.pop(0).unwrap());
    let (old, at) = (db.info.clone(), test.at(0));
    test.queue.update(old, info(pod("db", "1m", json!({}))), at);
    test.fail(web, FIT, 0);
    test.fail(db, FIT, 0);
    assert_eq!(test.queue.lengths(), [0, 1, 1, 0], "db asks for less now, web does not");
}

#[tokio::test(start_paused = true)]
async fn a_forced_pod_is_active_at_once() {
    let mut test = TestQueue::new();
    test.add("web", 0, 0);
    let queued = test.pop(0).unwrap();
    test.queue.force_activate("web");
    test.fail(queued, FIT, 0);
    assert_eq!(test.queue.lengths(), [0, 1, 0, 0]);
    let queued = test.pop(0).unwrap();
    test.fail(queued, FIT, 0);
    test.queue.force_activate("web");
    assert_eq!(test.queue.lengths(), [1, 0, 0, 0]);
}

/// Puts pods with a larger value of the label `urgency` first. Fails for a pod without it.
struct ByUrgency;

impl Plugin for ByUrgency {
    fn name(&self) -> &'static str {
        "ByUrgency"
    }
}

impl QueueSort for ByUrgency {
    fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String> {
        let urgency = |pod: &QueuedPodInfo| pod.pod_info.labels().get("urgency").cloned().ok_or("no urgency");
        Ok(urgency(a)? > urgency(b)?)
    }
}

fn urgent(name: &str, urgency: &str) -> Arc<PodInfo> {
    let mut pod = pod(name, "1", json!({}));
    pod["metadata"]["labels"] = json!({"urgency": urgency});
    info(pod)
}

#[tokio::test(start_paused = true)]
async fn a_comparison_of_its_own_orders_the_queue_and_follows_updates() {
    let mut test = TestQueue::new();
    let urgent_first = || {
        let mut profile = profile(Objects::default());
        profile.queue_sort = Some(Arc::new(ByUrgency));
        Arc::new(profile.into())
    };
    let at = test.at(0);
    for (name, urgency) in [("a", "1"), ("b", "2"), ("c", "2"), ("d", "3")] {
        test.queue.add(urgent(name, urgency), at);
    }
    test.add("unlabelled", 100, 0);
    // Another plugin orders pods that wait already.
    test.queue.reconfigure(urgent_first(), at);
    assert_eq!(test.queue.lengths(), [5, 0, 0, 0]);
    test.queue.update(urgent("d", "3"), urgent("d", "0"), at);
    test.queue.remove("c");
    test.queue.add(urgent("e", "2"), at);
    let names: Vec<String> = (0..6).map(|_| test.name(0)).collect();
    assert_eq!(names, ["b", "e", "a", "d", "unlabelled", "-"]);
}
