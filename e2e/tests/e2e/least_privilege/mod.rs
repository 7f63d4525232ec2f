//! Tests that every component has exactly the permissions that it needs: if a binding is removed, exactly its features
//! break. Bindings without common features are removed together.

mod audit_summary;
mod bindings;
mod cluster_run;
mod features;
mod processes;
mod workload;

use apiserver::bootstrap::roles;
use bindings::{NEEDED, Needed, Refused, UNUSED};
use cluster_run::Outcome;
use e2e::bootstrap_token;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use strategy::gates::Gates;

const NOTHING: BTreeSet<&str> = BTreeSet::new();

/// Returns the subjects of each binding (`name`, or `namespace/name`), such as `User system:kube-scheduler`.
fn subjects() -> BTreeMap<String, BTreeSet<String>> {
    let own = roles::objects(&Gates::default())
        .into_iter()
        .filter(|own| own.resource.ends_with("bindings"))
        .map(|own| own.object);
    let of_joining_nodes =
        bootstrap_token::objects().into_iter().filter(|object| object["kind"] == "ClusterRoleBinding");
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    own.chain(of_joining_nodes)
        .map(|binding| {
            let (namespace, name) = (text(&binding["metadata"], "namespace"), text(&binding["metadata"], "name"));
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            let subject = |subject: &Value| match text(subject, "kind").as_str() {
                "ServiceAccount" => format!("User system:serviceaccount:kube-system:{}", text(subject, "name")),
                kind => format!("{kind} {}", text(subject, "name")),
            };
            let key = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
            (key, subjects.map(subject).collect())
        })
        .collect()
}

/// Bindings that are removed together in one run, since they share no feature.
type Group<'a> = Vec<&'a Needed>;

/// Divides the table into few groups. Each binding goes to the first group with which it shares no feature.
fn groups(rows: &[Needed]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let is_apart = |other: &&Needed| other.breaks.iter().all(|feature| !row.breaks.contains(feature));
        match groups.iter_mut().find(|group| group.iter().all(is_apart)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Compares a run without these bindings with the table. Returns a line for each difference.
fn differences(group: &[&Needed], outcome: &Outcome, subjects: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut differences = Vec::new();
    let expected: BTreeSet<&str> = group.iter().flat_map(|needed| needed.breaks).copied().collect();
    let more: Vec<_> = outcome.broken.difference(&expected).collect();
    let less: Vec<_> = expected.difference(&outcome.broken).collect();
    if !more.is_empty() || !less.is_empty() {
        differences.push(format!("breaks {more:?} as well, and not {less:?}"));
    }
    let names = |caller: &String| {
        let groups = outcome.audit.callers.get(caller).into_iter().flatten().map(|group| format!("Group {group}"));
        groups.chain([format!("User {caller}")]).collect::<BTreeSet<String>>()
    };
    let refused: Vec<_> = outcome.audit.refused.iter().map(|(caller, requests)| (names(caller), requests)).collect();
    for (names, requests) in &refused {
        if !group.iter().any(|needed| !subjects[needed.binding].is_disjoint(names)) {
            differences.push(format!("{names:?} is refused, too: {requests:?}"));
        }
    }
    for needed in group {
        let is_refused = refused.iter().any(|(names, _)| !subjects[needed.binding].is_disjoint(names));
        if is_refused != matches!(needed.is_refused, Refused::Subjects) {
            differences.push(format!("a subject of {} is refused: {is_refused}", needed.binding));
        }
    }
    differences
}

/// Returns the outcome of the run with every binding, which two tests use.
fn with_everything() -> &'static Outcome {
    static OUTCOME: OnceLock<Outcome> = OnceLock::new();
    OUTCOME.get_or_init(|| cluster_run::without(&[]))
}

#[test]
fn no_request_is_refused_and_every_needed_binding_is_used() {
    let Outcome { audit, broken } = with_everything();
    assert_eq!(*broken, NOTHING);
    assert_eq!(audit.refused, BTreeMap::new());
    let refused_without = NEEDED.iter().filter(|needed| matches!(needed.is_refused, Refused::Subjects));
    let expected: BTreeSet<String> = refused_without.map(|needed| needed.binding.to_owned()).collect();
    assert_eq!(audit.bindings, expected);
    let listed = NEEDED.iter().map(|needed| needed.binding).chain(UNUSED.iter().map(|(binding, _)| *binding));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(listed, subjects().into_keys().collect());
    assert_eq!(listed.len(), NEEDED.len() + UNUSED.len());
}

/// Compares the fleet's role with the fleet's requests. Kubernetes has no such role, so no list of Kubernetes' covers
/// it.
#[test]
fn the_fleets_role_allows_exactly_its_requests() {
    const FLEET: &str = "system:orrery:node-fleet";
    const ON_BEHALF: &str = "impersonate-on:arbitrary-node:";
    let Outcome { audit, .. } = with_everything();
    let is_its_role =
        |own: &roles::RoleObject| own.resource == "clusterroles" && own.object["metadata"]["name"] == FLEET;
    let role = roles::objects(&Gates::default()).into_iter().find(is_its_role).unwrap().object;
    let texts = |rule: &Value, key: &str| -> Vec<String> {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (mut may, mut may_as_node) = (BTreeSet::new(), BTreeSet::new());
    for rule in role["rules"].as_array().unwrap() {
        for verb in texts(rule, "verbs") {
            if let Some(verb) = verb.strip_prefix(ON_BEHALF) {
                may_as_node.insert(verb.to_owned());
                continue;
            }
            for group in texts(rule, "apiGroups") {
                let group = if group.is_empty() { "core" } else { &group };
                may.extend(texts(rule, "resources").iter().map(|resource| format!("{verb} {group} {resource}")));
            }
        }
    }
    // The right to list what is watched is needed only with servers that cannot begin a watch with the initial objects.
    let watched: BTreeSet<String> =
        may.iter().filter_map(|right| right.strip_prefix("watch ").map(str::to_owned)).collect();
    let is_for_watch = |right: &str| right.strip_prefix("list ").is_some_and(|of| watched.contains(of));
    may.retain(|right| !is_for_watch(right) && !right.starts_with("impersonate:"));
    assert_eq!(audit.requested[FLEET], may);
    let verbs =
        audit.requested["system:node:node-0"].iter().filter_map(|request| request.split(' ').next()).map(str::to_owned);
    assert_eq!(verbs.collect::<BTreeSet<_>>(), may_as_node);
}

#[test]
fn nothing_breaks_without_the_unused_bindings() {
    let unused: Vec<&str> = UNUSED.iter().map(|(binding, _)| *binding).collect();
    let Outcome { audit, broken } = cluster_run::without(&unused);
    assert_eq!(broken, NOTHING);
    assert_eq!(audit.refused, BTreeMap::new());
}

/// Runs a cluster without each group. If the result differs from the table, repeats it for each binding of the group
/// alone, to name the wrong one.
fn check_groups(groups: &[Group<'_>]) {
    let subjects = subjects();
    let differences = |group: &[&Needed]| {
        let bindings: Vec<&str> = group.iter().map(|needed| needed.binding).collect();
        let lines = differences(group, &cluster_run::without(&bindings), &subjects);
        lines.iter().map(|line| format!("\n{}: {line}", bindings.join(" and "))).collect::<Vec<String>>()
    };
    let mut wrong = Vec::new();
    for group in groups {
        let of_group = differences(group);
        if !of_group.is_empty() {
            wrong.extend(of_group);
            wrong.extend(group.iter().flat_map(|needed| differences(&[*needed])));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

// The groups are divided into two tests, which run at the same time.

#[test]
fn without_a_binding_exactly_its_features_break_first_half() {
    let groups = groups(NEEDED);
    check_groups(&groups[..groups.len() / 2]);
}

#[test]
fn without_a_binding_exactly_its_features_break_second_half() {
    let groups = groups(NEEDED);
    check_groups(&groups[groups.len() / 2..]);
}

#[test]
fn every_binding_is_in_one_group_without_common_features() {
    let groups = groups(NEEDED);
    let mut listed: Vec<&str> = groups.iter().flatten().map(|needed| needed.binding).collect();
    assert_eq!(listed.len(), NEEDED.len());
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed.len(), NEEDED.len());
    for group in &groups {
        let features: Vec<&str> = group.iter().flat_map(|needed| needed.breaks).copied().collect();
        assert_eq!(features.iter().collect::<BTreeSet<_>>().len(), features.len(), "{features:?}");
    }
}
