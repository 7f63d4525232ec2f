//! Makes random bodies and patches from a valid object.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

pub const JSON: &str = "application/json";
pub const YAML: &str = "application/yaml";
pub const JSON_PATCH: &str = "application/json-patch+json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";

/// A body and its content type.
#[derive(Clone, Debug)]
pub struct Document {
    pub media_type: &'static str,
    pub text: String,
}

/// Makes a value that a field seldom expects.
fn odd_value() -> impl Strategy<Value = Value> {
    let deep =
        (0..60).fold(json!("deep"), |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) });
    let texts = [
        "",
        "a",
        "A_b!",
        "-",
        "*",
        "0",
        "-1",
        "1Gi",
        "1e400",
        "9999999999999999999999",
        "100%",
        "-5%",
        "NaN",
        "true",
        "null",
        "2026-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "v1",
        "a/b/c",
        "../../etc",
        "http://[::1",
        "::1",
        "10.0.0.0/33",
        "\u{0}",
        "\u{202e}x",
        "é",
        "{{.}}",
        "$(x)",
        "self.x > 1",
        "{.items[*",
        "=(",
        "a in (b",
        "!",
    ];
    prop_oneof![
        select(texts.to_vec()).prop_map(|text| json!(text)),
        Just(Value::Null),
        any::<bool>().prop_map(|truth| json!(truth)),
        select(vec![0, -1, 1, 65_535, 65_536, i64::from(i32::MAX), i64::MAX, i64::MIN]).prop_map(|n| json!(n)),
        select(vec![0.5, -0.0, 1e300]).prop_map(|n| json!(n)),
        Just(json!(u64::MAX)),
        Just(json!({})),
        Just(json!([])),
        Just(json!([null])),
        Just(json!({"": ""})),
        Just(json!("x".repeat(300))),
        Just(json!(vec!["a"; 40])),
        Just(deep),
    ]
}

/// A change of one value in an object.
#[derive(Clone, Debug)]
enum Change {
    Replace(Value),
    Remove,
    /// Adds a field with an unknown name, or an item at the end of a list.
    Add(Value),
    /// Adds a copy of the item to its list. Does nothing to a field.
    Duplicate,
}

/// Makes a change and the path of indexes to its value.
fn change() -> impl Strategy<Value = (Vec<Index>, Change)> {
    let change = prop_oneof![
        4 => odd_value().prop_map(Change::Replace),
        2 => Just(Change::Remove),
        1 => odd_value().prop_map(Change::Add),
        1 => Just(Change::Duplicate),
    ];
    (vec(any::<Index>(), 1..6), change)
}

/// Changes the value at a path of indexes. A path may end early.
fn apply(value: &mut Value, path: &[Index], change: &Change) {
    let Some((first, rest)) = path.split_first() else { return };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let key = fields.keys().nth(first.index(fields.len())).cloned().unwrap_or_default();
            let is_deeper = fields[&key].is_object() || fields[&key].is_array();
            match change {
                _ if is_deeper && !rest.is_empty() => {
                    fields.entry(key).and_modify(|inner| apply(inner, rest, change));
                }
                Change::Replace(new) => drop(fields.insert(key, new.clone())),
                Change::Remove => drop(fields.remove(&key)),
                Change::Add(new) => drop(fields.insert("unknownField".into(), new.clone())),
                Change::Duplicate => {}
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = first.index(items.len());
            match change {
                _ if !rest.is_empty() && (items[at].is_object() || items[at].is_array()) => {
                    apply(&mut items[at], rest, change);
                }
                Change::Replace(new) => items[at] = new.clone(),
                Change::Remove => drop(items.remove(at)),
                Change::Add(new) => items.push(new.clone()),
                Change::Duplicate => items.push(items[at].clone()),
            }
        }
        _ => {}
    }
}

fn changed(object: &Value) -> impl Strategy<Value = Value> + use<> {
    let object = object.clone();
    vec(change(), 0..4).prop_map(move |changes| {
        let mut value = object.clone();
        changes.iter().for_each(|(path, change)| apply(&mut value, path, change));
        value
    })
}

/// A damage to the text of a document.
#[derive(Clone, Debug)]
enum Damage {
    None,
    /// Cuts the text off at a place.
    Cut(Index),
    /// Inserts a piece at a place.
    Insert(Index, &'static str),
    /// Inserts a piece at the beginning.
    Prepend(&'static str),
}

fn damage() -> impl Strategy<Value = Damage> {
    let pieces =
        vec!["\"", "{", "]", ",", "\\", "\t", "\u{0}", "&a ", "*a ", "!!float ", "- ", ": ", "\n", "\u{feff}", "%"];
    // The first one duplicates a key. The second one grows when its aliases are expanded.
    let heads = vec![
        r#"{"kind":"Pod","kind":"#,
        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n",
        "---\n---\n",
        "[[[[[[",
    ];
    prop_oneof![
        6 => Just(Damage::None),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), select(pieces)).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        1 => select(heads).prop_map(Damage::Prepend),
    ]
}

fn damaged(text: &str, damage: &Damage) -> String {
    let at = |index: &Index| char_boundary(text, index.index(text.len() + 1));
    match damage {
        Damage::None => text.to_owned(),
        Damage::Cut(index) => text[..at(index)].to_owned(),
        Damage::Insert(index, piece) => {
            let (before, after) = text.split_at(at(index));
            format!("{before}{piece}{after}")
        }
        Damage::Prepend(head) => format!("{head}{text}"),
    }
}

/// Returns the last place up to `at` at which a character begins.
fn char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|place| text.is_char_boundary(*place)).unwrap_or_default()
}

/// Makes bodies of POST and PUT. They are JSON, which is valid YAML too.
pub fn bodies(object: &Value) -> impl Strategy<Value = Document> + use<> {
    let types = select(vec![JSON, JSON, YAML, "application/json; charset=utf-8", "text/plain", ""]);
    (changed(object), damage(), types)
        .prop_map(|(value, damage, media_type)| Document { media_type, text: damaged(&value.to_string(), &damage) })
}

/// Makes patches in all four forms.
pub fn patches(object: &Value) -> impl Strategy<Value = Document> + use<> {
    let merged = (changed(object), directive()).prop_map(|(mut value, (key, directive))| {
        if let Some(fields) = value.as_object_mut() {
            fields.extend(directive.map(|directive| (key.to_owned(), directive)));
        }
        value
    });
    let types = select(vec![MERGE, STRATEGIC, STRATEGIC, APPLY]);
    let trees = (merged, types).prop_map(|(value, media_type)| (value, media_type));
    let operations = operations(object).prop_map(|operations| (operations, JSON_PATCH));
    let patch = prop_oneof![3 => trees, 1 => operations];
    (patch, damage())
        .prop_map(|((value, media_type), damage)| Document { media_type, text: damaged(&value.to_string(), &damage) })
}

/// Makes a directive of strategic merge patches, with its key.
fn directive() -> impl Strategy<Value = (&'static str, Option<Value>)> {
    let keys = vec![
        "$patch",
        "$retainKeys",
        "$setElementOrder/spec",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "spec",
        "metadata",
    ];
    let values = prop_oneof![
        Just(json!("replace")),
        Just(json!("delete")),
        Just(json!(["a", 5])),
        Just(json!([{"name": "c"}])),
        Just(json!({"$patch": "delete"})),
        Just(json!({"$patch": "replace", "finalizers": ["x"]})),
        Just(json!({"containers": [{"$patch": "delete", "name": "c"}, {"$patch": "merge"}]})),
        odd_value(),
    ];
    (select(keys), proptest::option::of(values))
}

/// Makes a JSON patch with paths of the object, and with some that do not exist.
fn operations(object: &Value) -> impl Strategy<Value = Value> + use<> {
    let mut places = vec!["", "/", "/-", "/metadata/labels/-1", "/spec/0", "/~2", "no/slash"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    pointers(object, "", &mut places);
    let verbs = select(vec!["add", "remove", "replace", "move", "copy", "test", "none"]);
    let place = select(places);
    let operation = (verbs, place.clone(), place, odd_value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    vec(operation, 0..4).prop_map(Value::Array)
}

/// Collects the JSON pointers of all values.
fn pointers(value: &Value, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, inner)| pointers(inner, &format!("{path}/{key}"), into)),
        Value::Array(items) => {
            (0..).zip(items).for_each(|(at, inner): (usize, _)| pointers(inner, &format!("{path}/{at}"), into))
        }
        _ => {}
    }
}

#[test]
fn random_paths_reach_every_place() {
    let mut value = json!({"a": [{"b": 1}]});
    let mut places = Vec::new();
    pointers(&value, "", &mut places);
    assert_eq!(places, ["", "/a", "/a/0", "/a/0/b"]);
    use proptest::strategy::ValueTree;
    let runner = &mut proptest::test_runner::TestRunner::deterministic();
    let path: Vec<Index> = (0..3).map(|_| any::<Index>().new_tree(runner).unwrap().current()).collect();
    apply(&mut value, &path, &Change::Replace(json!("x")));
    assert_eq!(value, json!({"a": [{"b": "x"}]}));
    apply(&mut value, &path[..1], &Change::Remove);
    assert_eq!(value, Value::Object(Map::new()));
}
