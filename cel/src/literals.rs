//! Refuses literals that their function cannot parse: `duration('1 day')`, `timestamp('today')`, `'a'.matches('(')`.
//!
//! Corresponds to the validators of github.com/google/cel-go/cel that Kubernetes switches on.

use super::library::{compiled, parse_duration, parse_timestamp};
use super::source::SyntaxError;
use super::syntax::{Expr, Syntax};
use super::value::Value;

/// Returns an error for every such literal, in order.
pub fn check(expression: &Expr) -> Result<(), Vec<SyntaxError>> {
    let mut errors = Vec::new();
    visit(expression, &mut errors);
    errors.sort_by_key(|error: &SyntaxError| error.at);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn visit(expression: &Expr, errors: &mut Vec<SyntaxError>) {
    if let Syntax::Call(name, _, arguments) = &expression.kind
        && let Some(Expr { at, kind: Syntax::Literal(Value::String(text)), .. }) = arguments.first()
        && !takes(name, text)
    {
        errors.push(SyntaxError { at: *at, message: format!("invalid {name} argument") });
    }
    expression.parts().into_iter().for_each(|part| visit(part, errors));
}

fn takes(name: &str, text: &str) -> bool {
    match name {
        "duration" => parse_duration(text).is_some(),
        "timestamp" => parse_timestamp(text).is_some(),
        "matches" => compiled(text).is_ok(),
        _ => true,
    }
}
