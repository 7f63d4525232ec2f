//! Validates admission policies in CEL and their bindings. Every expression has to compile with the variables that it
//! may use.
//!
//! Corresponds to pkg/apis/admissionregistration/validation.

use super::{conditions, selector, webhooks};
use crate::write_context::WriteContext;
use cel::admission::Declared;
use cel::admission::Scope;
use cel::admission::mutation::{JSON_PATCH, OBJECT, patch_type};
use cel::{Type, is_reserved};
use field_checks::at::{At, Errors};
use proto::gvk::split_api_version;
use proto::meta::names;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;

fn match_resources(at: &At<'_>, errors: &mut Errors) {
    at.field("matchPolicy").check_optional_enum(&["Equivalent", "Exact"], errors);
    for field in ["namespaceSelector", "objectSelector"] {
        selector::check(&at.field(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in at.field(field).items() {
            resource_names(&rule.field("resourceNames"), errors);
            webhooks::rule(&rule, errors);
        }
    }
}

fn resource_names(list: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for name in list.items() {
        name.check(names::path_segment, errors);
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn param_kind(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (api_version, kind) = (at.field("apiVersion"), at.field("kind"));
    if api_version.is_empty() {
        errors.push(api_version.required(""));
    } else if api_version.text().matches('/').count() > 1 {
        errors.push(api_version.invalid(format!("unexpected GroupVersion string: {}", api_version.text())));
    } else {
        let (group, version) = split_api_version(api_version.text());
        let mut complain = |part: &str, complaints: Vec<String>| {
            if !complaints.is_empty() {
                errors.push(api_version.invalid_as(&json!(part), complaints.join(",")));
            }
        };
        if !group.is_empty() {
            complain(group, names::dns1123_subdomain(group));
        }
        if version.is_empty() {
            errors.push(api_version.invalid("version must be specified"));
        } else {
            complain(version, names::dns1035_label(version));
        }
    }
    let complaints = names::dns1035_label(&kind.text().to_lowercase());
    if kind.is_empty() {
        errors.push(kind.required(""));
    } else if !complaints.is_empty() {
        errors.push(kind.invalid(format!("may have mixed case, but should otherwise match: {}", complaints.join(","))));
    }
}

/// Returns true if an update keeps the match conditions and the kind of parameters. Such conditions are not compiled
/// again.
fn keeps_conditions(new: &At<'_>, old: &At<'_>) -> bool {
    ["paramKind", "matchConditions"].iter().all(|field| new.field(field).value == old.field(field).value)
}

/// Validates the fields that both kinds of policies have. Returns the scope of the expressions in the other fields.
fn policy(spec: &At<'_>, old: Option<&At<'_>>, has_patches: bool, operations: &[&str], errors: &mut Errors) -> Scope {
    spec.field("failurePolicy").check_optional_enum(&["Fail", "Ignore"], errors);
    param_kind(&spec.field("paramKind"), errors);
    let constraints = spec.field("matchConstraints");
    if !constraints.is_set() {
        errors.push(constraints.required(""));
    } else {
        match_resources(&constraints, errors);
        let rules = constraints.field("resourceRules");
        if rules.is_empty() {
            errors.push(rules.required(""));
        }
        // An operation that does not exist has an error already.
        let listed = rules.items().flat_map(|rule| rule.field("operations").items().collect::<Vec<_>>());
        for operation in listed.filter(|operation| webhooks::OPERATIONS.contains(&operation.text())) {
            if !operations.contains(&operation.text()) {
                let at = At::new(rules.path_of("operations"), operation.value);
                errors.push(at.not_supported(operations));
            }
        }
    }
    let params = spec.field("paramKind").is_set().then_some(Type::Dyn);
    let mut scope = Scope { params, has_authorizer: true, ..Scope::default() };
    if !old.is_some_and(|old| keeps_conditions(spec, old)) {
        webhooks::match_conditions(&spec.field("matchConditions"), &scope, errors);
    }
    scope.has_patches = has_patches;
    variables(&spec.field("variables"), &mut scope, errors);
    scope
}

/// Checks the variables of a policy, and adds each to the scope.
fn variables(list: &At<'_>, scope: &mut Scope, errors: &mut Errors) {
    let mut declared = Declared::default();
    for variable in list.items() {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(name.text()) {
            errors.push(name.invalid("name is not a valid CEL identifier"));
        }
        if expression.text().trim().is_empty() {
            errors.push(expression.required("expression is not specified"));
        } else if let Err(why) = declared.add(name.text(), expression.text(), scope) {
            errors.push(expression.invalid(why));
        }
    }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !is_reserved(name)
}

/// Checks that an expression compiles to one of the `wanted` types.
fn check_expression(at: &At<'_>, scope: &Scope, wanted: &[Type], errors: &mut Errors) {
    if at.text().trim().is_empty() {
        errors.push(at.required("expression is not specified"));
    } else if let Err(why) = scope.compile(at.text(), wanted) {
        errors.push(at.invalid(why));
    }
}

pub fn validating(_context: &Context<'_>, object: &At<'_>, errors: &mut Errors) {
    validating_policy(object, None, errors);
}

/// Validates an update of a ValidatingAdmissionPolicy, which skips match conditions that did not change.
pub fn validating_update(_context: &Context<'_>, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    validating_policy(new, Some(&old.field("spec")), errors);
}

fn validating_policy(object: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    let spec = object.field("spec");
    let scope = policy(&spec, old, false, webhooks::OPERATIONS, errors);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.extend([validations.required(why), annotations.required(why)]);
    }
    for validation in validations.items() {
        self::validation(&validation, &scope, errors);
    }
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        errors.push(annotations.invalid(format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations")));
    }
    let mut seen = BTreeSet::new();
    for annotation in annotations.items() {
        let name = object.down("metadata.name");
        audit_annotation(&annotation, name.text(), &scope, errors);
        if !seen.insert(annotation.field("key").text()) {
            errors.push(annotation.field("key").duplicate());
        }
    }
}

/// Validates the status: warnings of the type checking, and conditions.
pub fn validating_status(_context: &Context<'_>, object: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let status = object.field("status");
    for warning in status.down("typeChecking.expressionWarnings").items() {
        let (text, field) = (warning.field("warning"), warning.field("fieldRef"));
        if text.is_empty() {
            errors.push(text.required(""));
        }
        if field.text().trim().is_empty() {
            errors.push(field.required(""));
        }
    }
    conditions::check(&status.field("conditions"), errors);
}

fn validation(validation: &At<'_>, scope: &Scope, errors: &mut Errors) {
    check_expression(&validation.field("expression"), scope, &[Type::Bool], errors);
    let message_expression = validation.field("messageExpression");
    if !message_expression.is_empty() && message_expression.text().trim().is_empty() {
        errors.push(message_expression.invalid("must be non-empty if specified"));
    } else if !message_expression.is_empty() {
        let scope = Scope { has_authorizer: false, ..scope.clone() };
        check_expression(&message_expression, &scope, &[Type::String], errors);
    }
    let message = validation.field("message");
    if !message.is_empty() && message.text().trim().is_empty() {
        errors.push(message.invalid("message must be non-empty if specified"));
    } else if message.text().trim().contains(['\n', '\r']) {
        errors.push(message.invalid("message must not contain line breaks"));
    }
    validation.field("reason").check_optional_enum(&["Forbidden", "Invalid", "RequestEntityTooLarge"], errors);
}

fn audit_annotation(annotation: &At<'_>, policy: &str, scope: &Scope, errors: &mut Errors) {
    let key = annotation.field("key");
    if policy.is_empty() {
        errors.push(key.invalid_text("requires metadata.name be non-empty"));
    } else {
        let full_key = format!("{policy}/{}", key.text());
        let complaints = names::qualified_name(&full_key);
        errors.extend(complaints.into_iter().map(|complaint| key.invalid_as(&json!(full_key), complaint)));
    }
    let value = annotation.field("valueExpression");
    let text = value.text().trim();
    if text.is_empty() {
        errors.push(value.required("valueExpression is not specified"));
    } else if text.len() > MAX_VALUE_EXPRESSION_BYTES {
        errors.push(value.required(&format!("must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length")));
    } else if let Err(why) = scope.compile(text, &[Type::String, Type::Null]) {
        errors.push(value.invalid(why));
    }
}

pub fn mutating(_context: &Context<'_>, object: &At<'_>, errors: &mut Errors) {
    mutating_policy(object, None, errors);
}

/// Validates an update of a MutatingAdmissionPolicy, which skips match conditions that did not change.
pub fn mutating_update(_context: &Context<'_>, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    mutating_policy(new, Some(&old.field("spec")), errors);
}

fn mutating_policy(object: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    let spec = object.field("spec");
    // A deletion has no object that could be mutated, so DELETE is not supported.
    let scope = policy(&spec, old, true, &["*", "CONNECT", "CREATE", "UPDATE"], errors);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        self::mutation(&mutation, &scope, errors);
    }
    spec.field("reinvocationPolicy").check_enum(&["IfNeeded", "Never"], errors);
}

fn mutation(mutation: &At<'_>, scope: &Scope, errors: &mut Errors) {
    let patch_type_at = mutation.field("patchType");
    let (own, other) = match patch_type_at.text() {
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => return patch_type_at.check_enum(&["ApplyConfiguration", "JSONPatch"], errors),
    };
    let wanted = match own {
        "jsonPatch" => patch_type(JSON_PATCH).map(Type::list),
        _ => patch_type(OBJECT),
    };
    let kind = patch_type_at.text();
    if mutation.field(own).is_set() {
        let wanted: Vec<Type> = wanted.into_iter().collect();
        check_expression(&mutation.field(own).field("expression"), scope, &wanted, errors);
    } else {
        errors.push(mutation.field(own).required(&format!("must be specified when patchType is {kind}")));
    }
    if mutation.field(other).is_set() {
        let why = format!("must not be specified when patchType is {kind}");
        errors.push(mutation.field(other).invalid_as(&json!(format!("{{{other}}}")), why));
    }
}

pub fn binding(_context: &Context<'_>, binding: &At<'_>, errors: &mut Errors) {
    let spec = binding.field("spec");
    spec.field("policyName").check_required(names::dns1123_subdomain, errors);
    param_ref(&spec.field("paramRef"), errors);
    // As in Kubernetes, the path is misspelt.
    match_resources(&At::new(spec.path_of("matchResouces"), spec.field("matchResources").value), errors);
}

fn param_ref(at: &At<'_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (name, selected) = (at.field("name"), at.field("selector"));
    let has_both = !name.is_empty() && selected.is_set();
    let exclusive = |field: &At<'_>| has_both.then(|| field.forbidden("name and selector are mutually exclusive"));
    if !name.is_empty() {
        name.check(names::path_segment, errors);
    }
    errors.extend(exclusive(&name));
    selector::check(&selected, errors);
    errors.extend(exclusive(&selected));
    if name.is_empty() && !selected.is_set() {
        errors.push(at.required("one of name or selector must be specified"));
    }
    at.field("parameterNotFoundAction").check_enum(&["Deny", "Allow"], errors);
}

pub fn validating_binding(context: &Context<'_>, object: &At<'_>, errors: &mut Errors) {
    binding(context, object, errors);
    let actions = object.down("spec.validationActions");
    if actions.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
    let mut seen = BTreeSet::new();
    for action in actions.items() {
        if !["Audit", "Deny", "Warn"].contains(&action.text()) {
            errors.push(action.not_supported(&["Audit", "Deny", "Warn"]));
        }
        if !seen.insert(action.text()) {
            errors.push(action.duplicate());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let shown: Value = actions.value.clone();
        errors.push(actions.invalid_as(
            &shown,
            "must not contain both Deny and Warn (repeating the same validation failure information in the API \
             response and headers serves no purpose)",
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create as errors, update};
    use serde_json::{Value, json};

    const GROUP: &str = "admissionregistration.k8s.io/v1";

    fn policy(kind: &str, spec: Value) -> Value {
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
        let mut policy = json!({"apiVersion": GROUP, "kind": kind,
            "spec": {"matchConstraints": {"resourceRules": [rule]}}});
        policy["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        policy
    }

    fn validating(spec: Value) -> Vec<String> {
        errors(policy("ValidatingAdmissionPolicy", spec))
    }

    fn validation(validation: Value) -> Vec<String> {
        validating(json!({"validations": [validation]}))
    }

    const END: &str = "compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', \
        '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | 1 +\n | \
        ...^";

    /// Kubernetes compiles stored expressions with the functions of later releases, too. This server knows one release,
    /// so only unchanged match conditions, which are not checked again, may stay invalid.
    #[test]
    fn unchanged_match_conditions_are_not_compiled_again() {
        let conditions = |expression: &str| json!([{"name": "c", "expression": expression}]);
        let validations = json!([{"expression": "true"}]);
        let mutations =
            json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}]);
        for (kind, field, rules) in [
            ("ValidatingAdmissionPolicy", "validations", validations),
            ("MutatingAdmissionPolicy", "mutations", mutations),
        ] {
            let with = |expression: &str, more: Value| {
                let mut spec = json!({"matchConditions": conditions(expression), "failurePolicy": "Fail"});
                spec[field] = rules.clone();
                spec["reinvocationPolicy"] = json!("Never");
                if field == "validations" {
                    spec.as_object_mut().unwrap().remove("reinvocationPolicy");
                }
                spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                policy(kind, spec)
            };
            let (wrong, ignoring) = (with("nobody.knows", json!({})), json!({"failurePolicy": "Ignore"}));
            assert_eq!(errors(wrong.clone()).len(), 1, "{kind}");
            assert_eq!(update(wrong.clone(), with("nobody.knows", ignoring)), Vec::<String>::new(), "{kind}");
            assert_eq!(update(with("true", json!({})), wrong.clone()).len(), 1, "{kind}");
            assert_eq!(update(wrong.clone(), with("nobody.asks", json!({}))).len(), 1, "{kind}");
            let params = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
            assert_eq!(update(wrong.clone(), with("nobody.knows", params)).len(), 1, "{kind}");
        }
        let validation = |expression: &str, policy_fails: &str| {
            let spec = json!({"validations": [{"expression": expression}], "failurePolicy": policy_fails});
            policy("ValidatingAdmissionPolicy", spec)
        };
        assert_eq!(update(validation("1 +", "Fail"), validation("1 +", "Ignore")).len(), 1);
    }

    #[test]
    fn expressions_compile_with_the_variables_that_they_may_use() {
        let undeclared = |name: &str, text: &str| {
            format!(
                "compilation failed: ERROR: <input>:1:1: undeclared reference to '{name}' (in container '')\n | {text}\n | ^"
            )
        };
        for (given, wanted) in [
            (json!({"expression": "object.x == 1", "messageExpression": "'a'", "reason": "Forbidden"}), vec![]),
            (
                json!({"expression": "1 +"}),
                vec![format!("spec.validations[0].expression: Invalid value: \"1 +\": {END}")],
            ),
            (
                json!({"expression": " "}),
                vec!["spec.validations[0].expression: Required value: expression is not specified".to_owned()],
            ),
            (
                json!({"expression": "'a'"}),
                vec!["spec.validations[0].expression: Invalid value: \"'a'\": must evaluate to bool but got string".into()],
            ),
            (
                json!({"expression": "params == 1"}),
                vec![format!(
                    "spec.validations[0].expression: Invalid value: \"params == 1\": {}",
                    undeclared("params", "params == 1")
                )],
            ),
            (
                json!({"expression": "true", "messageExpression": "authorizer", "message": "a\nb", "reason": "Odd"}),
                vec![
                    format!(
                        "spec.validations[0].messageExpression: Invalid value: \"authorizer\": {}",
                        undeclared("authorizer", "authorizer")
                    ),
                    "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks".into(),
                    "spec.validations[0].reason: Unsupported value: \"Odd\": supported values: \"Forbidden\", \"Invalid\", \
                     \"RequestEntityTooLarge\""
                        .into(),
                ],
            ),
        ] {
            assert_eq!(validation(given.clone()), wanted, "{given}");
        }
        assert_eq!(
            validating(json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [
                {"expression": "params.data.x == 'a' && variables.a", "messageExpression": "string(params.data.x)"}],
                "variables": [{"name": "a", "expression": "true"}],
                "auditAnnotations": [{"key": "k", "valueExpression": "string(variables.a)"}],
                "matchConditions": [{"name": "c", "expression": "params != null"}]})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn variables_parameters_and_audit_annotations_are_valid() {
        assert_eq!(
            validating(json!({"variables": [{"name": "in", "expression": "1"}, {"name": "", "expression": ""},
                {"name": "b", "expression": "variables.c"}]})),
            [
                "spec.variables[0].name: Invalid value: \"in\": name is not a valid CEL identifier",
                "spec.variables[1].name: Required value: name is not specified",
                "spec.variables[1].expression: Required value: expression is not specified",
                "spec.variables[2].expression: Invalid value: \"variables.c\": compilation failed: ERROR: <input>:1:10: \
                 undefined field 'c'\n | variables.c\n | .........^",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]
        );
        assert_eq!(
            validating(json!({"paramKind": {"apiVersion": "a/b/c", "kind": "A_"},
                "auditAnnotations": [{"key": "a", "valueExpression": "1"}, {"key": "a", "valueExpression": ""}]})),
            [
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "spec.paramKind.kind: Invalid value: \"A_\": may have mixed case, but should otherwise match: a DNS-1035 \
                 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
                 end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                 '[a-z]([-a-z0-9]*[a-z0-9])?')",
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string \
                 null_type] but got int",
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
            ]
        );
    }

    #[test]
    fn mutations_evaluate_to_patches() {
        let mutating = |spec: Value| errors(policy("MutatingAdmissionPolicy", spec));
        let mutations = |mutation: Value| mutating(json!({"reinvocationPolicy": "Never", "mutations": [mutation]}));
        assert_eq!(
            mutating(json!({})),
            [
                "spec.mutations: Required value: mutations must contain at least one item",
                "spec.reinvocationPolicy: Required value",
            ]
        );
        for (given, wanted) in [
            (
                json!({"patchType": "JSONPatch", "jsonPatch": {"expression":
                    "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'c'}]"}}),
                vec![],
            ),
            (
                json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                    "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}),
                vec![],
            ),
            (
                json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "1"}}),
                vec![
                    "spec.mutations[0].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got \
                     int",
                ],
            ),
            (
                json!({"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 1, where: ''}]"}}),
                vec![
                    "spec.mutations[0].jsonPatch.expression: Invalid value: \"[JSONPatch{op: 1, where: ''}]\": compilation \
                     failed: ERROR: <input>:1:14: expected type of field 'op' is 'string' but provided type is 'int'\n | \
                     [JSONPatch{op: 1, where: ''}]\n | .............^\nERROR: <input>:1:24: undefined field 'where'\n | \
                     [JSONPatch{op: 1, where: ''}]\n | .......................^",
                ],
            ),
            (
                json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}),
                vec![
                    "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                    "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified \
                     when patchType is JSONPatch",
                ],
            ),
        ] {
            assert_eq!(mutations(given.clone()), wanted, "{given}");
        }
        // Expressions of a ValidatingAdmissionPolicy do not have these types.
        assert!(
            validation(json!({"expression": "Object{} == Object{}"}))[0].contains("undeclared reference to 'Object'")
        );
    }
}
