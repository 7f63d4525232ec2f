//! Runs simulated clusters with seeded faults, at rest, and with a stale cache. Each run has its own process.

use super::determinism::{log, log_of, logs};

/// Seeds that every test run checks; `cargo xtask soak` checks more. The first loses a node. The last one loses none, so that
/// the available pods of its rollouts can be checked.
const SEEDS: [u64; 2] = [4, 3];
const DAEMON_SEED: u64 = 1;

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
fn daemons_run_once_on_a_node_under_faults() {
    let log = log("daemon-sets", DAEMON_SEED);
    let is_creation = |line: &&str| line.contains(":daemon-set-controller create /api/v1/namespaces/default/pods ");
    assert!(log.lines().filter(is_creation).count() > 10, "hardly a pod was created");
    assert!(log.contains("simulation: at rest after"), "{log}");
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

/// The pods of StatefulSets come in order, and never two with one name, whatever fails.
#[test]
fn pods_of_stateful_sets_keep_their_order_under_faults() {
    for log in logs("stateful-sets", &[1, 4]) {
        let requests = |verb: &str, resource: &str| {
            let caller = "system:serviceaccount:kube-system:statefulset-controller";
            let line = format!(" {caller} {verb} ");
            log.lines().filter(|one| one.contains(&line) && one.contains(resource) && one.contains(" 201 ")).count()
        };
        assert!(requests("create", "/pods ") > 10, "few pods were created");
        assert!(requests("create", "/controllerrevisions ") > 3, "few revisions were recorded");
    }
}

/// Scenarios of one kind of object each, with a seed, and lines that the log must have.
const KINDS: [(&str, u64, &[&str]); 7] = [
    ("limits", 1, &["simulation: the user may not evict: ", "exceeded quota: quota", "/eviction 201"]),
    ("devices", 2, &["device-taint-eviction-controller delete", "resource-claim-controller update"]),
    ("cloud", 2, &["simulation: the machine node-", "service-controller patch", "fault_rate: 0.2"]),
    ("scaled-and-attached", 1, &["horizontal-pod-autoscaler update", "attachdetach-controller create"]),
    ("service-cidrs", 1, &["service-cidrs-controller patch", "failed to allocate"]),
    (
        "gangs",
        1,
        &["kubernetes-admin create /apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups 201", "/binding 201"],
    ),
    ("clocks", 4, &["simulation: the clock of controller-manager is wrong", "cronjob-controller create"]),
];

/// Quotas, budgets, devices, load balancers, autoscalers, ranges of Services and what depends on clocks: whatever fails, no invariant is violated, and
/// everything converges.
#[test]
fn every_kind_converges_under_faults() {
    for (scenario, seed, lines) in KINDS {
        let log = log(scenario, seed);
        for line in lines.iter().chain(&["simulation: no more faults", "simulation: at rest after"]) {
            assert!(log.contains(line), "nothing in the log of {scenario} says {line:?}");
        }
    }
}

/// Writes of the fleet after which it is killed; `cargo xtask soak --scenario killed-fleet --seeds 210` checks them all.
const WRITES: [u64; 2] = [40, 120];

/// A fleet that is killed after a write finds its pods as they are, and every pod ends as it does without a kill.
#[test]
fn a_killed_fleet_changes_the_end_of_no_pod() {
    for log in logs("killed-fleet", &WRITES) {
        assert!(log.contains("simulation: kubelet-sim is killed"), "the fleet did not write so often");
    }
}

/// Pods with stories end as they say under every fault. A fleet that is killed before it could write a status, as under this
/// seed, records no event twice.
#[test]
fn pods_with_stories_end_as_they_say_under_faults() {
    let log = log("stories-under-faults", 24);
    for line in ["storm", "kubelet-sim is killed", "no more faults"] {
        let is_logged = log.lines().any(|one| one.contains("simulation:") && one.contains(line));
        assert!(is_logged, "nothing in the log says {line:?}");
    }
}

/// Nodes that cannot reach the API server for ten minutes go on, and report everything afterwards.
#[test]
fn only_pods_whose_toleration_ends_notice_that_nodes_are_cut_off() {
    for (scenario, lines) in [
        ("cut-off", ["the node is Ready=Unknown; [] leave", "plain ends as Running"]),
        ("lost-node", ["the node is Ready=Unknown; [hasty] leave", "the node is Ready=Unknown; [hasty plain] leave"]),
    ] {
        let log = log(scenario, 1);
        for line in lines.into_iter().chain(["in the end the node is Ready=True", "crasher ends as Running ; c x6"]) {
            assert!(log.contains(&format!("simulation: {line}")), "nothing in the log of {scenario} says {line:?}");
        }
    }
}

/// Edits end in the same state whatever their order, and write nothing when they are made again.
#[test]
fn any_order_of_edits_ends_in_the_same_state() {
    let log = log("any-order", 1);
    for path in ["apps/v1/namespaces/default/daemonsets", "networking.k8s.io/v1/servicecidrs"] {
        assert!(log.contains(&format!(" patch /apis/{path}/copy2 ")), "{log}");
    }
}

/// Controllers that can do nothing say why, in the words of the tables in `error_states/`, and ask no more often than those
/// allow. Once the causes are gone, everything converges.
#[test]
fn error_states_are_told_and_cause_no_hot_loop() {
    let log = log("error-states", 1);
    let counted = log.lines().filter(|line| line.contains(" requests in its busiest minute; ")).count();
    assert!(counted >= 30, "only {counted} states were counted");
}

/// Crash points of short stories; `cargo xtask soak --every-write --scenario job` tries all of one story.
const CRASH_POINTS: [(&str, &str); 5] = [
    ("deployment", "after-7"),
    ("job", "before-9"),
    ("claim", "after-12"),
    ("autoscaler", "after-9"),
    ("gang", "after-24"),
];

/// A component that is killed right before or right after a write leaves nothing half done.
#[test]
fn a_kill_at_a_write_leaves_nothing_half_done() {
    for (story, point) in CRASH_POINTS {
        let log = log_of(&[story, "1", point]);
        assert!(log.contains(&format!(" is killed {point}: ")), "{story} has no crash point {point}");
    }
}
