//! Gauges of the number of objects of each resource.
//!
//! Corresponds to the gauges of k8s.io/apiserver/pkg/storage/etcd3/metrics.

use component_base::env::Env;
use registry::Registry;
use std::sync::{Arc, Weak};

/// Registers gauges that are counted when the metrics are read, as long as the registry exists.
pub fn register_object_counts(env: &Env, registry: &Arc<Registry>) {
    let metrics = env.metrics();
    let by_group = metrics.gauges("apiserver_resource_objects", "Objects by group and resource");
    let by_name = metrics.gauges("apiserver_storage_objects", "Objects by resource");
    let registry: Weak<Registry> = Arc::downgrade(registry);
    metrics.before_encoding(move || {
        let Some(registry) = registry.upgrade() else { return false };
        // A custom resource may have been removed since the last time.
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
