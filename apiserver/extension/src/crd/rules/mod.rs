//! Evaluates the CEL rules of a schema over a custom resource, and returns an error for each rule that does not hold.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.

pub mod compiled;
#[cfg(test)]
mod tests;
mod values;

use cel::declared::accessible;
use cel::{Failure, Meter, Program, Value, escaped};
use compiled::{CompiledRule, ExpressionError, compiled};
use proto::meta::status::FieldError;
use proto::schema::structural::json_path::JsonPath;
use proto::schema::structural::lists::below;
use proto::schema::structural::validate::correlated;
use proto::schema::structural::{Additional, Rule, Structural};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum cost of all rules over one object.
const OBJECT_LIMIT: u64 = 10_000_000;
/// Maximum cost of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// Maximum size of the result of a `messageExpression`. A longer one is not shown.
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
    own: Vec<CompiledRule>,
    properties: BTreeMap<Arc<str>, Tree>,
    /// The rules of list items, or of map values.
    inner: Option<Box<Tree>>,
}

impl Rules {
    /// Compiles the rules of a schema; `None` when it has none.
    pub fn of(schema: &Structural) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let schema = accessible(schema, true);
        let tree = Tree::of(&schema)?;
        Some(Self { schema, tree })
    }

    /// Returns the errors of an object, or of a value whose path is `base`. `old` is the value before an update.
    pub fn check(&self, object: &Json, old: Option<&Json>, base: &str) -> Vec<FieldError> {
        let mut evaluation = Evaluation { left: OBJECT_LIMIT, errors: Vec::new() };
        let node = Node { json: object, value: None, old, is_same: false };
        // If it is aborted, its errors say why.
        let _ = evaluation.walk(&self.tree, &self.schema, &node, base);
        evaluation.errors
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

/// One value in the object.
struct Node<'v> {
    json: &'v Json,
    /// The CEL value, if a rule of this node, or of a node above it, has needed it.
    value: Option<Value>,
    /// The value before the update.
    old: Option<&'v Json>,
    /// The update leaves this node, or a node above it, unchanged.
    is_same: bool,
}

/// An evaluation of all rules over one object.
struct Evaluation {
    /// The cost that is left of `OBJECT_LIMIT`.
    left: u64,
    errors: Vec<FieldError>,
}

/// A cost limit is exceeded, and no further rules are evaluated.
struct Aborted;

impl Evaluation {
    /// Evaluates the rules of a node and of the nodes below it.
    fn walk(&mut self, tree: &Tree, schema: &Structural, node: &Node<'_>, path: &str) -> Result<(), Aborted> {
        let is_same = node.is_same || node.old == Some(node.json);
        let mut value = node.value.clone();
        if !tree.own.is_empty() {
            let value = value.get_or_insert_with(|| values::value(schema, node.json));
            let old = node.old.map(|old| if is_same { value.clone() } else { values::value(schema, old) });
            // Deviation: there is no warning when the old object breaks a rule already.
            for compiled_rule in tree.own.iter().filter(|compiled_rule| compiled_rule.uses_old_self || !is_same) {
                self.apply(compiled_rule, node.json, value, old.as_ref(), path)?;
            }
        }
        match node.json {
            Json::Object(members) => {
                for (name, member) in members {
                    let is_named = schema.properties.contains_key(name.as_str());
                    let of_member = if is_named { tree.properties.get(name.as_str()) } else { tree.inner.as_deref() };
                    let (Some(of_member), Some(inner)) = (of_member, schema.field(name)) else { continue };
                    if member.is_null() {
                        continue;
                    }
                    let key = if is_named { escaped(name) } else { Some(name.clone()) };
                    let value = key.and_then(|key| value.as_ref()?.field(&key.into()));
                    let old = node.old.and_then(|old| old.get(name));
                    let member = Node { json: member, value, old, is_same };
                    self.walk(of_member, inner, &member, &below(path, name, is_named))?;
                }
            }
            Json::Array(items) => {
                let (Some(of_items), Some(inner)) = (&tree.inner, &schema.items) else { return Ok(()) };
                let value_at = |index: usize| match &value {
                    Some(Value::List(list)) => list.items.get(index).cloned(),
                    _ => None,
                };
                for (index, item) in items.iter().enumerate() {
                    let old = correlated(schema, item, node.old.and_then(Json::as_array));
                    let item = Node { json: item, value: value_at(index), old, is_same };
                    self.walk(of_items, inner, &item, &format!("{path}[{index}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Evaluates one rule, and adds an error if it does not hold.
    fn apply(
        &mut self,
        compiled_rule: &CompiledRule,
        json: &Json,
        value: &Value,
        old: Option<&Value>,
        path: &str,
    ) -> Result<(), Aborted> {
        let program = match &compiled_rule.program {
            Ok(program) => program,
            Err(ExpressionError::Missing(_)) => return Ok(()),
            Err(ExpressionError::Invalid(why)) => {
                self.errors.push(invalid(path, json, &format!("rule compile error: {why}")));
                return Ok(());
            }
        };
        let old = match (compiled_rule.uses_old_self, compiled_rule.is_optional(), old) {
            (true, true, old) => Value::Optional(old.cloned().map(Arc::new)),
            // A transition rule needs an old value.
            (true, false, None) => return Ok(()),
            (_, _, old) => old.cloned().unwrap_or(Value::Null),
        };
        let variables = vec![value.clone(), old];
        let found = self.spend(program, variables.clone(), json, path)?;
        let rule = &compiled_rule.rule;
        match found {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let own = match &compiled_rule.message {
                    Some(Ok(message)) => self.message(message, variables, json, path)?,
                    _ => None,
                };
                let message = own.unwrap_or_else(|| message_or_default(rule));
                self.errors.push(rule_error(rule, json, &below_path(path, &rule.field_path), &message));
            }
            Err(Failure::TooCostly) => {
                let message = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                     call cost exceeds limit for rule: {}",
                    named(rule)
                );
                self.errors.push(invalid(path, json, &message));
                return Err(Aborted);
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

    /// Evaluates a program, and subtracts its cost from the object's budget.
    fn spend(
        &mut self,
        program: &Program,
        variables: Vec<Value>,
        json: &Json,
        path: &str,
    ) -> Result<Result<Value, Failure>, Aborted> {
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
                Err(Aborted)
            }
        }
    }

    /// Returns the result of a `messageExpression`, if it can be shown.
    fn message(
        &mut self,
        program: &Program,
        variables: Vec<Value>,
        json: &Json,
        path: &str,
    ) -> Result<Option<String>, Aborted> {
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

/// Returns the name of a rule in errors: its message, or else its expression.
fn named(rule: &Rule) -> &str {
    let message = rule.message.trim();
    if message.is_empty() { rule.rule.trim() } else { message }
}

fn message_or_default(rule: &Rule) -> String {
    let message = rule.message.trim();
    if message.is_empty() { format!("failed rule: {}", rule.rule.trim()) } else { message.to_owned() }
}

/// Returns the path of an error at the `fieldPath` of a rule.
fn below_path(path: &str, field_path: &str) -> String {
    let parsed = Some(field_path).filter(|path| !path.is_empty()).and_then(JsonPath::parse);
    match parsed.as_ref().and_then(JsonPath::names) {
        Some(names) => names.iter().fold(path.to_owned(), |path, name| below(&path, name, true)),
        None => path.to_owned(),
    }
}

/// Returns an error for an invalid value. It does not show objects and lists.
fn invalid(path: &str, json: &Json, message: &str) -> FieldError {
    let path = if path.is_empty() { "<nil>" } else { path };
    if json.is_object() || json.is_array() {
        let message = format!("Invalid value: {message}");
        return FieldError { field: path.to_owned(), reason: "FieldValueInvalid", message };
    }
    FieldError::invalid(path, json, message)
}

/// Returns the error for a rule that does not hold, with the reason that the rule asks for.
fn rule_error(rule: &Rule, json: &Json, path: &str, message: &str) -> FieldError {
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
