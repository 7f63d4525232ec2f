//! `AuditSummary`: reads the audit log, and collects each user's requests and refusals, and the bindings that allowed
//! requests.

use apiserver::audit::options::AuditOptions;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All requests of a run.
#[derive(Debug, Default)]
pub struct AuditSummary {
    /// Requests that were answered with 403, by caller.
    pub refused: BTreeMap<String, BTreeSet<String>>,
    /// Bindings that allowed a request: `name`, or `namespace/name`.
    pub bindings: BTreeSet<String>,
    /// Groups of each caller. An impersonated user is a caller too.
    pub callers: BTreeMap<String, BTreeSet<String>>,
    /// Requests (verb and resource) of each caller.
    pub requested: BTreeMap<String, BTreeSet<String>>,
}

/// Returns options with which the API server logs each request and the binding that allowed it.
pub fn options(folder: &Path) -> AuditOptions {
    let policy = folder.join("policy.json");
    let rules = json!([{"level": "Metadata"}]);
    let text = json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules,
    });
    std::fs::write(&policy, text.to_string()).unwrap();
    let mut options = apiserver::Config::default().audit;
    (options.audit_policy_file, options.audit_log_path) = (Some(policy), Some(folder.join("audit.log")));
    options
}

impl AuditSummary {
    /// Reads the log of a server that ran with `options`.
    pub fn read(folder: &Path) -> Self {
        let mut summary = Self::default();
        let log = std::fs::read_to_string(folder.join("audit.log")).unwrap();
        log.lines().for_each(|line| summary.add(&serde_json::from_str(line).unwrap()));
        summary
    }

    fn add(&mut self, event: &Value) {
        let own = [&event["user"], &event["impersonatedUser"]];
        for user in own.into_iter().filter(|user| !user.is_null()) {
            let groups = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
            self.callers.entry(name(user)).or_default().extend(groups);
        }
        let caller =
            name(if event["impersonatedUser"].is_null() { &event["user"] } else { &event["impersonatedUser"] });
        let request = request(event);
        if event["responseStatus"]["code"] == 403 {
            let why = event["responseStatus"]["message"].as_str().unwrap_or_default();
            self.refused.entry(caller.clone()).or_default().insert(format!("{request}: {why}"));
        }
        self.requested.entry(caller).or_default().insert(request);
        let reason = event["annotations"]["authorization.k8s.io/reason"].as_str().unwrap_or_default();
        self.bindings.extend(binding(reason));
    }
}

fn name(user: &Value) -> String {
    user["username"].as_str().unwrap_or_default().to_owned()
}

/// Returns the request of an event, as `update apps deployments/status` or `get /version`.
fn request(event: &Value) -> String {
    let verb = event["verb"].as_str().unwrap_or_default();
    let object = &event["objectRef"];
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    if object.is_null() {
        let uri = event["requestURI"].as_str().unwrap_or_default();
        return format!("{verb} {}", uri.split('?').next().unwrap_or_default());
    }
    let group = if text("apiGroup").is_empty() { "core" } else { text("apiGroup") };
    let subresource = if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
    format!("{verb} {group} {}{subresource}", text("resource"))
}

/// Returns the binding in a reason: `ns/b` for `RBAC: allowed by RoleBinding "b/ns" of …`.
fn binding(reason: &str) -> Option<String> {
    let (kind, rest) = reason.strip_prefix("RBAC: allowed by ")?.split_once(" \"")?;
    let named = rest.split('"').next()?;
    Some(match (kind, named.rsplit_once('/')) {
        ("RoleBinding", Some((name, namespace))) => format!("{namespace}/{name}"),
        _ => named.to_owned(),
    })
}
