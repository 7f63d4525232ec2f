//! `Selector`: the objects that a stage is for.

use crate::expression::{self, Expression};
use crate::query::Query;
use crate::reader::{Fields, Reader};
use cel::Program;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All requirements have to hold.
#[derive(Clone, Debug)]
pub struct Selector {
    match_labels: BTreeMap<String, String>,
    match_annotations: BTreeMap<String, String>,
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug)]
enum Requirement {
    Jq { query: Query, operator: Operator },
    Cel(Arc<Program>),
}

#[derive(Clone, Debug)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    pub fn read(reader: &mut Reader, spec: &Fields<'_>) -> Option<Self> {
        let known = ["matchLabels", "matchAnnotations", "matchExpressions"];
        let fields = reader.child(spec, "selector", &known)?;
        let match_labels = reader.text_map(&fields, "matchLabels");
        let match_annotations = reader.text_map(&fields, "matchAnnotations");
        let items = reader.items(&fields, "matchExpressions");
        let requirements = items.into_iter().filter_map(|(item, path)| Requirement::read(reader, item, &path));
        Some(Self { requirements: requirements.collect(), match_labels, match_annotations })
    }

    pub fn matches(&self, object: &Value) -> bool {
        let has_all = |wanted: &BTreeMap<String, String>, name: &str| {
            wanted.iter().all(|(key, value)| object["metadata"][name][key].as_str() == Some(value))
        };
        has_all(&self.match_labels, "labels")
            && has_all(&self.match_annotations, "annotations")
            && self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    /// Reads `{key, operator, values}`, the same below `jq`, `{expression}` in CEL, or the same below `cel`.
    fn read(reader: &mut Reader, item: &Value, path: &str) -> Option<Self> {
        const JQ: [&str; 3] = ["key", "operator", "values"];
        let fields = reader.object(item, path, &["key", "operator", "values", "expression", "jq", "cel"])?;
        let direct = JQ.iter().any(|name| fields.get(name).is_some());
        let others = ["expression", "jq", "cel"].iter().filter(|name| fields.get(name).is_some()).count();
        if usize::from(direct) + others != 1 {
            reader.report(path, "must have exactly one of key, expression, jq and cel");
            return None;
        }
        let in_cel = if fields.get("expression").is_some() { Some(fields.clone()) } else { None };
        if let Some(inner) = in_cel.or_else(|| reader.child(&fields, "cel", &["expression"])) {
            let text = reader.required_text(&inner, "expression")?;
            return match expression::cel(reader, text, inner.path_of("expression"))? {
                Expression::Cel(program) => Some(Self::Cel(program)),
                Expression::Jq(_) => None,
            };
        }
        let inner = if direct { fields } else { reader.child(&fields, "jq", &JQ)? };
        Self::read_jq(reader, &inner)
    }

    fn read_jq(reader: &mut Reader, fields: &Fields<'_>) -> Option<Self> {
        let query = reader.required_text(fields, "key").map(Query::parse);
        let operator = reader.required_text(fields, "operator");
        let values = reader.texts(fields, "values");
        let operator = match operator? {
            "In" => Operator::In(values.clone()),
            "NotIn" => Operator::NotIn(values.clone()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => {
                reader.report(fields.path_of("operator"), "must be In, NotIn, Exists or DoesNotExist");
                return None;
            }
        };
        match (&operator, values.as_slice()) {
            (Operator::In(_) | Operator::NotIn(_), []) => {
                reader.report(fields.path_of("values"), "required with In and NotIn");
            }
            (Operator::Exists | Operator::DoesNotExist, [_, ..]) => {
                reader.report(fields.path_of("values"), "must be empty with Exists and DoesNotExist");
            }
            _ => {}
        }
        match query? {
            Ok(query) => Some(Self::Jq { query, operator }),
            Err(why) => {
                reader.report(fields.path_of("key"), why);
                None
            }
        }
    }

    fn holds(&self, object: &Value) -> bool {
        let (query, operator) = match self {
            Self::Cel(program) => return expression::holds(program, object),
            Self::Jq { query, operator } => (query, operator),
        };
        let found = query.run(object);
        let is_one_of = |values: &[String]| found.iter().any(|value| values.iter().any(|wanted| is(value, wanted)));
        match operator {
            Operator::In(values) => is_one_of(values),
            Operator::NotIn(values) => !is_one_of(values),
            Operator::Exists => found.iter().any(|value| !value.is_null()),
            Operator::DoesNotExist => found.iter().all(|value| value.is_null()),
        }
    }
}

/// Compares a value with a text: texts, booleans and whole numbers have one.
fn is(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        Value::Bool(value) => value.to_string() == wanted,
        Value::Number(number) => (number.is_i64() || number.is_u64()) && number.to_string() == wanted,
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}
