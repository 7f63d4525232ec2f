//! The options of each verb, read from the query (and a delete's body) and checked as Kubernetes checks them.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/{v1,internalversion} and their validation packages.

use super::query::{Query, parse_unsigned};
use proto::Status;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

const META_GROUP: &str = "meta.k8s.io";
pub const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// Longest `fieldManager`, in bytes.
const MAX_FIELD_MANAGER_BYTES: usize = 128;

/// What to do with unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// CreateOptions, UpdateOptions and PatchOptions: they differ in name and `force` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    /// Server-side apply alone: take fields that others own.
    pub force: Option<bool>,
    /// As admission plugins and webhooks see them.
    pub given: Value,
}

impl WriteOptions {
    /// `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `is_apply` tells of a server-side apply.
    pub fn read(query: &Query, kind: &str, is_apply: bool) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let force = if kind == "PatchOptions" { query.optional_switch("force") } else { None };
        if is_apply && query.text("fieldManager").is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if !is_apply && force.is_some() {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        let manager = query.text("fieldManager");
        check_field_manager(manager, &mut errors);
        let dry_run = check_dry_run(query.all("dryRun").map(str::to_owned).collect(), &mut errors);
        let field_validation = check_field_validation(query.text("fieldValidation"), &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, kind, "", &errors));
        }
        let mut given = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if dry_run {
            given["dryRun"] = json!(["All"]);
        }
        for name in ["fieldManager", "fieldValidation"] {
            if !query.text(name).is_empty() {
                given[name] = json!(query.text(name));
            }
        }
        if let Some(force) = force {
            given["force"] = json!(force);
        }
        Ok(Self { dry_run, field_manager: manager.to_owned(), field_validation, force, given })
    }
}

fn check_dry_run(values: Vec<String>, errors: &mut Vec<FieldError>) -> bool {
    if values.iter().any(|v| v != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!(values), &["All"]));
    }
    !values.is_empty()
}

fn check_field_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MAX_FIELD_MANAGER_BYTES {
        errors.push(FieldError::too_long("fieldManager", MAX_FIELD_MANAGER_BYTES));
    }
    if let Some((at, character)) = manager.char_indices().find(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        let mut error = FieldError::invalid("fieldManager", &json!(manager), &detail);
        error.message = format!("Invalid value: {}: {detail}", go_quoted(manager));
        errors.push(error);
    }
}

/// Roughly unicode.IsPrint: no control characters, of blanks only the plain one.
fn is_printable(c: char) -> bool {
    !c.is_control() && (c == ' ' || !c.is_whitespace())
}

/// strconv.Quote: Go's short escapes where JSON has none.
fn go_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn check_field_validation(value: &str, errors: &mut Vec<FieldError>) -> FieldValidation {
    match value {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", &json!(other), &known));
            FieldValidation::Warn
        }
    }
}

/// What happens to the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// metav1.DeleteOptions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeleteOptions {
    pub dry_run: bool,
    pub grace_period_s: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// The deprecated `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    pub propagation: Option<Propagation>,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: what cannot be read shall go, whatever it was.
    pub unreadable: bool,
    /// As admission plugins and webhooks see them.
    pub given: Value,
}

impl DeleteOptions {
    /// From a body where one was sent, else from the query.
    pub fn read(query: &Query, body: Option<Value>) -> Result<Self, Status> {
        match body {
            Some(Value::Null) | None => Self::from_query(query),
            Some(body) => Self::from_body(&body, query),
        }
    }

    fn from_query(query: &Query) -> Result<Self, Status> {
        let mut body = json!({});
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            body["dryRun"] = json!(dry_run);
        }
        if let Some(grace) = query.integer("gracePeriodSeconds")? {
            body["gracePeriodSeconds"] = json!(grace);
        }
        if let Some(orphan) = query.optional_switch("orphanDependents") {
            body["orphanDependents"] = json!(orphan);
        }
        if let Some(policy) = query.get("propagationPolicy") {
            body["propagationPolicy"] = json!(policy);
        }
        if let Some(unreadable) = query.optional_switch(UNREADABLE) {
            body[UNREADABLE] = json!(unreadable);
        }
        Self::of(&body)
    }

    fn from_body(body: &Value, query: &Query) -> Result<Self, Status> {
        check_body_types(body)?;
        let mut body = body.clone();
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() && body.get("dryRun").is_none() {
            body["dryRun"] = json!(dry_run);
        }
        Self::of(&body)
    }

    fn of(body: &Value) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let orphan_dependents = body.get("orphanDependents").and_then(Value::as_bool);
        let policy = body.get("propagationPolicy").and_then(Value::as_str);
        if orphan_dependents.is_some() && policy.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", &json!(policy), why));
        }
        let propagation = match policy {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let known = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", &json!(other), &known));
                None
            }
        };
        let dry_run: Vec<String> = body
            .get("dryRun")
            .and_then(Value::as_array)
            .map(|values| values.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
            .unwrap_or_default();
        let dry_run = check_dry_run(dry_run, &mut errors);
        let unreadable = body.get(UNREADABLE) == Some(&json!(true));
        if unreadable {
            let others = ["dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
            for other in others.into_iter().filter(|other| body.get(other).is_some_and(|value| !value.is_null())) {
                let why = format!("cannot be set together with .{other}");
                errors.push(FieldError::invalid(UNREADABLE, &json!(true), why));
            }
        }
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, "DeleteOptions", "", &errors));
        }
        let precondition =
            |name: &str| body.get("preconditions").and_then(|p| p.get(name)).and_then(Value::as_str).map(str::to_owned);
        let mut given = body.clone();
        given["kind"] = json!("DeleteOptions");
        given["apiVersion"] = json!("meta.k8s.io/v1");
        Ok(Self {
            dry_run,
            // A negative grace stands for the shortest that is not an immediate kill.
            grace_period_s: body.get("gracePeriodSeconds").and_then(Value::as_i64).map(|s| if s < 0 { 1 } else { s }),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            orphan_dependents,
            propagation,
            unreadable,
            given,
        })
    }
}

/// The types of a DeleteOptions body, with the decoder's own words for what is wrong.
fn check_body_types(body: &Value) -> Result<(), Status> {
    let Some(map) = body.as_object() else {
        return Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_type(body)
        )));
    };
    if let Some(kind) = map.get("kind").and_then(Value::as_str).filter(|kind| !matches!(*kind, "" | "DeleteOptions")) {
        let version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        return Err(Status::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    let is_strings = |v: &Value| v.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    let checks: [(&str, &str, fn(&Value) -> bool); 5] = [
        (UNREADABLE, "bool", Value::is_boolean),
        ("gracePeriodSeconds", "int64", Value::is_i64),
        ("preconditions", "v1.Preconditions", Value::is_object),
        ("orphanDependents", "bool", Value::is_boolean),
        ("propagationPolicy", "v1.DeletionPropagation", Value::is_string),
    ];
    let wrong = |name: &str, value: &Value, ty: &str| {
        Status::bad_request(format!(
            "json: cannot unmarshal {} into Go struct field DeleteOptions.{name} of type {ty}",
            go_type(value)
        ))
    };
    for (name, ty, is_right) in checks {
        if let Some(value) = map.get(name).filter(|v| !v.is_null() && !is_right(v)) {
            return Err(wrong(name, value, ty));
        }
    }
    match map.get("dryRun") {
        Some(value) if !value.is_null() && !is_strings(value) => Err(wrong("dryRun", value, "[]string")),
        _ => Ok(()),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// How a read's `resourceVersion` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// metav1.ListOptions, checked; selectors are still text, because their grammar depends on the resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub allow_watch_bookmarks: bool,
    pub resource_version: String,
    pub version_match: Option<VersionMatch>,
    pub timeout_s: Option<i64>,
    pub limit: usize,
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn read(query: &Query, is_watch: bool) -> Result<Self, Status> {
        let limit = query.integer("limit")?.unwrap_or(0);
        let timeout_s = query.integer("timeoutSeconds")?;
        let text = |name: &str| query.text(name).to_owned();
        let send_initial_events = query.optional_switch("sendInitialEvents");
        let (version, matching, token) = (text("resourceVersion"), text("resourceVersionMatch"), text("continue"));
        let errors = if is_watch {
            check_watch(send_initial_events, &matching)
        } else {
            check_list(send_initial_events, &version, &matching, &token)
        };
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, "ListOptions", "", &errors));
        }
        Ok(Self {
            label_selector: text("labelSelector"),
            field_selector: text("fieldSelector"),
            watch: is_watch,
            allow_watch_bookmarks: query.switch("allowWatchBookmarks"),
            resource_version: version,
            version_match: match matching.as_str() {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_s: timeout_s.filter(|s| *s > 0),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: token,
            send_initial_events,
        })
    }

    /// The version as a number; empty is none.
    pub fn version(&self) -> Result<Option<u64>, String> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        version_number(&self.resource_version).map(Some)
    }
}

/// A resource version as a number, or the field error that names what is wrong.
pub fn version_number(text: &str) -> Result<u64, String> {
    parse_unsigned(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

fn check_watch(send_initial_events: Option<bool>, matching: &str) -> Vec<FieldError> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if send_initial_events.is_some() {
        if matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(field, why));
        }
    } else if !matching.is_empty() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden(field, why));
    }
    if !matching.is_empty() && matching != "NotOlderThan" {
        errors.push(FieldError::not_supported(field, &json!(matching), &["NotOlderThan"]));
    }
    errors
}

fn check_list(send_initial_events: Option<bool>, version: &str, matching: &str, token: &str) -> Vec<FieldError> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if !matching.is_empty() {
        if version.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !token.is_empty() {
            errors.push(FieldError::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            errors.push(FieldError::not_supported(field, &json!(matching), &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if send_initial_events.is_some() {
        errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
        result.unwrap_err().message
    }

    #[test]
    fn write_options_are_checked_together() {
        let query = Query::parse("fieldValidation=Odd&dryRun=Odd");
        assert_eq!(
            message(WriteOptions::read(&query, "UpdateOptions", false)),
            r#"UpdateOptions.meta.k8s.io "" is invalid: [dryRun: Unsupported value: ["Odd"]: supported values: "All", fieldValidation: Unsupported value: "Odd": supported values: "", "Ignore", "Strict", "Warn"]"#
        );
        assert_eq!(
            message(WriteOptions::read(&Query::parse("fieldManager=a%07b"), "PatchOptions", false)),
            r#"PatchOptions.meta.k8s.io "" is invalid: fieldManager: Invalid value: "a\ab": invalid character U+0007 (at position 1)"#
        );
        let options = WriteOptions::read(&Query::parse("dryRun=All&dryRun=All"), "CreateOptions", false).unwrap();
        assert!(options.dry_run);
    }

    #[test]
    fn delete_options_come_from_body_or_query() {
        let query = Query::parse("gracePeriodSeconds=-1&propagationPolicy=Orphan");
        let options = DeleteOptions::read(&query, None).unwrap();
        assert_eq!((options.grace_period_s, options.propagation), (Some(1), Some(Propagation::Orphan)));
        let body = json!({"preconditions": {"uid": "u"}, "dryRun": ["All"]});
        let options = DeleteOptions::read(&Query::default(), Some(body)).unwrap();
        assert_eq!((options.uid.as_deref(), options.dry_run), (Some("u"), true));
        let body = json!({"gracePeriodSeconds": "x"});
        assert_eq!(
            message(DeleteOptions::read(&Query::default(), Some(body))),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        );
    }

    #[test]
    fn list_options_refuse_what_does_not_combine() {
        let read = |query: &str, watch| ListOptions::read(&Query::parse(query), watch);
        assert!(read("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true).is_ok());
        assert_eq!(
            message(read("sendInitialEvents=true", false)),
            r#"ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"#
        );
        assert_eq!(message(read("limit=", false)), r#"strconv.ParseInt: parsing "": invalid syntax"#);
        assert_eq!(read("limit=-1", false).unwrap().limit, 0);
    }
}
