//! Queues in table tests, under random operations, and under a flood from one flow.

use super::*;
use proptest::prelude::*;

impl DispatchObserver for &'static str {}
impl DispatchObserver for u64 {}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const QUEUES: Discipline = Discipline::Queue { queues: 8, hand: 1, length: 2 };

/// Adds a request of a flow whose only queue is `queue`.
fn arrive(set: &mut QueueSet<&'static str>, now: Duration, queue: u64, seats: usize, name: &'static str) -> String {
    let (arrival, next) = set.arrive(now, || queue, Work::of_seats(seats), || name);
    let next: Vec<&str> = next.iter().map(|next| next.ticket).collect();
    let arrival = match arrival {
        Arrival::Served(_) => "served".to_owned(),
        Arrival::Queued(_) => "waits".to_owned(),
        Arrival::Refused(why) => why.as_str().to_owned(),
    };
    [arrival, next.join(" ")].join(" ").trim().to_owned()
}

#[test]
fn a_level_without_queues_refuses_what_is_too_much() {
    let mut set = QueueSet::new(Discipline::Reject, 3);
    assert_eq!(arrive(&mut set, ms(0), 0, 2, "a"), "served");
    assert_eq!(arrive(&mut set, ms(0), 0, 2, "b"), "concurrency-limit");
    assert_eq!(arrive(&mut set, ms(0), 0, 1, "c"), "served");
    let mut alone = QueueSet::new(Discipline::Reject, 3);
    assert_eq!(arrive(&mut alone, ms(0), 0, 9, "more than there are, alone"), "served");
    assert_eq!(arrive(&mut alone, ms(0), 0, 1, "b"), "concurrency-limit");
}

#[test]
fn nobody_limits_what_is_exempt() {
    let mut set = QueueSet::new(Discipline::Exempt, 0);
    for _ in 0..1000 {
        assert_eq!(arrive(&mut set, ms(0), 0, 1, "a"), "served");
    }
    assert_eq!((set.seats_in_use, set.end_period(ms(1)).highest), (1000, 1000.0));
}

#[test]
fn a_full_queue_refuses_and_others_do_not() {
    let mut set = QueueSet::new(QUEUES, 1);
    assert_eq!(arrive(&mut set, ms(0), 1, 1, "a"), "served");
    assert_eq!(arrive(&mut set, ms(0), 1, 1, "b"), "waits");
    assert_eq!(arrive(&mut set, ms(0), 1, 1, "c"), "waits");
    assert_eq!(arrive(&mut set, ms(0), 1, 1, "d"), "queue-full");
    assert_eq!(arrive(&mut set, ms(0), 2, 1, "e"), "waits");
    assert_eq!((set.active_queues(), set.waiting, set.executing), (2, 3, 1));
}

fn only<T>(next: Vec<Next<T>>) -> (T, Running) {
    let mut next = next.into_iter();
    let first = next.next().expect("somebody is served");
    assert!(next.next().is_none(), "one only");
    (first.ticket, first.running)
}

fn served(set: &mut QueueSet<&'static str>, queue: u64) -> Running {
    match set.arrive(ms(0), || queue, Work::of_seats(1), || "") {
        (Arrival::Served(running), _) => running,
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn queues_take_turns() {
    let mut set = QueueSet::new(Discipline::Queue { queues: 8, hand: 1, length: 9 }, 1);
    let mut running = served(&mut set, 1);
    for name in ["a1", "a2", "a3"] {
        arrive(&mut set, ms(1), 1, 1, name);
    }
    for name in ["b1", "b2"] {
        arrive(&mut set, ms(2), 2, 1, name);
    }
    let mut order = Vec::new();
    for step in 1..=5 {
        let (name, next) = only(set.finish(ms(10 * step), running));
        order.push(name);
        running = next;
    }
    assert_eq!(order, ["b1", "a1", "b2", "a2", "a3"]);
    assert!(set.finish(ms(100), running).is_empty());
    assert_eq!((set.active_queues(), set.seats_in_use, set.waiting_seats), (0, 0, 0));
}

#[test]
fn the_next_one_is_not_passed_by_for_one_that_wants_less() {
    let mut set = QueueSet::new(QUEUES, 2);
    let (first, second) = (served(&mut set, 1), served(&mut set, 2));
    arrive(&mut set, ms(1), 3, 2, "two");
    arrive(&mut set, ms(9), 4, 1, "one");
    assert!(set.finish(ms(10), first).is_empty(), "there is one seat, and two are wanted");
    let (name, running) = only(set.finish(ms(11), second));
    assert_eq!(name, "two");
    assert_eq!(only(set.finish(ms(12), running)).0, "one");
}

#[test]
fn whoever_gives_up_makes_room() {
    let mut set = QueueSet::new(QUEUES, 2);
    let _running = served(&mut set, 1);
    let (Arrival::Queued(id), _) = set.arrive(ms(0), || 2, Work::of_seats(2), || "two") else {
        panic!("there is one seat")
    };
    arrive(&mut set, ms(9), 3, 1, "one");
    let (name, _) = only(set.abandon(ms(10), id).expect("it waits"));
    assert_eq!((name, set.waiting), ("one", 0));
    assert!(set.abandon(ms(10), id).is_none(), "once");
}

#[test]
fn seats_of_what_many_watch_come_free_later() {
    let mut set = QueueSet::new(QUEUES, 1);
    let work = Work { initial_seats: 1, final_seats: 1, additional_latency: ms(5) };
    let (Arrival::Served(running), _) = set.arrive(ms(0), || 1, work, || "") else { panic!("it is alone") };
    assert!(set.finish(ms(10), running).is_empty());
    assert_eq!(arrive(&mut set, ms(11), 2, 1, "a"), "waits");
    assert_eq!(set.wakes_at(), Some(ms(15)));
    assert_eq!(only(set.pass(ms(15))).0, "a");
    assert_eq!(set.wakes_at(), None);
}

#[test]
fn a_smaller_configuration_leaves_nobody_behind() {
    let mut set = QueueSet::new(QUEUES, 1);
    let running = served(&mut set, 0);
    arrive(&mut set, ms(0), 7, 1, "in the last queue");
    assert!(set.configure(ms(1), Discipline::Queue { queues: 2, hand: 1, length: 2 }, 1).is_empty());
    assert_eq!(set.queues.len(), 8);
    let (name, running) = only(set.finish(ms(2), running));
    assert_eq!(name, "in the last queue");
    assert!(set.finish(ms(3), running).is_empty());
    assert_eq!(set.queues.len(), 2);
    arrive(&mut set, ms(4), 1, 1, "a");
    arrive(&mut set, ms(4), 1, 1, "b");
    assert_eq!(set.configure(ms(5), Discipline::Exempt, 0).len(), 1, "now nobody waits");
}

/// Simulates two kinds of clients on one level: floods that send again as soon as they are answered or rejected, and one
/// that sends now and then. Returns how often that one was rejected, and the longest time it waited.
fn one_among_floods(hand: usize, floods: u64) -> (usize, Duration) {
    let discipline = Discipline::Queue { queues: 64, hand, length: 50 };
    let mut set: QueueSet<u64> = QueueSet::new(discipline, 10);
    let service = ms(10);
    let quiet = u64::MAX;
    let hash = |flow: u64| super::super::dealer::hash_of("schema", &flow.to_string());
    let mut ends: BinaryHeap<Reverse<(Duration, u64)>> = BinaryHeap::new();
    let mut runs: Vec<Option<(Running, u64)>> = Vec::new();
    let (mut refused, mut longest, mut asked) = (0, Duration::ZERO, None);
    for tick in 0..4000_u64 {
        let now = ms(tick);
        let mut begun: Vec<(u64, Running)> = Vec::new();
        while ends.peek().is_some_and(|Reverse((end, _))| *end <= now) {
            let Reverse((_, run)) = ends.pop().expect("one was seen");
            let (running, _) = runs[run as usize].take().expect("each ends once");
            begun.extend(set.finish(now, running).into_iter().map(|next| (next.ticket, next.running)));
        }
        let quiet_asks = tick % 50 == 0 && asked.is_none();
        let flows = (0..floods).flat_map(|flow| [flow; 20]).chain(quiet_asks.then_some(quiet));
        for flow in flows {
            let (arrival, next) = set.arrive(now, || hash(flow), Work::of_seats(1), || flow);
            begun.extend(next.into_iter().map(|next| (next.ticket, next.running)));
            match arrival {
                Arrival::Served(running) => begun.push((flow, running)),
                Arrival::Refused(_) if flow == quiet => refused += 1,
                Arrival::Queued(_) if flow == quiet => asked = Some(now),
                _ => {}
            }
        }
        for (flow, running) in begun {
            if flow == quiet {
                longest = longest.max(now - asked.take().unwrap_or(now));
            }
            runs.push(Some((running, flow)));
            ends.push(Reverse((now + service, runs.len() as u64 - 1)));
        }
    }
    (refused, longest)
}

#[test]
fn a_flood_does_not_starve_the_others() {
    let (refused, longest) = one_among_floods(6, 1);
    assert_eq!(refused, 0);
    // One round over the six queues of the floods.
    assert!(longest <= ms(10), "{longest:?}");
    let (refused, longest) = one_among_floods(6, 5);
    assert_eq!(refused, 0);
    assert!(longest <= ms(50), "{longest:?}");
}

#[derive(Clone, Debug)]
enum Operation {
    Arrive { flow: u64, seats: usize, lingers_ms: u64 },
    Finish(usize),
    Abandon(usize),
    Pass(u64),
    Configure { queues: usize, limit: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0_u64..20, 1_usize..4, prop_oneof![Just(0), 1_u64..30]).prop_map(|(flow, seats, lingers_ms)| Operation::Arrive { flow, seats, lingers_ms }),
        4 => (0_usize..50).prop_map(Operation::Finish),
        1 => (0_usize..50).prop_map(Operation::Abandon),
        2 => (0_u64..50).prop_map(Operation::Pass),
        1 => (1_usize..12, 3_usize..10).prop_map(|(queues, limit)| Operation::Configure { queues, limit }),
    ]
}

/// Compares the level after each operation with a list of waiting and executing requests.
fn check(set: &QueueSet<u64>, now: Duration, waiting: &[u64], executing: usize) -> Result<(), TestCaseError> {
    prop_assert_eq!((set.waiting, set.executing), (waiting.len(), executing));
    let in_queues: usize = set.queues.iter().map(|queue| queue.waiting.len()).sum();
    let seats: usize = set.queues.iter().map(Queue::max_seats).sum();
    prop_assert_eq!((in_queues, seats), (set.waiting, set.waiting_seats));
    prop_assert_eq!(set.active, set.queues.iter().filter(|queue| queue.is_active()).count());
    let used: usize = set.queues.iter().map(|queue| queue.seats_in_use).sum();
    prop_assert_eq!(used, set.seats_in_use);
    prop_assert!(set.lingering.iter().all(|Reverse((until, ..))| *until > now));
    // No request waits while seats for it are free.
    if set.waiting > 0 {
        let first = set.queues[set.next_queue()].waiting.front().expect("next_queue has somebody");
        prop_assert!(!set.fits(first.work.max_seats()));
    }
    Ok(())
}

proptest! {
    #[test]
    fn counts_are_true_and_no_seat_is_free_while_somebody_waits(steps in prop::collection::vec(operation(), 1..200)) {
        let mut set = QueueSet::new(Discipline::Queue { queues: 8, hand: 3, length: 4 }, 5);
        let (mut now, mut name) = (Duration::ZERO, 0);
        let (mut waiting, mut running): (Vec<(u64, u64)>, Vec<Running>) = Default::default();
        for step in steps {
            now += ms(1);
            let next = match step {
                Operation::Arrive { flow, seats, lingers_ms } => {
                    name += 1;
                    let final_seats = if lingers_ms > 0 { 1 } else { 0 };
                    let work = Work { initial_seats: seats, final_seats, additional_latency: ms(lingers_ms) };
                    let (arrival, next) = set.arrive(now, || flow.wrapping_mul(0x9e37_79b9_7f4a_7c15), work, || name);
                    match arrival {
                        Arrival::Served(one) => running.push(one),
                        Arrival::Queued(id) => waiting.push((id, name)),
                        Arrival::Refused(_) => {}
                    }
                    next
                }
                Operation::Finish(at) if at < running.len() => set.finish(now, running.remove(at)),
                Operation::Abandon(at) if at < waiting.len() => {
                    let (id, _) = waiting.remove(at);
                    set.abandon(now, id).expect("it waits")
                }
                Operation::Pass(elapsed) => {
                    now += ms(elapsed);
                    set.pass(now)
                }
                Operation::Configure { queues, limit } => {
                    set.configure(now, Discipline::Queue { queues, hand: 3, length: 4 }, limit)
                }
                Operation::Finish(_) | Operation::Abandon(_) => set.pass(now),
            };
            for next in next {
                waiting.retain(|(_, name)| *name != next.ticket);
                running.push(next.running);
            }
            let names: Vec<u64> = waiting.iter().map(|(_, name)| *name).collect();
            check(&set, now, &names, running.len())?;
        }
        // After all requests have finished, nothing is left.
        while set.waiting + running.len() > 0 {
            now += ms(100);
            running.extend(set.pass(now).into_iter().map(|next| next.running));
            if let Some(one) = running.pop() {
                running.extend(set.finish(now, one).into_iter().map(|next| next.running));
            }
        }
        let _ = set.pass(now + ms(1000));
        prop_assert_eq!((set.seats_in_use, set.active), (0, 0));
    }
}

/// Counts calls of `not_accommodated`.
struct Counts(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl DispatchObserver for Counts {
    fn not_accommodated(&self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn virtual_times_are_those_of_the_last_that_was_served() {
    let count = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
    let mut set = QueueSet::new(QUEUES, 1);
    let arrive = |set: &mut QueueSet<Counts>, at: u64, queue: u64| {
        set.arrive(ms(at), || queue, Work::of_seats(1), || Counts(count.clone())).0
    };
    let Arrival::Served(first) = arrive(&mut set, 0, 1) else { panic!("there is room") };
    assert_eq!((set.dispatch_r, set.latest_s, set.discounted_bounds()), (0.0, 0.0, None));
    assert!(matches!(arrive(&mut set, 1, 1), Arrival::Queued(_)));
    assert!(matches!(arrive(&mut set, 2, 2), Arrival::Queued(_)));
    let no_accommodation = || count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(no_accommodation(), 2);
    // The only queue with a request gets the seat.
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(close(set.current_r, 0.002), "{}", set.current_r);
    let (least, most) = set.next_dispatch_bounds().unwrap();
    assert!(close(least, 0.002) && close(most, 0.003), "{least} {most}");
    // The first queue is charged the estimated duration, which has not passed yet.
    let (least, most) = set.discounted_bounds().unwrap();
    assert!(close(least, 0.0) && close(most, 0.002), "{least} {most}");
    let (_, second) = only(set.finish(ms(4), first));
    assert!(close(set.dispatch_r, 0.003) && close(set.latest_s, 0.002), "{} {}", set.dispatch_r, set.latest_s);
    assert_eq!(no_accommodation(), 3, "the other one waits on");
    let (_, third) = only(set.finish(ms(5), second));
    assert!(set.finish(ms(6), third).is_empty());
    assert_eq!((set.discounted_bounds(), no_accommodation()), (None, 3));
}
