//! `Definition`: a compiled MutatingAdmissionPolicy; mutates an object with one parameter.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy/mutating.

use super::apply_configuration;
use super::json_patch;
use crate::dynamic::expressions::{Activation, Budget, ExpressionError, MatchConditions, Variables, Verdict};
use crate::dynamic::matching::MatchResources;
use crate::dynamic::policies::{FailurePolicy, params, source};
use cel::admission::Declared;
use cel::admission::mutation::{JSON_PATCH, OBJECT, patch_type};
use cel::admission::{Expression, Scope};
use cel::{Type, Value};
use patch::apply::atoms::Type as Merging;
use proto::Gvk;
use serde_json::Value as Json;

#[derive(Debug)]
pub struct Definition {
    pub matching: MatchResources,
    pub param_kind: Option<Gvk>,
    pub failure_policy: FailurePolicy,
    /// `reinvocationPolicy: IfNeeded`.
    pub is_reinvoked: bool,
    conditions: MatchConditions,
    variables: Declared,
    pub mutations: Vec<Mutation>,
}

#[derive(Debug)]
pub struct Mutation {
    pub patch_type: PatchType,
    expression: Result<Expression, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

impl source::Definition for Definition {
    const POLICIES: &'static str = "mutatingadmissionpolicies";
    const BINDINGS: &'static str = "mutatingadmissionpolicybindings";

    fn compile(spec: &Json) -> Self {
        let list = |field: &str| spec[field].as_array().into_iter().flatten();
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let param_kind = params::kind(&spec["paramKind"]);
        let mut scope =
            Scope { params: param_kind.is_some().then_some(Type::Dyn), has_authorizer: true, ..Scope::default() };
        let conditions = MatchConditions::compile(&spec["matchConditions"], &scope);
        scope.has_patches = true;
        let mut variables = Declared::default();
        for variable in list("variables") {
            // An error is reported by the expressions that read the variable.
            let _ = variables.add(&text(&variable["name"]), &text(&variable["expression"]), &mut scope);
        }
        let mutations = list("mutations").map(|mutation| {
            let (patch_type, field, wanted) = match mutation["patchType"] == "JSONPatch" {
                true => (PatchType::JsonPatch, "jsonPatch", self::patch_type(JSON_PATCH).map(Type::list)),
                false => (PatchType::ApplyConfiguration, "applyConfiguration", self::patch_type(OBJECT)),
            };
            let wanted: Vec<Type> = wanted.into_iter().collect();
            Mutation { patch_type, expression: scope.compile(&text(&mutation[field]["expression"]), &wanted) }
        });
        let mutations = mutations.collect();
        Self {
            matching: MatchResources::of_policy(&spec["matchConstraints"]),
            failure_policy: FailurePolicy::read(spec),
            is_reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            param_kind,
            conditions,
            variables,
            mutations,
        }
    }
}

impl Definition {
    /// Tells whether the match conditions hold.
    pub fn applies(&self, activation: &Activation) -> Result<bool, ExpressionError> {
        match self.conditions.evaluate(activation) {
            Verdict::Matches => Ok(true),
            Verdict::DoesNotMatch(_) => Ok(false),
            Verdict::Error(why) => Err(why),
        }
    }

    /// Returns the object after one mutation. `activation` has the object before it; `schema` is its type.
    pub fn mutate(
        &self,
        mutation: &Mutation,
        activation: &Activation,
        object: &Json,
        schema: Merging<'_>,
    ) -> Result<Json, ExpressionError> {
        let compiled = mutation.expression.as_ref();
        let expression = compiled.map_err(|why| ExpressionError::Compilation(why.clone()))?;
        let mut variables = Variables::of_policy(&self.variables);
        let value = variables.evaluate(expression, activation, &mut Budget::of_policy())??;
        let mutated = match (mutation.patch_type, &value) {
            (PatchType::ApplyConfiguration, Value::Message(_)) => apply_configuration::apply(schema, object, &value),
            (PatchType::JsonPatch, Value::List(operations)) => json_patch::apply(object, &operations.items),
            (_, other) => Err(format!("unsupported return type: {}", other.type_name())),
        };
        mutated.map_err(ExpressionError::Evaluation)
    }
}
