//! Runs simulated clusters with seeded faults, at rest, and with a stale cache. Each run has its own process.

use super::determinism::log;

/// Seeds that every test run checks; `cargo xtask soak` checks more. The last one loses no node, so that the available
/// pods of its rollouts can be checked.
const SEEDS: [u64; 2] = [1, 3];

#[test]
fn faults_violate_no_invariant_and_the_cluster_converges() {
    for seed in SEEDS {
        let log = log("survive", seed);
        for line in ["storm", "is killed", "starts again", "no more faults", "at rest after"] {
            let is_logged = log.lines().any(|one| one.contains("simulation:") && one.contains(line));
            assert!(is_logged, "seed {seed}: nothing in the log says {line:?}");
        }
    }
}

#[test]
fn a_quiet_hour_has_only_leases_and_heartbeats() {
    let log = log("quiet-hour", 1);
    let number_before = |mark: &str| {
        let line = log.lines().rev().find(|line| line.contains(mark)).unwrap_or_default();
        let words = line.split_once(mark).and_then(|(before, _)| before.rsplit(' ').next());
        words.and_then(|word| word.parse::<u32>().ok()).unwrap_or_else(|| panic!("no number before {mark:?}: {line}"))
    };
    // The hour, and a rollout of some minutes before it.
    let virtual_s = number_before(" s of virtual time");
    assert!((3630..3900).contains(&virtual_s), "{virtual_s} s");
    // Three nodes renew their leases every 10 s and report every 5 minutes. Two leaders renew theirs every 2 s. Watches
    // are opened again when they time out.
    let requests = number_before(" requests in 3600s of quiet");
    assert!((4500..6500).contains(&requests), "{requests} requests");
}

/// Runs the seed that docs/deviations.md names. A controller that trusted its cache would create 6 pods here, where 5
/// are the most.
#[test]
fn a_rollout_keeps_its_surge_while_a_cache_lags() {
    let log = log("stale-rollout", 1);
    assert!(log.contains("the controllers see nothing new of /registry/replicasets/"), "{log}");
}
