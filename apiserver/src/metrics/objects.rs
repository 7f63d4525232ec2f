//! How many objects of each kind there are.
//!
//! Corresponds to the gauges of k8s.io/apiserver/pkg/storage/etcd3/metrics.

use component_base::env::Env;
use registry::Registry;
use std::sync::{Arc, Weak};

/// Counts whenever somebody looks, for as long as the registry is there.
pub fn show_objects(env: &Env, registry: &Arc<Registry>) {
    let metrics = env.metrics();
    let by_group = metrics.gauges("apiserver_resource_objects", "Objects by group and resource");
    let by_name = metrics.gauges("apiserver_storage_objects", "Objects by resource");
    let registry: Weak<Registry> = Arc::downgrade(registry);
    metrics.before_encoding(move || {
        let Some(registry) = registry.upgrade() else { return false };
        // Custom resources come and go.
        by_group.clear();
        by_name.clear();
        for row in registry.rows() {
            let Ok(snapshot) = row.cacher.snapshot() else { continue };
            let stored = row.resource.storage_version();
            let (group, resource) = (stored.group.to_string(), stored.resource.to_string());
            let count = i64::try_from(snapshot.len()).unwrap_or(i64::MAX);
            let full = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
            by_group.get_or_create(&vec![("group", group), ("resource", resource)]).set(count);
            by_name.get_or_create(&vec![("resource", full)]).set(count);
        }
        true
    });
}
