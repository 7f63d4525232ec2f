//! Tests that a simulation depends only on its seed: another process writes the same log, and another seed another log.

use std::process::{Child, Command, Stdio};

/// Starts a run in its own process.
fn start(scenario: &str, seed: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orrery-under-simulation"))
        .args([scenario, &seed.to_string()])
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
fn a_thousand_replicas_on_a_hundred_nodes_repeat_under_faults() {
    let first = repeats("at-size", 1);
    for line in ["node-63 reaches nobody", "node-63 is back", "no more faults", "at rest after"] {
        assert!(first.contains(&format!("simulation: {line}")), "nothing in the log says {line:?}");
    }
}
