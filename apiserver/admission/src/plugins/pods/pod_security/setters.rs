//! `Setters`: collects where a pod sets a forbidden value, for the message of a violation.
//!
//! Corresponds to the visitors and wording of k8s.io/pod-security-admission/policy.

pub use crate::plugins::pod_parts::containers;
use crate::plugins::pod_parts::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// The pod or its containers with a forbidden value, and the values.
pub struct Setters<'a> {
    who: Vec<String>,
    found: Vec<&'a Value>,
}

impl<'a> Setters<'a> {
    /// Collects those whose value at `pointer` is bad. The pointer is the same in a pod's spec and in a container.
    pub fn of(spec: &'a Value, pointer: &str, is_bad: impl Fn(&Value) -> bool) -> Self {
        let bad = |holder: &'a Value| among(holder, pointer).filter(|value| is_bad(value));
        let mut who = Vec::new();
        let mut found: Vec<&Value> = bad(spec).into_iter().collect();
        if !found.is_empty() {
            who.push("pod".to_owned());
        }
        found.extend(containers(spec).filter_map(bad));
        who.extend(some_of(&names(spec, |c| among(c, pointer).is_some_and(&is_bad)), "container", "containers"));
        Self { who, found }
    }

    pub fn add(&mut self, who: &str) {
        self.who.push(who.to_owned());
    }

    /// Formats the setters as `pod and containers "a", "b"`, if there are any.
    pub fn who(&self) -> Option<String> {
        if self.who.is_empty() { None } else { Some(self.who.join(" and ")) }
    }

    /// Returns the distinct texts at `pointer` in the bad values, sorted.
    pub fn values(&self, pointer: &str) -> Vec<String> {
        let all: BTreeSet<String> = self.found.iter().map(|value| text(value, pointer).to_owned()).collect();
        all.into_iter().collect()
    }

    pub fn any(&self, is: impl Fn(&Value) -> bool) -> bool {
        self.found.iter().any(|value| is(value))
    }
}

/// Returns the value at a pointer; `None` for null.
pub fn among<'a>(holder: &'a Value, pointer: &str) -> Option<&'a Value> {
    holder.pointer(pointer).filter(|value| !value.is_null())
}

/// Returns the names of the matching containers.
pub fn names(spec: &Value, is: impl Fn(&Value) -> bool) -> Vec<String> {
    containers(spec).filter(|c| is(c)).map(|c| text(c, "/name").to_owned()).collect()
}

pub fn some<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

/// Formats as `container "a"` or `containers "a", "b"`; `None` if empty.
pub fn some_of<T: AsRef<str>>(called: &[T], one: &str, several: &str) -> Option<String> {
    match called {
        [] => None,
        called => Some(format!("{} {}", some(called.len(), one, several), quoted(called))),
    }
}

/// Formats as `"a", "b"`.
pub fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}
