//! `Definition`: a compiled ValidatingAdmissionPolicy; validates one write with one parameter.
//!
//! Corresponds to the validator of k8s.io/apiserver/pkg/admission/plugin/policy/validating.

use crate::dynamic::expressions::{
    Activation, Budget, ExpressionError, MatchConditions, OutOfBudget, Variables, Verdict,
};
use crate::dynamic::matching::MatchResources;
use crate::dynamic::policies::{FailurePolicy, params, source};
use cel::admission::Declared;
use cel::admission::{Expression, Scope};
use cel::{Type, Value};
use proto::Gvk;
use serde_json::Value as Json;
use std::time::Duration;

/// Longer results of `messageExpression` are ignored.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

#[derive(Debug)]
pub struct Definition {
    pub matching: MatchResources,
    pub param_kind: Option<Gvk>,
    pub failure_policy: FailurePolicy,
    conditions: MatchConditions,
    variables: Declared,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
}

#[derive(Debug)]
struct Validation {
    expression: CompiledExpression,
    text: String,
    message: String,
    message_expression: Option<CompiledExpression>,
    reason: String,
}

#[derive(Debug)]
struct Annotation {
    key: String,
    expression: CompiledExpression,
}

/// A compiled expression, or its error. Only an expression that a newer server stored may have one.
type CompiledExpression = Result<Expression, String>;

/// Result of one validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Index of the validation.
    pub place: usize,
    pub outcome: Outcome,
    pub elapsed: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Admit,
    /// The evaluation failed.
    Error(ExpressionError),
    /// The message, and the reason of the response's status.
    Deny(String, String),
}

/// An audit annotation, or the error of its expression.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditAnnotation {
    pub key: String,
    pub value: Result<String, ExpressionError>,
    pub elapsed: Duration,
}

/// Results of the policy with one parameter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    pub decisions: Vec<Decision>,
    pub notes: Vec<AuditAnnotation>,
}

impl Evaluation {
    fn error(why: impl Into<ExpressionError>) -> Self {
        let decision = Decision { place: 0, outcome: Outcome::Error(why.into()), elapsed: Duration::ZERO };
        Self { decisions: vec![decision], notes: Vec::new() }
    }
}

impl source::Definition for Definition {
    const POLICIES: &'static str = "validatingadmissionpolicies";
    const BINDINGS: &'static str = "validatingadmissionpolicybindings";

    fn compile(spec: &Json) -> Self {
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |value: &Json, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let param_kind = params::kind(&spec["paramKind"]);
        let mut scope =
            Scope { params: param_kind.is_some().then_some(Type::Dyn), has_authorizer: true, ..Scope::default() };
        let conditions = MatchConditions::compile(&spec["matchConditions"], &scope);
        let mut variables = Declared::default();
        for variable in list("variables") {
            // An error is reported by the expressions that read the variable.
            let _ = variables.add(&text(variable, "name"), &text(variable, "expression"), &mut scope);
        }
        let of_message = Scope { has_authorizer: false, ..scope.clone() };
        let validations = list("validations").map(|validation| Validation {
            expression: scope.compile(&text(validation, "expression"), &[Type::Bool]),
            text: text(validation, "expression"),
            message: text(validation, "message"),
            message_expression: match text(validation, "messageExpression").as_str() {
                "" => None,
                expression => Some(of_message.compile(expression, &[Type::String])),
            },
            reason: text(validation, "reason"),
        });
        let validations = validations.collect();
        let annotations = list("auditAnnotations").map(|annotation| Annotation {
            key: text(annotation, "key"),
            expression: scope.compile(&text(annotation, "valueExpression"), &[Type::String, Type::Null]),
        });
        let annotations = annotations.collect();
        Self {
            matching: MatchResources::of_policy(&spec["matchConstraints"]),
            failure_policy: FailurePolicy::read(spec),
            param_kind,
            conditions,
            variables,
            validations,
            annotations,
        }
    }
}

impl Definition {
    /// Evaluates the policy. `now` measures how long each expression takes.
    pub fn evaluate(&self, activation: &Activation, namespace: &Json, now: &dyn Fn() -> Duration) -> Evaluation {
        match self.conditions.evaluate(activation) {
            Verdict::Matches => {}
            Verdict::DoesNotMatch(_) => return Evaluation::default(),
            Verdict::Error(_) if self.failure_policy == FailurePolicy::Ignore => return Evaluation::default(),
            Verdict::Error(why) => return Evaluation::error(why),
        }
        let activation = activation.with_namespace(namespace);
        let run = Run { definition: self, activation, variables: Variables::of_policy(&self.variables), now };
        run.all().unwrap_or_else(Evaluation::error)
    }
}

/// One evaluation.
struct Run<'p> {
    definition: &'p Definition,
    activation: Activation,
    variables: Variables<'p>,
    now: &'p dyn Fn() -> Duration,
}

impl Run<'_> {
    fn all(mut self) -> Result<Evaluation, OutOfBudget> {
        let definition = self.definition;
        let mut budget = Budget::of_policy();
        let mut results = Vec::with_capacity(definition.validations.len());
        for validation in &definition.validations {
            let began = (self.now)();
            let result = self.value(&validation.expression, &mut budget)?;
            results.push((result, (self.now)().saturating_sub(began)));
        }
        let mut decisions = Vec::with_capacity(results.len());
        for (place, (result, elapsed)) in results.into_iter().enumerate() {
            let outcome = match result {
                Ok(Value::Bool(true)) => Outcome::Admit,
                Ok(_) => self.refusal(&definition.validations[place], &mut budget),
                Err(why) => Outcome::Error(why),
            };
            decisions.push(Decision { place, outcome, elapsed });
        }
        // Audit annotations have a budget of their own.
        let mut budget = Budget::of_policy();
        let mut notes = Vec::new();
        for annotation in &definition.annotations {
            let began = (self.now)();
            let result = self.value(&annotation.expression, &mut budget)?;
            let elapsed = (self.now)().saturating_sub(began);
            let value = match result {
                Ok(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                Ok(Value::String(_) | Value::Null) => continue,
                Ok(other) => Err(ExpressionError::Evaluation(format!(
                    "valueExpression resulted in unsupported return type: {}. Return type must be either string or null.",
                    other.type_name()
                ))),
                Err(_) if definition.failure_policy == FailurePolicy::Ignore => continue,
                Err(why) => Err(why),
            };
            notes.push(AuditAnnotation { key: annotation.key.clone(), value, elapsed });
        }
        Ok(Evaluation { decisions, notes })
    }

    fn value(
        &mut self,
        compiled: &CompiledExpression,
        budget: &mut Budget,
    ) -> Result<Result<Value, ExpressionError>, OutOfBudget> {
        match compiled {
            Ok(expression) => {
                let outcome = self.variables.evaluate(expression, &self.activation, budget)?;
                Ok(outcome.map_err(ExpressionError::Evaluation))
            }
            Err(why) => Ok(Err(ExpressionError::Compilation(why.clone()))),
        }
    }

    fn refusal(&mut self, validation: &Validation, budget: &mut Budget) -> Outcome {
        let mut message = String::new();
        if let Some(expression) = &validation.message_expression {
            match self.value(expression, budget) {
                Err(spent) => return Outcome::Error(format!("failed messageExpression: {spent}").into()),
                Ok(Ok(Value::String(text))) => {
                    let text = text.trim();
                    if text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') {
                        text.clone_into(&mut message);
                    }
                }
                Ok(_) => {}
            }
        }
        if message.is_empty() {
            validation.message.trim().clone_into(&mut message);
        }
        if message.is_empty() {
            message = format!("failed expression: {}", validation.text.trim());
        }
        let reason = if validation.reason.is_empty() { "Invalid" } else { &validation.reason };
        Outcome::Deny(message, reason.to_owned())
    }
}
