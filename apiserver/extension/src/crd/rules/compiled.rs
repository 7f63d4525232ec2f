//! Compiles the CEL rules of one node of a schema.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel compilation.

use cel::declared::declared;
use cel::{Environment, Program, Type};
use proto::schema::structural::{Rule, Structural};

/// The index of the variable `oldSelf` in the environment.
const OLD_SELF: usize = 1;

/// A rule, and its compiled expressions.
#[derive(Debug)]
pub struct CompiledRule {
    pub rule: Rule,
    pub program: Result<Program, ExpressionError>,
    /// The compiled `messageExpression`, if there is one.
    pub message: Option<Result<Program, ExpressionError>>,
    /// An expression reads `oldSelf`, which makes this a transition rule.
    pub uses_old_self: bool,
}

/// The reason why an expression is invalid.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpressionError {
    Missing(&'static str),
    Invalid(String),
}

impl CompiledRule {
    pub fn is_optional(&self) -> bool {
        self.rule.optional_old_self == Some(true)
    }
}

/// Compiles the rules of a schema that `accessible` returned. A schema without a CEL type has no rules.
pub fn compiled(schema: &Structural) -> Vec<CompiledRule> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let Some(declared) = declared(schema, "selfType") else { return Vec::new() };
    let environment = |old: Type| {
        let environment = Environment::default().with("self", declared.kind.clone(), Some(&declared));
        environment.with("oldSelf", old, Some(&declared))
    };
    let plain = environment(declared.kind.clone());
    let optional = environment(Type::optional(declared.kind.clone()));
    schema
        .rules
        .iter()
        .map(|rule| {
            let environment = if rule.optional_old_self == Some(true) { &optional } else { &plain };
            let program = match rule.rule.trim() {
                "" => Err(ExpressionError::Missing("rule is not specified")),
                _ => compile(environment, &rule.rule, &Type::Bool, "cel expression must evaluate to a bool"),
            };
            let wrong_kind = "messageExpression must evaluate to a string";
            let message = match rule.message_expression.as_str() {
                "" => None,
                text if text.trim().is_empty() => Some(Err(ExpressionError::Missing("must be non-empty if specified"))),
                text => Some(compile(environment, text, &Type::String, wrong_kind)),
            };
            let reads =
                |program: &Result<Program, ExpressionError>| program.as_ref().is_ok_and(|one| one.reads(OLD_SELF));
            let uses_old_self = reads(&program) || message.as_ref().is_some_and(reads);
            CompiledRule { rule: rule.clone(), program, message, uses_old_self }
        })
        .collect()
}

fn compile(
    environment: &Environment<'_>,
    text: &str,
    wanted: &Type,
    wrong_kind: &str,
) -> Result<Program, ExpressionError> {
    let program =
        environment.compile(text).map_err(|why| ExpressionError::Invalid(format!("compilation failed: {why}")))?;
    if program.result() == wanted { Ok(program) } else { Err(ExpressionError::Invalid(wrong_kind.to_owned())) }
}
