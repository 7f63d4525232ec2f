//! Strategic merges of pod templates and services.

use super::*;
use proto::schema::builtin_type;
use serde_json::json;

fn spec() -> Value {
    json!({
        "nodeSelector": {"disk":"ssd","zone":"a"},
        "tolerations": [{"key":"t1"},{"key":"t2"}],
        "imagePullSecrets": [{"name":"s1"},{"name":"s2"}],
        "volumes": [{"name":"v1","emptyDir":{}},{"name":"v2","configMap":{"name":"cm"}}],
        "containers": [
            {"name":"main","image":"main:1","args":["a","b"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"C","value":"3"}],
             "ports":[{"name":"dns-u","containerPort":53,"protocol":"UDP"},{"name":"dns-t","containerPort":53,"protocol":"TCP"},{"name":"web","containerPort":80}]},
            {"name":"side","image":"side:1"},
        ],
    })
}

/// Returns the spec of a pod template after a patch, or the code and message of the error.
fn patched(patch: Value) -> Result<Value, String> {
    let template = json!({"template":{"spec":spec()}});
    let schema = builtin_type("io.k8s.api.core.v1.PodTemplate");
    let result = apply(schema.schema(), &template, &json!({"template":{"spec":patch}}));
    result
        .map(|result| result["template"]["spec"].clone())
        .map_err(|status| format!("{} {}", status.code, status.message))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

#[test]
fn containers_merge_by_name() {
    let result = patched(json!({"containers":[{"name":"main","image":"main:2"}]})).unwrap();
    assert_eq!(names(&result["containers"]), ["main", "side"]);
    assert_eq!(result["containers"][0]["image"], "main:2");
    assert_eq!(result["containers"][0]["args"], json!(["a", "b"]));
    let result = patched(json!({"containers":[{"name":"new","image":"new:1","args":null}]})).unwrap();
    assert_eq!(names(&result["containers"]), ["new", "main", "side"], "what is new comes first");
    assert_eq!(result["containers"][0], json!({"name":"new","image":"new:1"}));
    let result = patched(json!({"containers":[{"name":"side","$patch":"delete"},{"name":"absent","$patch":"delete"}]}));
    assert_eq!(names(&result.unwrap()["containers"]), ["main"]);
}

#[test]
fn new_items_stand_where_their_patch_puts_them() {
    let env = json!([{"name":"B","value":"two"},{"name":"D","value":"4"}]);
    let result = patched(json!({"containers":[{"name":"main","env":env}]})).unwrap();
    assert_eq!(names(&result["containers"][0]["env"]), ["A", "B", "D", "C"]);
    let result = patched(json!({"imagePullSecrets":[{"name":"s3"}]})).unwrap();
    assert_eq!(names(&result["imagePullSecrets"]), ["s3", "s1", "s2"]);
}

#[test]
fn one_key_may_name_several_items() {
    let ports = |ports: Value| patched(json!({"containers":[{"name":"main","ports":ports}]})).unwrap();
    let result = ports(json!([{"containerPort":53,"protocol":"TCP","hostPort":5353}]));
    assert_eq!(result["containers"][0]["ports"][0]["hostPort"], 5353, "the first one is taken");
    let result = ports(json!([{"containerPort":53,"$patch":"delete"}]));
    assert_eq!(names(&result["containers"][0]["ports"]), ["web"]);
}

#[test]
fn lists_without_merge_key_are_replaced() {
    assert_eq!(patched(json!({"tolerations":[{"key":"t3"}]})).unwrap()["tolerations"], json!([{"key":"t3"}]));
    assert_eq!(patched(json!({"tolerations":[]})).unwrap()["tolerations"], json!([]));
    let result = patched(json!({"containers":[{"name":"main","args":["c"]}]})).unwrap();
    assert_eq!(result["containers"][0]["args"], json!(["c"]));
}

#[test]
fn replace_and_null() {
    let result = patched(json!({"containers":[{"$patch":"replace"},{"name":"only","image":"x"}]})).unwrap();
    assert_eq!(result["containers"], json!([{"name":"only","image":"x"}]));
    let result = patched(json!({"nodeSelector":{"$patch":"replace","only":"x"}})).unwrap();
    assert_eq!(result["nodeSelector"], json!({"only":"x"}));
    assert_eq!(patched(json!({"nodeSelector":{"$patch":"delete"}})).unwrap()["nodeSelector"], json!({}));
    assert_eq!(patched(json!({"volumes":[{"$patch":"replace"}]})).unwrap()["volumes"], json!([]));
    let result = patched(json!({"volumes":null,"nodeSelector":{"disk":null,"absent":null}})).unwrap();
    assert_eq!(result.get("volumes"), None);
    assert_eq!(result["nodeSelector"], json!({"zone":"a"}));
}

#[test]
fn retain_keys_clears_the_other_members_of_a_union() {
    let volume = json!({"$retainKeys":["name","hostPath"],"name":"v1","hostPath":{"path":"/x"}});
    let result = patched(json!({"volumes":[volume]})).unwrap();
    assert_eq!(result["volumes"][0], json!({"name":"v1","hostPath":{"path":"/x"}}));
    let volume = json!({"$retainKeys":["name"],"name":"v1","hostPath":{"path":"/x"}});
    assert_eq!(patched(json!({"volumes":[volume]})), Err("400 invalid patch format of retainKeys list".to_owned()));
}

#[test]
fn set_element_order() {
    let order = json!([{"name":"side"},{"name":"main"}]);
    let result = patched(json!({"$setElementOrder/containers":order,"containers":[{"name":"main","image":"main:4"}]}));
    let result = result.unwrap();
    assert_eq!(names(&result["containers"]), ["side", "main"]);
    assert_eq!(result["containers"][1]["image"], "main:4");
    let env = |order: Value, env: Value| {
        patched(json!({"containers":[{"name":"main","$setElementOrder/env":order,"env":env}]}))
    };
    let result = env(json!([{"name":"N"},{"name":"C"},{"name":"A"},{"name":"B"}]), json!([{"name":"N","value":"n"}]));
    assert_eq!(names(&result.unwrap()["containers"][0]["env"]), ["N", "C", "A", "B"]);
    assert_eq!(
        env(json!([{"name":"A"}]), json!([{"name":"B","value":"x"}])),
        Err("500 The order in patch list:\n[map[name:B value:x]]\n doesn't match $setElementOrder list:\n[map[name:A]]\n".to_owned())
    );
}

#[test]
fn primitive_lists_are_sets() {
    let schema = builtin_type("io.k8s.api.core.v1.PodTemplate");
    let finalizers = |patch: Value| {
        let current = json!({"metadata":{"finalizers":["x/one","x/two"]}});
        apply(schema.schema(), &current, &json!({"metadata":patch})).unwrap()["metadata"]["finalizers"].clone()
    };
    assert_eq!(finalizers(json!({"finalizers":["x/three"]})), json!(["x/three", "x/one", "x/two"]));
    assert_eq!(finalizers(json!({"$deleteFromPrimitiveList/finalizers":["x/one"]})), json!(["x/two"]));
    assert_eq!(
        finalizers(json!({"$deleteFromPrimitiveList/finalizers":["absent"],"finalizers":["x/four","x/two"]})),
        json!(["x/four", "x/one", "x/two"])
    );
    assert_eq!(finalizers(json!({"$setElementOrder/finalizers":["x/two","x/one"]})), json!(["x/two", "x/one"]));
    assert_eq!(
        finalizers(json!({"$setElementOrder/finalizers":["x/two","x/three","x/one"],"finalizers":["x/three"]})),
        json!(["x/two", "x/three", "x/one"])
    );
}

#[test]
fn directives_that_cannot_be_followed() {
    let cases = [
        (json!({"containers":[{"image":"x"}]}), "500 map: map[image:x] does not contain declared merge key: name"),
        (
            json!({"containers":[{"$patch":"delete"}]}),
            "500 map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"containers":[{"$patch":"merge","name":"main"}]}),
            "500 merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"containers":[{"$patch":"odd","name":"main"}]}),
            "500 unknown patch type: odd in map: map[$patch:odd name:main]",
        ),
        (
            json!({"nodeSelector":{"$patch":"merge","z":"b"}}),
            "500 unknown patch type: merge in map: map[$patch:merge z:b]",
        ),
        (json!({"nodeSelector":{"$patch":5}}), "500 unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
    ];
    for (patch, expected) in cases {
        assert_eq!(patched(patch), Err(expected.to_owned()));
    }
}
