//! Tests that a simulation depends only on its seed: another process writes the same log, and another seed another log.

use std::process::{Child, Command, Stdio};

/// Starts a run in its own process.
fn start(scenario: &str, seed: u64) -> Child {
    start_with(&[scenario, &seed.to_string()])
}

fn start_with(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orrery-under-simulation"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits for the end of a run, and returns its log. Panics with timelines of the objects if it violated an invariant.
fn finish(run: Child) -> String {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn log(scenario: &str, seed: u64) -> String {
    finish(start(scenario, seed))
}

/// Runs a story with a crash point.
pub fn log_of(arguments: &[&str]) -> String {
    finish(start_with(arguments))
}

/// Runs several seeds at the same time.
pub fn logs(scenario: &str, seeds: &[u64]) -> Vec<String> {
    let runs: Vec<Child> = seeds.iter().map(|seed| start(scenario, *seed)).collect();
    runs.into_iter().map(finish).collect()
}

/// Runs a seed twice and returns the log. Both run at the same time, so that the timing of the machine differs.
fn repeats(scenario: &str, seed: u64) -> String {
    let second = start(scenario, seed);
    let (first, second) = (log(scenario, seed), finish(second));
    if first != second {
        let differs = first.lines().zip(second.lines()).enumerate().find(|(_, (a, b))| a != b);
        panic!("two runs of one seed differ at {differs:?}");
    }
    first
}

#[test]
fn a_seed_repeats_in_another_process_and_another_differs() {
    let first = repeats("roll-out", 7);
    assert!(first.len() > 10_000, "the log is suspiciously short:\n{first}");
    assert_ne!(first, log("roll-out", 8));
}

#[test]
fn a_hundred_replicas_on_ten_nodes_repeat_under_faults() {
    let first = repeats("at-tenth-of-size", 1);
    for line in ["node-0 reaches nobody", "node-0 is back", "no more faults", "at rest after"] {
        assert!(first.contains(&format!("simulation: {line}")), "nothing in the log says {line:?}");
    }
}

/// Pods with every kind of story end as they say, in the same bytes each time.
#[test]
fn the_stories_of_pods_repeat() {
    let first = repeats("stories", 7);
    for end in [
        "crasher ends as Running ; c x4 CrashLoopBackOff after Error(1)",
        "flapper ends as Running ; c x0 running after nothing ready",
        "greedy ends as Failed ; c x0 OOMKilled(137) after nothing",
        "late ends as Failed DeadlineExceeded; c x0 Completed(0) after nothing",
        "runner ends as Succeeded ; c x0 Completed(0) after nothing",
        "sick ends as Running ; c x3 CrashLoopBackOff after Error(143)",
        "third-time ends as Succeeded ; c x2 Completed(0) after Error(1)",
    ] {
        assert!(first.contains(&format!("simulation: {end}")), "nothing in the log says {end:?}");
    }
    assert_ne!(first, log("stories", 8));
}
