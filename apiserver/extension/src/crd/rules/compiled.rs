//! The rules of one node of a schema, compiled.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel compilation.

use cel::declared::declared;
use cel::{Environment, Program, Type};
use proto::schema::structural::{Rule, Structural};

/// The variables, by their place in the environment.
const OLD_SELF: usize = 1;

/// One rule with what became of its expressions.
#[derive(Debug)]
pub struct Compiled {
    pub rule: Rule,
    pub program: Result<Program, Refusal>,
    /// Of the message's expression, if there is one.
    pub message: Option<Result<Program, Refusal>>,
    /// Whether it speaks of `oldSelf`: then it is about a change.
    pub uses_old_self: bool,
}

/// Why an expression is not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    Missing(&'static str),
    Invalid(String),
}

impl Compiled {
    pub fn is_optional(&self) -> bool {
        self.rule.optional_old_self == Some(true)
    }
}

/// `schema` is one that `accessible` made. No rules where they could say nothing.
pub fn compiled(schema: &Structural) -> Vec<Compiled> {
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
                "" => Err(Refusal::Missing("rule is not specified")),
                _ => compile(environment, &rule.rule, &Type::Bool, "cel expression must evaluate to a bool"),
            };
            let wrong_kind = "messageExpression must evaluate to a string";
            let message = match rule.message_expression.as_str() {
                "" => None,
                text if text.trim().is_empty() => Some(Err(Refusal::Missing("must be non-empty if specified"))),
                text => Some(compile(environment, text, &Type::String, wrong_kind)),
            };
            let reads = |program: &Result<Program, Refusal>| program.as_ref().is_ok_and(|one| one.reads(OLD_SELF));
            let uses_old_self = reads(&program) || message.as_ref().is_some_and(reads);
            Compiled { rule: rule.clone(), program, message, uses_old_self }
        })
        .collect()
}

fn compile(environment: &Environment<'_>, text: &str, wanted: &Type, wrong_kind: &str) -> Result<Program, Refusal> {
    let program = environment.compile(text).map_err(|why| Refusal::Invalid(format!("compilation failed: {why}")))?;
    if program.result() == wanted { Ok(program) } else { Err(Refusal::Invalid(wrong_kind.to_owned())) }
}
