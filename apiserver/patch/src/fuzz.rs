//! Fuzz targets of the patches: any patch that a client sends is applied or refused.

use super::{json_patch, merge, strategic};
use proto::schema::builtin_type;
use proto::wire::json;
use serde_json::{Value, json};

/// Returns the object that the patches are applied to.
fn template() -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a", "labels": {"x": "y", "a/b": "c"}},
        "template": {"spec": {
            "containers": [
                {"name": "main", "image": "main:1", "args": ["a", "b"], "env": [{"name": "A", "value": "1"}],
                 "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]},
                {"name": "side"}],
            "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "t"}], "imagePullSecrets": [{"name": "s"}]}}})
}

/// Applies a JSON patch. A patch of tests alone changes nothing.
pub fn json_patch(input: &[u8]) {
    let Ok(patch) = json::parse(input) else { return };
    let current = template();
    let Ok(patched) = json_patch::apply(&current, &patch.value) else { return };
    let operations = patch.value.as_array().into_iter().flatten();
    if operations.into_iter().all(|operation| operation["op"] == "test") {
        assert_eq!(patched, current);
    }
}

/// Applies a merge patch. Applying it again changes nothing more.
pub fn merge_patch(input: &[u8]) {
    let Ok(patch) = json::parse(input) else { return };
    if let Ok(patched) = merge::apply(&template(), &patch.value) {
        assert_eq!(merge::apply(&patched, &patch.value).ok(), Some(patched));
    }
}

/// Applies a strategic merge patch. The result is still an object.
pub fn strategic_merge_patch(input: &[u8]) {
    let Ok(patch) = json::parse(input) else { return };
    let kind = builtin_type("io.k8s.api.core.v1.PodTemplate");
    if let Ok(patched) = strategic::apply(kind.schema(), &template(), &patch.value) {
        assert!(patched.is_object());
        strategic::apply(kind.schema(), &patched, &patch.value).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::mutation::run;

    const ROUNDS: u32 = 2_000;
    const WORDS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "1",
        "{\"a\":",
        "[[",
        "\"name\":\"main\"",
        "\"$patch\":\"delete\"",
    ];

    #[test]
    fn json_patches_are_applied_or_refused() {
        run(
            &[
                br#"[{"op":"replace","path":"/template/spec/containers/0/image","value":"b"},{"op":"add","path":"/metadata/labels/a~1b","value":null}]"#,
                br#"[{"op":"copy","from":"/template/spec","path":"/template/spec/x"},{"op":"move","from":"/metadata","path":"/m"}]"#,
                br#"[{"op":"test","path":"/kind","value":"PodTemplate"},{"op":"test","path":"","value":1}]"#,
                br#"[{"op":"remove","path":"/template/spec/containers/-1"},{"op":"add","path":"/template/spec/containers/-","value":{}}]"#,
            ],
            &[
                "{\"op\":\"add\",\"path\":\"\",\"value\":1},",
                "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"},",
                "{\"op\":\"move\",\"from\":\"/template\",\"path\":\"/template/spec/a\"},",
                "{\"op\":\"remove\",\"path\":\"\"},",
                "/",
                "~",
                "~0",
                "-",
                "99999999999999999999",
                "-3",
                "null",
                "\"",
            ],
            ROUNDS,
            json_patch,
        );
    }

    #[test]
    fn merge_patches_are_applied_or_refused() {
        run(
            &[
                br#"{"metadata":{"labels":{"x":null,"y":{"z":null}}},"template":null}"#,
                br#"{"kind":{"a":[]},"n":[{"a":null}]}"#,
            ],
            WORDS,
            ROUNDS,
            merge_patch,
        );
    }

    #[test]
    fn strategic_merge_patches_are_applied_or_refused() {
        run(
            &[
                br#"{"template":{"spec":{"containers":[{"name":"main","image":"b","env":[{"name":"B","value":"2"}]},{"$patch":"delete","name":"side"}],"$setElementOrder/containers":[{"name":"main"}]}}}"#,
                br#"{"template":{"spec":{"$retainKeys":["containers"],"volumes":[{"name":"v","$retainKeys":["name"],"emptyDir":null}],"$patch":"replace"}}}"#,
                br#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["b"],"$setElementOrder/finalizers":["b","a"]}}"#,
            ],
            &[
                "{", "}", "[", "]", ",", "null", "\"$patch\":\"replace\",", "\"$patch\":\"merge\",", "\"$patch\":1,",
                "\"$retainKeys\":[\"name\"],", "\"$setElementOrder/containers\":[{}],", "\"$deleteFromPrimitiveList/args\":[1],",
                "{\"name\":null},", "[[1]],", "\"containers\":", "\"name\":\"main\"",
            ],
            ROUNDS,
            strategic_merge_patch,
        );
    }
}
