//! YAML as the API reads and writes it: YAML 1.1 scalars, the first document only, JSON's data model.
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
}
