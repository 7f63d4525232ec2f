//! The permissions that a request to a node's agent needs: verbs on the subresources of its node.
//!
//! Corresponds to pkg/kubelet/server/auth.go: every path is covered by the subresource `proxy`, and some paths by a
//! finer one as well.

use super::target::node_name;
use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

/// Returns the attributes to authorize; it is enough that one of them is allowed.
pub fn questions(parts: &Parts) -> Vec<Value> {
    let verb = match parts.method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "get",
    };
    let node = node_name(&parts.headers);
    let fine = fine_subresource(parts.uri.path());
    let question = |subresource: &str| {
        let attributes = json!({
            "verb": verb, "group": "", "version": "v1", "resource": "nodes", "subresource": subresource, "name": node,
        });
        json!({"resourceAttributes": attributes})
    };
    fine.into_iter().chain(["proxy"]).map(question).collect()
}

fn fine_subresource(path: &str) -> Option<&'static str> {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "metrics" => Some("metrics"),
        "stats" => Some("stats"),
        "pods" | "runningpods" => Some("pods"),
        "configz" | "flagz" => Some("configz"),
        "statusz" => Some("statusz"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::http::Body;
    use http::Request;

    #[test]
    fn a_path_belongs_to_a_subresource_of_the_node() {
        for (method, path, expected) in [
            (Method::GET, "/pods", "get nodes/pods node-1, get nodes/proxy node-1"),
            (Method::GET, "/containerLogs/a/b/c", "get nodes/proxy node-1"),
            (Method::POST, "/exec/a/b/c", "create nodes/proxy node-1"),
            (Method::GET, "/statusz", "get nodes/statusz node-1, get nodes/proxy node-1"),
            (Method::GET, "/flagz", "get nodes/configz node-1, get nodes/proxy node-1"),
            (Method::GET, "/metrics", "get nodes/metrics node-1, get nodes/proxy node-1"),
        ] {
            let request = Request::builder().method(method).uri(path).header("host", "node-1:10250");
            let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
            let asked = questions(&parts);
            let asked: Vec<String> = asked
                .iter()
                .map(|question| {
                    let text = |key: &str| question["resourceAttributes"][key].as_str().unwrap().to_owned();
                    format!("{} {}/{} {}", text("verb"), text("resource"), text("subresource"), text("name"))
                })
                .collect();
            assert_eq!(asked.join(", "), expected, "{path}");
        }
    }
}
