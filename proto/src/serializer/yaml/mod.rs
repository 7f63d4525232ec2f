//! YAML as the API reads and writes it: scalars of YAML 1.1, the first document only, and the data model of JSON.
//!
//! Corresponds to sigs.k8s.io/yaml, which converts to and from JSON around go-yaml 2.

mod json_subset;
mod read;
mod scalar;
mod write;

pub use read::parse;
pub use write::to_yaml;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({
            "apiVersion": "v1",
            "data": {"empty": "", "lines": "a\nb\n", "no-end": "a\n b", "number": "1", "on": "yes", "tab": "a\tb"},
            "list": [[1, 2], {"a": {}, "b": []}, null, true, 1.5, -3, "- x", "a: b", "#c", " lead", "trail ", "é\u{1}"],
        });
        let text = to_yaml(&value);
        assert_eq!(parse(text.as_bytes()).unwrap().value, value, "{text}");
    }

    #[test]
    fn long_keys_read_back() {
        for key in ["k".repeat(2_000), "- ".repeat(1_000)] {
            for member in [json!(1), json!({"a": [1]}), json!([{"b": null}, 2])] {
                let value = json!({"a": {key.as_str(): member.clone(), "z": 1}});
                let text = to_yaml(&value);
                assert_eq!(parse(text.as_bytes()).map(|parsed| parsed.value).as_ref(), Ok(&value), "{text}");
            }
        }
    }
}
