//! `Sent`: builds the requests of a verb, a target and a file of objects.

use bytes::Bytes;
use client::request::Target;
use controller_base::discovery::ApiResource;
use http::Method;
use proto::serializer::document::{Document, Format};
use serde_json::Value;

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
/// Field manager of applied objects.
const MANAGER: &str = "orrery-trace";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Create,
    Replace,
    Apply,
    Delete,
}

impl Verb {
    pub fn of(word: &str) -> Option<Self> {
        Some(match word {
            "get" => Self::Get,
            "create" => Self::Create,
            "replace" => Self::Replace,
            "apply" => Self::Apply,
            "delete" => Self::Delete,
            _ => return None,
        })
    }

    fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Create => Method::POST,
            Self::Replace => Method::PUT,
            Self::Apply => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }

    /// Returns true if the verb sends an object.
    fn has_body(self) -> bool {
        matches!(self, Self::Create | Self::Replace | Self::Apply)
    }
}

/// A request to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub method: Method,
    pub target: String,
    pub content_type: &'static str,
    pub body: Bytes,
}

/// The reason why there is no request, in one line.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SentError {
    #[error("the file: {0}")]
    File(String),
    #[error("say what is asked for: RESOURCE, RESOURCE/NAME, a path, or objects with -f FILE")]
    NoTarget,
    #[error("it needs objects: -f FILE")]
    NoObjects,
    #[error("the server has no resource {0:?}")]
    UnknownResource(String),
    #[error("the server has no kind {kind} in {version}")]
    UnknownKind { version: String, kind: String },
    #[error("an object has no name")]
    NoName,
    #[error("{0:?} is one word too many; only create without a file takes several, as kubectl create does")]
    Surplus(String),
}

/// Parses the objects of a file.
pub fn objects(file: &[u8]) -> Result<Vec<Value>, SentError> {
    let text = std::str::from_utf8(file).map_err(|error| SentError::File(error.to_string()))?;
    let mut documents = vec![String::new()];
    for line in text.lines() {
        match documents.last_mut().filter(|_| line.trim_end() != "---") {
            Some(document) => {
                document.push_str(line);
                document.push('\n');
            }
            None => documents.push(String::new()),
        }
    }
    let says_something = |document: &&String| document.lines().any(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed = documents
        .iter()
        .filter(says_something)
        .map(|document| Ok(Document::parse(Format::Yaml, document.as_bytes())?.value));
    let values: Result<Vec<Value>, String> = parsed.collect();
    Ok(values.map_err(SentError::File)?.into_iter().filter(|value| !value.is_null()).collect())
}

/// The server's resources and the options that requests share.
#[derive(Clone, Copy, Debug)]
pub struct RequestBuilder<'a> {
    pub served: &'a [ApiResource],
    pub namespace: &'a str,
    pub dry_run: bool,
}

impl RequestBuilder<'_> {
    pub fn requests(self, verb: Verb, target: Option<&str>, objects: &[Value]) -> Result<Vec<Sent>, SentError> {
        if verb.has_body() && objects.is_empty() {
            return Err(SentError::NoObjects);
        }
        if objects.is_empty() {
            let target = target.ok_or(SentError::NoTarget)?;
            return Ok(vec![self.request(verb, self.path(target)?, Bytes::new())]);
        }
        let of = |object: &Value| {
            let path = match target {
                Some(target) => self.path(target)?,
                None => self.path_of(verb, object)?,
            };
            let body = if verb.has_body() { object.to_string().into() } else { Bytes::new() };
            Ok(self.request(verb, path, body))
        };
        objects.iter().map(of).collect()
    }

    fn request(self, verb: Verb, target: Target, body: Bytes) -> Sent {
        let manager = if verb == Verb::Apply { MANAGER } else { "" };
        let dry_run = if self.dry_run && verb != Verb::Get { "All" } else { "" };
        let target = target.query("fieldManager", manager).query("dryRun", dry_run).into_string();
        let content_type = if verb == Verb::Apply { APPLY } else { JSON };
        Sent { method: verb.method(), target, content_type, body }
    }

    /// Returns a given path unchanged, or the path of `RESOURCE[.GROUP][/NAME]`.
    fn path(self, target: &str) -> Result<Target, SentError> {
        if target.starts_with('/') {
            return Ok(Target::new(target.to_owned()));
        }
        let (resource, name) = target.split_once('/').unwrap_or((target, ""));
        let (called, group) = resource.split_once('.').unwrap_or((resource, ""));
        let is_called = |known: &ApiResource| {
            let is_short = known.short_names.iter().any(|name| name == called);
            known.gvr.resource == called || is_short || known.gvk.kind.to_lowercase() == called
        };
        let is_meant = |known: &&ApiResource| {
            known.is_preferred && is_called(known) && (group.is_empty() || known.gvr.group == group)
        };
        let found = self.served.iter().find(is_meant);
        let found = found.ok_or_else(|| SentError::UnknownResource(resource.to_owned()))?;
        Ok(self.place(found, self.namespace, name))
    }

    /// Returns the path of an object, or of its collection for a creation.
    fn path_of(self, verb: Verb, object: &Value) -> Result<Target, SentError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let is_meant = |known: &&ApiResource| known.gvk.api_version() == version && known.gvk.kind == kind;
        let found = self.served.iter().find(is_meant);
        let found = found.ok_or_else(|| SentError::UnknownKind { version: version.clone(), kind: kind.clone() })?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(self.namespace);
        let name = text(&object["metadata"]["name"]);
        match verb {
            Verb::Create => Ok(self.place(found, namespace, "")),
            _ if name.is_empty() => Err(SentError::NoName),
            _ => Ok(self.place(found, namespace, &name)),
        }
    }

    fn place(self, resource: &ApiResource, namespace: &str, name: &str) -> Target {
        let gvr = &resource.gvr;
        let root = if gvr.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", gvr.group) };
        let mut target = Target::new(format!("{root}/{}", gvr.version));
        if resource.is_namespaced {
            target = target.segment("namespaces").segment(namespace);
        }
        target = target.segment(&gvr.resource);
        if name.is_empty() { target } else { target.segment(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Gvk, Gvr};
    use serde_json::json;

    fn served() -> Vec<ApiResource> {
        let one = |group: &str, resource: &str, kind: &str, is_namespaced| ApiResource {
            gvr: Gvr::new(group, "v1", resource),
            gvk: Gvk::new(group, "v1", kind),
            is_namespaced,
            verbs: Vec::new(),
            short_names: vec![kind[..2].to_lowercase()],
            subresources: Vec::new(),
            is_preferred: true,
        };
        vec![
            one("", "nodes", "Node", false),
            one("", "pods", "Pod", true),
            one("apps", "deployments", "Deployment", true),
        ]
    }

    fn requests_of(verb: Verb, target: Option<&str>, file: &str, dry_run: bool) -> String {
        let served = served();
        let place = RequestBuilder { served: &served, namespace: "shop", dry_run };
        let sent = objects(file.as_bytes()).and_then(|objects| place.requests(verb, target, &objects));
        match sent {
            Ok(sent) => sent
                .iter()
                .map(|s| format!("{} {} {}", s.method, s.target, s.body.len()))
                .collect::<Vec<_>>()
                .join("; "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn words_mean_requests() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n";
        let length = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}).to_string().len();
        let two = format!("# first\n---\n{pod}---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n");
        for (verb, target, file, dry_run, expected) in [
            (Verb::Get, Some("pods"), "", false, "GET /api/v1/namespaces/shop/pods 0"),
            (Verb::Get, Some("nodes/n 1"), "", true, "GET /api/v1/nodes/n%201 0"),
            (Verb::Get, Some("/version"), "", false, "GET /version 0"),
            (
                Verb::Delete,
                Some("deployments.apps/web"),
                "",
                true,
                "DELETE /apis/apps/v1/namespaces/shop/deployments/web?dryRun=All 0",
            ),
            (Verb::Get, Some("po/web"), "", false, "GET /api/v1/namespaces/shop/pods/web 0"),
            (Verb::Get, Some("deployment"), "", false, "GET /apis/apps/v1/namespaces/shop/deployments 0"),
            (Verb::Create, None, pod, false, &format!("POST /api/v1/namespaces/shop/pods {length}")),
            (Verb::Replace, None, pod, false, &format!("PUT /api/v1/namespaces/shop/pods/web {length}")),
            (
                Verb::Apply,
                None,
                pod,
                true,
                &format!("PATCH /api/v1/namespaces/shop/pods/web?fieldManager=orrery-trace&dryRun=All {length}"),
            ),
            (Verb::Delete, None, &two, false, "DELETE /api/v1/namespaces/shop/pods/web 0; DELETE /api/v1/nodes/n1 0"),
            (
                Verb::Get,
                None,
                "",
                false,
                "say what is asked for: RESOURCE, RESOURCE/NAME, a path, or objects with -f FILE",
            ),
            (Verb::Create, None, "", false, "it needs objects: -f FILE"),
            (Verb::Get, Some("cats"), "", false, "the server has no resource \"cats\""),
            (Verb::Create, None, "kind: Cat\napiVersion: v1", false, "the server has no kind Cat in v1"),
            (Verb::Apply, None, "kind: Pod\napiVersion: v1", false, "an object has no name"),
        ] {
            assert_eq!(requests_of(verb, target, file, dry_run), expected);
        }
    }
}
