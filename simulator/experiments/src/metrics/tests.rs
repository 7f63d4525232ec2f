//! A run worked by hand.

use super::*;
use crate::record::{self, Record};

/// Two nodes of 4 cores and 8 GiB, one with two GPUs. Times are in seconds.
///
/// | pod | created | bound | started | ended | cores | GPUs |
/// |---|---|---|---|---|---|---|
/// | a | 0 | 0 on n1 | 10 | 60 | 2 | half of one |
/// | b | 0 | 20 on n2 | 20 | 100 | 4 | none |
/// | c | 40 | preempted once: 40–50 on n1, 60 on n1 | 60 | failed at 80 | 2 | one |
/// | d | 50 | never | | | 8 | none |
const RUN: &str = r#"
{"at_us":0,"event":"node-added","node":"n1","allocatable":{"cpu":4000,"memory":8589934592},"gpu_count":2,"price_per_hour":36,"power":{"idleW":100,"fullW":200,"gpuIdleW":10,"gpuFullW":110}}
{"at_us":0,"event":"node-added","node":"n2","allocatable":{"cpu":4000,"memory":8589934592}}
{"at_us":0,"event":"pod-created","pod":"default/a","requests":{"cpu":2000,"memory":1073741824},"gpu_count":1,"gpu_milli":500,"user":"ann","gang":"g","duration_us":50000000}
{"at_us":0,"event":"pod-created","pod":"default/b","requests":{"cpu":4000},"user":"ben","gang":"g","duration_us":80000000}
{"at_us":0,"event":"pod-scheduled","pod":"default/a","node":"n1","gpus":[0],"decided_us":0}
{"at_us":10000000,"event":"pod-started","pod":"default/a"}
{"at_us":20000000,"event":"pod-scheduled","pod":"default/b","node":"n2","decided_us":14000000}
{"at_us":20000000,"event":"pod-started","pod":"default/b"}
{"at_us":40000000,"event":"pod-created","pod":"default/c","requests":{"cpu":2000},"gpu_count":1,"gpu_milli":1000,"user":"ann","duration_us":20000000}
{"at_us":40000000,"event":"pod-scheduled","pod":"default/c","node":"n1"}
{"at_us":50000000,"event":"pod-preempted","pod":"default/c","by":"default/x"}
{"at_us":50000000,"event":"pod-created","pod":"default/d","requests":{"cpu":8000},"user":"ben","duration_us":20000000}
{"at_us":55000000,"event":"attempt-failed","pod":"default/d","reason":"Insufficient cpu"}
{"at_us":60000000,"event":"pod-finished","pod":"default/a","succeeded":true}
{"at_us":60000000,"event":"pod-scheduled","pod":"default/c","node":"n1","decided_us":57000000}
{"at_us":60000000,"event":"pod-started","pod":"default/c"}
{"at_us":80000000,"event":"pod-finished","pod":"default/c","succeeded":false}
{"at_us":100000000,"event":"pod-finished","pod":"default/b","succeeded":true}
{"at_us":100000000,"event":"requests-answered","requests":{"create pods":5,"create pods/binding":4,"update leases.coordination.k8s.io":1}}
{"at_us":100000000,"event":"ended"}
"#;

fn records() -> Vec<Record> {
    record::read(RUN, "events.jsonl").unwrap()
}

#[test]
fn values_are_those_worked_by_hand() {
    let summary = summarise(&records(), Duration::from_secs(30));
    let value = |name: &str| summary.values.get(name).copied();
    for (name, wanted) in [
        // 8 cores for 100 s. a has 2 for 60 s, b has 4 for 80 s, c has 2 for 10 + 20 s: 120 + 320 + 60 of 800.
        ("allocation.cpu", 0.625),
        // a has one of 16 GiB for 60 of 100 s.
        ("allocation.memory", 0.0375),
        // 2 GPUs for 100 s. a has a half for 60 s, c has one for 30 s: 30 + 30 of 200.
        ("allocation.gpu", 0.3),
        ("allocation-peak.cpu", 1.0),
        // a runs for 50 s, b for 80 s, c for 20 s: 100 + 320 + 40 of 800.
        ("utilisation.cpu", 0.575),
        // Tasks, a quarter each: a, b, c and d. b and d want no GPU, so all that is left is fragment for them.
        // 0–40, 50–60: 1500 left on GPUs of 500 and 1000, 2 cores. a: 0. c: 500. Sum (0 + 1500 + 500 + 1500) / 4 = 875.
        // 40–50: 500 left on one, no cores. All of it: 500.
        // 60–80: c is on the first GPU; 1000 left, 2 cores. a: 0. c: 0. (1000 + 1000) / 4 = 500.
        // 80–100: 2000 left, 4 cores. (2000 + 2000) / 4 = 1000.
        // (875 · 50 + 500 · 10 + 500 · 20 + 1000 · 20) / 140000 left = 78750 / 140000.
        ("fragmentation.gpu", 0.5625),
        // n1: idle 100 + 20 W. a adds 50 W for its cores and 50 W for half a GPU, for 50 s; c adds 50 + 100 W for 20 s.
        ("power.mean-w", 200.0),
        ("energy.kwh", 0.005_556),
        ("price", 1.0),
        // a 0, b 20, c 0, d 50 until the end.
        ("pending.mean", 17.5),
        ("pending.p50", 10.0),
        // Place 0.95 · 3 = 2.85 between 20 and 50.
        ("pending.p95", 45.5),
        // a is bound in the moment of its decision, b 6 s later, c 3 s later at its second binding; nothing is known of the first.
        ("decision-latency.mean", 3.0),
        ("decision-latency.p50", 3.0),
        // Place 0.95 · 2 = 1.9 between 3 and 6.
        ("decision-latency.p95", 5.7),
        // a 60, b 100. c has failed: it has completed nothing.
        ("jct.mean", 80.0),
        ("jct.p50", 80.0),
        // 60/50, 100/80.
        ("slowdown.p50", 1.225),
        ("slowdown.mean", 1.225),
        ("bounded-slowdown.p50", 1.225),
        ("makespan", 100.0),
        // Of ann: a 5/6, c 0, mean 5/12. Of ben: b 4/5, d 0, mean 2/5. (49/60)² / (2 · (25/144 + 4/25)).
        ("jain", 0.999_584),
        // Two users. a: half of one of two GPUs or 2 of 8 cores, a quarter, fits in a half: 60/50. b: 4 of 8 cores: 100/80.
        ("finish-time-fairness.max", 1.25),
        ("finish-time-fairness.p50", 1.225),
        // From 0 to the start of b; a is bound at 0, b at 20.
        ("gang-wait.mean", 20.0),
        ("gang-hold.mean", 20.0),
        ("pods", 4.0),
        ("pods-finished", 3.0),
        ("pods-failed", 1.0),
        ("pods-never-scheduled", 1.0),
        ("attempts-failed", 1.0),
        ("preemptions", 1.0),
        ("evictions", 0.0),
        // Four placements of three pods.
        ("churn", 0.333_333),
        // 5 + 4 + 1, for four pods.
        ("requests", 10.0),
        ("requests-per-pod", 2.5),
    ] {
        assert_eq!(value(name), Some(wanted), "{name}");
    }
    assert_eq!(summary.values.keys().filter(|name| !NAMES.iter().any(|(known, _, _)| known == name)).count(), 0);
}

#[test]
fn samples_show_what_is_true_at_their_time() {
    let samples = summarise(&records(), Duration::from_secs(30)).samples;
    let seen: Vec<(u64, u64, u64, f64)> =
        samples.iter().map(|sample| (sample.at_us / 1_000_000, sample.pending, sample.bound, sample.cpu)).collect();
    assert_eq!(seen, [(0, 1, 1, 0.25), (30, 0, 2, 0.75), (60, 1, 2, 0.75), (90, 1, 1, 0.5), (100, 1, 0, 0.0)]);
}

#[test]
fn a_node_that_goes_takes_its_pods_and_its_capacity_along() {
    let lost = r#"
{"at_us":0,"event":"node-added","node":"n1","allocatable":{"cpu":4000},"gpu_count":1}
{"at_us":0,"event":"pod-created","pod":"default/a","requests":{"cpu":1000}}
{"at_us":0,"event":"pod-scheduled","pod":"default/a","node":"n1"}
{"at_us":10000000,"event":"node-removed","node":"n1"}
{"at_us":10000000,"event":"pod-evicted","pod":"default/a","reason":"NodeLost"}
{"at_us":20000000,"event":"ended"}
"#;
    let summary = summarise(&record::read(lost, "events.jsonl").unwrap(), Duration::from_secs(60));
    assert_eq!(summary.values["allocation.cpu"], 0.25);
    assert_eq!(summary.values["evictions"], 1.0);
    let last = summary.samples.last().unwrap();
    assert_eq!((last.nodes, last.pending, last.bound, last.cpu), (0, 1, 0, 0.0));
    assert_eq!(summary.nodes[0].present_s, 10.0);
}

/// A Deployment on a node of four cores. Its pods request one core, and may use one and a half. w1 runs from 10 to 60 s, w2 from 40 s on;
/// w3 is created at 70 s and deleted at 90 s, without a node.
#[test]
fn a_load_is_shared_by_the_pods_that_run() {
    let run = r#"
{"at_us":0,"event":"node-added","node":"n1","allocatable":{"cpu":4000},"power":{"idleW":100,"fullW":200}}
{"at_us":0,"event":"load-changed","deployment":"default/web","cpu_milli":1000}
{"at_us":0,"event":"pod-created","pod":"default/w1","requests":{"cpu":1000},"deployment":"default/web","cpu_limit":1500}
{"at_us":0,"event":"pod-scheduled","pod":"default/w1","node":"n1"}
{"at_us":10000000,"event":"pod-started","pod":"default/w1"}
{"at_us":20000000,"event":"load-changed","deployment":"default/web","cpu_milli":3000}
{"at_us":20000000,"event":"pod-created","pod":"default/w2","requests":{"cpu":1000},"deployment":"default/web","cpu_limit":1500}
{"at_us":20000000,"event":"pod-scheduled","pod":"default/w2","node":"n1"}
{"at_us":40000000,"event":"pod-started","pod":"default/w2"}
{"at_us":60000000,"event":"pod-deleted","pod":"default/w1"}
{"at_us":70000000,"event":"pod-created","pod":"default/w3","requests":{"cpu":1000},"deployment":"default/web","cpu_limit":1500}
{"at_us":90000000,"event":"pod-deleted","pod":"default/w3"}
{"at_us":100000000,"event":"ended"}
"#;
    let summary = summarise(&record::read(run, "events.jsonl").unwrap(), Duration::from_secs(50));
    for (name, wanted) in [
        // One core for 60 s and one for 80 s, of four for 100 s.
        ("allocation.cpu", 0.35),
        // w1 uses 1 for 10 s, and then its limit for 20 s. Both use 1.5 for 20 s, and w2 alone for 40 s: 10 + 30 + 60 + 60 of 400.
        ("utilisation.cpu", 0.4),
        ("power.mean-w", 140.0),
        // One for 30 s, two for 20 s, one for 40 s.
        ("replicas.mean", 1.1),
        ("replicas.max", 2.0),
        // 1 for 20 s and 3 for 80 s are 260. Beyond what runs: 1 for 10 s, 2 for 20 s, 1 for 20 s, 2 for 40 s are 150.
        ("load-excess", 0.576_923),
        // w1 and w2 are bound at once, and w3 waits until it is deleted.
        ("pending.mean", 6.666_667),
        ("pods", 3.0),
        ("pods-never-scheduled", 1.0),
    ] {
        assert_eq!(summary.values.get(name), Some(&wanted), "{name}");
    }
    assert_eq!(summary.values.get("jain"), None, "pods of Deployments have no end");
    let seen: Vec<(u64, f64)> = summary.samples.iter().map(|sample| (sample.replicas, sample.load_cpu)).collect();
    assert_eq!(seen, [(0, 1.0), (2, 3.0), (1, 3.0)]);
    assert_eq!(summary.pods[0].deleted_us, Some(60_000_000));
}

#[test]
fn a_line_that_is_no_record_has_its_place() {
    let text =
        "{\"at_us\":5,\"event\":\"ended\"}\n{\"at_us\":6,\"event\":\"dance\"}\n{\"at_us\":4,\"event\":\"ended\"}\n";
    let problems = record::read(text, "events.jsonl").unwrap_err();
    assert!(problems[0].to_string().starts_with("events.jsonl:2: unknown variant `dance`"), "{}", problems[0]);
    assert_eq!(problems[1].to_string(), "events.jsonl:3: at_us: 4 is before 5");
}

#[test]
fn a_record_is_read_as_it_was_written() {
    for record in records() {
        assert_eq!(record::read(&record.line(), "x"), Ok(vec![record]));
    }
}
