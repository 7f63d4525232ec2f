//! Describes the difference between two values, for errors that forbid a change.
//!
//! Deviation: Kubernetes ends the error of a forbidden change (of `spec` of pods and of claims, `spec.ephemeralContainers`)
//! with a unified diff of Go structs, which shows the names of its internal types. Here the error ends with two lines for
//! each field that differs, one for the old and one for the new value, under the field's path in the API.

use serde_json::Value;

/// Returns two lines for each field that differs: `- path: old` and `+ path: new`.
pub fn difference(old: &Value, new: &Value) -> String {
    let mut lines = String::new();
    collect(old, new, "", &mut lines);
    lines
}

fn collect(old: &Value, new: &Value, path: &str, lines: &mut String) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                let (old, new) = (before.get(name), after.get(name));
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null), &path, lines);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                collect(old, new, &format!("{path}[{index}]"), lines);
            }
        }
        (old, new) => lines.push_str(&format!("- {path}: {old}\n+ {path}: {new}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::difference;
    use serde_json::json;

    #[test]
    fn every_place_that_differs_has_two_lines() {
        let old = json!({"same": 1, "deep": [{"a": "b"}], "gone": true});
        let new = json!({"same": 1, "deep": [{"a": "c"}], "new": ["x"]});
        let lines = [
            "- deep[0].a: \"b\"",
            "+ deep[0].a: \"c\"",
            "- gone: true",
            "+ gone: null",
            "- new: null",
            "+ new: [\"x\"]",
        ];
        assert_eq!(difference(&old, &new).lines().collect::<Vec<_>>(), lines);
    }
}
