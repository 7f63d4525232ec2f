//! The options of each verb, read from the query (and a delete's body) and checked as Kubernetes checks them.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/{v1,internalversion} and their validation packages.

use super::query::{Query, parse_unsigned};
use proto::Status;
use proto::meta::field_selector::FieldSelector;
use proto::meta::go_text::is_printable;
use proto::meta::selector::Selector;
use proto::meta::status::FieldError;
use proto::schema::{builtin_type, decode_document};
use proto::wire::document::Document;
use serde_json::{Value, json};

const META_GROUP: &str = "meta.k8s.io";
pub const UNREADABLE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
/// Longest `fieldManager`.
const MAX_FIELD_MANAGER_BYTES: usize = 128;
const MATCH_WITH_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";

/// What to do with unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// CreateOptions, UpdateOptions and PatchOptions, which differ only in name and `force`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
    /// For server-side apply only: take fields from other managers.
    pub force: Option<bool>,
    /// The options as admission plugins and webhooks see them.
    pub given: Value,
}

impl WriteOptions {
    /// Reads the options. `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`.
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
        check_field_manager(manager, "fieldManager", &mut errors);
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

/// Checks the name of a field manager, here and in `managedFields`: short, and of printable characters.
pub fn check_field_manager(manager: &str, field: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MAX_FIELD_MANAGER_BYTES {
        errors.push(FieldError::too_long(field, MAX_FIELD_MANAGER_BYTES));
    }
    for (at, character) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
        errors.push(FieldError::invalid(field, &json!(manager), detail));
    }
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

/// What happens to the dependents of a deleted object (`propagationPolicy`).
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
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: delete an object that cannot be read.
    pub unreadable: bool,
    /// The options as admission plugins and webhooks see them.
    pub given: Value,
}

impl DeleteOptions {
    /// Reads the options from the query, for a request without a body.
    pub fn from_query(query: &Query) -> Result<Self, Status> {
        let mut body = json!({});
        if let Some(grace) = query.integer("gracePeriodSeconds")? {
            body["gracePeriodSeconds"] = json!(grace);
        }
        for name in ["orphanDependents", UNREADABLE] {
            if let Some(switch) = query.optional_switch(name) {
                body[name] = json!(switch);
            }
        }
        if let Some(policy) = query.get("propagationPolicy") {
            body["propagationPolicy"] = json!(policy);
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            body["dryRun"] = json!(dry_run);
        }
        for name in ["uid", "resourceVersion"] {
            if !query.text(name).is_empty() {
                body["preconditions"][name] = json!(query.text(name));
            }
        }
        Self::of(&body)
    }

    /// Reads the options from the body of a request. Its query parameters are then ignored.
    pub fn from_body(document: Document) -> Result<Self, Status> {
        let (api_version, kind) = document.type_meta().map_err(Status::bad_request)?;
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
            )));
        }
        let schema = builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        let decoded = decode_document(&schema, document).map_err(|error| Status::bad_request(error.to_string()))?;
        Self::of(&decoded.value)
    }

    /// Reads options that have the right types.
    ///
    /// Deviation: Kubernetes ignores `ignoreStoreReadErrorWithClusterBreakingPotential` unless an alpha feature gate is
    /// on. Here it works for an object that cannot be read, and is ignored for every other.
    pub fn of(body: &Value) -> Result<Self, Status> {
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
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, "DeleteOptions", "", &errors));
        }
        let precondition =
            |name: &str| body.get("preconditions").and_then(|p| p.get(name)).and_then(Value::as_str).map(str::to_owned);
        let mut given = body.clone();
        if let Some(members) = given.as_object_mut() {
            members.remove(UNREADABLE);
        }
        given["kind"] = json!("DeleteOptions");
        given["apiVersion"] = json!("meta.k8s.io/v1");
        Ok(Self {
            dry_run,
            // A negative grace period means the shortest one that is not an immediate kill.
            grace_period_s: body.get("gracePeriodSeconds").and_then(Value::as_i64).map(|s| if s < 0 { 1 } else { s }),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            orphan_dependents,
            propagation,
            unreadable: body.get(UNREADABLE) == Some(&json!(true)),
            given,
        })
    }

    /// Checks that there are no other options: an object that cannot be read is deleted at once and without a look at
    /// it.
    pub fn check_unreadable(&self) -> Result<(), Status> {
        let others = ["dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
        let set = others.into_iter().filter(|other| self.given.get(other).is_some_and(|value| !value.is_null()));
        let errors: Vec<FieldError> = set
            .map(|other| format!("cannot be set together with .{other}"))
            .map(|why| FieldError::invalid(UNREADABLE, &json!(true), why))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(META_GROUP, "DeleteOptions", "", &errors)) }
    }
}

/// `resourceVersionMatch`: how a read's `resourceVersion` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// metav1.ListOptions, checked. The fields that a selector may name depend on the resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    pub labels: Selector,
    pub fields: FieldSelector,
    pub allow_watch_bookmarks: bool,
    pub resource_version: String,
    pub version_match: Option<VersionMatch>,
    pub timeout_s: Option<i64>,
    pub limit: usize,
    pub continue_token: String,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn read(query: &Query) -> Result<Self, Status> {
        let timeout_s = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?.unwrap_or(0);
        let labels = Selector::parse(query.text("labelSelector")).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(query.text("fieldSelector")).map_err(Status::bad_request)?;
        let text = |name: &str| query.text(name).to_owned();
        let send_initial_events = query.optional_switch("sendInitialEvents");
        let (version, matching, token) = (text("resourceVersion"), text("resourceVersionMatch"), text("continue"));
        // The parameter decides, not the verb: the old watch paths are checked as lists are.
        let errors = if query.switch("watch") {
            check_watch(send_initial_events, &matching, &token)
        } else {
            check_list(send_initial_events, &version, &matching, &token)
        };
        if !errors.is_empty() {
            return Err(Status::invalid(META_GROUP, "ListOptions", "", &errors));
        }
        Ok(Self {
            labels,
            fields,
            allow_watch_bookmarks: query.switch("allowWatchBookmarks"),
            resource_version: version,
            version_match: match matching.as_str() {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            timeout_s: timeout_s.filter(|s| *s != 0),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: token,
            send_initial_events,
        })
    }

    /// Refuses a watch that asks for the initial events, which the feature gate WatchList turns on.
    pub fn without_initial_events(&self) -> Result<(), Status> {
        if self.send_initial_events.is_none() {
            return Ok(());
        }
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        let error = FieldError::forbidden("sendInitialEvents", why);
        Err(Status::invalid(META_GROUP, "ListOptions", "", &[error]))
    }

    /// Returns the resource version as a number, or `None` if it is empty.
    pub fn version(&self) -> Result<Option<u64>, String> {
        if self.resource_version.is_empty() {
            return Ok(None);
        }
        version_number(&self.resource_version).map(Some)
    }
}

/// Returns a resource version as a number, or an error that says what is wrong with it.
pub fn version_number(text: &str) -> Result<u64, String> {
    parse_unsigned(text).map_err(|why| format!("resourceVersion: Invalid value: {text:?}: {why}"))
}

fn check_watch(send_initial_events: Option<bool>, matching: &str, token: &str) -> Vec<FieldError> {
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
    if !matching.is_empty() && !token.is_empty() {
        errors.push(FieldError::forbidden(field, MATCH_WITH_CONTINUE));
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
            errors.push(FieldError::forbidden(field, MATCH_WITH_CONTINUE));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            errors.push(FieldError::not_supported(field, &json!(matching), &["Exact", "NotOlderThan", ""]));
        }
        if matching == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
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
    use proto::wire::document::Format;

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
    fn field_managers_are_short_and_printable() {
        let refused = |manager: &str| {
            let mut errors = Vec::new();
            check_field_manager(manager, "fieldManager", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(refused("kubectl client-side é 网 e\u{301}"), [""; 0]);
        assert_eq!(refused(&"m".repeat(129)), ["fieldManager: Too long: may not be more than 128 bytes"]);
        assert_eq!(
            refused("a\u{200b}é\u{7f}"),
            [
                r#"fieldManager: Invalid value: "a\u200bé\x7f": invalid character U+200B (at position 1)"#,
                r#"fieldManager: Invalid value: "a\u200bé\x7f": invalid character U+007F (at position 6)"#,
            ]
        );
    }

    #[test]
    fn patch_options_depend_on_the_form_of_the_patch() {
        let read = |query: &str, is_apply| message(WriteOptions::read(&Query::parse(query), "PatchOptions", is_apply));
        assert_eq!(
            read("force=true&fieldValidation=odd", false),
            r#"PatchOptions.meta.k8s.io "" is invalid: [force: Forbidden: may not be specified for non-apply patch, fieldValidation: Unsupported value: "odd": supported values: "", "Ignore", "Strict", "Warn"]"#
        );
        assert_eq!(
            read("force=true&dryRun=some", true),
            r#"PatchOptions.meta.k8s.io "" is invalid: [fieldManager: Required value: is required for apply patch, dryRun: Unsupported value: ["some"]: supported values: "All"]"#
        );
    }

    fn delete_body(body: &str) -> Result<DeleteOptions, Status> {
        DeleteOptions::from_body(Document::parse(Format::Json, body.as_bytes()).unwrap())
    }

    #[test]
    fn delete_options_come_from_body_or_query() {
        let query = "gracePeriodSeconds=-1&propagationPolicy=Orphan&uid=u&resourceVersion=7&dryRun=All";
        let options = DeleteOptions::from_query(&Query::parse(query)).unwrap();
        assert_eq!((options.grace_period_s, options.propagation), (Some(1), Some(Propagation::Orphan)));
        assert_eq!((options.uid.as_deref(), options.resource_version.as_deref()), (Some("u"), Some("7")));
        assert!(options.dry_run);
        let options = delete_body(r#"{"preconditions": {"uid": "u"}, "dryRun": ["All"]}"#).unwrap();
        assert_eq!((options.uid.as_deref(), options.dry_run), (Some("u"), true));
        let refused = [
            (
                "[]",
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
            ),
            (
                r#"{"kind": "Pod", "apiVersion": "v1"}"#,
                r#"no kind "Pod" is registered for version "v1" in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27""#,
            ),
            (
                r#"{"gracePeriodSeconds": "x"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                r#"{"preconditions": "x"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                r#"{"preconditions": {"uid": 5}}"#,
                "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (
                r#"{"propagationPolicy": true}"#,
                "json: cannot unmarshal bool into Go struct field DeleteOptions.propagationPolicy of type v1.DeletionPropagation",
            ),
            (
                r#"{"dryRun": "All"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
            ),
            (
                r#"{"propagationPolicy": "Odd", "orphanDependents": true}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: [propagationPolicy: Invalid value: "Odd": orphanDependents and deletionPropagation cannot be both set, propagationPolicy: Unsupported value: "Odd": supported values: "Foreground", "Background", "Orphan", "nil"]"#,
            ),
        ];
        for (body, expected) in refused {
            assert_eq!(message(delete_body(body)), expected, "{body}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_deleted_without_other_options() {
        let options = DeleteOptions::from_query(&Query::parse(&format!("{UNREADABLE}=1&dryRun=All"))).unwrap();
        assert!(options.unreadable && options.given.get(UNREADABLE).is_none());
        assert_eq!(
            message(options.check_unreadable()),
            format!(
                r#"DeleteOptions.meta.k8s.io "" is invalid: {UNREADABLE}: Invalid value: true: cannot be set together with .dryRun"#
            )
        );
    }

    #[test]
    fn list_options_refuse_what_does_not_combine() {
        let read = |query: &str| ListOptions::read(&Query::parse(query));
        assert!(read("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
        assert_eq!(read("limit=-1").unwrap().limit, 0);
        let number = |value: &str| format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
        let refused = |what: &str| format!(r#"ListOptions.meta.k8s.io "" is invalid: {what}"#);
        let matching = |what: &str| format!("resourceVersionMatch: Forbidden: {what}");
        let token = matching(MATCH_WITH_CONTINUE);
        let versionless = matching("resourceVersionMatch is forbidden unless resourceVersion is provided");
        let cases = [
            ("limit=", number("")),
            ("limit=x&timeoutSeconds=y&labelSelector==", number("y")),
            (
                "labelSelector=%3D&fieldSelector=x&sendInitialEvents=1",
                "found '=', expected: !, identifier, or 'end of string'".to_owned(),
            ),
            ("fieldSelector=x&sendInitialEvents=1", "invalid selector: 'x'; can't understand 'x'".to_owned()),
            (
                "sendInitialEvents=true",
                refused("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
            ),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                refused(&matching(r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#)),
            ),
            (
                "resourceVersionMatch=exact&continue=c",
                refused(&format!(
                    r#"[{versionless}, {token}, resourceVersionMatch: Unsupported value: "exact": supported values: "Exact", "NotOlderThan", ""]"#
                )),
            ),
            ("watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=0&continue=c", refused(&token)),
            (
                "watch=1&resourceVersionMatch=Exact",
                refused(&format!(
                    r#"[{}, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]"#,
                    matching("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
                )),
            ),
            (
                "watch=1&sendInitialEvents=false",
                refused(&matching("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")),
            ),
        ];
        for (query, expected) in cases {
            assert_eq!(message(read(query)), expected, "{query}");
        }
    }
}
