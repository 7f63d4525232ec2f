//! `AuthorizerObjects`: the cached objects that authorizers read, and the RBAC index that is compiled from them.
//!
//! The index is updated when it is read and a row has changed since. Corresponds to the informers behind kube-apiserver's
//! authorizers.

use super::node::NodeRelations;
use super::rbac::{Change, Changes, RbacIndex};
use arc_swap::ArcSwap;
use cacher::{Cacher, Snapshot};
use parking_lot::Mutex;
use proto::Object;
use serde_json::Value;
use std::sync::Arc;

/// Objects parsed at a time, which bounds memory at the start, when all of them are new.
const PARSED_AT_ONCE: usize = 256;

/// The caches of the RBAC resources, in the order of the fields of `Changes`, and those that the Node authorizer reads.
pub struct AuthorizerCaches {
    pub cluster_roles: Cacher,
    pub roles: Cacher,
    pub cluster_role_bindings: Cacher,
    pub role_bindings: Cacher,
    pub pods: Cacher,
    pub persistent_volumes: Cacher,
    pub volume_attachments: Cacher,
}

/// The objects that the RBAC and Node authorizers read.
pub struct AuthorizerObjects {
    caches: AuthorizerCaches,
    compiled: ArcSwap<CompiledIndex>,
    compiling: Mutex<()>,
}

/// An index, and the snapshots of the rows that it was compiled from.
#[derive(Default)]
struct CompiledIndex {
    of: [Option<Snapshot>; 4],
    index: Arc<RbacIndex>,
}

impl AuthorizerObjects {
    pub fn new(caches: AuthorizerCaches) -> Self {
        Self { caches, compiled: ArcSwap::default(), compiling: Mutex::default() }
    }

    fn snapshots(&self) -> [Option<Snapshot>; 4] {
        let AuthorizerCaches { cluster_roles, roles, cluster_role_bindings, role_bindings, .. } = &self.caches;
        [cluster_roles, roles, cluster_role_bindings, role_bindings].map(|row| row.snapshot().ok())
    }

    /// Returns the index of the current objects.
    pub fn index(&self) -> Arc<RbacIndex> {
        let snapshots = self.snapshots();
        if let Some(index) = self.compiled.load().index_of(&snapshots) {
            return index;
        }
        // One caller compiles; callers that waited for it use its result.
        let _compiling = self.compiling.lock();
        let compiled = self.compiled.load();
        if let Some(index) = compiled.index_of(&snapshots) {
            return index;
        }
        let index = Arc::new(compiled.followed(&snapshots));
        self.compiled.store(Arc::new(CompiledIndex { of: snapshots, index: index.clone() }));
        index
    }
}

impl CompiledIndex {
    /// Returns the index if it was compiled from these snapshots.
    fn index_of(&self, snapshots: &[Option<Snapshot>; 4]) -> Option<Arc<RbacIndex>> {
        let is_same = snapshots.iter().zip(&self.of).all(|pair| match pair {
            (Some(now), Some(then)) => now.is_same(then),
            (now, then) => now.is_none() && then.is_none(),
        });
        is_same.then(|| self.index.clone())
    }

    /// Returns the index updated to other snapshots.
    fn followed(&self, snapshots: &[Option<Snapshot>; 4]) -> RbacIndex {
        let changed = |row: usize| changed(self.of[row].as_ref(), snapshots[row].as_ref());
        let roles = Changes { cluster_roles: parsed(&changed(0)), roles: parsed(&changed(1)), ..Changes::default() };
        let mut index = self.index.after(&roles);
        for some in changed(2).chunks(PARSED_AT_ONCE) {
            index = index.after(&Changes { cluster_role_bindings: parsed(some), ..Changes::default() });
        }
        for some in changed(3).chunks(PARSED_AT_ONCE) {
            index = index.after(&Changes { role_bindings: parsed(some), ..Changes::default() });
        }
        index
    }
}

/// An object before and after a change.
type Changed<'a> = (Option<&'a Arc<Object>>, Option<&'a Arc<Object>>);

fn changed<'a>(then: Option<&'a Snapshot>, now: Option<&'a Snapshot>) -> Vec<Changed<'a>> {
    match (then, now) {
        (Some(then), Some(now)) => now.since(then).collect(),
        (Some(then), None) => then.iter().map(|(_, object)| (Some(object), None)).collect(),
        (None, Some(now)) => now.iter().map(|(_, object)| (None, Some(object))).collect(),
        (None, None) => Vec::new(),
    }
}

fn parsed(changed: &[Changed<'_>]) -> Vec<Change> {
    let tree = |object: &Option<&Arc<Object>>| object.map(|object| object.peek());
    changed.iter().map(|(before, after)| Change { before: tree(before), after: tree(after) }).collect()
}

impl NodeRelations for AuthorizerObjects {
    fn any_pod(&self, node: &str, namespace: &str, visit: &mut dyn FnMut(&Value) -> bool) -> bool {
        let Ok(pods) = self.caches.pods.snapshot() else { return false };
        let of_node = |object: &&Arc<Object>| object.index.fields.get("spec.nodeName").is_some_and(|n| n == node);
        pods.in_namespace(namespace).map(|(_, pod)| pod).filter(of_node).any(|pod| visit(&pod.peek()))
    }

    fn claims_of_volume(&self, volume: &str) -> Vec<(String, String)> {
        let Ok(volumes) = self.caches.persistent_volumes.snapshot() else { return Vec::new() };
        let Some(volume) = volumes.get("", volume) else { return Vec::new() };
        let value = volume.peek();
        let text = |key: &str| value.pointer(&format!("/spec/claimRef/{key}")).and_then(Value::as_str);
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => vec![(namespace.to_owned(), name.to_owned())],
            _ => Vec::new(),
        }
    }

    fn is_attached(&self, attachment: &str, node: &str) -> bool {
        let Ok(attachments) = self.caches.volume_attachments.snapshot() else { return false };
        attachments.get("", attachment).is_some_and(|a| a.peek()["spec"]["nodeName"] == node)
    }
}
