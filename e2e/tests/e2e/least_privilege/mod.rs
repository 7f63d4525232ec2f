//! Nobody has more rights than he needs, and everybody has those that he needs: bindings are taken away one by one, and
//! what breaks is what they are for.

mod bindings;
mod features;
mod lap;
mod ledger;
mod processes;
mod workload;

use apiserver::bootstrap::roles;
use bindings::{IDLE, NEEDED, Needed, Refused};
use e2e::invitation;
use lap::Outcome;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const NOTHING: BTreeSet<&str> = BTreeSet::new();

/// By binding (`name`, or `namespace/name`): its subjects, `User system:kube-scheduler`.
fn subjects() -> BTreeMap<String, BTreeSet<String>> {
    let own = roles::objects().into_iter().filter(|own| own.resource.ends_with("bindings")).map(|own| own.object);
    let invited = invitation::objects().into_iter().filter(|object| object["kind"] == "ClusterRoleBinding");
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    own.chain(invited)
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

/// What is not as the table has it, in lines.
fn complaints(needed: &Needed, outcome: &Outcome, subjects: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    let expected: BTreeSet<&str> = needed.breaks.iter().copied().collect();
    let more: Vec<_> = outcome.broken.difference(&expected).collect();
    let less: Vec<_> = expected.difference(&outcome.broken).collect();
    if !more.is_empty() || !less.is_empty() {
        complaints.push(format!("breaks {more:?} as well, and not {less:?}"));
    }
    for (caller, refused) in &outcome.ledger.refused {
        let groups = outcome.ledger.callers.get(caller).into_iter().flatten().map(|group| format!("Group {group}"));
        let mut names = groups.chain([format!("User {caller}")]);
        if !names.any(|name| subjects.contains(&name)) {
            complaints.push(format!("{caller} is refused, too: {refused:?}"));
        }
    }
    let is_refused = !outcome.ledger.refused.is_empty();
    if is_refused != matches!(needed.is_refused, Refused::Subjects) {
        complaints.push(format!("somebody is refused: {is_refused}"));
    }
    complaints
}

#[test]
fn nobody_is_refused_and_every_binding_has_its_use() {
    let Outcome { ledger, broken } = lap::without(&[]);
    assert_eq!(broken, NOTHING);
    assert_eq!(ledger.refused, BTreeMap::new());
    let asked_for = NEEDED.iter().filter(|needed| matches!(needed.is_refused, Refused::Subjects));
    let expected: BTreeSet<String> = asked_for.map(|needed| needed.binding.to_owned()).collect();
    assert_eq!(ledger.bindings, expected);
    let listed = NEEDED.iter().map(|needed| needed.binding).chain(IDLE.iter().map(|(binding, _)| *binding));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(listed, subjects().into_keys().collect());
    assert_eq!(listed.len(), NEEDED.len() + IDLE.len());
}

/// Of all roles, that of the fleet is the one that Kubernetes does not have.
#[test]
fn the_fleet_may_do_what_it_does_and_nothing_else() {
    const FLEET: &str = "system:orrery:node-fleet";
    const ON_BEHALF: &str = "impersonate-on:arbitrary-node:";
    let Outcome { ledger, .. } = lap::without(&[]);
    let is_its_role =
        |own: &roles::Bootstrap| own.resource == "clusterroles" && own.object["metadata"]["name"] == FLEET;
    let role = roles::objects().into_iter().find(is_its_role).unwrap().object;
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
    // A server that cannot begin a watch with what there is would be asked for a list first.
    may.retain(|right| !right.starts_with("list ") && !right.starts_with("impersonate:"));
    assert_eq!(ledger.asked[FLEET], may);
    let verbs =
        ledger.asked["system:node:node-0"].iter().filter_map(|asked| asked.split(' ').next()).map(str::to_owned);
    assert_eq!(verbs.collect::<BTreeSet<_>>(), may_as_node);
}

#[test]
fn nobody_misses_what_nobody_needs() {
    let idle: Vec<&str> = IDLE.iter().map(|(binding, _)| *binding).collect();
    let Outcome { ledger, broken } = lap::without(&idle);
    assert_eq!(broken, NOTHING);
    assert_eq!(ledger.refused, BTreeMap::new());
}

fn each_is_missed_for_what_it_is_for(rows: &[Needed]) {
    let subjects = subjects();
    let mut wrong = String::new();
    for needed in rows {
        let outcome = lap::without(&[needed.binding]);
        for complaint in complaints(needed, &outcome, &subjects[needed.binding]) {
            wrong += &format!("\n{}: {complaint}", needed.binding);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

// In two parts, which run at the same time.

#[test]
fn without_a_binding_what_it_is_for_breaks_and_nothing_else() {
    each_is_missed_for_what_it_is_for(&NEEDED[..NEEDED.len() / 2]);
}

#[test]
fn without_another_binding_what_it_is_for_breaks_and_nothing_else() {
    each_is_missed_for_what_it_is_for(&NEEDED[NEEDED.len() / 2..]);
}
