//! A run is its seed: the same bytes in another operating-system process, other bytes under another seed.

use std::process::{Child, Command, Stdio};

/// A run in a process of its own.
fn start(scenario: &str, seed: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_orrery-under-simulation"))
        .args([scenario, &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Its log. A broken promise fails it with the timeline of the objects concerned.
fn finish(run: Child) -> String {
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn log(scenario: &str, seed: u64) -> String {
    finish(start(scenario, seed))
}

/// Two runs at the same time, so that neither can lean on what the machine does.
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
