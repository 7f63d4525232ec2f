//! Reads the ConfigMap `orrery-fleet`: machines, templates of nodes that join, and failure models.
//!
//! The keys of its data are `machine.NODE`, `template.NAME` and `failure.NAME`, so that a merge patch changes one of them
//! and leaves the others alone.

use crate::documents::{Member, members};
use crate::machines::failure_model::FailureModel;
use crate::machines::state::MachineState;
use crate::template::NodeTemplate;
use proto::kinds::api::core::v1::ConfigMap;
use serde_json::Value;
use stages::problem::Problem;
use stages::reader::Reader;
use std::collections::BTreeMap;

pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "orrery-fleet";

/// What the ConfigMap says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetMap {
    /// By the name of the node.
    pub machines: BTreeMap<String, MachineState>,
    pub templates: Vec<NodeTemplate>,
    pub failures: Vec<FailureModel>,
}

impl FleetMap {
    /// Reads the ConfigMap. A member with a mistake is left out, and every mistake is returned with its path.
    pub fn read(map: &ConfigMap) -> (Self, Vec<Problem>) {
        let (mut read, mut problems) = (Self::default(), Vec::new());
        for Member { key, path, document } in members(map, |key| format!("data[{key}]"), &mut problems) {
            let found = match key.split_once('.') {
                Some(("machine", node)) => read.add_machine(node, &document, &path),
                Some(("template", name)) => read.add_template(name, document, &path),
                Some(("failure", name)) => read.add_failure(name, document, &path),
                _ => vec![Problem::new(path, "must be machine.NODE, template.NAME or failure.NAME")],
            };
            problems.extend(found);
        }
        (read, problems)
    }

    fn add_machine(&mut self, node: &str, document: &Value, path: &str) -> Vec<Problem> {
        let mut reader = Reader::default();
        if !document.is_null() {
            let state = MachineState::read(&mut reader, document, path);
            if reader.problems.is_empty() {
                self.machines.insert(node.to_owned(), state);
            }
        }
        reader.problems
    }

    /// Adds a template, whose name is that of its key.
    fn add_template(&mut self, name: &str, document: Value, path: &str) -> Vec<Problem> {
        match NodeTemplate::read(&named(document, name)) {
            Ok(template) if template.name == name => self.templates.push(template),
            Ok(_) => return vec![Problem::new(format!("{path}.name"), format!("must be {name}, as in the key"))],
            Err(problems) => {
                return problems
                    .into_iter()
                    .map(|found| Problem::new(below(path, &found.path), found.message))
                    .collect();
            }
        }
        Vec::new()
    }

    fn add_failure(&mut self, name: &str, document: Value, path: &str) -> Vec<Problem> {
        match FailureModel::read(&named(document, name), path) {
            Ok(model) => self.failures.push(model),
            Err(problems) => return problems,
        }
        Vec::new()
    }
}

/// Gives a document the name of its key, unless it has one.
fn named(mut document: Value, name: &str) -> Value {
    if document.is_null() {
        document = Value::Object(serde_json::Map::new());
    }
    if let Some(members) = document.as_object_mut() {
        members.entry("name").or_insert_with(|| name.into());
    }
    document
}

fn below(path: &str, rest: &str) -> String {
    if rest.is_empty() { path.to_owned() } else { format!("{path}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::state::Power;
    use proto::Kind;
    use serde_json::json;

    fn read(data: Value) -> (FleetMap, Vec<String>) {
        let map = ConfigMap::decode_value(json!({"metadata": {"name": NAME}, "data": data})).unwrap();
        let (map, problems) = FleetMap::read(&map);
        (map, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_key_says_what_its_value_is() {
        let (map, problems) = read(json!({
            "machine.node-1": "state: killed",
            "machine.node-2": "",
            "template.gpu": "count: 2\ncapacity: {example.com/gpu: 8}",
            "failure.crashes": "failure: crash\nmtbf: 24h\nmttr: 5m",
        }));
        assert_eq!(problems, Vec::<String>::new());
        let killed = MachineState { power: Power::Off, ..MachineState::default() };
        assert_eq!(map.machines, BTreeMap::from([("node-1".to_owned(), killed)]));
        assert_eq!((map.templates[0].name.as_str(), map.templates[0].name_of(1)), ("gpu", "gpu-1".to_owned()));
        assert_eq!(map.failures[0].name, "crashes");
    }

    #[test]
    fn a_mistake_in_one_member_leaves_the_others() {
        let (map, problems) = read(json!({
            "machine.node-1": "state: dead",
            "machine.node-2": "state: killed",
            "nodes": "3",
            "template.gpu": "count: -1",
            "template.cpu": "name: other",
            "failure.crashes": "{",
        }));
        assert_eq!(map.machines.len(), 1);
        assert!(map.templates.is_empty() && map.failures.is_empty());
        assert_eq!(problems.len(), 5, "{problems:?}");
        for (problem, expected) in problems.iter().zip([
            "data[failure.crashes]: ",
            "data[machine.node-1].state: must be running, shutdown, killed or removed",
            "data[nodes]: must be machine.NODE, template.NAME or failure.NAME",
            "data[template.cpu].name: must be cpu, as in the key",
            "data[template.gpu].count: must be",
        ]) {
            assert!(problem.starts_with(expected), "{problem}: {expected}");
        }
    }
}
