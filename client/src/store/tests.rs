//! Tests of `Store`: its indexes, and which objects it holds whole.

use super::*;
use crate::cached::{Cached, PartialObject, typed, typed_ref};
use proptest::prelude::*;
use std::time::Duration;

fn object(namespace: &str, name: &str, labels: &[(&str, &str)]) -> Arc<PartialObject> {
    let mut object = PartialObject::default();
    object.metadata.namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    object.metadata.name = Some(name.to_owned());
    object.metadata.labels = Some(labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect());
    Arc::new(object)
}

fn labels(object: &PartialObject) -> Vec<String> {
    object.metadata.labels.iter().flatten().map(|(k, v)| format!("{k}={v}")).collect()
}

fn indexed() -> Store {
    let store = Store::default();
    store.index("labels", Box::new(|object| labels(typed_ref(object))));
    store
}

fn read(store: &Store, selection: Selection<'_>) -> Vec<Arc<PartialObject>> {
    store.read(selection).into_iter().map(typed).collect()
}

fn labelled<'a>(value: &'a str) -> Selection<'a> {
    Selection::Indexed { index: "labels", value }
}

#[test]
fn a_namespace_is_not_its_neighbours() {
    let store = indexed();
    for (namespace, name) in [("a", "z"), ("a-b", "x"), ("a", "b"), ("", "a"), ("ab", "c")] {
        store.insert(object(namespace, name, &[]));
    }
    let keys: Vec<String> = read(&store, Selection::Namespace("a")).iter().map(|o| o.cache_key()).collect();
    assert_eq!(keys, ["a/b", "a/z"]);
}

#[test]
fn an_index_may_come_late() {
    let store = Store::default();
    store.insert(object("a", "b", &[("app", "web")]));
    store.index("labels", Box::new(|object| labels(typed_ref(object))));
    assert_eq!(read(&store, labelled("app=web")).len(), 1);
}

#[test]
fn the_objects_of_an_index_are_counted() {
    let store = indexed();
    for (name, labels) in
        [("a", [("app", "web")]), ("b", [("app", "web")]), ("c", [("app", "db")]), ("d", [("b", "web")])]
    {
        store.insert(object("ns", name, &labels));
    }
    let counts = || {
        let mut counts = Vec::new();
        store.counts("labels", "app=", |rest, count| counts.push(format!("{rest} {count}")));
        counts.join(", ")
    };
    assert_eq!(counts(), "db 1, web 2");
    store.insert(object("ns", "a", &[("app", "db")]));
    store.remove_as_of("ns/b", None);
    assert_eq!(counts(), "db 2");
}

fn of_version(name: &str, version: &str) -> Arc<PartialObject> {
    let mut object = object("ns", name, &[]);
    Arc::make_mut(&mut object).metadata.resource_version = Some(version.to_owned());
    object
}

/// Returns the keys of the objects that a store holds whole.
fn whole(store: &Store) -> Vec<String> {
    let contents = store.contents.read();
    let whole = contents.objects.iter().filter(|(_, slot)| matches!(slot.held, Held::Whole(..)));
    whole.map(|(key, _)| key.to_string()).collect()
}

#[test]
fn the_objects_of_the_last_changes_are_whole() {
    let store = Store::default();
    store.pack(Whole::at_most(2), Codec::of::<PartialObject>());
    let whole = || whole(&store);
    for name in ["a", "b", "c"] {
        store.insert(of_version(name, "1"));
    }
    assert_eq!(whole(), ["ns/b", "ns/c"]);
    assert_eq!(store.insert(of_version("b", "2")).map(typed), Some(of_version("b", "1")));
    assert_eq!(whole(), ["ns/b", "ns/c"]);
    assert_eq!(store.insert(of_version("a", "1")).map(typed), Some(of_version("a", "1")));
    assert_eq!(whole(), ["ns/b", "ns/c"], "a list repeats what is packed");
    store.remove_as_of("ns/b", None);
    store.insert(of_version("a", "2"));
    assert_eq!(whole(), ["ns/a"], "the other of the last two changes was to b, which has gone");
    assert_eq!(store.get("ns/a").map(typed), Some(of_version("a", "2")));
}

#[test]
fn objects_that_are_read_stay_whole_until_a_sweep_finds_them_unused() {
    let store = indexed();
    store.pack(Whole { least: 1, most: 4, sweep_every: Some(SWEEP) }, Codec::of::<PartialObject>());
    let sweep = || {
        let changes = store.begin_sweep();
        store.sweep(changes);
        whole(&store)
    };
    for name in ["a", "b", "c", "d", "e"] {
        store.insert(of_version(name, "1"));
    }
    assert_eq!(whole(&store), ["ns/b", "ns/c", "ns/d", "ns/e"], "four are the most");
    assert_eq!(sweep(), ["ns/b", "ns/c", "ns/d", "ns/e"], "all were changed just now");
    assert!(store.get("ns/c").is_some());
    assert_eq!(sweep(), ["ns/c"]);
    read(&store, Selection::All);
    assert_eq!(whole(&store), ["ns/c"], "a look at everything is no use of anything");
    assert_eq!(store.get("ns/a").map(typed), Some(of_version("a", "1")));
    assert_eq!(whole(&store), ["ns/a", "ns/c"]);
    assert_eq!(sweep(), ["ns/a"]);
    assert!(sweep().is_empty());
    store.insert(object("ns", "f", &[("app", "web")]));
    (0..3).for_each(|_| drop(sweep()));
    assert_eq!(read(&store, labelled("app=web")).len(), 1);
    assert_eq!(whole(&store), ["ns/f"]);
    (["a", "b", "c", "d", "e"]).iter().for_each(|name| drop(store.remove_as_of(&format!("ns/{name}"), None)));
    (0..3).for_each(|_| drop(sweep()));
    assert_eq!(whole(&store), ["ns/f"], "a store of few objects packs none");
}

#[test]
fn an_index_selects_by_what_its_values_say() {
    let store = indexed();
    for (name, labels) in [("c", [("app", "web")]), ("a", [("app", "api")]), ("b", [("appendix", "web")])] {
        store.insert(object("ns", name, &labels));
    }
    let names = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        let found = read(&store, Selection::Accepted { index: "labels", prefix: "app=", wanted });
        found.iter().map(|object| object.cache_key()).collect()
    };
    assert_eq!(names(&|_| true), ["ns/a", "ns/c"]);
    assert_eq!(names(&|value| value == "web"), ["ns/c"]);
    assert_eq!((store.count("labels", "app=web"), store.count("labels", "app=none")), (1, 0));
}

/// A store that sweeps is given sweeps by its informer; here by the tests.
const SWEEP: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
enum Op {
    Insert(u8, u8),
    Remove(u8),
    Read(u8),
    Sweep,
}

proptest! {
    /// Indexes that were updated step by step equal a rebuild from scratch, and packed objects are as they were.
    #[test]
    fn indexes_equal_a_rebuild(ops in prop::collection::vec(
        prop_oneof![(0u8..6, 0u8..8).prop_map(|(n, l)| Op::Insert(n, l)), (0u8..6).prop_map(Op::Remove),
                     (0u8..6).prop_map(Op::Read), Just(Op::Sweep)], 0..60), whole in 0usize..6)
    {
        let store = indexed();
        store.pack(Whole { least: whole, most: whole + 3, sweep_every: Some(SWEEP) }, Codec::of::<PartialObject>());
        let mut model: BTreeMap<String, Arc<PartialObject>> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Insert(name, bits) => {
                    let values = [("a", "1"), ("b", "1"), ("b", "2")];
                    let chosen: Vec<_> =
                        values.iter().enumerate().filter(|(i, _)| bits & (1 << i) != 0).map(|(_, v)| *v).collect();
                    let object = object("ns", &format!("n{name}"), &chosen);
                    prop_assert_eq!(store.insert(object.clone()).map(typed), model.insert(object.cache_key(), object));
                }
                Op::Read(name) => {
                    let key = format!("ns/n{name}");
                    prop_assert_eq!(store.get(&key).map(typed), model.get(&key).cloned());
                }
                Op::Sweep => {
                    let changes = store.begin_sweep();
                    store.sweep(changes);
                    store.compact();
                }
                Op::Remove(name) => {
                    let key = format!("ns/n{name}");
                    prop_assert_eq!(store.remove_as_of(&key, None).map(typed), model.remove(&key));
                }
            }
        }
        let rebuilt = indexed();
        for object in model.values() {
            rebuilt.insert(object.clone());
        }
        prop_assert_eq!(read(&store, Selection::All), model.values().cloned().collect::<Vec<_>>());
        prop_assert_eq!(store.index_values("labels"), rebuilt.index_values("labels"));
        for value in rebuilt.index_values("labels") {
            prop_assert_eq!(read(&store, labelled(&value)), read(&rebuilt, labelled(&value)));
        }
    }
}
