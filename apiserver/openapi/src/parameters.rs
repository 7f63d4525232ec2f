//! The parameters of requests, in one table for all paths.
//!
//! Corresponds to metav1.ListOptions, CreateOptions, UpdateOptions, PatchOptions and DeleteOptions as query parameters.

/// A parameter: its name, its place in the request, and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub place: &'static str,
    pub kind: &'static str,
    pub about: &'static str,
}

const fn query(name: &'static str, kind: &'static str, about: &'static str) -> Parameter {
    Parameter { name, place: "query", kind, about }
}

const fn path(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, place: "path", kind: "string", about }
}

pub const NAME: Parameter = path("name", "name of the object");
pub const NAMESPACE: Parameter = path("namespace", "object name and auth scope, such as for teams and projects");
/// The path after `proxy/`.
pub const PATH: Parameter = path("path", "path to the resource");
pub const PRETTY: Parameter = query("pretty", "string", "If 'true', then the output is pretty printed.");

const DRY_RUN: Parameter = query("dryRun", "string", "'All': every stage is run, and nothing is stored.");
const FIELD_MANAGER: Parameter =
    query("fieldManager", "string", "Who makes the change; fields that it sets belong to this manager.");
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What becomes of unknown and duplicate fields: Ignore, Warn (the default) or Strict.",
);
const FORCE: Parameter = query("force", "boolean", "Apply only: take over fields that belong to other managers.");

const LABEL_SELECTOR: Parameter = query("labelSelector", "string", "Only objects with these labels.");
const FIELD_SELECTOR: Parameter = query("fieldSelector", "string", "Only objects with these fields.");
const LIMIT: Parameter = query("limit", "integer", "At most so many objects; `continue` then leads to the rest.");
const CONTINUE: Parameter = query("continue", "string", "The token of the page before.");
const RESOURCE_VERSION: Parameter = query("resourceVersion", "string", "Which state of the collection is asked for.");
const RESOURCE_VERSION_MATCH: Parameter =
    query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan.");
const TIMEOUT_SECONDS: Parameter = query("timeoutSeconds", "integer", "After which time the call ends.");
const WATCH: Parameter = query("watch", "boolean", "A stream of changes instead of a list.");
const ALLOW_WATCH_BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    "boolean",
    "The stream may contain bookmarks: events that only tell a resourceVersion.",
);
const SEND_INITIAL_EVENTS: Parameter =
    query("sendInitialEvents", "boolean", "The stream begins with the objects that are there.");

const GRACE_PERIOD_SECONDS: Parameter =
    query("gracePeriodSeconds", "integer", "How long the object has to end by itself; zero deletes at once.");
const ORPHAN_DEPENDENTS: Parameter = query("orphanDependents", "boolean", "Deprecated: use propagationPolicy.");
const PROPAGATION_POLICY: Parameter =
    query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground.");

pub const LIST: &[Parameter] = &[
    ALLOW_WATCH_BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    TIMEOUT_SECONDS,
    WATCH,
];
pub const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
pub const DELETE: &[Parameter] = &[DRY_RUN, GRACE_PERIOD_SECONDS, ORPHAN_DEPENDENTS, PROPAGATION_POLICY];
pub const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD_SECONDS,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN_DEPENDENTS,
    PROPAGATION_POLICY,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    TIMEOUT_SECONDS,
];
