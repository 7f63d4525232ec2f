//! Validates the CEL rules of a definition: they must compile, refer to existing fields, and stay below the cost limits.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.

use crate::crd::rules::compiled::{CompiledRule, ExpressionError, compiled};
use cel::MAX_REQUEST_BYTES;
use cel::declared::{accessible, declared};
use proto::meta::status::FieldError;
use proto::schema::structural::json_path::JsonPath;
use proto::schema::structural::{Additional, Rule, Structural};
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Maximum estimated cost of one rule for all values in an object.
const RULE_LIMIT: u64 = 10_000_000;
/// Maximum estimated cost of all rules of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// Maximum number of rules that are named when all rules together cost too much.
const MAX_NAMED: usize = 4;

/// Adds all errors of the rules of a schema. Expressions are checked only if the schema is valid otherwise, and their
/// errors come last.
pub fn check(schema: &At<'_>, is_valid_schema: bool, errors: &mut Errors) {
    let structural = accessible(&Structural::parse(schema.value), true);
    let mut check = RuleCheck {
        is_valid_schema,
        field_errors: Errors::new(),
        expression_errors: Errors::new(),
        total: 0,
        costly: Vec::new(),
    };
    check.check_node(schema, &structural, RuleScope { count: Some(1), uncorrelatable: None });
    errors.append(&mut check.field_errors);
    errors.append(&mut check.expression_errors);
    if check.total > SCHEMA_LIMIT {
        let contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        errors.extend(check.costly.iter().map(|(path, _)| FieldError::forbidden(path.clone(), contributed)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(schema.forbidden(too_costly(what, check.total, SCHEMA_LIMIT)));
    }
}

/// A check of all rules of a schema, and its results.
struct RuleCheck {
    is_valid_schema: bool,
    field_errors: Errors,
    expression_errors: Errors,
    /// The estimated cost of all rules.
    total: u64,
    /// The most costly rules first.
    costly: Vec<(String, u64)>,
}

/// The values that the rules of a schema node apply to.
#[derive(Clone, Copy)]
struct RuleScope<'p> {
    /// The maximum number of these values in an object, if there is one.
    count: Option<u64>,
    /// The path of a list above whose items cannot be matched with old ones. There is no `oldSelf` below it.
    uncorrelatable: Option<&'p str>,
}

impl RuleCheck {
    /// Checks the rules of a node and of the nodes below. Returns whether the schema and the fields of these rules are
    /// valid. If they are not, the expressions of the node are not checked.
    fn check_node(&mut self, schema: &At<'_>, structural: &Structural, scope: RuleScope<'_>) -> bool {
        let mut is_valid = self.is_valid_schema;
        let times = |max: Option<i64>| {
            let max = u64::try_from(max?).unwrap_or(0);
            Some(scope.count?.saturating_mul(max))
        };
        if let Some(items) = &structural.items {
            let is_correlatable = schema.field("x-kubernetes-list-type").text() == "map";
            let uncorrelatable = scope.uncorrelatable.or((!is_correlatable).then_some(schema.path.as_str()));
            let inner = RuleScope { count: times(structural.value.max_items), uncorrelatable };
            is_valid &= self.check_node(&schema.field("items"), items, inner);
        }
        for (name, property) in schema.field("properties").entries() {
            if let Some(inner) = structural.properties.get(name) {
                is_valid &= self.check_node(&property, inner, scope);
            }
        }
        if let Additional::Schema(values) = &structural.additional {
            let inner = RuleScope { count: times(structural.value.max_properties), ..scope };
            is_valid &= self.check_node(&schema.field("additionalProperties"), values, inner);
        }
        let rules: Vec<At<'_>> = schema.field("x-kubernetes-validations").items().collect();
        for (at, rule) in rules.iter().zip(&structural.rules) {
            let before = self.field_errors.len();
            check_fields(at, rule, structural, &mut self.field_errors);
            is_valid &= self.field_errors.len() == before;
        }
        if is_valid {
            // Without a limit, as many values as fit into a request, each with a comma.
            let least = declared(structural, "selfType").map_or(0, |declared| declared.min_bytes);
            let count = scope.count.unwrap_or(MAX_REQUEST_BYTES / (least + 1));
            for (at, rule) in rules.iter().zip(compiled(structural)) {
                self.check_expressions(at, &rule, count, scope.uncorrelatable);
            }
        }
        is_valid
    }

    /// Checks the expressions of a rule that applies to `count` values.
    fn check_expressions(&mut self, at: &At<'_>, compiled: &CompiledRule, count: u64, uncorrelatable: Option<&str>) {
        let rule = at.field("rule");
        let cost = compiled.program.as_ref().map_or(0, |program| program.max_cost).saturating_mul(count);
        if cost > RULE_LIMIT {
            self.expression_errors.push(rule.forbidden(too_costly("estimated rule cost", cost, RULE_LIMIT)));
        }
        self.add_cost(&rule.path, cost);
        if let Err(error) = &compiled.program {
            self.expression_errors.push(expression_error(&rule, &compiled.rule, error));
        }
        let message = at.field("messageExpression");
        match &compiled.message {
            Some(Err(error)) => self.expression_errors.push(expression_error(&message, &compiled.rule, error)),
            Some(Ok(program)) => {
                let cost = program.max_cost;
                if cost > RULE_LIMIT {
                    let why = too_costly("estimated messageExpression cost", cost, RULE_LIMIT);
                    self.expression_errors.push(message.forbidden(why));
                }
                self.add_cost(&message.path, cost);
            }
            None => {}
        }
        let optional = at.field("optionalOldSelf");
        match (compiled.uses_old_self, uncorrelatable) {
            (true, Some(path)) => {
                self.expression_errors.push(rule.invalid(format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {path}"
                )))
            }
            (false, _) if optional.is_set() => {
                self.expression_errors.push(optional.invalid("may not be set if oldSelf is not used in rule"));
            }
            _ => {}
        }
    }

    fn add_cost(&mut self, path: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        // A rule that costs less than a hundredth of the limit is not named.
        if cost >= SCHEMA_LIMIT / 100 {
            self.costly.push((path.to_owned(), cost));
            self.costly.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.costly.truncate(MAX_NAMED);
        }
    }
}

/// Checks the fields of a rule, except that expressions need not compile.
fn check_fields(at: &At<'_>, rule: &Rule, schema: &Structural, errors: &mut Errors) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let message = at.field("message");
    if !message.text().is_empty() && message.text().trim().is_empty() {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if has_breaks(message.text().trim()) {
        errors.push(message.invalid("must not contain line breaks"));
    } else if has_breaks(rule.rule.trim()) && message.text().is_empty() {
        errors.push(message.required("message must be specified if rule contains line breaks"));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        errors.push(at.field("messageExpression").required("must be non-empty if specified"));
    }
    at.field("reason").check_optional_enum(&REASONS, errors);
    let path = at.field("fieldPath");
    if path.text().is_empty() {
        return;
    }
    if path.text().trim().is_empty() {
        errors.push(path.invalid("must be non-empty if specified"));
    } else if has_breaks(path.text()) {
        errors.push(path.invalid("must not contain line breaks"));
    } else if !is_field_path(path.text(), schema) {
        errors.push(path.invalid("must be a valid path"));
    }
}

/// Tells whether a path such as `.a['b']` names a field of the schema.
fn is_field_path(path: &str, schema: &Structural) -> bool {
    let parsed = JsonPath::parse(path).filter(|_| path.starts_with(['.', '[']));
    let names = parsed.as_ref().and_then(JsonPath::names);
    names.is_some_and(|names| names.iter().try_fold(schema, |at, name| at.field(name)).is_some())
}

/// Returns the message for an estimate above its limit.
fn too_costly(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        large if large > 100.0 => "more than 100x".to_owned(),
        small if small < 1.5 => format!("{small:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// Returns the error of an expression. It shows the whole rule, as Go prints it.
fn expression_error(at: &At<'_>, rule: &Rule, error: &ExpressionError) -> FieldError {
    let why = match error {
        ExpressionError::Missing(why) => return at.required(why),
        ExpressionError::Invalid(why) => why,
    };
    let text = |text: &str| -> String {
        json!(text).to_string().replace('>', "\\u003e").replace('<', "\\u003c").replace('&', "\\u0026")
    };
    let printed = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        json!(rule.reason),
        text(&rule.field_path),
        json!(rule.optional_old_self),
    );
    let mut error = at.invalid_as(&Value::Null, "");
    error.message = format!("Invalid value: {printed}: {why}");
    error
}
