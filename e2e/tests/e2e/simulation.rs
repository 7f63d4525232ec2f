//! The whole cluster under seeded faults, at size, and at rest. Each run is a process of its own.

use super::determinism::log;

/// Seeds that run with every test; `cargo xtask soak` runs more. The last one loses no node, so that its rollouts are
/// held to what they promise about serving pods.
const SEEDS: [u64; 2] = [1, 3];

#[test]
fn faults_break_no_promise_and_end_in_rest() {
    for seed in SEEDS {
        let log = log("survive", seed);
        for line in ["storm", "is killed", "starts again", "no more faults", "at rest after"] {
            let told = log.lines().any(|one| one.contains("simulation:") && one.contains(line));
            assert!(told, "seed {seed}: nothing in the log says {line:?}");
        }
    }
}

#[test]
fn an_hour_of_quiet_is_leases_and_heartbeats() {
    let log = log("quiet-hour", 1);
    let last = log.lines().last().unwrap_or_default();
    // Three nodes renew every 10 s and report every 5 minutes, two leaders renew every 2 s, watches begin anew.
    let requests = last.split("; ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(requests.is_some_and(|requests| (4500..6500).contains(&requests)), "{last}");
}
