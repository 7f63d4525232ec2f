//! The fuzz target of server-side apply: any configuration that a client sends is applied or refused, and applying it
//! again changes nothing.

use super::FieldManager;
use super::fields::FieldSet;
use jiff::Timestamp;
use proto::resources::Catalogue;
use proto::wire::yaml;
use serde_json::{Value, json};

/// Applies a configuration in YAML over nothing, over its own result, and over an object of another manager.
pub fn apply(input: &[u8]) {
    let Ok(parsed) = yaml::parse(input) else { return };
    let mut config = parsed.value;
    if !config.is_object() {
        return;
    }
    config["apiVersion"] = json!("v1");
    config["kind"] = json!("PodTemplate");
    let row = Catalogue::builtin().by_group_resource("", "podtemplates").expect("a row of the table").row;
    let reset = FieldSet::default();
    let manager = FieldManager::new(&row, &row.served[0], "", &reset, Timestamp::UNIX_EPOCH);
    let apply = |live: Option<&Value>| manager.apply(live, &config, "fuzz", true);
    if let Ok(applied) = apply(None) {
        assert_eq!(apply(Some(&applied)).ok(), Some(applied));
    }
    let theirs = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a", "labels": {"x": "y"}},
        "template": {"spec": {"containers": [{"name": "main", "image": "a"}], "nodeSelector": {"disk": "ssd"}}}});
    if let Ok(applied) = apply(Some(&theirs)) {
        apply(Some(&applied)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_applied_or_refused() {
        proto::mutation::run(
            &[
                b"metadata:\n  name: a\n  labels: {x: z}\ntemplate:\n  spec:\n    containers:\n    - name: main\n      image: b\n      ports:\n      - containerPort: 80\n",
                br#"{"metadata":{"name":"a","finalizers":["f","g"],"ownerReferences":[{"uid":"1"}]},"template":{"spec":{"nodeSelector":{"disk":null}}}}"#,
                br#"{"metadata":{"managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{"f:x":{}},"k:{\"a\":1}":{}}}}]}}"#,
            ],
            &["{", "}", "[", "]", "- ", ": ", "null", "name: main", "{}", "1", "k:{}", "f:", "v:1", "i:0", "\"f:a\":{},"],
            1_500,
            apply,
        );
    }
}
