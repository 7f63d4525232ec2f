//! The type checker: turns the parser's tree into nodes, or returns all errors at once.
//!
//! It infers types that are not written, such as those of an empty list or an accumulator, by unification. Corresponds to
//! github.com/google/cel-go/checker.

use super::extension::Extensions;
use super::functions::Overload;
use super::macros::UNUSED;
use super::node::{Call, Entry, Field, Kind, Loop, Node};
use super::source::SyntaxError;
use super::syntax::{Comprehension, Expr, Syntax};
use super::types::Type;
use super::unify::Unifier;
use super::value::Value;
use std::sync::Arc;

/// Checks an expression over variables, whose slots are their indexes.
pub fn check(expression: &Expr, variables: &[(&str, Type)], extensions: &Extensions) -> Result<Node, Vec<SyntaxError>> {
    let scope = variables.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect();
    let mut checker = Checker { scope, extensions, unifier: Unifier::default(), errors: Vec::new() };
    let mut node = checker.node(expression);
    checker.write_types(&mut node);
    if checker.errors.is_empty() { Ok(node) } else { Err(checker.errors) }
}

struct Checker<'e> {
    /// Variables in scope, the innermost last.
    scope: Vec<(String, Type)>,
    extensions: &'e Extensions,
    unifier: Unifier,
    errors: Vec<SyntaxError>,
}

fn node(result: Type, kind: Kind) -> Node {
    Node { result, kind }
}

impl Checker<'_> {
    /// Records an error. The wrong expression gets the type `Dyn`, so that one mistake is reported once.
    fn wrong(&mut self, at: usize, message: String) -> Node {
        self.errors.push(SyntaxError { at, message });
        node(Type::Dyn, Kind::Literal(Value::Null))
    }

    fn node(&mut self, expression: &Expr) -> Node {
        let at = expression.at;
        match &expression.kind {
            Syntax::Literal(value) => node(type_of(value), Kind::Literal(value.clone())),
            Syntax::Ident(name) => self.ident(at, name),
            Syntax::Select(operand, field) => {
                if let Some(known) = expression.qualified_name().and_then(|name| self.qualified(&name)) {
                    return known;
                }
                let operand = self.node(operand);
                let kind = self.field(at, &operand, field, false);
                node(kind, Kind::Select(Box::new(operand), field.as_str().into()))
            }
            Syntax::Test(operand, field) => {
                let operand = self.node(operand);
                self.field(at, &operand, field, false);
                node(Type::Bool, Kind::Test(Box::new(operand), field.as_str().into()))
            }
            Syntax::OptionalSelect(operand, field) => {
                let operand = self.node(operand);
                let kind = self.field(at, &operand, field, true);
                node(kind, Kind::OptionalSelect(Box::new(operand), Arc::from(field.as_str())))
            }
            Syntax::Call(name, target, arguments) => self.call(at, name, target.as_deref(), arguments),
            Syntax::List(items) => self.list(items),
            Syntax::Map(entries) => self.map(entries),
            Syntax::Message(name, fields) => self.message(at, name, fields),
            Syntax::Comprehension(parsed) => self.comprehension(parsed),
        }
    }

    fn ident(&mut self, at: usize, name: &str) -> Node {
        if let Some(slot) = self.scope.iter().rposition(|(known, _)| known == name) {
            return node(self.scope[slot].1.clone(), Kind::Variable(slot));
        }
        type_name(name).unwrap_or_else(|| self.wrong(at, format!("undeclared reference to '{name}' (in container '')")))
    }

    /// Returns a type or a variable with dots in its name, unless the first part is a comprehension's variable.
    fn qualified(&self, name: &str) -> Option<Node> {
        if let Some(slot) = self.scope.iter().rposition(|(known, _)| known == name) {
            let first = name.split('.').next().unwrap_or(name);
            let is_hidden = self.scope[slot..].iter().any(|(known, _)| known == first);
            return (!is_hidden).then(|| node(self.scope[slot].1.clone(), Kind::Variable(slot)));
        }
        type_name(name)
    }

    /// Returns the type of a field of an operand.
    fn field(&mut self, at: usize, operand: &Node, name: &str, is_optional: bool) -> Type {
        let whole = self.unifier.resolve(&operand.result);
        let (target, is_wrapped) = whole.unwrapped();
        let found = match target {
            Type::Map(_, values) => Type::clone(values),
            Type::Object(object) => match object.field(name) {
                Some(field) => field,
                None => {
                    self.wrong(at, format!("undefined field '{name}'"));
                    Type::Dyn
                }
            },
            Type::Param(_) => {
                self.unifier.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn => Type::Dyn,
            other => {
                self.wrong(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_wrapped || is_optional { Type::optional(found) } else { found }
    }

    fn list(&mut self, parsed: &[(Expr, bool)]) -> Node {
        let mut common: Option<Type> = None;
        let (mut items, mut optional) = (Vec::with_capacity(parsed.len()), Vec::new());
        for (index, (item, is_optional)) in parsed.iter().enumerate() {
            let checked = self.node(item);
            let kind = self.element_type(item.at, &checked.result, *is_optional);
            self.join(item.at, &mut common, kind);
            items.push(checked);
            optional.extend(is_optional.then_some(index));
        }
        let common = common.unwrap_or_else(|| self.unifier.fresh());
        node(Type::list(common), Kind::List(items, optional))
    }

    /// Returns the type of an element; for an optional one, the type inside.
    fn element_type(&mut self, at: usize, kind: &Type, is_optional: bool) -> Type {
        if !is_optional {
            return kind.clone();
        }
        let kind = self.unifier.resolve(kind);
        match kind.unwrapped() {
            (inner, true) => inner.clone(),
            (Type::Dyn, false) => Type::Dyn,
            (other, false) => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.wrong(at, message);
                Type::Dyn
            }
        }
    }

    /// Unifies the types of a literal's items.
    fn join(&mut self, at: usize, common: &mut Option<Type>, kind: Type) {
        match common {
            None => *common = Some(kind),
            Some(Type::Dyn) => {}
            Some(known) if self.unifier.assignable(known, &kind) => {
                if self.unifier.resolve(&kind) == Type::Dyn {
                    *common = Some(Type::Dyn);
                }
            }
            Some(known) => {
                let (known, kind) = (self.unifier.resolve(known), self.unifier.resolve(&kind));
                self.wrong(at, format!("expected type '{known}' but found '{kind}'"));
            }
        }
    }

    fn map(&mut self, parsed: &[(Expr, Expr, bool)]) -> Node {
        let (mut of_keys, mut of_values) = (None, None);
        let mut entries = Vec::with_capacity(parsed.len());
        for (parsed_key, parsed_value, is_optional) in parsed {
            let (key, value) = (self.node(parsed_key), self.node(parsed_value));
            self.join(parsed_key.at, &mut of_keys, key.result.clone());
            let kind = self.element_type(parsed_value.at, &value.result, *is_optional);
            self.join(parsed_value.at, &mut of_values, kind);
            entries.push(Entry { key, value, is_optional: *is_optional });
        }
        let of_keys = of_keys.unwrap_or_else(|| self.unifier.fresh());
        let of_values = of_values.unwrap_or_else(|| self.unifier.fresh());
        node(Type::map(of_keys, of_values), Kind::Map(entries))
    }

    fn message(&mut self, at: usize, name: &str, parsed: &[(String, usize, Expr, bool)]) -> Node {
        let Some(whole) = self.extensions.message(name) else {
            return self.wrong(at, format!("undeclared reference to '{name}' (in container '')"));
        };
        let Type::Object(object) = &whole else { return self.wrong(at, format!("'{name}' is not a message type")) };
        let mut fields = Vec::with_capacity(parsed.len());
        for (field, place, value, is_optional) in parsed {
            let checked = self.node(value);
            let given = self.element_type(value.at, &checked.result, *is_optional);
            match object.field(field) {
                None => {
                    self.wrong(*place, format!("undefined field '{field}'"));
                }
                Some(wanted) if !self.unifier.assignable(&wanted, &given) => {
                    let given = self.unifier.resolve(&given);
                    let what = format!("expected type of field '{field}' is '{wanted}' but provided type is '{given}'");
                    self.wrong(*place, what);
                }
                Some(_) => {}
            }
            fields.push(Field { name: field.as_str().into(), value: checked, is_optional: *is_optional });
        }
        node(whole.clone(), Kind::Message(name.into(), fields))
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Expr>, parsed: &[Expr]) -> Node {
        // `sets.contains(…)` is a function of a library, not a method of a variable.
        let named = target.and_then(Expr::qualified_name).map(|prefix| format!("{prefix}.{name}"));
        let as_function = named
            .as_deref()
            .map(|name| self.extensions.overloads(name))
            .filter(|known| known.iter().any(|one| !one.is_member));
        let target = if as_function.is_some() { None } else { target };
        let known = as_function.unwrap_or_else(|| self.extensions.overloads(name));
        // The arguments of an unknown function are checked too.
        let arguments: Vec<Node> = target.into_iter().chain(parsed).map(|part| self.node(part)).collect();
        if known.is_empty() {
            return self.wrong(at, format!("undeclared reference to '{name}' (in container '')"));
        }
        self.overloaded(at, known, target.is_some(), arguments)
    }

    /// Selects the overloads that fit the arguments, and returns the call with its result type.
    fn overloaded(&mut self, at: usize, known: &'static [Overload], is_member: bool, arguments: Vec<Node>) -> Node {
        let name = known[0].name;
        let mut fitting: Vec<&'static Overload> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in known {
            if overload.is_member != is_member || overload.arguments.len() != arguments.len() {
                continue;
            }
            let base = self.unifier.fresh_block(overload.params);
            let wanted: Vec<Type> = overload.arguments.iter().map(|kind| shifted(kind, base)).collect();
            let given: Vec<&Type> = arguments.iter().map(|argument| &argument.result).collect();
            if !self.unifier.all_assignable(&given, &wanted) {
                continue;
            }
            fitting.push(overload);
            let gives = self.unifier.resolve(&shifted(&overload.result, base));
            result = Some(match result {
                Some(before) if before != gives => Type::Dyn,
                _ => gives,
            });
        }
        match result {
            Some(result) => node(result, Kind::Call(Call { name, overloads: fitting, arguments })),
            None => {
                let kinds: Vec<String> =
                    arguments.iter().map(|argument| self.unifier.resolve(&argument.result).to_string()).collect();
                let applied = match kinds.split_first() {
                    Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
                    _ => format!("({})", kinds.join(", ")),
                };
                self.wrong(at, format!("found no matching overload for '{name}' applied to '{applied}'"))
            }
        }
    }

    fn comprehension(&mut self, parsed: &Comprehension) -> Node {
        let range = self.node(&parsed.range);
        let start = self.node(&parsed.start);
        let over = self.unifier.resolve(&range.result);
        let (mut first, mut second) = match &over {
            Type::List(items) => (Type::clone(items), Type::Dyn),
            Type::Map(keys, values) => (Type::clone(keys), Type::clone(values)),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            Type::Param(_) => {
                self.unifier.assignable(&Type::Dyn, &over);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.wrong(parsed.range.at, message);
                (Type::Dyn, Type::Dyn)
            }
        };
        let has_two = parsed.second.is_some();
        if has_two && matches!(over, Type::List(_)) {
            (first, second) = (Type::Int, first);
        }
        let first_slot = self.scope.len();
        let accumulated = start.result.clone();
        self.scope.push((parsed.accumulator.clone(), accumulated.clone()));
        self.scope.push((parsed.first.clone(), first));
        if let Some(name) = &parsed.second {
            self.scope.push((name.clone(), second));
        }
        let goes_on = self.node(&parsed.goes_on);
        self.expect(parsed.goes_on.at, &goes_on, &Type::Bool);
        let step = self.node(&parsed.step);
        self.expect(parsed.step.at, &step, &accumulated);
        self.scope.truncate(first_slot + 1);
        let result = self.node(&parsed.result);
        self.scope.truncate(first_slot);
        let kind = self.unifier.resolve(&result.result);
        let is_bind = parsed.first == UNUSED;
        node(kind, Kind::Loop(Box::new(Loop { first_slot, has_two, is_bind, range, start, goes_on, step, result })))
    }

    fn expect(&mut self, at: usize, found: &Node, wanted: &Type) {
        if !self.unifier.assignable(wanted, &found.result) {
            let (wanted, found) = (self.unifier.resolve(wanted), self.unifier.resolve(&found.result));
            self.wrong(at, format!("expected type '{wanted}' but found '{found}'"));
        }
    }

    /// Writes the types that unification has found into a node and those below.
    fn write_types(&mut self, node: &mut Node) {
        node.result = self.unifier.resolve(&node.result);
        match &mut node.kind {
            Kind::Literal(_) | Kind::Variable(_) => {}
            Kind::Select(operand, _) | Kind::Test(operand, _) | Kind::OptionalSelect(operand, _) => {
                self.write_types(operand);
            }
            Kind::Call(call) => call.arguments.iter_mut().for_each(|argument| self.write_types(argument)),
            Kind::List(items, _) => items.iter_mut().for_each(|item| self.write_types(item)),
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| {
                self.write_types(&mut entry.key);
                self.write_types(&mut entry.value);
            }),
            Kind::Message(_, fields) => fields.iter_mut().for_each(|field| self.write_types(&mut field.value)),
            Kind::Loop(l) => {
                [&mut l.range, &mut l.start, &mut l.goes_on, &mut l.step, &mut l.result]
                    .into_iter()
                    .for_each(|part| self.write_types(part));
            }
        }
    }
}

/// Returns the value of a type's name.
fn type_name(name: &str) -> Option<Node> {
    const NAMES: [&str; 13] = [
        "bool",
        "bytes",
        "double",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
        "optional_type",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
    ];
    let known = NAMES.into_iter().find(|known| *known == name)?;
    Some(node(Type::Type, Kind::Literal(Value::Type(known))))
}

fn type_of(literal: &Value) -> Type {
    match literal {
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        Value::Null => Type::Null,
        _ => Type::Dyn,
    }
}

/// Replaces the type parameters of a declaration by those of the unifier, from `base` on.
fn shifted(kind: &Type, base: usize) -> Type {
    match kind {
        Type::Param(index) => Type::Param(base + index),
        Type::List(items) => Type::list(shifted(items, base)),
        Type::Map(keys, values) => Type::map(shifted(keys, base), shifted(values, base)),
        Type::Optional(inner) => Type::optional(shifted(inner, base)),
        other => other.clone(),
    }
}
