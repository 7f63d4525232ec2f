//! Plans what the ConfigMap of the fleet has to say, so that the fleet's machines are those of the cloud.
//!
//! ```text
//! machine of the cloud      its Node    data of the ConfigMap
//! runs, since the start     any         machine.NODE does not say shutdown or removed
//! runs, was added later     any         the same, and template.NODE asks for the node
//! is stopped                any         machine.NODE: {state: shutdown}
//! is gone                   is there    machine.NODE: {state: shutdown}: its kubelet ends, and its Node is deleted
//! is gone                   is gone     machine.NODE: {state: removed}, or no template.NODE
//! ```
//!
//! Words that say something else about a machine (`state: killed`, `slow: 2x`) are the user's, and stay.

use proto::serializer::yaml;
use serde_json::{Map, Value, json};
use simulated_cloud::model::{Machine, Origin, Power};
use std::collections::{BTreeMap, BTreeSet};

pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "orrery-fleet";

/// Description of the templates that this controller writes.
const DESCRIPTION: &str = "a machine of the cloud";
const STATE: &str = "state";
const SHUTDOWN: &str = "shutdown";
const REMOVED: &str = "removed";

#[derive(Debug)]
pub struct Observed {
    pub machines: Vec<Machine>,
    /// The data of the ConfigMap.
    pub data: BTreeMap<String, String>,
    /// The names of the machines that nodes have.
    pub nodes: BTreeSet<String>,
}

/// Returns the keys to set and to remove.
pub fn changes(observed: &Observed) -> BTreeMap<String, Option<String>> {
    let mut changes = Changes { data: &observed.data, changed: BTreeMap::new() };
    for machine in &observed.machines {
        let state = (machine.power == Power::Stopped).then_some(SHUTDOWN);
        changes.set_state(&machine.name, state);
        if machine.origin == Origin::Scaled {
            changes.set_template(machine);
        }
    }
    let present: BTreeSet<&str> = observed.machines.iter().map(|machine| machine.name.as_str()).collect();
    let of_data = observed.data.keys().filter_map(|key| key.split_once('.').map(|(_, name)| name));
    let known: BTreeSet<&str> = of_data.chain(observed.nodes.iter().map(String::as_str)).collect();
    for name in known.into_iter().filter(|name| !present.contains(name)) {
        changes.let_go(name, observed.nodes.contains(name));
    }
    changes.changed
}

struct Changes<'a> {
    data: &'a BTreeMap<String, String>,
    changed: BTreeMap<String, Option<String>>,
}

impl Changes<'_> {
    /// Lets the words about a machine have this state of power, or neither of those that follow the cloud.
    fn set_state(&mut self, name: &str, state: Option<&str>) {
        let key = format!("machine.{name}");
        let mut words = words_of(self.data.get(&key));
        let present = words.get(STATE).and_then(Value::as_str);
        match state {
            Some(state) if present == Some(state) => return,
            Some(state) => drop(words.insert(STATE.to_owned(), json!(state))),
            None if matches!(present, Some(SHUTDOWN | REMOVED)) => drop(words.remove(STATE)),
            None => return,
        }
        let text = (!words.is_empty()).then(|| yaml::to_yaml(&Value::Object(words)));
        self.changed.insert(key, text);
    }

    fn set_template(&mut self, machine: &Machine) {
        let mut template = json!({
            "description": DESCRIPTION, "count": 1, "nodeName": machine.name, "instanceTypes": [machine.instance_type],
        });
        if !machine.zone.is_empty() {
            template["zones"] = json!([machine.zone]);
            template["region"] = json!(machine.region);
        }
        let (key, text) = (format!("template.{}", machine.name), yaml::to_yaml(&template));
        if self.data.get(&key) != Some(&text) {
            self.changed.insert(key, Some(text));
        }
    }

    /// Lets a machine go that the cloud does not have.
    fn let_go(&mut self, name: &str, has_node: bool) {
        let template = format!("template.{name}");
        let of_cloud = words_of(self.data.get(&template)).get("description") == Some(&json!(DESCRIPTION));
        let state = words_of(self.data.get(&format!("machine.{name}"))).get(STATE).cloned();
        if has_node {
            // The Node of a machine that is removed would be deleted by its fleet, and not by the cloud's controller.
            if state != Some(json!(REMOVED)) {
                self.set_state(name, Some(SHUTDOWN));
            }
        } else if of_cloud {
            self.changed.insert(template, None);
            self.set_state(name, None);
        } else if state == Some(json!(SHUTDOWN)) {
            self.set_state(name, Some(REMOVED));
        }
    }
}

/// Returns the words of a value; none if it is no document with words.
fn words_of(text: Option<&String>) -> Map<String, Value> {
    let parsed = text.and_then(|text| yaml::parse(text.as_bytes()).ok());
    match parsed.map(|parsed| parsed.value) {
        Some(Value::Object(words)) => words,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, origin: Origin, power: Power) -> Machine {
        Machine { name: name.into(), ..crate::fixture::machine(origin, power) }
    }

    const NOTHING: [(String, Option<String>); 0] = [];

    /// Returns the changes, and checks that they leave nothing to change.
    fn changed(machines: &[Machine], data: &[(&str, &str)], nodes: &[&str]) -> Vec<(String, Option<String>)> {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        let mut observed = Observed { machines: machines.to_vec(), data, nodes };
        let changed = changes(&observed);
        for (key, value) in &changed {
            match value {
                Some(text) => drop(observed.data.insert(key.clone(), text.clone())),
                None => drop(observed.data.remove(key)),
            }
        }
        assert_eq!(changes(&observed), BTreeMap::new());
        changed.into_iter().collect()
    }

    fn set(key: &str, value: &str) -> (String, Option<String>) {
        (key.to_owned(), Some(value.to_owned()))
    }

    fn removed(key: &str) -> (String, Option<String>) {
        (key.to_owned(), None)
    }

    #[test]
    fn a_machine_that_runs_has_a_kubelet() {
        let (first, later) =
            (machine("node-0", Origin::Start, Power::Running), machine("node-3", Origin::Scaled, Power::Running));
        assert_eq!(
            changed(std::slice::from_ref(&first), &[("machine.node-0", "slow: 2x\nstate: killed\n")], &["node-0"]),
            NOTHING
        );
        let back = changed(&[first], &[("machine.node-0", "slow: 2x\nstate: removed\n")], &[]);
        assert_eq!(back, [set("machine.node-0", "slow: 2x\n")]);
        let joined = changed(&[later], &[], &[]);
        assert_eq!(joined[0].0, "template.node-3");
        let template = words_of(joined[0].1.as_ref());
        assert_eq!(template["nodeName"], "node-3");
        assert_eq!((&template["zones"], &template["region"]), (&json!(["orrery-b"]), &json!("orrery")));
    }

    #[test]
    fn a_machine_that_is_stopped_or_gone_shuts_down() {
        let stopped = machine("node-0", Origin::Start, Power::Stopped);
        assert_eq!(changed(&[stopped], &[], &["node-0"]), [set("machine.node-0", "state: shutdown\n")]);
        assert_eq!(changed(&[], &[], &["node-0"]), [set("machine.node-0", "state: shutdown\n")]);
    }

    #[test]
    fn a_machine_without_a_node_leaves_for_good() {
        let gone = changed(&[], &[("machine.node-0", "state: shutdown\n")], &[]);
        assert_eq!(gone, [set("machine.node-0", "state: removed\n")]);
        let template = ("template.node-3", "description: a machine of the cloud\n");
        let gone = changed(&[], &[("machine.node-3", "state: shutdown\n"), template], &[]);
        assert_eq!(gone, [removed("machine.node-3"), removed("template.node-3")]);
        // What users have written about machines that are not the cloud's stays.
        assert_eq!(changed(&[], &[("template.gpu", "count: 2\n"), ("machine.x", "slow: 2x\n")], &[]), NOTHING);
    }
}
