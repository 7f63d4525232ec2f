//! The study's JSON Schema, and a check of a document against it that reports every mistake with its path.
//!
//! The check knows the words that this schema has, and no others. A union is an object with optional fields of which exactly
//! one is set, as in Kubernetes, so there is no `oneOf` whose errors nobody understands.

use crate::problem::Problem;
use crate::study::{Seeds, Study, values};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;
use std::borrow::Cow;

/// Most seeds of a study.
const MAX_SEEDS: u64 = 10_000;

/// Returns the JSON Schema of a study.
pub fn schema() -> Value {
    schemars::schema_for!(Study).to_value()
}

/// Returns every mistake of a study: unknown and missing fields, wrong types, wrong texts.
pub fn check(document: &Value) -> Vec<Problem> {
    check_against(document, &schema())
}

/// Returns every mistake of a document, of which this is the schema.
pub fn check_against(document: &Value, schema: &Value) -> Vec<Problem> {
    mend(&mut document.clone(), schema)
}

/// Returns every mistake of a document, and puts something of the right form in its place, so that the rest can be read. Unknown
/// fields are taken out.
pub fn mend(document: &mut Value, schema: &Value) -> Vec<Problem> {
    let mut checker = Checker { root: schema, problems: Vec::new() };
    checker.check(document, schema, "");
    checker.problems
}

struct Checker<'s> {
    root: &'s Value,
    problems: Vec<Problem>,
}

impl<'s> Checker<'s> {
    fn report(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    /// Follows references, and the form in which an optional object is written.
    fn resolve(&self, mut schema: &'s Value) -> &'s Value {
        loop {
            if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
                schema = &self.root["$defs"][name];
            } else if let Some(first) = schema["anyOf"].as_array().and_then(|all| all.first()) {
                schema = first;
            } else {
                return schema;
            }
        }
    }

    fn check(&mut self, value: &mut Value, schema: &'s Value, path: &str) {
        if value.is_null() && allows_null(schema) {
            return;
        }
        let before = self.problems.len();
        self.check_value(value, schema, path);
        let is_wrong = self.problems[before..].iter().any(|problem| problem.place == path);
        if is_wrong && !value.is_object() {
            *value = self.stand_in(schema);
        }
    }

    /// Returns a value of the form that a schema asks for; none where none need be.
    fn stand_in(&self, schema: &'s Value) -> Value {
        if allows_null(schema) {
            return Value::Null;
        }
        let schema = self.resolve(schema);
        if let Some(first) = choices(schema).and_then(|choices| choices.first().copied()) {
            return first.clone();
        }
        match (schema["format"].as_str().and_then(values::stand_in), types(schema).first().copied()) {
            (Some(value), _) => value,
            (None, Some("string")) => "".into(),
            (None, Some("integer" | "number")) => 1.into(),
            (None, Some("boolean")) => false.into(),
            (None, Some("array")) => Value::Array(Vec::new()),
            (None, Some("object")) => {
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let member = |name: &str| (name.to_owned(), self.stand_in(&schema["properties"][name]));
                required.map(member).collect::<serde_json::Map<_, _>>().into()
            }
            (None, _) => Value::Null,
        }
    }

    fn check_value(&mut self, value: &mut Value, schema: &'s Value, path: &str) {
        let schema = self.resolve(schema);
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|name| is_of_type(value, name)) {
            let wanted: Vec<&str> = types.into_iter().filter(|name| *name != "null").collect();
            self.report(path, format!("must be of type {}", wanted.join(" or ")));
            if value.is_object() {
                *value = Value::Null;
            }
            return;
        }
        if let Some(message) = schema["format"].as_str().and_then(|format| values::problem(format, value)) {
            self.report(path, message);
        }
        if let Some(choices) = choices(schema)
            && !value.is_null()
            && !choices.contains(&&*value)
        {
            let choices: Vec<String> = choices.iter().map(|choice| choice.to_string()).collect();
            self.report(path, format!("Unsupported value: {value}: supported values: {}", choices.join(", ")));
        }
        match value {
            Value::Object(members) => self.object(members, schema, path),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.check(item, &schema["items"], &format!("{path}[{index}]"));
                }
            }
            Value::Number(number) => {
                let too_small = schema["minimum"].as_f64().is_some_and(|least| number.as_f64() < Some(least));
                if too_small {
                    self.report(path, format!("must be greater than or equal to {}", schema["minimum"]));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, members: &mut serde_json::Map<String, Value>, schema: &'s Value, path: &str) {
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let mut missing = Vec::new();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                self.report(&below(name), "Required value");
                missing.push((name.to_owned(), self.stand_in(&schema["properties"][name])));
            }
        }
        members.retain(|name, member| {
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(property), _) => self.check(member, property, &below(name)),
                (None, Value::Bool(false)) => {
                    self.report(&below(name), "unknown field");
                    return false;
                }
                (None, additional) => self.check(member, additional, &below(name)),
            }
            true
        });
        members.extend(missing);
    }
}

fn allows_null(schema: &Value) -> bool {
    schema["anyOf"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "null"))
        || types(schema).contains(&"null")
}

/// Returns the types that a schema allows; none if all will do.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the values of an enumeration. One whose members are documented is a list of constants.
fn choices(schema: &Value) -> Option<Vec<&Value>> {
    let constants = || {
        let constant = |one: &'_ Value| one.get("const").is_some() || one.get("enum").is_some();
        let all = schema["oneOf"].as_array()?;
        all.iter().all(constant).then(|| {
            all.iter().flat_map(|one| one.get("const").into_iter().chain(one["enum"].as_array().into_iter().flatten()))
        })
    };
    match schema["enum"].as_array() {
        Some(all) => Some(all.iter().collect()),
        None => constants().map(Iterator::collect),
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

impl Seeds {
    /// Reads `7`, `1..10` or `1,2,5`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number =
            |text: &str| text.trim().parse::<u64>().map_err(|_| format!("{text:?} is no seed: want for example 1..10"));
        let Some((first, last)) = text.split_once("..") else {
            return Self::distinct(text.split(',').map(number).collect::<Result<_, _>>()?);
        };
        let (first, last) = (number(first)?, number(last)?);
        if last < first || last - first >= MAX_SEEDS {
            return Err(format!("{text:?} must have between 1 and {MAX_SEEDS} seeds"));
        }
        Ok(Self((first..=last).collect()))
    }

    fn distinct(seeds: Vec<u64>) -> Result<Self, String> {
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if seeds.is_empty() || sorted.len() != seeds.len() {
            return Err("must have at least one seed, and none twice".to_owned());
        }
        Ok(Self(seeds))
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            One(u64),
            List(Vec<u64>),
            Range(String),
        }
        match Form::deserialize(deserializer)? {
            Form::One(seed) => Ok(Self(vec![seed])),
            Form::List(seeds) => Self::distinct(seeds).map_err(de::Error::custom),
            Form::Range(text) => Self::parse(&text).map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Seeds {
    fn schema_name() -> Cow<'static, str> {
        "Seeds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer", "array"],
            "items": {"type": "integer", "minimum": 0},
            "minimum": 0,
            "format": "seeds",
            "description": "A seed, a list of seeds, or a range such as 1..10 with both ends.",
        })
    }
}
