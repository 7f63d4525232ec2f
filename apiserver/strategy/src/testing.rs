//! Helpers of the tests of validation. They pass an object through decoding, defaults and the strategy of its kind, as a
//! write does, and return the errors or warnings as text.

pub mod generated;

use crate::Strategy;
use crate::gates::Gates;
use crate::kinds;
use crate::write_context::WriteContext;
use component_base::env::Env;
use proto::resources::{Catalogue, Resource, Target};
use proto::schema::{apply_defaults, decode};
use request::UserInfo;
use serde_json::{Value, json};
use std::sync::Arc;

/// A kind under test, found by the `apiVersion` and `kind` of its object.
struct Kind {
    target: Target,
    strategy: Arc<dyn Strategy>,
    gates: Gates,
}

const BUILTIN: StrategyOf = |resource| kinds::of(resource);

/// Finds the strategy of a row.
pub type StrategyOf = fn(&Arc<Resource>) -> Arc<dyn Strategy>;

impl Kind {
    fn of(strategy_of: StrategyOf, object: &Value) -> Self {
        let (group, version) = proto::gvk::split_api_version(object["apiVersion"].as_str().unwrap_or_default());
        let gvk = proto::Gvk::new(group, version, object["kind"].as_str().unwrap_or_default());
        let target = Catalogue::complete().by_gvk(&gvk).unwrap_or_else(|| panic!("no kind {gvk}"));
        let strategy = strategy_of(&target.row);
        Self { target, strategy, gates: Gates::default() }
    }

    /// Decodes and defaults an object and converts it to the storage version. Adds a valid name and namespace.
    fn stored(&self, mut object: Value) -> Value {
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            metadata["name"] = json!("a");
        }
        if self.target.row.is_namespaced() && metadata["namespace"].is_null() {
            metadata["namespace"] = json!("shop");
        }
        let decoded = decode(&self.target.served().schema, object).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(decoded.strict_errors, Vec::<String>::new());
        let mut object = decoded.value;
        apply_defaults(&self.target.gvk(), &mut object);
        self.target.row.to_storage(self.target.served, object)
    }

    fn with_context<T>(&self, subresource: &str, then: impl FnOnce(&WriteContext<'_>) -> T) -> T {
        let env = Env::simulated(1);
        then(&WriteContext {
            user: &UserInfo::new("ann", &[]),
            row: &self.target.row,
            served: self.target.served(),
            namespace: if self.target.row.is_namespaced() { "shop" } else { "" },
            name: "a",
            subresource,
            dry_run: false,
            now: env.wall(),
            random: &env.random("test"),
            gates: &self.gates,
            warnings: Vec::new(),
        })
    }
}

/// Returns the errors of a creation, each as `field: message`.
pub fn create(object: Value) -> Vec<String> {
    create_by(BUILTIN, object)
}

/// Returns the errors of a creation, with the strategies of another table.
pub fn create_by(strategy_of: StrategyOf, object: Value) -> Vec<String> {
    errors_of_create(&Kind::of(strategy_of, &object), object)
}

/// Returns the errors of a creation with these feature gates.
pub fn create_with(gates: Gates, object: Value) -> Vec<String> {
    errors_of_create(&Kind { gates, ..Kind::of(BUILTIN, &object) }, object)
}

fn errors_of_create(kind: &Kind, object: Value) -> Vec<String> {
    let mut object = kind.stored(object);
    let errors = kind.with_context("", |context| {
        kind.strategy.prepare_for_create(context, &mut object);
        kind.strategy.validate(context, &object)
    });
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the warnings of a creation.
pub fn warnings(object: Value) -> Vec<String> {
    let kind = Kind::of(BUILTIN, &object);
    let object = kind.stored(object);
    kind.with_context("", |context| kind.strategy.warnings_on_create(context, &object))
}

/// Returns the errors of an update of a subresource; the empty name means the object itself.
pub fn update_of(subresource: &str, old: Value, new: Value) -> Vec<String> {
    update_by(BUILTIN, subresource, old, new)
}

/// Returns the errors of an update, with the strategies of another table.
pub fn update_by(strategy_of: StrategyOf, subresource: &str, old: Value, new: Value) -> Vec<String> {
    let kind = Kind::of(strategy_of, &old);
    let (old, mut new) = (kind.stored(old), kind.stored(new));
    new["metadata"]["resourceVersion"] = json!("1");
    let errors = kind.with_context(subresource, |context| {
        kind.strategy.prepare_for_update(context, &mut new, &old);
        kind.strategy.validate_update(context, &new, &old)
    });
    errors.iter().map(ToString::to_string).collect()
}

/// Returns the errors of an update of the object itself.
pub fn update(old: Value, new: Value) -> Vec<String> {
    update_of("", old, new)
}

/// Returns the object as a creation prepares it.
pub fn prepared(object: Value) -> Value {
    let kind = Kind::of(BUILTIN, &object);
    let mut object = kind.stored(object);
    kind.with_context("", |context| kind.strategy.prepare_for_create(context, &mut object));
    object
}

/// Returns the new object as an update of the object itself prepares it.
pub fn prepared_update(old: Value, new: Value) -> Value {
    let kind = Kind::of(BUILTIN, &old);
    let (old, mut new) = (kind.stored(old), kind.stored(new));
    kind.with_context("", |context| kind.strategy.prepare_for_update(context, &mut new, &old));
    new
}

/// Returns the value at a JSON pointer, and creates missing objects on the way.
pub fn at<'v>(object: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(object, |value, part| match part.parse::<usize>() {
        Ok(index) if value.is_array() => &mut value[index],
        _ => &mut value[part],
    })
}
