//! Validates a value against its structural schema. Errors are worded as Kubernetes words them.
//!
//! Corresponds to k8s.io/kube-openapi/pkg/validation/validate, and to the ratcheting of apiextensions-apiserver: a
//! part that an update leaves unchanged is not validated.

use super::lists::keys_of;
use super::{Additional, Structural, ValueRules, formats};
use crate::meta::status::FieldError;
use crate::schema::ListType;
use serde_json::{Map, Number, Value};

/// Returns all errors of `value`. `base` is the path of the value, if it is not the whole object; messages name paths
/// below it. For an update, `old` is the earlier value.
pub fn validate(schema: &Structural, value: &Value, base: &str, old: Option<&Value>) -> Vec<FieldError> {
    ValuePath { base, name: "" }.check(schema, value, old).errors
}

#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    /// Number of checks that ran. If all branches fail, the one with the most checks is reported.
    matches: usize,
}

impl Found {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }
}

#[derive(Clone, Copy)]
struct ValuePath<'a> {
    base: &'a str,
    /// Below the base: `l[0]`.
    name: &'a str,
}

impl ValuePath<'_> {
    fn field(&self) -> String {
        match (self.base.is_empty(), self.name.is_empty()) {
            (_, true) => self.base.to_owned(),
            (true, false) => self.name.to_owned(),
            (false, false) => format!("{}.{}", self.base, self.name),
        }
    }

    fn below(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn invalid(&self, shown: &Value, what: std::fmt::Arguments<'_>) -> FieldError {
        FieldError::invalid(self.field(), shown, format!("{} in body {what}", self.name))
    }

    /// Builds the error of a value that is not of its type or format.
    fn type_error(&self, shown: &str, wanted: &str) -> FieldError {
        let shown = Value::from(shown);
        let mut error = self.invalid(&shown, format_args!("must be of type {wanted}: {shown}"));
        error.reason = "FieldValueTypeInvalid";
        error
    }

    /// Builds an error that Kubernetes reports without the path of the value.
    fn unplaced(&self, message: String) -> FieldError {
        let field = if self.base.is_empty() { "<nil>" } else { self.base };
        FieldError::invalid(field, &Value::from(""), message)
    }

    fn check(&self, schema: &Structural, value: &Value, old: Option<&Value>) -> Found {
        let mut found = Found::default();
        if old == Some(value) {
            return found;
        }
        self.check_type(schema, value, &mut found);
        if value.is_null() {
            self.check_enum(&schema.value, value, &mut found);
            return found;
        }
        self.check_branches(&schema.value, value, &mut found);
        match value {
            Value::String(text) => {
                self.check_text(&schema.value, text, &mut found);
                self.check_format(&schema.value, text, &mut found);
            }
            Value::Number(number) => self.check_number(schema, number, &mut found),
            Value::Array(items) => self.check_list(schema, items, old.and_then(Value::as_array), &mut found),
            _ => {}
        }
        self.check_enum(&schema.value, value, &mut found);
        if let Value::Object(members) = value {
            self.check_object(schema, members, old.and_then(Value::as_object), &mut found);
        }
        // The checks of branches and of enumerations apply to every value.
        found.matches += 2;
        found
    }

    fn check_type(&self, schema: &Structural, value: &Value, found: &mut Found) {
        found.matches += 1;
        let is = type_of(value);
        let fits = schema.types.is_empty()
            || schema.types.contains(&is)
            || (value.is_null() && schema.nullable)
            || (is == "integer" && schema.types.contains(&"number"));
        if !fits {
            found.errors.push(self.type_error(is, &schema.types.join(",")));
        }
    }

    fn check_enum(&self, rules: &ValueRules, value: &Value, found: &mut Found) {
        if rules.allowed.is_empty() || rules.allowed.contains(value) {
            return;
        }
        let texts: Vec<String> = rules
            .allowed
            .iter()
            .map(|allowed| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        found.errors.push(FieldError::not_supported(self.field(), value, &texts));
    }

    fn check_branches(&self, rules: &ValueRules, value: &Value, found: &mut Found) {
        let name = self.name;
        let try_all = |branches: &[Structural]| -> Vec<Found> {
            branches.iter().map(|branch| self.check(branch, value, None)).collect()
        };
        let count_valid = |tried: &[Found]| tried.iter().filter(|tried| tried.errors.is_empty()).count();
        if !rules.any_of.is_empty() {
            let tried = try_all(&rules.any_of);
            if count_valid(&tried) == 0 {
                found.errors.push(self.unplaced(format!("{name:?} must validate at least one schema (anyOf)")));
                found.errors.extend(closest(tried));
            }
        }
        if !rules.one_of.is_empty() {
            let tried = try_all(&rules.one_of);
            let valid = count_valid(&tried);
            if valid != 1 {
                let why = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
                let message = format!("{name:?} must validate one and only one schema (oneOf). Found {why}");
                found.errors.push(self.unplaced(message));
                if valid == 0 {
                    found.errors.extend(closest(tried));
                }
            }
        }
        if !rules.all_of.is_empty() {
            let tried = try_all(&rules.all_of);
            let (valid, all) = (count_valid(&tried), tried.len());
            tried.into_iter().for_each(|tried| found.merge(tried));
            if valid != all {
                let none = if valid == 0 { ". None validated" } else { "" };
                found.errors.push(self.unplaced(format!("{name:?} must validate all the schemas (allOf){none}")));
            }
        }
        if rules.not.as_ref().is_some_and(|not| self.check(not, value, None).errors.is_empty()) {
            found.errors.push(self.unplaced(format!("{name:?} must not validate the schema (not)")));
        }
    }

    fn check_text(&self, rules: &ValueRules, text: &str, found: &mut Found) {
        found.matches += 1;
        let shown = Value::from(text);
        let length = count(text.chars().count());
        if let Some(max) = rules.max_length.filter(|max| length > *max) {
            found.errors.push(FieldError::too_long(self.field(), usize::try_from(max).unwrap_or(0)));
        }
        if let Some(min) = rules.min_length.filter(|min| length < *min) {
            found.errors.push(self.invalid(&shown, format_args!("should be at least {min} chars long")));
        }
        if let Some(pattern) = rules.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
            found.errors.push(self.invalid(&shown, format_args!("should match '{}'", pattern.text)));
        }
    }

    fn check_format(&self, rules: &ValueRules, text: &str, found: &mut Found) {
        if !formats::is_valid(&rules.format, text) {
            found.errors.push(self.type_error(text, &rules.format));
        }
    }

    fn check_number(&self, schema: &Structural, number: &Number, found: &mut Found) {
        found.matches += 1;
        let rules = &schema.value;
        let shown = Value::Number(number.clone());
        let float = number.as_f64().unwrap_or_default();
        if let Some(message) = out_of_range(schema, number, self.name) {
            found.errors.push(self.unplaced(message));
        }
        if let Some(factor) = rules.multiple_of.filter(|factor| !is_multiple(float, *factor)) {
            let factor = written(factor);
            found.errors.push(self.invalid(&shown, format_args!("should be a multiple of {factor}")));
        }
        if let Some(max) = rules.maximum.filter(|max| float > *max || (rules.exclusive_maximum && float == *max)) {
            let than = if rules.exclusive_maximum { "less than" } else { "less than or equal to" };
            found.errors.push(self.invalid(&shown, format_args!("should be {than} {}", written(max))));
        }
        if let Some(min) = rules.minimum.filter(|min| float < *min || (rules.exclusive_minimum && float == *min)) {
            let than = if rules.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            found.errors.push(self.invalid(&shown, format_args!("should be {than} {}", written(min))));
        }
    }

    fn check_list(&self, schema: &Structural, items: &[Value], old: Option<&Vec<Value>>, found: &mut Found) {
        found.matches += 1;
        if let Some(of_items) = &schema.items {
            for (index, item) in items.iter().enumerate() {
                let name = format!("{}[{index}]", self.name);
                let before = correlated(schema, item, old);
                found.merge(ValuePath { base: self.base, name: &name }.check(of_items, item, before));
            }
        }
        let length = count(items.len());
        if let Some(min) = schema.value.min_items.filter(|min| length < *min) {
            let message = format_args!("should have at least {min} items");
            found.errors.push(self.invalid(&Value::from(length), message));
        }
        if let Some(max) = schema.value.max_items.filter(|max| length > *max) {
            found.errors.push(self.too_many(length, max));
        }
        if schema.value.unique_items && (1..items.len()).any(|index| items[..index].contains(&items[index])) {
            found.errors.push(self.invalid(&Value::from(""), format_args!("shouldn't contain duplicates")));
        }
    }

    fn check_object(
        &self,
        schema: &Structural,
        members: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        found: &mut Found,
    ) {
        found.matches += 1;
        let length = count(members.len());
        if let Some(min) = schema.value.min_properties.filter(|min| length < *min) {
            let message = format_args!("should have at least {min} properties");
            found.errors.push(self.invalid(&Value::from(length), message));
            return;
        }
        if let Some(max) = schema.value.max_properties.filter(|max| length > *max) {
            found.errors.push(self.too_many(length, max));
            return;
        }
        for (key, member) in members {
            let inner = match (schema.properties.get(key.as_str()), &schema.additional) {
                (Some(property), _) => property,
                (None, Additional::Schema(values)) => values,
                _ => continue,
            };
            let name = self.below(key);
            let before = old.and_then(|old| old.get(key));
            found.merge(ValuePath { base: self.base, name: &name }.check(inner, member, before));
        }
        for key in schema.required.iter().filter(|key| !members.contains_key(&***key)) {
            let name = self.below(key);
            found.errors.push(FieldError::required(ValuePath { base: self.base, name: &name }.field(), ""));
        }
    }

    fn too_many(&self, actual: i64, max: i64) -> FieldError {
        let items = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {actual}: must have at most {max} {items}");
        FieldError { field: self.field(), reason: "FieldValueTooMany", message }
    }
}

/// Returns the errors of the first branch with the most checks.
fn closest(tried: Vec<Found>) -> Vec<FieldError> {
    let most = tried.iter().map(|tried| tried.matches).max().unwrap_or(0);
    tried.into_iter().find(|tried| tried.matches == most).map(|tried| tried.errors).unwrap_or_default()
}

/// Returns the earlier value of a list item: the item with equal keys. Items of atomic lists have none.
pub fn correlated<'v>(schema: &Structural, item: &Value, old: Option<&'v Vec<Value>>) -> Option<&'v Value> {
    match schema.list_type {
        Some(ListType::Map) => {
            let keys = keys_of(schema, item);
            old?.iter().find(|old| keys_of(schema, old) == keys)
        }
        Some(ListType::Set) => old?.iter().find(|old| *old == item),
        _ => None,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|n| n.fract() != 0.0) => "number",
        Value::Number(_) => "integer",
    }
}

/// Returns the error of a number outside the range of its type and format.
fn out_of_range(schema: &Structural, number: &Number, name: &str) -> Option<String> {
    if !schema.types.contains(&"integer") || schema.int_or_string {
        return None;
    }
    let format = schema.value.format.as_str();
    let (low, high) = match format {
        "int32" => (f64::from(i32::MIN), f64::from(i32::MAX)),
        "uint32" => (0.0, f64::from(u32::MAX)),
        "uint64" => (0.0, u64::MAX as f64),
        _ => (i64::MIN as f64, i64::MAX as f64),
    };
    let float = number.as_f64().unwrap_or_default();
    if float.fract() == 0.0 && (low..=high).contains(&float) {
        return None;
    }
    let format = if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
    Some(format!("Checked value must be of type integer {format} in {name}"))
}

fn is_multiple(number: f64, factor: f64) -> bool {
    factor > 0.0 && (number / factor).fract() == 0.0
}

/// Prints a number as Go does, without a fraction of zero.
fn written(number: f64) -> String {
    number.to_string()
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Structural {
        Structural::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
            "ex": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "s": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
            "e": {"type": "string", "enum": ["red", "blue"]},
            "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "o": {"type": "object", "required": ["must"], "properties": {"must": {"type": "string"}}},
            "m": {"type": "object", "maxProperties": 1, "minProperties": 1, "additionalProperties": {"type": "integer"}},
            "any": {"type": "object", "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
            "nt": {"type": "string", "not": {"enum": ["no"]}},
            "one": {"type": "object", "oneOf": [{"required": ["p"]}, {"required": ["q"]}]},
            "all": {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]},
            "i32": {"type": "integer", "format": "int32"},
            "d": {"type": "string", "format": "date-time"},
            "p": {"x-kubernetes-int-or-string": true},
            "z": {"type": "string", "nullable": true},
        }}}}))
    }

    #[test]
    fn errors_are_worded_as_kubernetes_words_them() {
        for (spec, expected) in [
            (json!({"n": 4, "ex": 0.5, "s": "ab", "e": "red", "l": ["a"], "m": {"k": 1}, "p": "x", "z": null}), ""),
            (json!({"n": 0}), "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"),
            (
                json!({"n": 11}),
                "spec.n: Invalid value: 11: spec.n in body should be a multiple of 2 | \
                 spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10",
            ),
            (json!({"n": "4"}), r#"spec.n: Invalid value: "string": spec.n in body must be of type integer: "string""#),
            (
                json!({"n": 4.5}),
                "spec.n: Invalid value: \"number\": spec.n in body must be of type integer: \"number\" | \
                 <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.n | \
                 spec.n: Invalid value: 4.5: spec.n in body should be a multiple of 2",
            ),
            (json!({"ex": 0}), "spec.ex: Invalid value: 0: spec.ex in body should be greater than 0"),
            (json!({"s": "a"}), r#"spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long"#),
            (json!({"s": "abcdef"}), "spec.s: Too long: may not be more than 5 bytes"),
            (json!({"s": "AB"}), r#"spec.s: Invalid value: "AB": spec.s in body should match '^[a-z]+$'"#),
            (json!({"e": "green"}), r#"spec.e: Unsupported value: "green": supported values: "red", "blue""#),
            (json!({"l": []}), "spec.l: Invalid value: 0: spec.l in body should have at least 1 items"),
            (json!({"l": ["a", "b", "c"]}), "spec.l: Too many: 3: must have at most 2 items"),
            (
                json!({"l": [1]}),
                r#"spec.l[0]: Invalid value: "integer": spec.l[0] in body must be of type string: "integer""#,
            ),
            (json!({"o": {}}), "spec.o.must: Required value"),
            (json!({"m": {"a": 1, "b": 2}}), "spec.m: Too many: 2: must have at most 1 item"),
            (json!({"m": {}}), "spec.m: Invalid value: 0: spec.m in body should have at least 1 properties"),
            (
                json!({"any": {}}),
                "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf) | \
                 spec.any.x: Required value",
            ),
            (json!({"nt": "no"}), r#"<nil>: Invalid value: "": "spec.nt" must not validate the schema (not)"#),
            (
                json!({"one": {"p": 1, "q": 1}}),
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). \
                 Found 2 valid alternatives",
            ),
            (
                json!({"all": 4}),
                "spec.all: Invalid value: 4: spec.all in body should be less than or equal to 3 | \
                 <nil>: Invalid value: \"\": \"spec.all\" must validate all the schemas (allOf)",
            ),
            (
                json!({"i32": 3_000_000_000_i64}),
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.i32",
            ),
            (
                json!({"d": "soon"}),
                r#"spec.d: Invalid value: "soon": spec.d in body must be of type date-time: "soon""#,
            ),
            (
                json!({"p": true}),
                r#"spec.p: Invalid value: "boolean": spec.p in body must be of type integer,string: "boolean""#,
            ),
            (json!([]), r#"spec: Invalid value: "array": spec in body must be of type object: "array""#),
        ] {
            let object = json!({"spec": spec});
            let found: Vec<String> = validate(&schema(), &object, "", None).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" | "), expected, "{object}");
        }
    }

    #[test]
    fn an_update_is_not_blamed_for_what_it_leaves_alone() {
        let old = json!({"spec": {"n": 50, "s": "LOUD"}});
        let errors = |new: Value| validate(&schema(), &new, "", Some(&old)).len();
        assert_eq!(errors(json!({"spec": {"n": 50, "s": "LOUD", "e": "red"}})), 0);
        assert_eq!(errors(json!({"spec": {"n": 52, "s": "LOUD"}})), 1);
        assert_eq!(errors(json!({"spec": {"n": 50, "s": "QUIET"}})), 1);
        let by_key = Structural::parse(&json!({"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}}));
        let old = json!([{"k": "a", "v": 5}, {"k": "b", "v": 1}]);
        let errors = |new: Value| validate(&by_key, &new, "", Some(&old)).len();
        assert_eq!(errors(json!([{"k": "c"}, {"k": "a", "v": 5}])), 0);
        assert_eq!(errors(json!([{"k": "b", "v": 5}])), 1);
    }
}
