//! Options of requests: for listing, patching and deleting.
//!
//! Corresponds to ListOptions, PatchOptions and DeleteOptions of k8s.io/apimachinery/pkg/apis/meta/v1.

use crate::request::Target;
use serde_json::{Map, Value, json};

/// Options of lists and watches. Empty strings are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListOptions {
    /// Used only by `Informers::of_selected`, since an `Api` has its namespace already.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    /// `Exact` or `NotOlderThan`.
    pub resource_version_match: String,
    /// Most objects in one answer; 0 for no limit.
    pub limit: u32,
    /// Token of the previous page.
    pub continue_token: String,
    /// Seconds after which the server ends a watch; 0 leaves it to the server.
    pub timeout_s: u32,
    /// Watch only: send the present objects first, then a bookmark that marks their end.
    pub send_initial_events: bool,
    /// Watch only.
    pub allow_bookmarks: bool,
}

impl ListOptions {
    pub fn labels(selector: impl Into<String>) -> Self {
        Self { label_selector: selector.into(), ..Self::default() }
    }

    pub fn fields(selector: impl Into<String>) -> Self {
        Self { field_selector: selector.into(), ..Self::default() }
    }

    pub(crate) fn add_to(&self, target: Target) -> Target {
        let number = |n: u32| if n == 0 { String::new() } else { n.to_string() };
        target
            .query("labelSelector", &self.label_selector)
            .query("fieldSelector", &self.field_selector)
            .query("resourceVersion", &self.resource_version)
            .query("resourceVersionMatch", &self.resource_version_match)
            .query("limit", &number(self.limit))
            .query("continue", &self.continue_token)
            .query("timeoutSeconds", &number(self.timeout_s))
            .flag("sendInitialEvents", self.send_initial_events)
            .flag("allowWatchBookmarks", self.allow_bookmarks)
    }
}

/// A page of a collection.
#[derive(Clone, Debug, Default)]
pub struct List<T> {
    pub metadata: ListMeta,
    pub items: Vec<T>,
}

#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMeta {
    pub resource_version: String,
    /// Empty on the last page.
    #[serde(rename = "continue")]
    pub continue_token: String,
    pub remaining_item_count: Option<i64>,
}

/// A patch, in one of the four types that servers accept.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// A JSON patch, RFC 6902.
    Json(Value),
    /// A merge patch, RFC 7396.
    Merge(Value),
    /// A strategic merge patch: lists merge by their keys. For built-in kinds only.
    Strategic(Value),
    /// Server-side apply.
    Apply { value: Value, manager: String, force: bool },
}

impl Patch {
    pub fn content_type(&self) -> &'static str {
        match self {
            Patch::Json(_) => "application/json-patch+json",
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Apply { .. } => "application/apply-patch+yaml",
        }
    }

    pub fn value(&self) -> &Value {
        match self {
            Patch::Json(value) | Patch::Merge(value) | Patch::Strategic(value) | Patch::Apply { value, .. } => value,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Patch::Json(_) => "json",
            Patch::Merge(_) => "merge",
            Patch::Strategic(_) => "strategic",
            Patch::Apply { .. } => "apply",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchOptions {
    /// Manager of the patched fields; empty for the program's name.
    pub field_manager: String,
    pub dry_run: bool,
}

impl PatchOptions {
    pub(crate) fn add_to(&self, patch: &Patch, target: Target) -> Target {
        let (manager, force) = match patch {
            Patch::Apply { manager, force, .. } => (manager.as_str(), *force),
            _ => (self.field_manager.as_str(), false),
        };
        let target = target.query("fieldManager", manager).flag("force", force);
        target.query("dryRun", if self.dry_run { "All" } else { "" })
    }
}

/// Treatment of the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// Conditions under which the server deletes the object. Empty strings are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: String,
    pub resource_version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_s: Option<i64>,
    pub propagation: Option<Propagation>,
    pub preconditions: Preconditions,
    pub dry_run: bool,
}

impl DeleteOptions {
    pub fn with_uid(uid: impl Into<String>) -> Self {
        Self { preconditions: Preconditions { uid: uid.into(), ..Preconditions::default() }, ..Self::default() }
    }

    /// Returns the body of the request; `None` without any option.
    pub(crate) fn body(&self) -> Option<Value> {
        if *self == Self::default() {
            return None;
        }
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(grace_period_s) = self.grace_period_s {
            body["gracePeriodSeconds"] = json!(grace_period_s);
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(propagation.as_str());
        }
        let mut preconditions = Map::new();
        if !self.preconditions.uid.is_empty() {
            preconditions.insert("uid".into(), json!(self.preconditions.uid));
        }
        if !self.preconditions.resource_version.is_empty() {
            preconditions.insert("resourceVersion".into(), json!(self.preconditions.resource_version));
        }
        if !preconditions.is_empty() {
            body["preconditions"] = Value::Object(preconditions);
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_options_say_only_what_is_asked_for() {
        assert_eq!(DeleteOptions::default().body(), None);
        let options = DeleteOptions {
            grace_period_s: Some(0),
            propagation: Some(Propagation::Orphan),
            ..DeleteOptions::with_uid("u")
        };
        assert_eq!(
            options.body(),
            Some(json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                "propagationPolicy": "Orphan", "preconditions": {"uid": "u"}
            }))
        );
    }
}
