//! Evaluates a query: each filter turns one value into any number of values.

use crate::query::functions::{Application, Body, Function};
use crate::query::syntax::{Comparison, Filter};
use crate::query::values::{arithmetic, children, compare, is_true, type_name};
use serde_json::{Value, json};
use std::borrow::Cow;

/// A value that a filter has produced: a part of the object, or a new one.
pub type Item<'d> = Cow<'d, Value>;
pub type Items<'d> = Result<Vec<Item<'d>>, String>;

#[derive(Debug)]
pub struct Evaluation {
    pub values_left: usize,
}

impl Evaluation {
    pub fn run<'d>(&mut self, filter: &Filter, input: Item<'d>) -> Items<'d> {
        let values = self.produce(filter, input)?;
        let sizes = values.iter().map(|value| if let Cow::Owned(value) = value { size(value) } else { 1 });
        self.charge(sizes.sum())?;
        Ok(values)
    }

    pub fn charge(&mut self, values: usize) -> Result<(), String> {
        let left = self.values_left.checked_sub(values.max(1));
        self.values_left = left.ok_or("the query produces too many values")?;
        Ok(())
    }

    fn produce<'d>(&mut self, filter: &Filter, input: Item<'d>) -> Items<'d> {
        match filter {
            Filter::Identity => Ok(vec![input]),
            Filter::Literal(value) => Ok(vec![Cow::Owned(value.clone())]),
            Filter::Descend => self.descend(input),
            Filter::Index(base, key) => {
                let keys = self.run(key, input.clone())?;
                let bases = self.run(base, input)?;
                let pairs = keys.iter().flat_map(|key| bases.iter().map(move |base| at(base, key)));
                pairs.collect()
            }
            Filter::Slice(base, from, to) => self.slice(base, from.as_deref(), to.as_deref(), input),
            Filter::Iterate(base) => {
                let mut found = Vec::new();
                for base in self.run(base, input)? {
                    let children = children(base)?;
                    self.charge(children.len())?;
                    found.extend(children);
                }
                Ok(found)
            }
            Filter::Try(inner) => Ok(self.run(inner, input).unwrap_or_default()),
            Filter::Pipe(first, second) => {
                let mut found = Vec::new();
                for value in self.run(first, input)? {
                    found.extend(self.run(second, value)?);
                }
                Ok(found)
            }
            Filter::Comma(first, second) => {
                let mut found = self.run(first, input.clone())?;
                found.extend(self.run(second, input)?);
                Ok(found)
            }
            Filter::Alternative(first, second) => {
                let mut found = self.run(first, input.clone()).unwrap_or_default();
                found.retain(|value| is_true(value));
                if found.is_empty() { self.run(second, input) } else { Ok(found) }
            }
            Filter::And(first, second) => self.logic(first, second, false, input),
            Filter::Or(first, second) => self.logic(first, second, true, input),
            Filter::Compare(comparison, first, second) => self.pairs(first, second, input, |a, b| {
                let order = compare(a, b);
                Ok(Value::Bool(match comparison {
                    Comparison::Equal => order.is_eq(),
                    Comparison::NotEqual => order.is_ne(),
                    Comparison::Less => order.is_lt(),
                    Comparison::LessOrEqual => order.is_le(),
                    Comparison::Greater => order.is_gt(),
                    Comparison::GreaterOrEqual => order.is_ge(),
                }))
            }),
            Filter::Arithmetic(operator, first, second) => {
                self.pairs(first, second, input, |a, b| arithmetic(*operator, a, b))
            }
            Filter::Collect(None) => Ok(vec![Cow::Owned(Value::Array(Vec::new()))]),
            Filter::Collect(Some(items)) => {
                let items = self.run(items, input)?.into_iter().map(Cow::into_owned).collect();
                Ok(vec![Cow::Owned(Value::Array(items))])
            }
            Filter::If(branches, otherwise) => self.choose(branches, otherwise, input),
            Filter::Call(function, arguments) => self.call(*function, arguments, input),
        }
    }

    fn descend<'d>(&mut self, input: Item<'d>) -> Items<'d> {
        let mut found = vec![input.clone()];
        for child in children(input).unwrap_or_default() {
            self.charge(1)?;
            found.extend(self.descend(child)?);
        }
        Ok(found)
    }

    fn slice<'d>(&mut self, base: &Filter, from: Option<&Filter>, to: Option<&Filter>, input: Item<'d>) -> Items<'d> {
        let mut bound = |filter: Option<&Filter>| match filter {
            Some(filter) => match self.run(filter, input.clone())?.first().and_then(|value| value.as_i64()) {
                Some(bound) => Ok(Some(bound)),
                None => Err("a slice needs whole numbers".to_owned()),
            },
            None => Ok(None),
        };
        let (from, to) = (bound(from)?, bound(to)?);
        let cut = |length: usize| {
            let place =
                |bound: i64| usize::try_from(if bound < 0 { bound + length as i64 } else { bound }).unwrap_or(0);
            let (from, to) = (from.map_or(0, place), to.map_or(length, place));
            from.min(length)..to.clamp(from.min(length), length)
        };
        let sliced = self.run(base, input)?.into_iter().map(|base| match base.as_ref() {
            Value::Null => Ok(Cow::Owned(Value::Null)),
            Value::Array(items) => Ok(Cow::Owned(Value::Array(items[cut(items.len())].to_vec()))),
            Value::String(text) => {
                let range = cut(text.chars().count());
                let part = text.chars().skip(range.start).take(range.len()).collect();
                Ok(Cow::Owned(Value::String(part)))
            }
            other => Err(format!("cannot slice {}", type_name(other))),
        });
        sliced.collect()
    }

    fn logic<'d>(&mut self, first: &Filter, second: &Filter, decides: bool, input: Item<'d>) -> Items<'d> {
        let mut found = Vec::new();
        for left in self.run(first, input.clone())? {
            if is_true(&left) == decides {
                found.push(Cow::Owned(Value::Bool(decides)));
                continue;
            }
            for right in self.run(second, input.clone())? {
                found.push(Cow::Owned(Value::Bool(is_true(&right))));
            }
        }
        Ok(found)
    }

    fn pairs<'d>(
        &mut self,
        first: &Filter,
        second: &Filter,
        input: Item<'d>,
        join: impl Fn(&Value, &Value) -> Result<Value, String>,
    ) -> Items<'d> {
        let rights = self.run(second, input.clone())?;
        let lefts = self.run(first, input)?;
        self.charge(lefts.len().saturating_mul(rights.len()))?;
        let pairs = rights.iter().flat_map(|right| lefts.iter().map(move |left| (left, right)));
        pairs.map(|(left, right)| join(left, right).map(Cow::Owned)).collect()
    }

    fn choose<'d>(&mut self, branches: &[(Filter, Filter)], otherwise: &Filter, input: Item<'d>) -> Items<'d> {
        let Some(((condition, then), others)) = branches.split_first() else { return self.run(otherwise, input) };
        let mut found = Vec::new();
        for value in self.run(condition, input.clone())? {
            found.extend(match is_true(&value) {
                true => self.run(then, input.clone())?,
                false => self.choose(others, otherwise, input.clone())?,
            });
        }
        Ok(found)
    }

    fn call<'d>(&mut self, function: Function, arguments: &[Filter], input: Item<'d>) -> Items<'d> {
        let argument = arguments.first().unwrap_or(&Filter::Identity);
        match function.body {
            Body::Input(compute) => Ok(vec![Cow::Owned(compute(&input).map_err(|why| named(function, &why))?)]),
            Body::With(compute) => {
                let arguments = self.run(argument, input.clone())?;
                let computed = arguments.iter().map(|argument| compute(&input, argument).map(Cow::Owned));
                computed.collect::<Items<'_>>().map_err(|why| named(function, &why))
            }
            Body::Filter(application) => self.apply(application, argument, input),
        }
    }

    fn apply<'d>(&mut self, application: Application, filter: &Filter, input: Item<'d>) -> Items<'d> {
        match application {
            Application::Empty => Ok(Vec::new()),
            Application::Select => {
                let conditions = self.run(filter, input.clone())?;
                Ok(conditions.iter().filter(|value| is_true(value)).map(|_| input.clone()).collect())
            }
            Application::First => Ok(self.run(filter, input)?.into_iter().take(1).collect()),
            Application::Map | Application::Any | Application::All => {
                let mut found = Vec::new();
                for item in children(input)? {
                    found.extend(self.run(filter, item)?);
                }
                Ok(vec![Cow::Owned(match application {
                    Application::Any => json!(found.iter().any(|value| is_true(value))),
                    Application::All => json!(found.iter().all(|value| is_true(value))),
                    _ => Value::Array(found.into_iter().map(Cow::into_owned).collect()),
                })])
            }
        }
    }
}

fn named(function: Function, why: &str) -> String {
    format!("{}: {why}", function.name)
}

/// Returns how much a value holds: a unit for each value in it, and for each 16 bytes of a text.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / 16,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
    }
}

/// Returns `base[key]`; null where there is nothing.
fn at<'d>(base: &Item<'d>, key: &Value) -> Result<Item<'d>, String> {
    let absent = Ok(Cow::Owned(Value::Null));
    let place = |length: usize, index: f64| {
        let index = index.floor();
        let index = if index < 0.0 { index + length as f64 } else { index };
        (index >= 0.0 && index < length as f64).then_some(index as usize)
    };
    match (base, key) {
        (Cow::Borrowed(Value::Object(members)), Value::String(key)) => {
            members.get(key).map_or(absent, |value| Ok(Cow::Borrowed(value)))
        }
        (Cow::Owned(Value::Object(members)), Value::String(key)) => {
            members.get(key).map_or(absent, |value| Ok(Cow::Owned(value.clone())))
        }
        (Cow::Borrowed(Value::Array(items)), Value::Number(index)) => {
            let place = index.as_f64().and_then(|index| place(items.len(), index));
            place.map_or(absent, |place| Ok(Cow::Borrowed(&items[place])))
        }
        (Cow::Owned(Value::Array(items)), Value::Number(index)) => {
            let place = index.as_f64().and_then(|index| place(items.len(), index));
            place.map_or(absent, |place| Ok(Cow::Owned(items[place].clone())))
        }
        (base, Value::String(_) | Value::Number(_)) if base.is_null() => absent,
        (base, key) => Err(format!("cannot index {} with {}", type_name(base), type_name(key))),
    }
}
