//! `RequestInfo`: the meaning of a URL and a method: verb, resource and name, or a path that is no resource.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/request/requestinfo.go.

use super::query::{Query, unescape};
use http::Method;

/// Segments after a namespace's name that belong to the namespace itself.
const NAMESPACE_SUBRESOURCES: &[&str] = &["status", "finalize"];

/// The object of one request. Authorization, audit, flow control and dispatch all read this.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestInfo {
    /// False for `/healthz`, `/api`, `/apis/apps/v1`, …
    pub is_resource: bool,
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for non-resource
    /// paths the method in lower case.
    pub verb: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub subresource: String,
    pub name: String,
    /// The path segments after the subresource: the path behind a proxy.
    pub trailing: Vec<String>,
    /// The path began with the old `/watch/` prefix.
    pub watch_prefix: bool,
    pub query: Query,
}

impl RequestInfo {
    pub fn of(method: &Method, path: &str, query: &str) -> Self {
        let mut info = Self {
            path: path.to_owned(),
            verb: method.as_str().to_ascii_lowercase(),
            query: Query::parse(query),
            ..Self::default()
        };
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|p| unescape(p, false).unwrap_or_else(|| p.to_owned()))
            .collect();
        info.read_path(method, &parts);
        info
    }

    fn read_path(&mut self, method: &Method, parts: &[String]) {
        let rest = match parts.first().map(String::as_str) {
            Some("api") if parts.len() >= 3 => &parts[1..],
            Some("apis") if parts.len() >= 4 => {
                self.group = parts[1].clone();
                &parts[2..]
            }
            _ => return,
        };
        self.is_resource = true;
        self.version = rest[0].clone();
        self.verb = verb_of(method).to_owned();
        let mut rest = &rest[1..];
        if rest[0] == "watch" && rest.len() > 1 {
            self.watch_prefix = true;
            self.verb = "watch".into();
            rest = &rest[1..];
        }
        if rest[0] == "namespaces" && rest.len() > 1 {
            self.namespace = rest[1].clone();
            if rest.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&rest[2].as_str()) {
                rest = &rest[2..];
            }
        }
        self.resource = rest[0].clone();
        self.name = rest.get(1).cloned().unwrap_or_default();
        self.subresource = rest.get(2).cloned().unwrap_or_default();
        self.trailing = rest.iter().skip(3).cloned().collect();
        if self.name.is_empty() {
            match self.verb.as_str() {
                "get" => self.verb = if self.query.switch("watch") { "watch".into() } else { "list".into() },
                "delete" => self.verb = "deletecollection".into(),
                _ => {}
            }
        }
    }

    /// Returns `pods/log` or `pods`: a resource as RBAC names it.
    pub fn resource_and_subresource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// Returns whether the request has no deadline of its own. Flow control ignores such requests.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
            || (self.is_resource
                && matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward"))
    }

    /// Returns whether the request may change the store. Reads and reviews of non-resource paths do not.
    pub fn is_mutating(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options")
    }

    /// Returns whether the request writes objects and ends by itself.
    pub fn is_write(&self) -> bool {
        self.is_resource && self.is_mutating() && !self.is_long_running()
    }

    /// Returns the name in `fieldSelector=metadata.name=x` of a list or watch. Authorization looks at that name.
    pub fn named_by_selector(&self) -> Option<String> {
        if !matches!(self.verb.as_str(), "list" | "watch" | "deletecollection") || !self.name.is_empty() {
            return None;
        }
        let selector = self.query.get("fieldSelector")?;
        let mut terms = selector.split(',').filter(|term| !term.is_empty());
        let name = terms.find_map(|term| term.strip_prefix("metadata.name=").map(|n| n.trim_start_matches('=')))?;
        (!name.is_empty() && !name.contains(['/', '%']) && name != "." && name != "..").then(|| name.to_owned())
    }
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints `verb group/version namespace resource/name/subresource`, or the path if it is no resource.
    fn read(method: Method, path: &str, query: &str) -> String {
        let i = RequestInfo::of(&method, path, query);
        if !i.is_resource {
            return format!("{} {}", i.verb, i.path);
        }
        format!("{} {}/{} {} {}/{}/{}", i.verb, i.group, i.version, i.namespace, i.resource, i.name, i.subresource)
    }

    #[test]
    fn paths_mean_what_kubernetes_says() {
        let cases = [
            (Method::GET, "/", "", "get /"),
            (Method::GET, "/api", "", "get /api"),
            (Method::GET, "/api/v1", "", "get /api/v1"),
            (Method::GET, "/apis/apps/v1", "", "get /apis/apps/v1"),
            (Method::GET, "/api/v1/pods", "", "list /v1  pods//"),
            (Method::GET, "/api/v1/pods", "watch=1", "watch /v1  pods//"),
            (Method::GET, "/api/v1/watch/pods", "", "watch /v1  pods//"),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/p", "", "watch /v1 a pods/p/"),
            (Method::GET, "/api/v1/namespaces", "", "list /v1  namespaces//"),
            (Method::GET, "/api/v1/namespaces/a", "", "get /v1 a namespaces/a/"),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "", "update /v1 a namespaces/a/finalize"),
            (Method::GET, "/api/v1/namespaces/a/pods", "", "list /v1 a pods//"),
            (Method::GET, "/api/v1/namespaces/a/pods/p", "watch=1", "get /v1 a pods/p/"),
            (Method::POST, "/api/v1/namespaces/a/pods/p/binding", "", "create /v1 a pods/p/binding"),
            (Method::DELETE, "/apis/apps/v1/namespaces/a/deployments", "", "deletecollection apps/v1 a deployments//"),
            (Method::DELETE, "/apis/apps/v1/namespaces/a/deployments/d", "", "delete apps/v1 a deployments/d/"),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/d/scale",
                "",
                "patch apps/v1 a deployments/d/scale",
            ),
        ];
        for (method, path, query, expected) in cases {
            assert_eq!(read(method, path, query), expected, "{path}");
        }
    }

    #[test]
    fn one_name_may_come_from_a_selector() {
        let named = |query| RequestInfo::of(&Method::GET, "/api/v1/secrets", query).named_by_selector();
        assert_eq!(named("fieldSelector=metadata.name%3Da"), Some("a".into()));
        assert_eq!(named("fieldSelector=metadata.name%3D%3Da"), Some("a".into()));
        assert_eq!(named("fieldSelector=metadata.name!%3Da"), None);
    }
}
