//! Ownership through whole writes, and the laws of apply over random configurations.

use super::fields::FieldSet;
use super::*;
use proptest::prelude::*;
use proto::resources::Catalogue;
use serde_json::json;
use std::sync::Arc;

fn row(resource: &str) -> Arc<Resource> {
    Catalogue::builtin().by_group_resource("", resource).expect("a row of the table").row
}

/// One object under a few writers. A second passes with every write.
struct Object {
    row: Arc<Resource>,
    live: Option<Value>,
    second: i64,
}

impl Object {
    fn config_map() -> Self {
        Self { row: row("configmaps"), live: None, second: 0 }
    }

    fn pod_template() -> Self {
        Self { row: row("podtemplates"), live: None, second: 0 }
    }

    fn with<T>(
        &mut self,
        subresource: &str,
        reset: &FieldSet,
        work: impl FnOnce(&FieldManager<'_>, Option<&Value>) -> T,
    ) -> T {
        self.second += 1;
        let now = Timestamp::from_second(1_767_225_600 + self.second).unwrap();
        let manager = FieldManager::new(&self.row, &self.row.served[0], subresource, reset, now);
        work(&manager, self.live.as_ref())
    }

    fn apply_with(&mut self, manager: &str, mut config: Value, force: bool) -> Result<(), Status> {
        config["apiVersion"] = json!("v1");
        config["kind"] = json!(self.row.served[0].kind);
        config["metadata"]["name"] = json!("x");
        let applied =
            self.with("", &FieldSet::default(), |fields, live| fields.apply(live, &config, manager, force))?;
        self.store(applied);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: Value) -> Result<(), Status> {
        self.apply_with(manager, config, false)
    }

    fn update(&mut self, manager: &str, mut new: Value) {
        new["apiVersion"] = json!("v1");
        new["kind"] = json!(self.row.served[0].kind);
        new["metadata"]["name"] = json!("x");
        self.with("", &FieldSet::default(), |fields, live| fields.update(live, &mut new, manager));
        self.store(new);
    }

    /// Stores an object as decoding does: without nulls and empty maps.
    fn store(&mut self, mut object: Value) {
        fn prune(value: &mut Value) {
            if let Some(map) = value.as_object_mut() {
                map.retain(|key, value| {
                    if key != "managedFields" {
                        prune(value);
                    }
                    !(value.is_null() || (key == "data" && *value == json!({})))
                });
            }
        }
        prune(&mut object);
        if let Some(live) = &self.live {
            forget_new_times_if_unchanged(live, &mut object);
        }
        self.live = Some(object);
    }

    fn get(&self, pointer: &str) -> Value {
        self.live.as_ref().and_then(|live| live.pointer(pointer)).cloned().unwrap_or_default()
    }

    /// Returns one line per manager.
    fn managers(&self) -> Vec<String> {
        let line = |entry: &Value| {
            let text = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
            let timed = if entry.get("time").is_some() { "" } else { " untimed" };
            format!("{} {}{timed} {}", text("manager"), text("operation"), entry["fieldsV1"])
        };
        self.get("/metadata/managedFields").as_array().into_iter().flatten().map(line).collect()
    }
}

fn message(result: Result<(), Status>) -> String {
    result.expect_err("a refusal").message
}

#[test]
fn creating_and_applying_again() {
    let mut cm = Object::config_map();
    cm.apply("one", json!({"data":{"a":"1"}})).unwrap();
    assert_eq!(cm.managers(), [r#"one Apply {"f:data":{"f:a":{}}}"#]);
    let before = cm.live.clone();
    cm.apply("one", json!({"data":{"a":"1"}})).unwrap();
    assert_eq!(cm.live, before, "the second time changes nothing, not even a time");
}

#[test]
fn an_update_owns_what_it_changes_and_its_parents() {
    let mut cm = Object::config_map();
    cm.update("creator", json!({"data":{"a":"1","b":"1"}}));
    assert_eq!(cm.managers(), [r#"creator Update {"f:data":{".":{},"f:a":{},"f:b":{}}}"#]);
    assert_eq!(
        message(cm.apply("one", json!({"data":{"a":"2"}}))),
        r#"Apply failed with 1 conflict: conflict with "creator" using v1: .data.a"#
    );
    cm.apply("one", json!({"data":{"a":"1"}})).unwrap();
    assert_eq!(cm.managers()[0], r#"one Apply untimed {"f:data":{"f:a":{}}}"#, "sharing changes no value");
    let mut written = cm.live.clone().unwrap();
    written["data"] = json!({"z":"9"});
    cm.update("writer", written);
    assert_eq!(
        cm.managers(),
        [r#"creator Update {"f:data":{}}"#, r#"writer Update {"f:data":{"f:z":{}}}"#],
        "what is gone is owned by nobody"
    );
}

#[test]
fn conflicts_force_and_giving_up() {
    let mut cm = Object::config_map();
    cm.apply("one", json!({"data":{"a":"1","b":"1"}})).unwrap();
    let refused = cm.apply("two", json!({"data":{"a":"2","b":"2"},"metadata":{"labels":{"l":"m"}}})).unwrap_err();
    assert_eq!(refused.message, "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b");
    let causes = refused.details.unwrap().causes;
    assert_eq!((causes[1].message.as_str(), causes[1].field.as_str()), ("conflict with \"one\"", ".data.b"));
    cm.apply_with("two", json!({"data":{"a":"2"}}), true).unwrap();
    assert_eq!(cm.managers(), [r#"one Apply {"f:data":{"f:b":{}}}"#, r#"two Apply {"f:data":{"f:a":{}}}"#]);
    assert!(cm.apply("one", json!({"data":{"a":"1","b":"1"}})).is_err());
    cm.apply("one", json!({"data":{"b":"1"}})).unwrap();
    cm.apply("two", json!({"data":{}})).unwrap();
    assert_eq!(cm.get("/data"), json!({"b":"1"}));
}

#[test]
fn several_managers_in_the_way_are_all_named() {
    let mut cm = Object::config_map();
    for manager in ["one", "two", "three"] {
        cm.apply(manager, json!({"data":{"a":"1"}})).unwrap();
    }
    assert_eq!(
        message(cm.apply("four", json!({"data":{"a":"4"}}))),
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with \"three\":\n- .data.a\nconflicts with \"two\":\n- .data.a"
    );
}

#[test]
fn items_of_map_lists_are_owned_one_by_one() {
    let mut pt = Object::pod_template();
    let containers = |items: Value| json!({"template":{"spec":{"containers":items}}});
    pt.apply("one", containers(json!([{"name":"a","image":"x:1"},{"name":"c","image":"x"}]))).unwrap();
    assert_eq!(
        message(pt.apply("two", containers(json!([{"name":"a","image":"x:2"}])))),
        r#"Apply failed with 1 conflict: conflict with "one": .template.spec.containers[name="a"].image"#
    );
    pt.apply("two", containers(json!([{"name":"b","image":"x"},{"name":"c","image":"x"},{"name":"a","image":"x:1"}])))
        .unwrap();
    let names = |pt: &Object| -> Vec<String> {
        let items = pt.get("/template/spec/containers");
        items.as_array().into_iter().flatten().filter_map(|c| Some(c["name"].as_str()?.to_owned())).collect()
    };
    assert_eq!(names(&pt), ["b", "c", "a"]);
    pt.apply("one", containers(json!([{"name":"c","image":"x"},{"name":"d","image":"x"},{"name":"a","image":"x:1"}])))
        .unwrap();
    assert_eq!(names(&pt), ["b", "c", "d", "a"]);
    pt.apply("two", containers(json!([{"name":"z","image":"x"},{"name":"d","image":"x"}]))).unwrap();
    assert_eq!(names(&pt), ["c", "z", "d", "a"], "b was two's alone");
    assert_eq!(
        message(pt.apply("one", containers(json!([{"name":"a","image":"1"},{"name":"a","image":"2"}])))),
        "failed to create typed patch object (/x; /v1, Kind=PodTemplate): .template.spec.containers: duplicate entries for key [name=\"a\"]"
    );
}

#[test]
fn atomic_values_have_one_owner() {
    let mut pt = Object::pod_template();
    pt.apply("one", json!({"template":{"spec":{"nodeSelector":{"a":"1"},"tolerations":[{"key":"k"}]}}})).unwrap();
    for (config, field) in [
        (json!({"nodeSelector":{"b":"2"}}), ".template.spec.nodeSelector"),
        (json!({"tolerations":[{"key":"z"}]}), ".template.spec.tolerations"),
    ] {
        let message = message(pt.apply("two", json!({"template":{"spec":config}})));
        assert_eq!(message, format!("Apply failed with 1 conflict: conflict with \"one\": {field}"));
    }
}

#[test]
fn empty_and_null_values_are_claims_too() {
    let mut cm = Object::config_map();
    cm.apply("one", json!({"data":null})).unwrap();
    assert_eq!(cm.managers(), [r#"one Apply {"f:data":{}}"#]);
    let mut pt = Object::pod_template();
    let container = json!({"name":"a","image":"x","env":[],"ports":null});
    pt.apply("one", json!({"template":{"spec":{"containers":[container],"volumes":[]}}})).unwrap();
    assert_eq!(
        pt.managers(),
        [
            r#"one Apply {"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{},"f:ports":{}}}}}}"#
        ]
    );
}

#[test]
fn finalizers_are_a_set() {
    let mut cm = Object::config_map();
    cm.apply("one", json!({"metadata":{"finalizers":["x/a","x/b"]}})).unwrap();
    assert_eq!(cm.managers(), [r#"one Apply {"f:metadata":{"f:finalizers":{"v:\"x/a\"":{},"v:\"x/b\"":{}}}}"#]);
    cm.apply("two", json!({"metadata":{"finalizers":["x/b","x/c"]}})).unwrap();
    assert_eq!(cm.get("/metadata/finalizers"), json!(["x/a", "x/b", "x/c"]));
    cm.apply("one", json!({"metadata":{"finalizers":["x/a"]}})).unwrap();
    assert_eq!(cm.get("/metadata/finalizers"), json!(["x/a", "x/b", "x/c"]), "b is still two's");
}

#[test]
fn a_configuration_of_the_wrong_type_is_refused() {
    let mut cm = Object::config_map();
    let cases = [
        (json!({"data":{"a":5}}), ".data.a: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"bogus":1}), ".bogus: field not declared in schema"),
        (json!({"metadata":{"bogus":"x"}}), ".metadata.bogus: field not declared in schema"),
        (
            json!({"immutable":"yes","data":{"a":[1,"x"]}}),
            "errors:\n  .data.a: expected string, got &value.valueUnstructured{Value:[]interface {}{1, \"x\"}}\n  .immutable: expected boolean, got &{yes}",
        ),
    ];
    for (config, why) in cases {
        let expected = format!("failed to create typed patch object (/x; /v1, Kind=ConfigMap): {why}");
        assert_eq!(message(cm.apply("one", config)), expected);
    }
    let refused = cm.apply("one", json!({"metadata":{"managedFields":[]}}));
    assert_eq!(message(refused), "metadata.managedFields must be nil");
}

#[test]
fn the_record_can_be_reset_and_starts_again_at_the_first_apply() {
    let mut cm = Object::config_map();
    cm.apply("one", json!({"data":{"a":"1"}})).unwrap();
    cm.update("x", json!({"metadata":{"managedFields":[{}]},"data":{"a":"1"}}));
    assert!(cm.managers().is_empty());
    cm.update("x", json!({"data":{"a":"1"}}));
    assert!(cm.managers().is_empty(), "updates do not start a record");
    assert_eq!(
        message(cm.apply("two", json!({"data":{"a":"2"}}))),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#
    );
    cm.apply("two", json!({"data":{"a":"1"}})).unwrap();
    assert_eq!(
        cm.managers(),
        [r#"two Apply untimed {"f:data":{"f:a":{}}}"#, r#"before-first-apply Update {"f:data":{".":{},"f:a":{}}}"#]
    );
    let bad = json!([{"manager":"x","operation":"Odd","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]);
    let before = cm.managers();
    cm.update("x", json!({"metadata":{"managedFields":bad},"data":{"a":"1"}}));
    assert_eq!(cm.managers(), before, "what cannot be read is ignored");
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    let last = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","b":"1"}}"#;
    let annotations = json!({last_applied::ANNOTATION: last});
    let mut cm = Object::config_map();
    cm.update("kubectl-client-side-apply", json!({"metadata":{"annotations":annotations},"data":{"a":"1","b":"1"}}));
    assert!(cm.apply("other", json!({"data":{"a":"2"}})).is_err());
    cm.apply("kubectl", json!({"data":{"a":"2"}})).unwrap();
    assert_eq!(cm.get("/data"), json!({"a":"2","b":"1"}));
    assert_eq!(
        cm.get("/metadata/annotations")[last_applied::ANNOTATION],
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n"
    );
}

#[test]
fn reset_fields_are_neither_claimed_nor_contested() {
    let mut pt = Object { row: row("services"), live: None, second: 0 };
    let reset_status = FieldSet::of([["status"].as_slice()]);
    let reset_spec = FieldSet::of([["spec"].as_slice()]);
    let base = json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}});
    let config = |part: Value| {
        let mut config = base.clone();
        config.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        config
    };
    let both = config(json!({"spec":{"type":"LoadBalancer"},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}));
    let object = pt.with("", &reset_status, |fields, live| fields.apply(live, &both, "one", false)).unwrap();
    pt.store(object);
    assert_eq!(pt.managers(), [r#"one Apply {"f:spec":{"f:type":{}}}"#]);
    let other = config(json!({"spec":{"type":"NodePort"},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.5"}]}}}));
    let object = pt.with("status", &reset_spec, |fields, live| fields.apply(live, &other, "lb", false)).unwrap();
    pt.store(object);
    assert_eq!(pt.managers()[1], r#"lb Apply {"f:status":{"f:loadBalancer":{"f:ingress":{}}}}"#);
    assert_eq!(pt.get("/metadata/managedFields/1/subresource"), "status");
}

#[test]
fn a_write_that_changes_nothing_keeps_its_times() {
    let entry = |time: &str| json!({"manager":"a","operation":"Update","time":time,"fieldsV1":{"f:data":{}}});
    let old = json!({"metadata":{"managedFields":[entry("1")],"resourceVersion":"5"},"data":{"a":"1"}});
    let mut same = json!({"metadata":{"managedFields":[entry("2")]},"data":{"a":"1"}});
    forget_new_times_if_unchanged(&old, &mut same);
    assert_eq!(same["metadata"]["managedFields"][0]["time"], "1");
    let mut changed = json!({"metadata":{"managedFields":[entry("2")]},"data":{"a":"2"}});
    forget_new_times_if_unchanged(&old, &mut changed);
    assert_eq!(changed["metadata"]["managedFields"][0]["time"], "2");
}

/// Returns data that is not empty: Kubernetes stores no empty map, so applying one would change the object every time.
fn some_data() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abcd]", "[12]", 1..4).prop_map(|data| json!({"data":data}))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn apply_is_idempotent(configs in proptest::collection::vec((0..3_usize, some_data()), 1..8)) {
        let mut cm = Object::config_map();
        for (manager, config) in configs {
            let manager = ["one", "two", "three"][manager];
            cm.apply_with(manager, config.clone(), true).unwrap();
            let before = cm.live.clone();
            cm.apply_with(manager, config, true).unwrap();
            prop_assert_eq!(&cm.live, &before);
        }
    }

    #[test]
    fn disjoint_managers_commute(a in some_data(), b in some_data()) {
        let b = json!({"metadata":{"labels":b["data"]}});
        let run = |order: [(&str, &Value); 2]| {
            let mut cm = Object::config_map();
            for (manager, config) in order {
                cm.apply(manager, config.clone()).unwrap();
            }
            (cm.get("/data"), cm.get("/metadata/labels"))
        };
        prop_assert_eq!(run([("one", &a), ("two", &b)]), run([("two", &b), ("one", &a)]));
    }

    #[test]
    fn what_is_no_longer_applied_goes_unless_somebody_else_owns_it(
        first in some_data(), other in some_data(), second in some_data()
    ) {
        let mut cm = Object::config_map();
        cm.apply_with("one", first.clone(), true).unwrap();
        cm.apply_with("two", other.clone(), true).unwrap();
        cm.apply_with("one", second.clone(), true).unwrap();
        let data = cm.get("/data");
        for key in ["a", "b", "c", "d"] {
            let by = |config: &Value| config["data"].get(key).is_some();
            prop_assert_eq!(data.get(key).is_some(), by(&other) || by(&second), "{}", key);
        }
    }
}

#[test]
fn a_record_that_becomes_unreadable_is_put_back() {
    let good = json!([{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]);
    let with = |entries: Value| json!({"metadata": {"managedFields": entries}});
    let cases = [
        (with(good.clone()), with(json!([])), with(json!([])), ""),
        (with(json!([])), with(good.clone()), with(good.clone()), ""),
        (with(good.clone()), with(json!([{}])), with(good.clone()), "operation must be `Apply` or `Update`"),
        (json!({"metadata": {}}), with(json!([{}])), json!({"metadata": {}}), "operation must be `Apply` or `Update`"),
    ];
    for (old, new, kept, why) in cases {
        let mut changed = new.clone();
        let reason = keep_readable_record(&old, &mut changed).err().map_or(String::new(), |e| e.to_string());
        assert_eq!((changed, reason.as_str()), (kept, why), "{old} {new}");
    }
}
