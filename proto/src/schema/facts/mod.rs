//! Facts about Kubernetes' own types that the schemas of the client library lack: how lists and maps merge, allowed
//! values, static defaults, and the fields that Go always writes.
//!
//! Corresponds to the marker comments and struct tags of k8s.io/api. The tables are text:
//!
//! ```text
//! package io.k8s.api.core.v1
//! ObjectReference SecretReference: atomic-map   words about two types themselves
//! ServiceSpec
//!   ports: map(port,protocol) merge(port)       words about a field of the type above
//!   loadBalancerClass ipFamilyPolicy: pointer   words about two fields
//! Capabilities . add drop: atomic               a type whose fields take one line
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | `atomic`, `set`, `map(keys)` | x-kubernetes-list-type, with the list-map-keys |
//! | `atomic-map`, `granular-map` | x-kubernetes-map-type |
//! | `merge`, `merge(key)`, `retainKeys`, `replace` | patch strategy of strategic merge, with the merge key |
//! | `enum(a,b)` | the allowed values; `@signals` stands for the names of signals |
//! | `default(x)` | a default that the schema itself states |
//! | `pointer` | the field is a pointer, so Go keeps a zero that was given |
//! | `always`, `null` | no `omitempty`: absent is written as the zero value, or as null |
//! | `omitempty` | left out when zero, although the schema calls it required |
//!
//! Without such a word, a required field is `always`, an optional scalar, list or map is `omitempty`, and an optional
//! struct is a `pointer`.

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

/// The facts about one type.
#[derive(Debug, Default, PartialEq)]
pub struct TypeFacts {
    pub own: Facts,
    pub fields: BTreeMap<&'static str, Facts>,
}

/// The facts about one field, or about a type itself.
#[derive(Debug, Default, PartialEq)]
pub struct Facts {
    pub list_type: Option<ListType>,
    pub map_keys: Vec<&'static str>,
    /// `Some(false)` is `granular-map`, which overrides the fact about the field's type.
    pub atomic_map: Option<bool>,
    pub strategy: PatchStrategy,
    pub merge_key: Option<&'static str>,
    pub allowed: Vec<&'static str>,
    pub default: Option<Value>,
    pub written: Option<Written>,
}

/// The names that `enum(@signals)` stands for.
const SIGNALS: &str = "\
    SIGABRT SIGALRM SIGBUS SIGCHLD SIGCLD SIGCONT SIGFPE SIGHUP SIGILL SIGINT SIGIO SIGIOT SIGKILL SIGPIPE SIGPOLL \
    SIGPROF SIGPWR SIGQUIT SIGRTMAX SIGRTMAX-1 SIGRTMAX-10 SIGRTMAX-11 SIGRTMAX-12 SIGRTMAX-13 SIGRTMAX-14 \
    SIGRTMAX-2 SIGRTMAX-3 SIGRTMAX-4 SIGRTMAX-5 SIGRTMAX-6 SIGRTMAX-7 SIGRTMAX-8 SIGRTMAX-9 SIGRTMIN SIGRTMIN+1 \
    SIGRTMIN+10 SIGRTMIN+11 SIGRTMIN+12 SIGRTMIN+13 SIGRTMIN+14 SIGRTMIN+15 SIGRTMIN+2 SIGRTMIN+3 SIGRTMIN+4 \
    SIGRTMIN+5 SIGRTMIN+6 SIGRTMIN+7 SIGRTMIN+8 SIGRTMIN+9 SIGSEGV SIGSTKFLT SIGSTOP SIGSYS SIGTERM SIGTRAP SIGTSTP \
    SIGTTIN SIGTTOU SIGURG SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ";

/// Returns the tables by full type name. They are read once.
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
    let mut current: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("package ") {
            package = name;
            continue;
        }
        let (names, words) = line.split_once(": ").unwrap_or((line, ""));
        let fields = match names.strip_prefix("  ") {
            Some(fields) => fields,
            None => {
                let (names, fields) = names.split_once(" . ").unwrap_or((names, ""));
                current = names.split_whitespace().map(|name| format!("{package}.{name}")).collect();
                for name in &current {
                    let own = if fields.is_empty() { facts(words) } else { Facts::default() };
                    types.insert(name.clone(), TypeFacts { own, fields: BTreeMap::new() });
                }
                fields
            }
        };
        for name in &current {
            let of = types.entry(name.clone()).or_default();
            of.fields.extend(fields.split_whitespace().map(|field| (field, facts(words))));
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
            "enum" if argument == "@signals" => facts.allowed = SIGNALS.split_whitespace().collect(),
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

/// Reads a default: a boolean, a number, or else a string.
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
