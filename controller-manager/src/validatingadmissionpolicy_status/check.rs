//! Type-checks the expressions of a policy for each kind that it names.
//!
//! Corresponds to TypeChecker of k8s.io/apiserver/pkg/admission/plugin/policy/validating.

use super::matched::Matched;
use cel::Type;
use cel::admission::Scope;
use proto::Gvk;
use proto::kinds::api::admissionregistration::v1::{ExpressionWarning, ValidatingAdmissionPolicySpec};
use std::collections::BTreeMap;

/// The known types of the kinds that a policy names.
#[derive(Debug, Default)]
pub struct Kinds {
    /// Types of the matched objects, sorted by kind.
    pub objects: BTreeMap<Gvk, Type>,
    pub params: Option<Type>,
}

impl Kinds {
    /// `type_of` returns the type of a kind, or `None` if no schema describes it.
    pub fn of(matched: &Matched, type_of: impl Fn(&Gvk) -> Option<Type>) -> Self {
        let known = |kind: &Gvk| Some((kind.clone(), type_of(kind)?));
        let objects = matched.objects.iter().filter_map(known).collect();
        Self { objects, params: matched.params.as_ref().and_then(type_of) }
    }
}

/// Returns a warning for every expression that has a type error for any kind.
pub fn warnings(spec: &ValidatingAdmissionPolicySpec, kinds: &Kinds) -> Vec<ExpressionWarning> {
    let scopes: Vec<(&Gvk, Scope)> =
        kinds.objects.iter().map(|(gvk, object)| (gvk, scope(spec, object, kinds.params.as_ref()))).collect();
    let mut warnings = Vec::new();
    for (at, validation) in spec.validations.iter().flatten().enumerate() {
        let expressions = [
            ("expression", Some(&validation.expression)),
            ("messageExpression", validation.message_expression.as_ref()),
        ];
        for (field, expression) in expressions {
            let Some(expression) = expression.filter(|text| !text.is_empty()) else { continue };
            let error = |(gvk, scope): &(&Gvk, Scope)| {
                scope.result(expression).err().map(|error| format!("{}: {error}\n", format_kind(gvk)))
            };
            let errors: Vec<String> = scopes.iter().filter_map(error).collect();
            if !errors.is_empty() {
                let field_ref = format!("spec.validations[{at}].{field}");
                warnings.push(ExpressionWarning { field_ref, warning: errors.join("\n") });
            }
        }
    }
    warnings
}

/// Formats a kind. The version of the core group has a slash in front of it.
fn format_kind(kind: &Gvk) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// Returns the variables of the expressions. A policy variable with a type error has the dynamic type.
fn scope(spec: &ValidatingAdmissionPolicySpec, object: &Type, params: Option<&Type>) -> Scope {
    let mut scope = Scope { object: object.clone(), params: params.cloned(), has_authorizer: true, ..Scope::default() };
    for variable in spec.variables.iter().flatten() {
        let kind = scope.result(&variable.expression).unwrap_or(Type::Dyn);
        scope.variables.get_or_insert_default().insert(variable.name.clone(), kind);
    }
    scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn kinds() -> Kinds {
        let spec = Type::object("Deployment.spec", &[("replicas", Type::Int)]);
        let deployment = Type::object("Deployment", &[("spec", spec)]);
        let pod = Type::object("Pod", &[("spec", Type::object("Pod.spec", &[("replicas", Type::String)]))]);
        let objects = [(Gvk::new("", "v1", "Pod"), pod), (Gvk::new("apps", "v1", "Deployment"), deployment)];
        Kinds { objects: objects.into(), params: Some(Type::object("Limit", &[("max", Type::Int)])) }
    }

    fn warned(spec: Value) -> Vec<(String, String)> {
        let warnings = warnings(&serde_json::from_value(spec).unwrap(), &kinds());
        warnings.into_iter().map(|warning| (warning.field_ref, warning.warning)).collect()
    }

    fn validation(expression: &str) -> Value {
        json!({"validations": [{"expression": "true"}, {"expression": expression}]})
    }

    #[test]
    fn correct_expressions_have_no_warning() {
        for expression in [
            "has(object.spec) && oldObject != null",
            "authorizer.path('/healthz').check('get').allowed() && request.operation == 'CREATE'",
            "params.max < 3 && namespaceObject.metadata.name == 'a'",
        ] {
            assert_eq!(warned(validation(expression)), [], "{expression}");
        }
    }

    #[test]
    fn the_warning_names_each_kind() {
        let wrong = |kind: &str| {
            format!("{kind}: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n")
        };
        let warning = format!("{}\n{}", wrong("/v1, Kind=Pod"), wrong("apps/v1, Kind=Deployment"));
        let place = "spec.validations[1].expression".to_owned();
        assert_eq!(warned(validation("object.replicas > 1")), [(place.clone(), warning)]);
        let [(at, warning)] = warned(validation("object.spec.replicas > 1")).try_into().unwrap();
        assert_eq!(at, place);
        assert!(
            warning.starts_with("/v1, Kind=Pod: ERROR: <input>:1:22: found no matching overload for '_>_'"),
            "{warning}"
        );
        let [(_, warning)] = warned(validation("params.min > 1")).try_into().unwrap();
        assert!(warning.contains("undefined field 'min'"), "{warning}");
    }

    #[test]
    fn messages_and_variables_have_types_too() {
        let spec = json!({
            "variables": [{"name": "count", "expression": "size(string(object.spec.replicas))"},
                {"name": "broken", "expression": "object.nothing"}, {"name": "name", "expression": "'a'"}],
            "validations": [{"expression": "variables.count > 0 && variables.broken == 1",
                "messageExpression": "variables.name + variables.count"}],
        });
        let [(at, warning)] = warned(spec).try_into().unwrap();
        assert_eq!(at, "spec.validations[0].messageExpression");
        assert!(warning.contains("found no matching overload for '_+_' applied to '(string, int)'"), "{warning}");
    }
}
