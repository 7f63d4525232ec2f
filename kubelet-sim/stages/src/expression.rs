//! `Expression`: a query in jq or CEL whose value decides about a stage.

use crate::query::Query;
use crate::reader::{Fields, Reader};
use cel::{Environment, Failure, Meter, Program, Type};
use serde_json::Value;
use std::sync::Arc;

/// Limit on the cost of one evaluation in CEL: what Kubernetes allows one expression of an admission policy.
const MAX_COST: u64 = 10_000_000;

/// An expression of one of the two languages.
#[derive(Clone, Debug)]
pub enum Expression {
    Jq(Query),
    /// An expression about `self`, the object.
    Cel(Arc<Program>),
}

impl Expression {
    /// Reads `{expressionFrom: …}`, `{jq: {expression: …}}` or `{cel: {expression: …}}`.
    pub fn read(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Self> {
        let source = reader.child(fields, name, &["expressionFrom", "jq", "cel"])?;
        let mut found = Vec::new();
        if let Some(text) = reader.text(&source, "expressionFrom") {
            found.push(jq(reader, text, source.path_of("expressionFrom")));
        }
        for language in ["jq", "cel"] {
            let Some(inner) = reader.child(&source, language, &["expression"]) else { continue };
            let text = reader.required_text(&inner, "expression").unwrap_or("null");
            let path = inner.path_of("expression");
            found.push(if language == "jq" { jq(reader, text, path) } else { cel(reader, text, path) });
        }
        if found.len() != 1 && source.get("expressionFrom").is_none_or(Value::is_string) {
            reader.report(source.path(), "must have exactly one of expressionFrom, jq and cel");
        }
        found.pop().flatten()
    }

    /// Returns the first value that the expression finds; `None` when it finds nothing or fails.
    pub fn first(&self, object: &Value) -> Option<Value> {
        match self {
            Self::Jq(query) => query.run(object).first().map(|value| value.clone().into_owned()),
            Self::Cel(program) => match run(program, object) {
                Ok(cel::Value::Int(value)) => Some(value.into()),
                Ok(cel::Value::Double(value)) => Some(value.into()),
                Ok(cel::Value::Bool(value)) => Some(value.into()),
                Ok(cel::Value::String(text)) => Some(Value::String(text.to_string())),
                _ => None,
            },
        }
    }
}

pub fn jq(reader: &mut Reader, text: &str, path: String) -> Option<Expression> {
    let parsed = Query::parse(text);
    parsed.map(Expression::Jq).map_err(|why| reader.report(path, why)).ok()
}

pub fn cel(reader: &mut Reader, text: &str, path: String) -> Option<Expression> {
    let compiled = Environment::default().with("self", Type::Dyn, None).compile(text);
    let expression = compiled.map(|program| Expression::Cel(Arc::new(program)));
    expression.map_err(|why| reader.report(path, why.replace('\n', " "))).ok()
}

/// Returns whether a condition in CEL holds; one that fails does not.
pub fn holds(program: &Program, object: &Value) -> bool {
    matches!(run(program, object), Ok(cel::Value::Bool(true)))
}

fn run(program: &Program, object: &Value) -> Result<cel::Value, Failure> {
    program.run(vec![cel::Value::of_json(object)], &mut Meter::new(MAX_COST))
}
