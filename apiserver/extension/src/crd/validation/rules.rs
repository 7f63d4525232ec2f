//! Rules in CEL as a definition gives them: they have to be readable, about what is there, and not too costly.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.

use crate::crd::rules::compiled::{Compiled, Refusal, compiled};
use cel::MAX_REQUEST_BYTES;
use cel::declared::{accessible, declared};
use proto::meta::status::FieldError;
use proto::schema::structural::json_path::JsonPath;
use proto::schema::structural::{Additional, Rule, Structural};
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What one rule may cost for all values of an object, and all rules of a schema together.
const RULE_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;
/// So many of the most costly rules are named when together they are too much.
const NAMED: usize = 4;

/// Every error of the rules of a schema. What is wrong with their expressions is told after what is wrong otherwise, and
/// where the schema itself is sound.
pub fn check(schema: &At<'_>, is_sound: bool, errors: &mut Errors) {
    let structural = accessible(&Structural::parse(schema.value), true);
    let mut check =
        Check { is_sound, written: Errors::new(), of_expressions: Errors::new(), total: 0, costly: Vec::new() };
    check.node(schema, &structural, Context { count: Some(1), lost: None });
    errors.append(&mut check.written);
    errors.append(&mut check.of_expressions);
    if check.total > SCHEMA_LIMIT {
        let contributed = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        errors.extend(check.costly.iter().map(|(path, _)| FieldError::forbidden(path.clone(), contributed)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(schema.forbidden(too_costly(what, check.total, SCHEMA_LIMIT)));
    }
}

struct Check {
    is_sound: bool,
    written: Errors,
    of_expressions: Errors,
    total: u64,
    /// The most costly rules first.
    costly: Vec<(String, u64)>,
}

/// What the place of a node in the schema means for its rules.
#[derive(Clone, Copy)]
struct Context<'p> {
    /// How many such values an object can have, if there is a limit.
    count: Option<u64>,
    /// The list below which a value has no past of its own.
    lost: Option<&'p str>,
}

impl Check {
    /// Whether nothing is wrong with how rules are written here and below; else expressions are not looked at.
    fn node(&mut self, schema: &At<'_>, structural: &Structural, context: Context<'_>) -> bool {
        let mut is_sound = self.is_sound;
        let times = |max: Option<i64>| {
            let max = u64::try_from(max?).unwrap_or(0);
            Some(context.count?.saturating_mul(max))
        };
        if let Some(items) = &structural.items {
            let has_past = schema.field("x-kubernetes-list-type").text() == "map";
            let lost = context.lost.or((!has_past).then_some(schema.path.as_str()));
            let inner = Context { count: times(structural.value.max_items), lost };
            is_sound &= self.node(&schema.field("items"), items, inner);
        }
        for (name, property) in schema.field("properties").entries() {
            if let Some(inner) = structural.properties.get(name) {
                is_sound &= self.node(&property, inner, context);
            }
        }
        if let Additional::Schema(values) = &structural.additional {
            let inner = Context { count: times(structural.value.max_properties), ..context };
            is_sound &= self.node(&schema.field("additionalProperties"), values, inner);
        }
        let rules: Vec<At<'_>> = schema.field("x-kubernetes-validations").items().collect();
        for (at, rule) in rules.iter().zip(&structural.rules) {
            let before = self.written.len();
            check_written(at, rule, structural, &mut self.written);
            is_sound &= self.written.len() == before;
        }
        if is_sound {
            // Without a limit, as many as a request has room for, with a comma after each.
            let least = declared(structural, "selfType").map_or(0, |declared| declared.min_bytes);
            let count = context.count.unwrap_or(MAX_REQUEST_BYTES / (least + 1));
            for (at, one) in rules.iter().zip(compiled(structural)) {
                self.expressions(at, &one, count, context.lost);
            }
        }
        is_sound
    }

    fn expressions(&mut self, at: &At<'_>, one: &Compiled, count: u64, lost: Option<&str>) {
        let rule = at.field("rule");
        let cost = one.program.as_ref().map_or(0, |program| program.max_cost).saturating_mul(count);
        if cost > RULE_LIMIT {
            self.of_expressions.push(rule.forbidden(too_costly("estimated rule cost", cost, RULE_LIMIT)));
        }
        self.add_cost(&rule.path, cost);
        if let Err(refusal) = &one.program {
            self.of_expressions.push(refused(&rule, &one.rule, refusal));
        }
        let message = at.field("messageExpression");
        match &one.message {
            Some(Err(refusal)) => self.of_expressions.push(refused(&message, &one.rule, refusal)),
            Some(Ok(program)) => {
                let cost = program.max_cost;
                if cost > RULE_LIMIT {
                    let why = too_costly("estimated messageExpression cost", cost, RULE_LIMIT);
                    self.of_expressions.push(message.forbidden(why));
                }
                self.add_cost(&message.path, cost);
            }
            None => {}
        }
        let optional = at.field("optionalOldSelf");
        match (one.uses_old_self, lost) {
            (true, Some(path)) => {
                self.of_expressions.push(rule.invalid(format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {path}"
                )))
            }
            (false, _) if optional.is_set() => {
                self.of_expressions.push(optional.invalid("may not be set if oldSelf is not used in rule"));
            }
            _ => {}
        }
    }

    fn add_cost(&mut self, path: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        // What contributes less than a hundredth is not worth naming.
        if cost >= SCHEMA_LIMIT / 100 {
            self.costly.push((path.to_owned(), cost));
            self.costly.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.costly.truncate(NAMED);
        }
    }
}

/// What is wrong with a rule, its expressions aside.
fn check_written(at: &At<'_>, rule: &Rule, schema: &Structural, errors: &mut Errors) {
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
    } else if !leads_somewhere(path.text(), schema) {
        errors.push(path.invalid("must be a valid path"));
    }
}

/// Whether a path like `.a['b']` names a field of the schema.
fn leads_somewhere(path: &str, schema: &Structural) -> bool {
    let parsed = JsonPath::parse(path).filter(|_| path.starts_with(['.', '[']));
    let names = parsed.as_ref().and_then(JsonPath::names);
    names.is_some_and(|names| names.iter().try_fold(schema, |at, name| at.field(name)).is_some())
}

/// By how much an estimate exceeds a limit.
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

/// With the whole rule, as Go prints it.
fn refused(at: &At<'_>, rule: &Rule, refusal: &Refusal) -> FieldError {
    let why = match refusal {
        Refusal::Missing(why) => return at.required(why),
        Refusal::Invalid(why) => why,
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
