//! Rules in CEL over a custom resource: every one that does not hold, with its message.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.

pub mod compiled;
#[cfg(test)]
mod tests;
mod values;

use cel::declared::accessible;
use cel::{Failure, Meter, Program, Value, escaped};
use compiled::{Compiled, Refusal, compiled};
use proto::meta::status::FieldError;
use proto::schema::structural::json_path::JsonPath;
use proto::schema::structural::lists::below;
use proto::schema::structural::validate::correlated;
use proto::schema::structural::{Additional, Rule, Structural};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all rules of one object may cost together.
const OBJECT_LIMIT: u64 = 10_000_000;
/// What one evaluation may cost.
const CALL_LIMIT: u64 = 1_000_000;
/// Longer messages of expressions are not shown.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The rules of a schema, compiled once.
#[derive(Debug)]
pub struct Rules {
    schema: Structural,
    tree: Tree,
}

/// The rules of a node and of everything below it.
#[derive(Debug, Default)]
struct Tree {
    own: Vec<Compiled>,
    properties: BTreeMap<Arc<str>, Tree>,
    /// Of items, or of the values of a map.
    inner: Option<Box<Tree>>,
}

impl Rules {
    /// `None` where there is no rule at all.
    pub fn of(schema: &Structural) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let schema = accessible(schema, true);
        let tree = Tree::of(&schema)?;
        Some(Self { schema, tree })
    }

    /// Every rule that an object breaks, or a value that stands at `base`. Of an update, `old` is what was there.
    pub fn check(&self, object: &Json, old: Option<&Json>, base: &str) -> Vec<FieldError> {
        let mut run = Run { left: OBJECT_LIMIT, errors: Vec::new() };
        let place = Place { json: object, value: None, old, is_same: false };
        // Whatever ended it early is among the errors.
        let _ = run.walk(&self.tree, &self.schema, &place, base);
        run.errors
    }
}

fn has_rules(schema: &Structural) -> bool {
    !schema.rules.is_empty()
        || schema.properties.values().any(has_rules)
        || schema.items.as_deref().is_some_and(has_rules)
        || matches!(&schema.additional, Additional::Schema(values) if has_rules(values))
}

impl Tree {
    fn of(schema: &Structural) -> Option<Self> {
        let own = compiled(schema);
        let properties: BTreeMap<Arc<str>, Self> =
            schema.properties.iter().filter_map(|(name, property)| Some((name.clone(), Self::of(property)?))).collect();
        let inner = match (&schema.items, &schema.additional) {
            (Some(items), _) => Self::of(items),
            (None, Additional::Schema(values)) => Self::of(values),
            _ => None,
        };
        let is_empty = own.is_empty() && properties.is_empty() && inner.is_none();
        (!is_empty).then(|| Self { own, properties, inner: inner.map(Box::new) })
    }
}

/// A part of the object.
struct Place<'v> {
    json: &'v Json,
    /// As rules see it, once a rule has looked at it or at what it is part of.
    value: Option<Value>,
    /// What was there before the update.
    old: Option<&'v Json>,
    /// Whether the update leaves it, or what it is part of, as it was.
    is_same: bool,
}

struct Run {
    /// What may still be spent.
    left: u64,
    errors: Vec<FieldError>,
}

/// No further rules are run.
struct Ended;

impl Run {
    fn walk(&mut self, tree: &Tree, schema: &Structural, place: &Place<'_>, path: &str) -> Result<(), Ended> {
        let is_same = place.is_same || place.old == Some(place.json);
        let mut value = place.value.clone();
        if !tree.own.is_empty() {
            let value = value.get_or_insert_with(|| values::value(schema, place.json));
            let old = place.old.map(|old| if is_same { value.clone() } else { values::value(schema, old) });
            // Deviation: of a rule that is broken by what was there before, no warning tells.
            for one in tree.own.iter().filter(|one| one.uses_old_self || !is_same) {
                self.apply(one, place.json, value, old.as_ref(), path)?;
            }
        }
        match place.json {
            Json::Object(members) => {
                for (name, member) in members {
                    let is_named = schema.properties.contains_key(name.as_str());
                    let of_member = if is_named { tree.properties.get(name.as_str()) } else { tree.inner.as_deref() };
                    let (Some(of_member), Some(inner)) = (of_member, schema.field(name)) else { continue };
                    if member.is_null() {
                        continue;
                    }
                    let key = if is_named { escaped(name) } else { Some(name.clone()) };
                    let seen = key.and_then(|key| value.as_ref()?.field(&key.into()));
                    let old = place.old.and_then(|old| old.get(name));
                    let member = Place { json: member, value: seen, old, is_same };
                    self.walk(of_member, inner, &member, &below(path, name, is_named))?;
                }
            }
            Json::Array(items) => {
                let (Some(of_items), Some(inner)) = (&tree.inner, &schema.items) else { return Ok(()) };
                let seen = |index: usize| match &value {
                    Some(Value::List(list)) => list.items.get(index).cloned(),
                    _ => None,
                };
                for (index, item) in items.iter().enumerate() {
                    let old = correlated(schema, item, place.old.and_then(Json::as_array));
                    let item = Place { json: item, value: seen(index), old, is_same };
                    self.walk(of_items, inner, &item, &format!("{path}[{index}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Evaluates one rule, and notes what it says against the value.
    fn apply(
        &mut self,
        one: &Compiled,
        json: &Json,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Result<(), Ended> {
        let program = match &one.program {
            Ok(program) => program,
            Err(Refusal::Missing(_)) => return Ok(()),
            Err(Refusal::Invalid(why)) => {
                self.errors.push(invalid(path, json, &format!("rule compile error: {why}")));
                return Ok(());
            }
        };
        let old = match (one.uses_old_self, one.is_optional(), old) {
            (true, true, old) => Value::Optional(old.cloned().map(Arc::new)),
            // A change needs a before.
            (true, false, None) => return Ok(()),
            (_, _, old) => old.cloned().unwrap_or(Value::Null),
        };
        let variables = vec![value.clone(), old];
        let found = self.spend(program, variables.clone(), json, path)?;
        let rule = &one.rule;
        match found {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let own = match &one.message {
                    Some(Ok(message)) => self.message(message, variables, json, path)?,
                    _ => None,
                };
                let message = own.unwrap_or_else(|| message_or_default(rule));
                self.errors.push(refusal(rule, json, &below_path(path, &rule.field_path), &message));
            }
            Err(Failure::TooCostly) => {
                let message = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                     call cost exceeds limit for rule: {}",
                    named(rule)
                );
                self.errors.push(invalid(path, json, &message));
                return Err(Ended);
            }
            Err(Failure::Error(why)) if why.starts_with("no such overload") => {
                let message = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    named(rule)
                );
                self.errors.push(invalid(path, json, &message));
            }
            Err(Failure::Error(why)) => {
                self.errors.push(invalid(path, json, &format!("{why} evaluating rule: {}", named(rule))));
            }
        }
        Ok(())
    }

    /// Evaluates, and takes what it cost off the object's budget.
    fn spend(
        &mut self,
        program: &Program,
        variables: Vec<Value>,
        json: &Json,
        path: &str,
    ) -> Result<Result<Value, Failure>, Ended> {
        let mut meter = Meter::new(CALL_LIMIT);
        let found = program.run(variables, &mut meter);
        match self.left.checked_sub(meter.cost()) {
            Some(left) => {
                self.left = left;
                Ok(found)
            }
            None => {
                let message =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                self.errors.push(invalid(path, json, message));
                Err(Ended)
            }
        }
    }

    /// What the message's expression says, if it is fit to be shown.
    fn message(
        &mut self,
        program: &Program,
        variables: Vec<Value>,
        json: &Json,
        path: &str,
    ) -> Result<Option<String>, Ended> {
        Ok(match self.spend(program, variables, json, path)? {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let is_fit = !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE_BYTES;
                is_fit.then(|| text.to_owned())
            }
            _ => None,
        })
    }
}

/// What errors call a rule.
fn named(rule: &Rule) -> &str {
    let message = rule.message.trim();
    if message.is_empty() { rule.rule.trim() } else { message }
}

fn message_or_default(rule: &Rule) -> String {
    let message = rule.message.trim();
    if message.is_empty() { format!("failed rule: {}", rule.rule.trim()) } else { message.to_owned() }
}

fn below_path(path: &str, field_path: &str) -> String {
    let parsed = Some(field_path).filter(|path| !path.is_empty()).and_then(JsonPath::parse);
    match parsed.as_ref().and_then(JsonPath::names) {
        Some(names) => names.iter().fold(path.to_owned(), |path, name| below(&path, name, true)),
        None => path.to_owned(),
    }
}

/// Objects and lists are not shown.
fn invalid(path: &str, json: &Json, message: &str) -> FieldError {
    let path = if path.is_empty() { "<nil>" } else { path };
    if json.is_object() || json.is_array() {
        let message = format!("Invalid value: {message}");
        return FieldError { field: path.to_owned(), reason: "FieldValueInvalid", message };
    }
    FieldError::invalid(path, json, message)
}

fn refusal(rule: &Rule, json: &Json, path: &str, message: &str) -> FieldError {
    let shown = if path.is_empty() { "<nil>" } else { path };
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(shown, message),
        Some("FieldValueRequired") => FieldError::required(shown, message),
        Some("FieldValueDuplicate") if json.is_object() || json.is_array() => {
            FieldError { field: shown.to_owned(), reason: "FieldValueDuplicate", message: "Duplicate value".to_owned() }
        }
        Some("FieldValueDuplicate") => FieldError::duplicate(shown, json),
        _ => invalid(path, json, message),
    }
}
