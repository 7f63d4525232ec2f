//! `WatchCount`: counts the open watches that receive an event of an object.
//!
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/watch_tracker.go.

use super::work::WATCHES_PER_SEAT;
use parking_lot::Mutex;
use request::info::RequestInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Namespace and name that a watch is limited to; empty means not limited.
type WatchScope = (String, String);

#[derive(Debug, Default)]
struct Watches {
    all: u64,
    by_scope: BTreeMap<WatchScope, u64>,
}

/// Watches by group and resource.
type ByResource = BTreeMap<String, BTreeMap<String, Watches>>;

#[derive(Clone, Debug, Default)]
pub struct WatchCount(Arc<Mutex<ByResource>>);

/// One open watch.
#[derive(Debug)]
pub struct OpenWatch {
    count: WatchCount,
    group: String,
    resource: String,
    scope: WatchScope,
}

impl WatchCount {
    /// Counts a watch until it is dropped.
    pub fn open(&self, info: &RequestInfo) -> OpenWatch {
        let name = if info.name.is_empty() { info.named_by_selector().unwrap_or_default() } else { info.name.clone() };
        let scope = (info.namespace.clone(), name);
        let mut resources = self.0.lock();
        let group = resources.entry(info.group.clone()).or_default();
        let watches = group.entry(info.resource.clone()).or_default();
        watches.all += 1;
        *watches.by_scope.entry(scope.clone()).or_default() += 1;
        OpenWatch { count: self.clone(), group: info.group.clone(), resource: info.resource.clone(), scope }
    }

    /// Returns the number of watches that receive the event of a write. A resource with too few watches for one seat returns
    /// all of them, without a search by namespace and name.
    pub fn of(&self, info: &RequestInfo) -> u64 {
        let resources = self.0.lock();
        let Some(watches) = resources.get(&info.group).and_then(|group| group.get(&info.resource)) else { return 0 };
        if watches.all < WATCHES_PER_SEAT {
            return watches.all;
        }
        let scope = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        let mut scopes = vec![scope("", "")];
        if !info.namespace.is_empty() {
            scopes.push(scope(&info.namespace, ""));
        }
        if !info.name.is_empty() {
            scopes.push(scope(&info.namespace, &info.name));
            if !info.namespace.is_empty() {
                scopes.push(scope("", &info.name));
            }
        }
        scopes.iter().filter_map(|scope| watches.by_scope.get(scope)).sum()
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        let mut resources = self.count.0.lock();
        let Some(watches) = resources.get_mut(&self.group).and_then(|group| group.get_mut(&self.resource)) else {
            return;
        };
        watches.all -= 1;
        if let Some(count) = watches.by_scope.get_mut(&self.scope) {
            *count -= 1;
            if *count == 0 {
                watches.by_scope.remove(&self.scope);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn an_event_goes_to_the_watches_of_its_place() {
        let count = WatchCount::default();
        let info = |method: Method, path: &str| RequestInfo::of(&method, path, "");
        let watch = |path: &str| count.open(&info(Method::GET, path));
        let mut open: Vec<OpenWatch> = (0..10).map(|_| watch("/api/v1/pods")).collect();
        open.push(watch("/api/v1/namespaces/a/pods"));
        open.push(watch("/api/v1/namespaces/b/pods"));
        open.push(count.open(&RequestInfo::of(
            &Method::GET,
            "/api/v1/namespaces/a/pods",
            "fieldSelector=metadata.name%3Dp",
        )));
        let of = |path: &str| count.of(&info(Method::PUT, path));
        assert_eq!(of("/api/v1/namespaces/a/pods/p"), 12);
        assert_eq!(of("/api/v1/namespaces/a/pods/q"), 11);
        assert_eq!(of("/api/v1/namespaces/c/pods/p"), 10);
        assert_eq!(of("/api/v1/namespaces/a/secrets/p"), 0);
        open.clear();
        assert_eq!(of("/api/v1/namespaces/a/pods/p"), 0);
    }
}
