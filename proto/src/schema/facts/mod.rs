//! What the schemas of the client library leave unsaid about Kubernetes' own types: how lists and maps merge, allowed
//! values, static defaults, and which fields Go always writes.
//!
//! Corresponds to the marker comments and struct tags of k8s.io/api. The tables are text, one type after another:
//!
//! ```text
//! package io.k8s.api.core.v1
//! RoleRef: atomic-map                      words about the type itself
//!   ports: map(port,protocol) merge(port)  words about fields
//!   drivers topologyKeys: always
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | `atomic`, `set`, `map(keys)` | x-kubernetes-list-type, with the list-map-keys |
//! | `atomic-map`, `granular-map` | x-kubernetes-map-type |
//! | `merge`, `merge(key)`, `retainKeys`, `replace` | patch strategy of strategic merge, with the merge key |
//! | `enum(a,b)` | the allowed values; `@signals` stands for the names of signals |
//! | `default(x)` | a default that the schema itself states |
//! | `pointer` | Go keeps a given zero: the field is a pointer |
//! | `always`, `null` | no `omitempty`: absent is written as the zero value, or as null |
//! | `omitempty` | left out when zero, though the schema calls it required |
//!
//! A required field is `always`, an optional scalar, list or map is left out when empty, an optional struct is a pointer,
//! unless a word says otherwise.

mod access;
mod core;
mod devices;
mod machinery;
mod network;
mod workloads;

use super::{ListType, PatchStrategy, Written};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What the tables say of one type.
#[derive(Debug, Default, PartialEq)]
pub struct TypeFacts {
    pub own: Facts,
    pub fields: BTreeMap<&'static str, Facts>,
}

/// What the tables say of one field, or of a type itself.
#[derive(Debug, Default, PartialEq)]
pub struct Facts {
    pub list_type: Option<ListType>,
    pub map_keys: Vec<&'static str>,
    /// `Some(false)` is `granular`: it undoes what the type says of itself.
    pub atomic_map: Option<bool>,
    pub strategy: PatchStrategy,
    pub merge_key: Option<&'static str>,
    pub allowed: Vec<&'static str>,
    pub default: Option<Value>,
    pub written: Option<Written>,
}

const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// The tables, by full type name; read once.
pub fn all() -> &'static BTreeMap<String, TypeFacts> {
    static ALL: OnceLock<BTreeMap<String, TypeFacts>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut types = BTreeMap::new();
        for text in [core::FACTS, workloads::FACTS, access::FACTS, network::FACTS, devices::FACTS, machinery::FACTS] {
            read(text, &mut types);
        }
        types
    })
}

fn read(text: &'static str, types: &mut BTreeMap<String, TypeFacts>) {
    let mut package = "";
    let mut current = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
            continue;
        }
        let (names, words) = line.split_once(": ").unwrap_or((line, ""));
        if let Some(fields) = names.strip_prefix("  ") {
            let of = types.entry(current.clone()).or_default();
            for field in fields.split(' ') {
                of.fields.insert(field, facts(words));
            }
        } else {
            current = format!("{package}.{names}");
            types.insert(current.clone(), TypeFacts { own: facts(words), fields: BTreeMap::new() });
        }
    }
}

fn facts(words: &'static str) -> Facts {
    let mut facts = Facts::default();
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let (name, argument) = match word.strip_suffix(')').and_then(|word| word.split_once('(')) {
            Some((name, argument)) => (name, argument),
            None => (word, ""),
        };
        match name {
            "atomic" => facts.list_type = Some(ListType::Atomic),
            "set" => facts.list_type = Some(ListType::Set),
            "map" => {
                facts.list_type = Some(ListType::Map);
                facts.map_keys = argument.split(',').collect();
            }
            "atomic-map" => facts.atomic_map = Some(true),
            "granular-map" => facts.atomic_map = Some(false),
            "merge" => {
                facts.strategy.merge = true;
                facts.merge_key = (!argument.is_empty()).then_some(argument);
            }
            "retainKeys" => facts.strategy.retain_keys = true,
            "replace" => facts.strategy.replace = true,
            "enum" if argument == "@signals" => facts.allowed = SIGNALS.to_vec(),
            "enum" => facts.allowed = argument.split(',').collect(),
            "default" => facts.default = Some(default_value(argument)),
            "pointer" => facts.written = Some(Written::AsGiven),
            "always" => facts.written = Some(Written::Always),
            "null" => facts.written = Some(Written::AlwaysNull),
            "omitempty" => facts.written = Some(Written::UnlessEmpty),
            other => unreachable!("the tables have no word {other}"),
        }
    }
    facts
}

/// Numbers and booleans are themselves, anything else is a string.
fn default_value(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_become_facts() {
        let ports = facts("map(port,protocol) merge(port)");
        assert_eq!((ports.list_type, ports.map_keys), (Some(ListType::Map), vec!["port", "protocol"]));
        assert_eq!((ports.strategy.merge, ports.merge_key), (true, Some("port")));
        let volumes = facts("merge(name) retainKeys");
        assert!(volumes.strategy.merge && volumes.strategy.retain_keys);
        assert_eq!(facts("enum(,File)").allowed, ["", "File"]);
        assert_eq!(facts("enum(@signals)").allowed.len(), 65);
        assert_eq!(facts("default(TCP)").default, Some(json!("TCP")));
        assert_eq!(facts("default(1) pointer").default, Some(json!(1)));
    }

    #[test]
    fn every_table_reads_and_names_types_by_their_package() {
        let service_port = &all()["io.k8s.api.core.v1.ServicePort"];
        assert_eq!(service_port.fields["protocol"].default, Some(json!("TCP")));
        assert_eq!(all()["io.k8s.api.rbac.v1.RoleRef"].own.atomic_map, Some(true));
        assert_eq!(
            all()["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].fields["finalizers"].list_type,
            Some(ListType::Set)
        );
    }
}
