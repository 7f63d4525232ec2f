//! Evaluates a checked expression, and charges every step to a meter.
//!
//! `&&` and `||` ignore an error of one side if the other side decides, but not an exceeded cost limit. Corresponds to
//! github.com/google/cel-go/interpreter.

use super::costs;
use super::failure::{Failure, error};
use super::meter::Meter;
use super::node::{Call, Entry, Field, Kind, Loop, Node};
use super::value::{Key, Map, Message, Outcome, Value, appended, insert, no_overload};
use std::sync::Arc;

pub fn evaluate(node: &Node, variables: Vec<Value>, meter: &mut Meter) -> Outcome {
    Machine { slots: variables.into_iter().map(Ok).collect(), meter }.eval(node)
}

struct Machine<'m> {
    /// Values of the variables. An accumulator may be an error that a later round replaces.
    slots: Vec<Outcome>,
    meter: &'m mut Meter,
}

impl Machine<'_> {
    fn eval(&mut self, node: &Node) -> Outcome {
        self.meter.work(0)?;
        match &node.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Variable(slot) => {
                self.meter.charge(1)?;
                sound(self.slots[*slot].clone()?)
            }
            Kind::Select(operand, name) => {
                let operand = self.eval(operand)?;
                self.meter.charge(1)?;
                select(&operand, name)
            }
            Kind::Test(operand, name) => {
                let operand = self.eval(operand)?;
                is_set(&operand, name).map(Value::Bool)
            }
            Kind::OptionalSelect(operand, name) => {
                let operand = self.eval(operand)?;
                self.meter.charge(1)?;
                optional_select(&operand, name)
            }
            Kind::Call(call) => self.call(call),
            Kind::List(items, optional) => self.list(items, optional),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name, fields) => self.message(name, fields),
            Kind::Loop(l) => self.comprehension(l),
        }
    }

    fn list(&mut self, items: &[Node], optional: &[usize]) -> Outcome {
        self.meter.charge(costs::LIST)?;
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let value = self.eval(item)?;
            match (optional.contains(&index), value) {
                (false, value) => values.push(value),
                (true, Value::Optional(inner)) => values.extend(inner.map(|inner| Value::clone(&inner))),
                (true, other) => return no_overload("optional element", &[other]),
            }
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &[Entry]) -> Outcome {
        self.meter.charge(costs::MAP)?;
        let mut map = Map::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let value = match (entry.is_optional, self.eval(&entry.value)?) {
                (false, value) => value,
                (true, Value::Optional(Some(inner))) => Value::clone(&inner),
                (true, Value::Optional(None)) => continue,
                (true, other) => return no_overload("optional entry", &[other]),
            };
            insert(&mut map, &key, value)?;
        }
        Ok(Value::map(map))
    }

    fn message(&mut self, name: &Arc<str>, fields: &[Field]) -> Outcome {
        self.meter.charge(costs::MESSAGE)?;
        let mut map = Map::new();
        for field in fields {
            let value = match (field.is_optional, self.eval(&field.value)?) {
                (false, value) => value,
                (true, Value::Optional(Some(inner))) => Value::clone(&inner),
                (true, Value::Optional(None)) => continue,
                (true, other) => return no_overload("optional field", &[other]),
            };
            map.insert(Key::String(field.name.clone()), value);
        }
        Ok(Value::Message(Arc::new(Message { name: name.clone(), fields: map })))
    }

    fn call(&mut self, call: &Call) -> Outcome {
        match (call.name, call.arguments.as_slice()) {
            ("_&&_", [left, right]) => self.either(left, right, false),
            ("_||_", [left, right]) => self.either(left, right, true),
            ("_?_:_", [condition, yes, no]) => {
                let branch = if self.truth(condition)? { yes } else { no };
                self.eval(branch)
            }
            ("@not_strictly_false", [argument]) => {
                let argument = self.eval(argument);
                self.meter.charge(1)?;
                match argument {
                    Ok(Value::Bool(false)) => Ok(Value::Bool(false)),
                    Err(Failure::TooCostly) => Err(Failure::TooCostly),
                    _ => Ok(Value::Bool(true)),
                }
            }
            (_, arguments) => {
                let values: Vec<Value> =
                    arguments.iter().map(|argument| self.eval(argument)).collect::<Result<_, _>>()?;
                self.run(call, values)
            }
        }
    }

    fn truth(&mut self, condition: &Node) -> Result<bool, Failure> {
        match self.eval(condition)? {
            Value::Bool(truth) => Ok(truth),
            other => no_overload("_?_:_", &[other]),
        }
    }

    /// Evaluates `&&` and `||`: a side equal to `decisive` decides, whatever the other side is.
    fn either(&mut self, left: &Node, right: &Node, decisive: bool) -> Outcome {
        let first = self.eval(left);
        if matches!(first, Ok(Value::Bool(truth)) if truth == decisive) || is_final(&first) {
            return first;
        }
        let second = self.eval(right);
        match (first, second) {
            (_, Err(Failure::TooCostly)) => Err(Failure::TooCostly),
            (_, Ok(Value::Bool(truth))) if truth == decisive => Ok(Value::Bool(decisive)),
            (Ok(Value::Bool(_)), second @ Ok(Value::Bool(_))) => second,
            (Err(failure), _) | (Ok(Value::Bool(_)), Err(failure)) => Err(failure),
            (first, second) => no_overload(if decisive { "_||_" } else { "_&&_" }, &[first?, second?]),
        }
    }

    /// Runs the overload that fits the values.
    fn run(&mut self, call: &Call, values: Vec<Value>) -> Outcome {
        // A whole number of any type is an index.
        let is_index = match (call.name, values.as_slice()) {
            ("_[_]" | "_[?_]", [Value::List(_) | Value::Optional(_), index]) => index.double().is_some(),
            _ => false,
        };
        let fitting = call
            .overloads
            .iter()
            .find(|overload| is_index || overload.arguments.iter().zip(&values).all(|(kind, value)| value.is(kind)));
        let Some(overload) = fitting else { return no_overload(call.name, &values) };
        self.meter.charge(costs::at_run_time(call.name, &values))?;
        (overload.run)(call.name, &values, self.meter)
    }

    fn comprehension(&mut self, l: &Loop) -> Outcome {
        let range = self.eval(&l.range)?;
        let pairs = self.pairs(&range, l.has_two)?;
        let start = self.eval(&l.start);
        if is_final(&start) {
            return start;
        }
        let slot = l.first_slot;
        self.slots.truncate(slot);
        self.slots.push(start);
        for (first, second) in pairs {
            self.slots.truncate(slot + 1);
            self.slots.push(Ok(first));
            self.slots.extend(second.map(Ok));
            match self.eval(&l.goes_on)? {
                Value::Bool(true) => {}
                _ => break,
            }
            let next = self.accumulate(&l.step, slot);
            if is_final(&next) {
                return next;
            }
            self.slots[slot] = next;
        }
        self.slots.truncate(slot + 1);
        let result = self.eval(&l.result);
        self.slots.truncate(slot);
        result
    }

    /// Returns the values that a comprehension iterates over: items, keys, or indexes or keys with their values.
    fn pairs(&mut self, range: &Value, has_two: bool) -> Result<Vec<(Value, Option<Value>)>, Failure> {
        match range {
            Value::List(list) => {
                self.meter.work(list.items.len())?;
                let items = list.items.iter().enumerate();
                Ok(items
                    .map(|(index, item)| match has_two {
                        true => (Value::count(index), Some(item.clone())),
                        false => (item.clone(), None),
                    })
                    .collect())
            }
            Value::Map(map) | Value::Defaulting(map, _) => {
                self.meter.work(map.len())?;
                Ok(map.iter().map(|(key, value)| (key.value(), has_two.then(|| value.clone()))).collect())
            }
            other => error(format!("got '{}', expected iterable type", other.type_name())),
        }
    }

    /// Evaluates the next value of an accumulator. One that is only appended to is moved instead of copied, so that building a
    /// list takes linear time. Nothing else in the expression reads it, since no expression can contain its name.
    fn accumulate(&mut self, node: &Node, slot: usize) -> Outcome {
        let Kind::Call(call) = &node.kind else { return self.eval(node) };
        let is_accumulator = |node: &Node| matches!(node.kind, Kind::Variable(own) if own == slot);
        match (call.name, call.arguments.as_slice()) {
            ("_?_:_", [condition, yes, no]) => {
                let branch = if self.truth(condition)? { yes } else { no };
                if is_accumulator(branch) {
                    self.meter.charge(1)?;
                    return std::mem::replace(&mut self.slots[slot], Ok(Value::Null));
                }
                self.accumulate(branch, slot)
            }
            ("_+_" | "cel.@mapInsert", [first, rest @ ..]) if is_accumulator(first) => {
                let mut values = Vec::with_capacity(1 + rest.len());
                for part in rest {
                    values.push(self.eval(part)?);
                }
                self.meter.charge(1)?;
                let accumulated = std::mem::replace(&mut self.slots[slot], Ok(Value::Null))?;
                match (accumulated, values.as_slice()) {
                    (Value::List(mut list), [Value::List(more)]) if call.name == "_+_" => {
                        self.meter.charge(1)?;
                        appended(&mut list, more, self.meter)?;
                        Ok(Value::List(list))
                    }
                    (Value::Map(mut map), [key, value]) => {
                        self.meter.charge(1)?;
                        insert(Arc::make_mut(&mut map), key, value.clone())?;
                        Ok(Value::Map(map))
                    }
                    (accumulated, _) => {
                        values.insert(0, accumulated);
                        self.run(call, values)
                    }
                }
            }
            _ => self.eval(node),
        }
    }
}

/// Returns true if the cost limit was exceeded, which ends the evaluation.
fn is_final(outcome: &Outcome) -> bool {
    matches!(outcome, Err(Failure::TooCostly))
}

fn sound(value: Value) -> Outcome {
    match value {
        Value::Broken(why) => Err(Failure::Error(why)),
        value => Ok(value),
    }
}

fn select(operand: &Value, name: &Arc<str>) -> Outcome {
    match operand {
        Value::Map(_) | Value::Defaulting(..) | Value::Message(_) => {
            operand.field(name).map_or_else(|| error(format!("no such key: {name}")), sound)
        }
        // Selects from the value inside an optional.
        Value::Optional(_) => optional_select(operand, name),
        other => no_overload("select", std::slice::from_ref(other)),
    }
}

fn is_set(operand: &Value, name: &Arc<str>) -> Result<bool, Failure> {
    match operand {
        Value::Map(_) | Value::Defaulting(..) | Value::Message(_) => Ok(operand.field(name).is_some()),
        Value::Optional(inner) => inner.as_ref().map_or(Ok(false), |inner| is_set(inner, name)),
        other => no_overload("has", std::slice::from_ref(other)),
    }
}

fn optional_select(operand: &Value, name: &Arc<str>) -> Outcome {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_select(inner, name),
        Value::Map(_) | Value::Defaulting(..) | Value::Message(_) => match operand.field(name) {
            Some(value) => sound(value).map(Value::some),
            None => Ok(Value::Optional(None)),
        },
        other => no_overload("select", std::slice::from_ref(other)),
    }
}
