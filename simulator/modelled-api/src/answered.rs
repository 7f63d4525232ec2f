//! `Answered`: counts the requests that an API server has answered, by what they are.

use http::{Method, Uri};
use parking_lot::Mutex;
use request::info::RequestInfo;
use std::collections::BTreeMap;

/// Number of requests by verb and resource, such as `create pods/binding`, `update leases.coordination.k8s.io` and `get /apis`.
pub type Requests = BTreeMap<String, u64>;

#[derive(Debug, Default)]
pub struct Answered(Mutex<Requests>);

impl Answered {
    pub fn count(&self, request: String) {
        *self.0.lock().entry(request).or_default() += 1;
    }

    /// Returns the requests that were answered since the last call.
    pub fn take(&self) -> Requests {
        std::mem::take(&mut self.0.lock())
    }
}

/// Returns what a request is. Of a path that names no resource, the first part tells enough: discovery has a path for each group.
pub fn name_of(method: &Method, uri: &Uri) -> String {
    let info = RequestInfo::of(method, uri.path(), uri.query().unwrap_or_default());
    if !info.is_resource {
        let first = info.path.trim_start_matches('/').split('/').next().unwrap_or_default();
        return format!("{} /{first}", info.verb);
    }
    let mut name = format!("{} {}", info.verb, info.resource);
    for (separator, part) in [('.', &info.group), ('/', &info.subresource)] {
        if !part.is_empty() {
            name.push(separator);
            name.push_str(part);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_by_verb_and_resource() {
        let answered = Answered::default();
        for (method, uri) in [
            (Method::POST, "/api/v1/namespaces/a/pods"),
            (Method::POST, "/api/v1/namespaces/b/pods/p/binding"),
            (Method::POST, "/api/v1/namespaces/b/pods?dryRun=All"),
            (Method::PATCH, "/apis/apps/v1/namespaces/a/deployments/d/status"),
            (Method::GET, "/apis/coordination.k8s.io/v1/leases?watch=true"),
            (Method::GET, "/apis/apps/v1"),
            (Method::GET, "/apis"),
        ] {
            answered.count(name_of(&method, &uri.parse().unwrap()));
        }
        let found: Vec<(String, u64)> = answered.take().into_iter().collect();
        let expected = [
            ("create pods", 2),
            ("create pods/binding", 1),
            ("get /apis", 2),
            ("patch deployments.apps/status", 1),
            ("watch leases.coordination.k8s.io", 1),
        ];
        assert_eq!(found, expected.map(|(name, count)| (name.to_owned(), count)));
        assert!(answered.take().is_empty());
    }
}
