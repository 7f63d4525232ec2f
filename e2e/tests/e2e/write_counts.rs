//! Counts the writes of everybody while Deployments grow, in the log of a simulated cluster.

use super::determinism::log;
use std::collections::{BTreeMap, BTreeSet};

/// Pods of each of the two parts of the scenario.
const PODS: usize = 200;

/// A successful write, as a line of the log says it.
struct Write<'a> {
    user: &'a str,
    verb: &'a str,
    /// Without the name of the object.
    what: String,
    revision: &'a str,
}

/// Reads `time user verb path code revision hash`; the user may have spaces. Returns `None` for other lines and for requests
/// that were refused.
fn write(line: &str) -> Option<Write<'_>> {
    let (before, after) = line.split_once(" /")?;
    let (before, verb) = before.rsplit_once(' ')?;
    let (_, user) = before.split_once(' ')?;
    let mut words = after.split(' ');
    let (path, code, revision) = (words.next()?, words.next()?, words.next()?);
    let is_write = ["create", "update", "patch", "delete", "deletecollection"].contains(&verb);
    let (_, in_namespace) = path.split_once("namespaces/").unwrap_or(("", path));
    let parts: Vec<&str> = in_namespace.split('/').collect();
    let what = [parts.get(1), parts.get(3)].into_iter().flatten().copied().collect::<Vec<_>>().join("/");
    (is_write && code.starts_with('2')).then_some(Write { user, verb, what, revision })
}

/// Returns the lines between two lines of the simulation.
fn between<'a>(log: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let from = log.lines().skip_while(|line| !line.contains(begin));
    let part: Vec<&str> = from.take_while(|line| !line.contains(end)).collect();
    assert!(part.len() > PODS, "nothing between {begin:?} and {end:?}");
    part
}

/// Counts the writes by user, verb and resource.
fn count<'a>(writes: impl Iterator<Item = &'a Write<'a>>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for write in writes {
        *counts.entry(format!("{} {} {}", write.user, write.verb, write.what)).or_default() += 1;
    }
    counts
}

/// A pod of a Deployment is created and bound, and there is at most one more write for it: the statuses of its replica set
/// and of the Deployment are written for many pods at a time. Events are as Kubernetes' are: one for each pod by the
/// scheduler, and at most one by the replica set's controller.
#[test]
fn a_pod_of_a_deployment_takes_three_writes_and_none_changes_nothing() {
    let log = log("growth", 1);
    for (begin, end) in
        [("one deployment of", "deployments of 10 begin"), ("deployments of 10 begin", "all have grown")]
    {
        let lines = between(&log, begin, end);
        let writes: Vec<Write<'_>> = lines.iter().filter_map(|line| write(line)).collect();
        let of_others = |write: &&Write<'_>| {
            let is_lease = write.what.starts_with("leases");
            !write.user.contains("system:node:") && write.user != "kubernetes-admin" && !is_lease
        };
        let is_event = |write: &&Write<'_>| write.what.starts_with("events");
        let counts = count(writes.iter().filter(of_others).filter(|write| !is_event(write)));
        let (total, events) =
            (counts.values().sum::<usize>(), writes.iter().filter(of_others).filter(is_event).count());
        println!("{begin}: {total} writes, {events} events; {counts:#?}");
        assert!(total >= 2 * PODS, "pods are created and bound: {counts:#?}");
        assert!(total <= 3 * PODS, "{total} writes for {PODS} pods: {counts:#?}");
        assert!(events <= 2 * PODS + PODS / 5, "{events} events for {PODS} pods");
    }
    let mut seen = BTreeSet::new();
    for line in log.lines() {
        // A deletion may answer with an object that another write has marked.
        let changes = write(line).filter(|write| write.revision != "-" && !write.verb.starts_with("delete"));
        if let Some(write) = changes {
            assert!(seen.insert(write.revision.to_owned()), "a write that changes nothing: {line}");
        }
    }
    assert!(seen.len() > 4 * PODS, "only {} writes were compared", seen.len());
}
