//! What a command changes in the ConfigMap `orrery-fleet`. Pure.

use proto::serializer::yaml;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Words that `heal` takes away.
const FAULTS: [&str; 4] = ["network", "slow", "fillDisk", "clockSkew"];

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Add {
        name: String,
        template: String,
    },
    /// Say one word about each node.
    Word {
        nodes: Vec<String>,
        done: &'static str,
        word: &'static str,
        value: String,
    },
    Restart(Vec<String>),
    Heal(Vec<String>),
}

impl Change {
    pub fn words(nodes: Vec<String>, done: &'static str, word: &'static str, value: &str) -> Self {
        Self::Word { nodes, done, word, value: value.to_owned() }
    }

    /// Returns the nodes that must exist.
    pub fn nodes(&self) -> &[String] {
        match self {
            Self::Add { .. } => &[],
            Self::Word { nodes, .. } | Self::Restart(nodes) | Self::Heal(nodes) => nodes,
        }
    }

    /// Returns what to print once the change is made.
    pub fn lines(&self) -> Vec<String> {
        let line = |nodes: &[String], done: &str| nodes.iter().map(|node| format!("node/{node} {done}")).collect();
        match self {
            Self::Add { name, .. } => vec![format!("{name} added")],
            Self::Word { nodes, done, .. } => line(nodes, done),
            Self::Restart(nodes) => line(nodes, "restarted"),
            Self::Heal(nodes) => line(nodes, "healed"),
        }
    }

    /// Returns the keys to set and to remove. `token` is a text that no restart has used.
    pub fn of(&self, data: &BTreeMap<String, String>, token: &str) -> BTreeMap<String, Option<String>> {
        let edit = |nodes: &[String], edit: &dyn Fn(&mut Map<String, Value>)| {
            let edited = |node: &String| {
                let key = format!("machine.{node}");
                let mut words = words_of(data.get(&key));
                edit(&mut words);
                let text = (!words.is_empty()).then(|| yaml_of(&Value::Object(words)));
                (key, text)
            };
            nodes.iter().map(edited).collect()
        };
        match self {
            Self::Add { name, template } => {
                let machine = format!("machine.{name}");
                if words_of(data.get(&machine)).get("state") == Some(&json!("removed")) {
                    return BTreeMap::from([(machine, None)]);
                }
                BTreeMap::from([(format!("template.{name}"), Some(template.clone()))])
            }
            Self::Word { nodes, word, value, .. } => edit(nodes, &|words| {
                words.insert((*word).to_owned(), json!(value));
            }),
            Self::Restart(nodes) => edit(nodes, &|words| {
                words.remove("state");
                words.insert("restart".to_owned(), json!(token));
            }),
            Self::Heal(nodes) => edit(nodes, &|words| FAULTS.iter().for_each(|word| drop(words.remove(*word)))),
        }
    }
}

/// Returns the words of a machine; none when the text is no document with words.
fn words_of(text: Option<&String>) -> Map<String, Value> {
    let parsed = text.and_then(|text| yaml::parse(text.as_bytes()).ok());
    match parsed.map(|parsed| parsed.value) {
        Some(Value::Object(words)) => words,
        _ => Map::new(),
    }
}

pub fn yaml_of(value: &Value) -> String {
    yaml::to_yaml(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn nodes(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_command_changes_one_word_and_leaves_the_others() {
        let before = data(&[("machine.a", "network: partitioned\n"), ("machine.c", "state: killed")]);
        let kill = Change::words(nodes(&["a", "b"]), "killed", "state", "killed");
        let expected = [
            ("machine.a".to_owned(), Some("network: partitioned\nstate: killed\n".to_owned())),
            ("machine.b".to_owned(), Some("state: killed\n".to_owned())),
        ];
        assert_eq!(kill.of(&before, ""), BTreeMap::from(expected));
        assert_eq!(kill.lines(), ["node/a killed", "node/b killed"]);
    }

    #[test]
    fn a_restart_starts_what_was_killed() {
        let before = data(&[("machine.a", "state: killed\nslow: 2x\n")]);
        let restarted = Change::Restart(nodes(&["a"])).of(&before, "t1");
        assert_eq!(restarted, BTreeMap::from([("machine.a".to_owned(), Some("restart: t1\nslow: 2x\n".to_owned()))]));
    }

    #[test]
    fn healing_ends_faults_and_leaves_the_power_as_it_is() {
        let before = data(&[("machine.a", "state: killed\nslow: 2x\n"), ("machine.b", "fillDisk: 95%\n")]);
        let expected = [("machine.a".to_owned(), Some("state: killed\n".to_owned())), ("machine.b".to_owned(), None)];
        assert_eq!(Change::Heal(nodes(&["a", "b"])).of(&before, ""), BTreeMap::from(expected));
    }

    #[test]
    fn a_removed_node_comes_back_and_a_template_is_added() {
        let add = Change::Add { name: "a".to_owned(), template: "count: 2\n".to_owned() };
        let removed = data(&[("machine.a", "state: removed\n")]);
        assert_eq!(add.of(&removed, ""), BTreeMap::from([("machine.a".to_owned(), None)]));
        let expected = BTreeMap::from([("template.a".to_owned(), Some("count: 2\n".to_owned()))]);
        assert_eq!(add.of(&data(&[]), ""), expected);
    }
}
