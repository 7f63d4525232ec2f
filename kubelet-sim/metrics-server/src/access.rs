//! The permissions that a request for this group needs.
//!
//! Corresponds to the RequestInfo and the delegated authorization of k8s.io/apiserver.

use crate::discovery::GROUP_VERSION_PATH;
use http::request::Parts;
use serde_json::{Value, json};

/// Returns the attributes to authorize; `None` for a path outside of the group.
pub fn questions(parts: &Parts) -> Option<Vec<Value>> {
    let path = parts.uri.path();
    if let Some(rest) = path.strip_prefix(GROUP_VERSION_PATH).and_then(|rest| rest.strip_prefix('/')) {
        let segments: Vec<&str> = rest.split('/').collect();
        let (namespace, rest) = match segments.as_slice() {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name) = (rest.first().copied().unwrap_or_default(), rest.get(1).copied().unwrap_or_default());
        let verb = match name.is_empty() {
            false => "get",
            true if is_watch(parts.uri.query().unwrap_or_default()) => "watch",
            true => "list",
        };
        let attributes = json!({
            "verb": verb, "group": "metrics.k8s.io", "version": "v1beta1", "resource": resource,
            "namespace": namespace, "name": name,
        });
        return Some(vec![json!({"resourceAttributes": attributes})]);
    }
    let is_document = path == "/apis" || path.starts_with("/apis/metrics.k8s.io") || path.starts_with("/openapi/");
    is_document.then(|| vec![json!({"nonResourceAttributes": {"verb": "get", "path": path}})])
}

/// Returns whether a query asks for a watch.
fn is_watch(query: &str) -> bool {
    query.split('&').filter_map(|pair| pair.strip_prefix("watch")).any(|value| match value.strip_prefix('=') {
        Some(value) => is_switched_on(value),
        None => value.is_empty(),
    })
}

/// Returns whether the value of a switch in a query turns it on.
pub fn is_switched_on(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn a_path_is_a_verb_on_a_resource() {
        for (path, expected) in [
            ("/apis/metrics.k8s.io/v1beta1/nodes", "list nodes  "),
            ("/apis/metrics.k8s.io/v1beta1/nodes/n", "get nodes  n"),
            ("/apis/metrics.k8s.io/v1beta1/pods?limit=5", "list pods  "),
            ("/apis/metrics.k8s.io/v1beta1/pods?watch=1", "watch pods  "),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", "list pods shop "),
            ("/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web", "get pods shop web"),
            ("/apis/metrics.k8s.io/v1beta1", "/apis/metrics.k8s.io/v1beta1"),
            ("/openapi/v2", "/openapi/v2"),
            ("/pods", "none"),
        ] {
            let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
            let found = questions(&parts).map(|asked| {
                let of = |key: &str| asked[0]["resourceAttributes"][key].as_str().unwrap_or_default().to_owned();
                match asked[0]["nonResourceAttributes"]["path"].as_str() {
                    Some(path) => path.to_owned(),
                    None => format!("{} {} {} {}", of("verb"), of("resource"), of("namespace"), of("name")),
                }
            });
            assert_eq!(found.as_deref().unwrap_or("none"), expected, "{path}");
        }
    }
}
