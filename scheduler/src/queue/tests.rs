//! Who comes out of the queue, and when.

use super::*;
use crate::fixture::{Objects, info, node, pod, profile};
use component_base::env::Env;
use proto::Kind;
use serde_json::json;

struct Lab {
    queue: SchedulingQueue,
    start: Instant,
}

impl Lab {
    fn new() -> Self {
        let start = Env::simulated(1).now();
        Self { queue: SchedulingQueue::new(Arc::new(profile(Objects::default())), start), start }
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
async fn the_important_go_first_and_then_those_who_came_first() {
    let mut lab = Lab::new();
    for (name, priority, s) in [("late", 0, 2), ("early", 0, 1), ("vip", 9, 3), ("early-too", 0, 1)] {
        lab.add(name, priority, s);
    }
    assert_eq!([4, 4, 4, 4, 4].map(|s| lab.name(s)), ["vip", "early", "early-too", "late", "-"]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_pod_waits_for_an_event_that_helps_and_for_its_back_off() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.fail(queued, FIT, 0);
    assert_eq!(lab.name(60), "-", "nothing has happened");
    let small = node("n1", "a", json!({"status": {"allocatable": {"cpu": "10m"}}}));
    lab.event(ClusterEvent::NodeAdded(small), 60);
    assert_eq!(lab.name(60), "-", "that node is too small");
    lab.event(new_node(), 60);
    let queued = lab.pop(60).unwrap();
    assert_eq!(queued.attempts, 2);

    // The second failure: two seconds of back-off, behind all who are not in it.
    lab.fail(queued, FIT, 60);
    lab.event(new_node(), 61);
    assert_eq!(lab.queue.lengths(), [0, 1, 0, 0]);
    lab.add("other", 0, 61);
    assert_eq!([lab.name(61), lab.name(61)], ["other", "web"], "nobody else wants the scheduler's time");
}

#[tokio::test(start_paused = true)]
async fn back_off_ends_by_the_second_and_then_the_important_go_first() {
    let mut lab = Lab::new();
    for (name, priority) in [("early", 0), ("late", 0), ("vip", 9)] {
        lab.add(name, priority, 0);
    }
    let queued: Vec<QueuedPod> = (0..3).map(|_| lab.pop(0).unwrap()).collect();
    // Back-off ends at 1, 2 and 2.
    for (queued, (name, s)) in queued.into_iter().zip([("vip", 1), ("early", 0), ("late", 1)]) {
        assert_eq!(queued.info.pod.name(), name);
        lab.fail(queued, FIT, s);
    }
    lab.event(new_node(), 1);
    assert_eq!(lab.queue.lengths(), [0, 3, 0, 0]);
    // All of it is over; nobody is late any more, and rank alone counts. At 2 it is over for `early` only.
    lab.add("new", 0, 2);
    assert_eq!([2, 2, 2, 2].map(|s| lab.name(s)), ["early", "new", "vip", "late"]);
}

#[tokio::test(start_paused = true)]
async fn what_happens_during_a_cycle_counts_when_it_ends() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.event(new_node(), 0);
    lab.fail(queued, FIT, 0);
    assert_eq!(lab.queue.lengths(), [0, 1, 0, 0], "straight to back-off");
    assert_eq!(lab.name(1), "web");

    // The pod itself is changed while it is in flight.
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let queued = lab.pop(0).unwrap();
    let (old, at) = (queued.info.clone(), lab.at(0));
    lab.queue.update(old, info(pod("web", "10m", json!({}))), at);
    lab.fail(queued, FIT, 0);
    assert_eq!(lab.queue.lengths(), [0, 1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn hints_may_be_wrong_so_nobody_waits_for_ever() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.fail(queued, FIT, 0);
    assert_eq!(lab.queue.next_due(), Some(lab.at(300)));
    assert_eq!([lab.name(299), lab.name(300)], ["-", "web"]);
}

#[tokio::test(start_paused = true)]
async fn gates_keep_a_pod_out_until_the_last_is_gone() {
    let mut lab = Lab::new();
    let gated = |gates: serde_json::Value| info(pod("web", "1", json!({"schedulingGates": gates})));
    let (two, one, none) =
        (gated(json!([{"name": "a"}, {"name": "b"}])), gated(json!([{"name": "b"}])), gated(json!([])));
    let at = lab.at(0);
    lab.queue.add(two.clone(), at);
    lab.event(new_node(), 1);
    assert_eq!(lab.queue.lengths(), [0, 0, 0, 1]);
    lab.queue.update(two, one.clone(), at);
    assert_eq!(lab.name(2), "-");
    lab.queue.update(one, none, at);
    assert_eq!(lab.name(3), "web");
}

#[tokio::test(start_paused = true)]
async fn who_is_gone_does_not_come_back() {
    let mut lab = Lab::new();
    lab.add("active", 0, 0);
    lab.queue.remove("active");
    lab.add("waiting", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.fail(queued, FIT, 0);
    lab.queue.remove("waiting");
    lab.event(new_node(), 1);
    assert_eq!((lab.name(400), lab.queue.lengths()), ("-".to_owned(), [0; 4]));
}

#[tokio::test(start_paused = true)]
async fn an_error_without_culprit_is_tried_again_after_back_off() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let mut waits = Vec::new();
    let mut now = 0;
    for _ in 0..6 {
        let queued = lab.pop(now).unwrap();
        let at = lab.at(now);
        lab.queue.add_unschedulable(queued, BTreeSet::new(), at);
        let due = lab.queue.next_due().unwrap() - lab.start;
        waits.push(due.as_secs() - now);
        now = due.as_secs();
    }
    // To the end of the second in which it is over, and not a moment earlier although nobody else is there.
    assert_eq!(waits, [2, 3, 5, 9, 11, 11]);
}

#[tokio::test(start_paused = true)]
async fn who_is_activated_keeps_his_place_in_the_line() {
    let mut lab = Lab::new();
    lab.add("old", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.fail(queued, FIT, 1);
    lab.add("young", 0, 5);
    lab.event(new_node(), 6);
    assert_eq!([lab.name(6), lab.name(6)], ["old", "young"]);
}

#[tokio::test(start_paused = true)]
async fn a_nomination_outlives_updates_that_do_not_show_it_yet() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let (old, at) = (lab.queue.get("web").unwrap().clone(), lab.at(1));
    lab.queue.nominated.set(old.clone(), "n1");
    let nominated = |lab: &Lab| lab.queue.nominated.ahead_of(&info(pod("x", "1", json!({}))), "n1").count();
    lab.queue.update(old.clone(), info(pod("web", "1", json!({}))), at);
    assert_eq!(nominated(&lab), 1);
    let mut shown = pod("web", "1", json!({}));
    shown["status"] = json!({"nominatedNodeName": "n1"});
    let shown = info(shown);
    lab.queue.update(old.clone(), shown.clone(), at);
    assert_eq!(nominated(&lab), 1);
    lab.queue.update(shown, old, at);
    assert_eq!(nominated(&lab), 0, "taken back");
}

#[tokio::test(start_paused = true)]
async fn changes_of_other_waiting_pods_help_nobody() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    lab.add("db", 0, 0);
    let (web, db) = (lab.pop(0).unwrap(), lab.pop(0).unwrap());
    let (old, at) = (db.info.clone(), lab.at(0));
    lab.queue.update(old, info(pod("db", "1m", json!({}))), at);
    lab.fail(web, FIT, 0);
    lab.fail(db, FIT, 0);
    assert_eq!(lab.queue.lengths(), [0, 1, 1, 0], "db asks for less now, web does not");
}

#[tokio::test(start_paused = true)]
async fn who_is_forced_goes_at_once() {
    let mut lab = Lab::new();
    lab.add("web", 0, 0);
    let queued = lab.pop(0).unwrap();
    lab.queue.force("web");
    lab.fail(queued, FIT, 0);
    assert_eq!(lab.queue.lengths(), [0, 1, 0, 0]);
    let queued = lab.pop(0).unwrap();
    lab.fail(queued, FIT, 0);
    lab.queue.force("web");
    assert_eq!(lab.queue.lengths(), [1, 0, 0, 0]);
}
