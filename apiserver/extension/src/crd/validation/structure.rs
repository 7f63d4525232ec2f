//! Checks that a schema is structural: every field has a type, and value validations add no structure.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go and complete.go.

use super::defaults;
use proto::schema::structural::Pattern;
use serde_json::json;
use strategy::validation::at::{At, Errors};

/// The position of a schema.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Adds all errors of the structure, sorted by path and wording. Without any, adds the errors of defaults.
pub fn check(root: &At<'_>, errors: &mut Errors) {
    let mut found = Errors::new();
    check_node(root, Level::Root, &mut found);
    for (branch, _) in branches(root) {
        check_complete(&branch, Some(root), root, &mut found);
    }
    found.sort_by_cached_key(ToString::to_string);
    if found.is_empty() {
        defaults::check(root, &mut found);
    }
    errors.append(&mut found);
}

fn check_node(schema: &At<'_>, level: Level, errors: &mut Errors) {
    let items = schema.field("items");
    if items.is_set() {
        check_node(&items, Level::Item, errors);
    } else if schema.field("type").text() == "array" {
        errors.push(items.required("must be specified"));
    }
    for (_, property) in schema.field("properties").entries() {
        check_node(&property, Level::Field, errors);
    }
    let values = schema.field("additionalProperties");
    if values.is_set() && level == Level::Root {
        errors.push(values.forbidden("must not be used at the root"));
    }
    if values.value.is_object() {
        check_node(&values, Level::Field, errors);
    }
    check_extensions(schema, errors);
    check_values(schema, is_int_or_string(schema), errors);
    check_type(schema, level, errors);
    check_meta(schema, level, errors);
}

fn check_extensions(schema: &At<'_>, errors: &mut Errors) {
    if !schema.field("x-kubernetes-int-or-string").is_true() {
        return;
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        let flag = schema.field(key);
        if flag.is_true() {
            errors.push(flag.invalid("must be false if x-kubernetes-int-or-string is true"));
        }
    }
}

fn check_type(schema: &At<'_>, level: Level, errors: &mut Errors) {
    let kind = schema.field("type");
    let is_free = schema.field("x-kubernetes-int-or-string").is_true()
        || schema.field("x-kubernetes-preserve-unknown-fields").is_true();
    let is_embedded = schema.field("x-kubernetes-embedded-resource").is_true();
    let embedded = "must be object if x-kubernetes-embedded-resource is true";
    match (kind.text(), level) {
        ("object", _) => {}
        ("", _) if is_embedded => errors.push(kind.required(embedded)),
        _ if is_embedded => errors.push(kind.invalid(embedded)),
        ("", _) if is_free => {}
        ("", Level::Root) => errors.push(kind.required("must not be empty at the root")),
        ("", Level::Field) => errors.push(kind.required("must not be empty for specified object fields")),
        ("", Level::Item) => errors.push(kind.required("must not be empty for specified array items")),
        _ => {}
    }
    let values = schema.field("additionalProperties");
    if is_embedded && values.is_set() {
        errors.push(values.forbidden("must not be used if x-kubernetes-embedded-resource is set"));
    }
    if level == Level::Root && !matches!(kind.text(), "" | "object") {
        errors.push(kind.invalid("must be object at the root"));
    }
    let keeps = schema.field("x-kubernetes-preserve-unknown-fields").is_true();
    if is_embedded && !keeps && schema.field("properties").is_empty() {
        errors.push(schema.field("properties").required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Checks the schemas of `kind`, `apiVersion` and `metadata`. Of metadata, a definition may restrict the names only.
fn check_meta(schema: &At<'_>, level: Level, errors: &mut Errors) {
    let is_object = level == Level::Root || schema.field("x-kubernetes-embedded-resource").is_true();
    let properties = schema.field("properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let kind = properties.key(name).field("type");
        if is_object && properties.key(name).is_set() && kind.text() != wanted {
            errors.push(kind.invalid_text(format!("must be {wanted}")));
        }
    }
    let metadata = properties.key("metadata");
    if level != Level::Root || !metadata.is_set() {
        return;
    }
    let only_names = metadata.field("properties").entries().all(|(name, _)| matches!(name, "name" | "generateName"));
    let others = ["type", "properties", "default"];
    if !only_names || metadata.map().into_iter().flatten().any(|(key, _)| !others.contains(&key.as_str())) {
        errors.push(metadata.forbidden(
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// Tells whether `anyOf` lists the types of an int-or-string. It may do so directly, or in the first branch of `allOf`.
fn is_int_or_string(schema: &At<'_>) -> bool {
    *schema.field("anyOf").value == json!([{"type": "integer"}, {"type": "string"}])
}

/// Returns the schemas in `anyOf`, `allOf`, `oneOf` and `not`. The flag marks the first of `allOf`, which may list the
/// types of an int-or-string.
fn branches<'a>(schema: &At<'a>) -> Vec<(At<'a>, bool)> {
    let of = |key: &str| schema.field(key).items().collect::<Vec<_>>();
    let mut all: Vec<(At<'a>, bool)> = Vec::new();
    all.extend(of("anyOf").into_iter().map(|branch| (branch, false)));
    all.extend(of("allOf").into_iter().enumerate().map(|(index, branch)| (branch, index == 0)));
    all.extend(of("oneOf").into_iter().map(|branch| (branch, false)));
    all.extend(Some(schema.field("not")).filter(At::is_set).map(|branch| (branch, false)));
    all
}

fn check_values(schema: &At<'_>, skips_any_of: bool, errors: &mut Errors) {
    let skipped = schema.field("anyOf").path;
    for (branch, may_list_types) in branches(schema) {
        if !skips_any_of || !branch.path.starts_with(&format!("{skipped}[")) {
            check_branch(&branch, may_list_types && is_int_or_string(&branch), errors);
        }
    }
    let pattern = schema.field("pattern");
    if !pattern.is_empty() && Pattern::new(pattern.text()).is_none() {
        let why = regex_error(pattern.text());
        errors.push(pattern.invalid(format!("must be a valid regular expression, but isn't: {why}")));
    }
}

/// Checks a branch, which may restrict values but not define structure.
fn check_branch(branch: &At<'_>, skips_any_of: bool, errors: &mut Errors) {
    check_values(branch, skips_any_of, errors);
    let items = branch.field("items");
    if items.value.is_object() {
        check_branch(&items, false, errors);
    }
    for (_, property) in branch.field("properties").entries() {
        check_branch(&property, false, errors);
    }
    for (key, must_be) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        let at = branch.field(key);
        let is_used = match must_be {
            "false" => at.is_true(),
            "empty" => !at.is_empty(),
            _ => at.is_set(),
        };
        if is_used {
            errors.push(at.forbidden(format!("must be {must_be} to be structural")));
        }
    }
    let metadata = branch.field("properties").key("metadata");
    if metadata.is_set() {
        errors.push(metadata.forbidden("must not be specified in a nested context"));
    }
}

/// Checks that every field in a branch has a schema in the structure, too. `at` is where its error points.
fn check_complete(branch: &At<'_>, schema: Option<&At<'_>>, at: &At<'_>, errors: &mut Errors) {
    let Some(schema) = schema else {
        errors.push(at.required(&format!("because it is defined in {}", branch.path)));
        return;
    };
    for (inner, _) in branches(branch) {
        check_complete(&inner, Some(schema), at, errors);
    }
    let mut deeper: Vec<(At<'_>, At<'_>)> = vec![(branch.field("items"), schema.field("items"))];
    let properties = schema.field("properties");
    deeper.extend(branch.field("properties").entries().map(|(name, inner)| (inner, properties.key(name))));
    for (inner, below) in deeper.into_iter().filter(|(inner, _)| inner.is_set()) {
        check_complete(&inner, Some(&below).filter(|below| below.is_set()), &below, errors);
    }
}

/// Describes the mistake in a regular expression, in Go's words if it is a common one.
fn regex_error(text: &str) -> String {
    let why = regex::Regex::new(text).err().map(|error| error.to_string()).unwrap_or_default();
    let detail = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match detail {
        "unclosed character class" => {
            let from = text.rfind('[').unwrap_or(0);
            format!("error parsing regexp: missing closing ]: `{}`", &text[from..])
        }
        "unclosed group" => format!("error parsing regexp: missing closing ): `{text}`"),
        "unopened group" => format!("error parsing regexp: unexpected ): `{text}`"),
        "repetition operator missing expression" => {
            format!("error parsing regexp: missing argument to repetition operator: `{text}`")
        }
        other => format!("error parsing regexp: {other}: `{text}`"),
    }
}
