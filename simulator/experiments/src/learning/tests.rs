//! Steps worked by hand, and a block number by number.

use super::layout::{Layout, NodeState, Outcome, PodState};
use super::ledger::{Answer, Ledger};
use super::node_table::NodeTable;
use crate::amounts::Amounts;
use crate::cluster::Machine;
use crate::draw::seeded;
use crate::metrics::Values;
use crate::record::{self, Event, PodCreated, Record};
use crate::study::{Reward, Term};
use component_helpers::scheduling::requests::Resources;
use expect_test::expect;
use std::collections::BTreeMap;
use std::rc::Rc;

/// One node of 4 cores and 8 GiB with two GPUs. Pod a takes a half of one GPU, b a whole one; both 2 cores.
const EPISODE: &str = r#"
{"at_us":0,"event":"node-added","node":"n1","allocatable":{"cpu":4000,"memory":8589934592},"gpu_count":2}
{"at_us":10000000,"event":"pod-created","pod":"default/a","requests":{"cpu":2000},"gpu_count":1,"gpu_milli":500}
{"at_us":10000000,"event":"pod-created","pod":"default/b","requests":{"cpu":2000},"gpu_count":1,"gpu_milli":1000}
{"at_us":11000000,"event":"pod-scheduled","pod":"default/a","node":"n1","gpus":[0]}
{"at_us":40000000,"event":"pod-finished","pod":"default/a","succeeded":true}
{"at_us":50000000,"event":"ended"}
"#;

fn records() -> Vec<Record> {
    record::read(EPISODE, "events.jsonl").unwrap()
}

fn pods() -> BTreeMap<String, PodCreated> {
    let created = |record: Record| match record.event {
        Event::PodCreated(created) => Some((created.pod.clone(), created)),
        _ => None,
    };
    records().into_iter().filter_map(created).collect()
}

/// Plays the episode with one part of the reward: a is placed at 10 s, b has to wait then and at 30 s. Returns the rewards of the
/// three steps.
fn rewards(part: Reward) -> [f64; 3] {
    let mut ledger = Ledger::new(pods(), &[part]);
    let all = records();
    let until = |ledger: &mut Ledger, from_us: u64, to_us: u64| {
        all.iter().filter(|record| (from_us..to_us).contains(&record.at_us)).for_each(|record| ledger.record(record));
    };
    until(&mut ledger, 0, 10_000_001);
    ledger.ask(10_000_000, "default/a");
    ledger.settle(10_000_000);
    ledger.answer(10_000_000, "default/a", Answer::Node("n1"));
    let first = ledger.settle(10_000_000);
    ledger.answer(10_000_000, "default/b", Answer::Wait);
    until(&mut ledger, 10_000_001, 30_000_000);
    let second = ledger.settle(30_000_000);
    ledger.answer(30_000_000, "default/b", Answer::Invalid);
    until(&mut ledger, 30_000_000, 50_000_001);
    let metrics = Values::from([("jct.mean".to_owned(), 30.0)]);
    let third = ledger.settle(50_000_000) + ledger.at_end(&metrics);
    [first, second, third].map(|reward| (reward * 1e6).round() / 1e6)
}

#[test]
fn rewards_are_those_worked_by_hand() {
    let term = |term: Term| rewards(Reward { term: Some(term), metric: None, weight: 1.0 });
    // b waits from 10 s to 50 s.
    assert_eq!(term(Term::Pending), [0.0, 20.0, 20.0]);
    // a is there until 40 s too: its JCT of 30 s and the 40 s of b.
    assert_eq!(term(Term::Unfinished), [0.0, 40.0, 30.0]);
    // 2 of 4 cores for 20 s, and for 10 s more.
    assert_eq!(term(Term::AllocationCpu), [0.0, 10.0, 5.0]);
    assert_eq!(term(Term::AllocationMemory), [0.0; 3]);
    // 500 of 2000.
    assert_eq!(term(Term::AllocationGpu), [0.0, 5.0, 2.5]);
    // The tasks a and b, a half each. Of 500 and 1000 thousandths left, the 500 are a fragment for b: 0.25 GPUs. They end with a.
    assert_eq!(term(Term::Fragmentation), [0.25, 0.0, -0.25]);
    // A half of the cores, none of the memory, a quarter of the GPUs.
    assert_eq!(term(Term::BinPacking), [0.25, 0.0, 0.0]);
    assert_eq!(term(Term::Waited), [0.0, 1.0, 1.0]);
    assert_eq!(term(Term::Invalid), [0.0, 0.0, 1.0]);
    let metric = Reward { term: None, metric: Some("jct.mean".to_owned()), weight: -0.1 };
    assert_eq!(rewards(metric), [0.0, 0.0, -3.0]);
}

#[test]
fn a_placement_in_vain_is_taken_back() {
    let part = Reward { term: Some(Term::AllocationCpu), metric: None, weight: 1.0 };
    let mut ledger = Ledger::new(pods(), &[part]);
    records().iter().take(3).for_each(|record| ledger.record(record));
    ledger.settle(10_000_000);
    ledger.answer(10_000_000, "default/a", Answer::Node("n1"));
    assert_eq!(ledger.pending(), 1);
    let reason = "the gang is not complete".to_owned();
    let event = Event::AttemptFailed { pod: "default/a".to_owned(), reason };
    ledger.record(&Record { at_us: 20_000_000, event });
    assert_eq!((ledger.pending(), ledger.settle(60_000_000)), (2, 5.0));
    assert_eq!(ledger.age_s("default/a", 60_000_000), 50.0);
}

fn machine(name: &str, milli_cpu: i64) -> Machine {
    let amounts =
        Amounts::from([("cpu".to_owned(), milli_cpu), ("memory".to_owned(), 8), ("example.com/tpu".to_owned(), 2)]);
    Machine { name: name.to_owned(), allocatable: amounts, ..Machine::default() }
}

fn resources(milli_cpu: i64, memory: i64, pods: i64, tpus: i64) -> Resources {
    let scalar = BTreeMap::from([("example.com/tpu".to_owned(), tpus)]);
    Resources { milli_cpu, memory, pods, scalar, ..Resources::default() }
}

/// Returns the numbers of each field of a block.
fn fields(layout: &Layout, block: &[u8]) -> String {
    let mut numbers = block.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    let mut text = String::new();
    for (name, shape) in layout.fields().into_iter().filter(|(name, _)| *name != "metrics") {
        let count = shape.iter().product::<usize>();
        text += &format!("{name} {:?}\n", numbers.by_ref().take(count).collect::<Vec<_>>());
    }
    let given = numbers.filter(|number| !number.is_nan()).count();
    text + &format!("metrics {given}\n")
}

struct Node {
    name: &'static str,
    allocatable: Resources,
    requested: Resources,
}

fn node(name: &'static str, allocatable: &Resources, requested: &Resources) -> Rc<Node> {
    Rc::new(Node { name, allocatable: allocatable.clone(), requested: requested.clone() })
}

fn state(node: &Rc<Node>) -> NodeState<'_> {
    NodeState { name: node.name, allocatable: &node.allocatable, requested: &node.requested }
}

/// Nodes come, go, change and move; the table is always that of a new one.
#[test]
fn a_table_is_equal_to_a_new_one_after_every_change() {
    const NAMES: [&str; 4] = ["a", "b", "c", "not of the study"];
    let layout = Layout::new(&NAMES[..3].iter().map(|name| machine(name, 8000)).collect::<Vec<_>>());
    let mut draw = seeded(1);
    let mut below = |bound: usize| (draw() % bound as u64) as usize;
    let whole = resources(8000, 8, 110, 2);
    let used = |name: &'static str, milli_cpu: usize| node(name, &whole, &resources(milli_cpu as i64, 1, 1, 0));
    let (mut nodes, mut table) = (Vec::new(), NodeTable::default());
    for _ in 0..200 {
        let (place, milli_cpu) = (below(nodes.len() + 1), below(8000));
        match below(4) {
            0 if nodes.len() < NAMES.len() => {
                let free = NAMES.into_iter().find(|name| nodes.iter().all(|node: &Rc<Node>| node.name != *name));
                nodes.insert(place, used(free.unwrap(), milli_cpu));
            }
            1 if place < nodes.len() => drop(nodes.remove(place)),
            2 if place < nodes.len() => nodes.swap(0, place),
            _ if place < nodes.len() => nodes[place] = used(nodes[place].name, milli_cpu),
            _ => {}
        }
        table.show(&layout, &nodes, Rc::ptr_eq, state);
        let mut anew = NodeTable::default();
        anew.show(&layout, &nodes, Rc::ptr_eq, state);
        assert_eq!(table.cells(), anew.cells());
        assert!((0..5).all(|place| table.row(place) == anew.row(place)));
    }
}

#[test]
fn a_block_has_every_number() {
    let layout = Layout::new(&[machine("b", 4000), machine("a", 8000)]);
    let (small, large) = (resources(4000, 8, 110, 2), resources(8000, 8, 110, 2));
    let (none, some) = (resources(0, 0, 0, 0), resources(6000, 2, 11, 1));
    // The order of the scheduler is another one, and a node is gone.
    let nodes = [node("b", &small, &none), node("a", &large, &some), node("gone", &small, &none)];
    let mut table = NodeTable::default();
    table.show(&layout, &nodes, Rc::ptr_eq, state);
    let feasible = [0, 2].into_iter().filter_map(|place| table.row(place));
    let requests = resources(2000, 4, 1, 0);
    let pod = PodState { requests: &requests, priority: -5, waited_s: 2.5 };
    let outcome = Outcome { reward: -1.5, time_s: 60.0, pending: 3, ..Outcome::default() };
    let mut block = Vec::new();
    layout.write_decision(&mut block, outcome, table.cells(), feasible, pod);
    let mut end = Vec::new();
    let outcome = Outcome { is_terminated: true, ..Outcome::default() };
    layout.write_end(&mut end, outcome, &Values::from([("jct.mean".to_owned(), 30.0)]));
    assert_eq!(block.len(), end.len());
    expect![[r#"
        reward [-1.5]
        terminated [0.0]
        truncated [0.0]
        time [60.0]
        nodes [0.25, 0.5, 0.75, 0.9, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0, 0.5, 1.0, 1.0, 1.0]
        pod [0.25, 0.0, 0.5, 0.009090909]
        queue [3.0, 2.5, -5.0, 60.0]
        mask [0.0, 1.0, 1.0]
        metrics 0

        reward [0.0]
        terminated [1.0]
        truncated [0.0]
        time [0.0]
        nodes [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        pod [0.0, 0.0, 0.0, 0.0]
        queue [0.0, 0.0, 0.0, 0.0]
        mask [0.0, 0.0, 0.0]
        metrics 1
    "#]]
    .assert_eq(&(fields(&layout, &block) + "\n" + &fields(&layout, &end)));
}
