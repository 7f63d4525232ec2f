//! The kinds of the core group except Pod, Service and ReplicationController.
//!
//! Corresponds to pkg/registry/core.

use super::pod;
use super::rules::{Generation, Rules};
use crate::Grace;
use crate::validation::restore::restore;
use crate::validation::{
    cluster, configuration, endpoints, events, limits, object_meta, persistent_volumes, storage, warnings, workloads,
};
use crate::write_context::WriteContext;
use proto::meta::time;
use serde_json::{Value, json};

pub const ROWS: &[Rules] = &[
    Rules {
        resource: "configmaps",
        validate: configuration::config_map,
        update_first: true,
        validate_update: configuration::config_map_update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "secrets",
        validate: configuration::secret,
        update_first: true,
        validate_update: configuration::secret_update,
        warnings: configuration::secret_warnings,
        ..Rules::DEFAULT
    },
    Rules { resource: "endpoints", create_on_update: true, validate: endpoints::endpoints, ..Rules::DEFAULT },
    Rules {
        resource: "events",
        name: object_meta::path_segment,
        create_on_update: true,
        validate: events::create,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: events::update,
        ..Rules::DEFAULT
    },
    Rules { resource: "limitranges", create_on_update: true, validate: limits::limit_range, ..Rules::DEFAULT },
    Rules {
        resource: "namespaces",
        name: object_meta::label,
        create: create_namespace,
        update: update_namespace,
        delete: |_, namespace| namespace["status"]["phase"] = json!("Terminating"),
        grace: |_, _| Grace::UntilEmpty,
        is_held: has_spec_finalizers,
        validate: cluster::namespace,
        revalidates: false,
        validate_update: cluster::namespace_update,
        validate_status: cluster::namespace_status,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "nodes",
        status_on_create: true,
        create: create_node,
        update: update_node,
        validate: cluster::node,
        validate_update: cluster::node_update,
        validate_status: cluster::node_update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "persistentvolumes",
        create: create_persistent_volume,
        update_status: set_phase_transition_time,
        validate: persistent_volumes::volume,
        warnings: warnings::volume,
        validate_update: persistent_volumes::update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "persistentvolumeclaims",
        create: create_claim,
        update: update_claim,
        validate: storage::claim,
        warnings: warnings::claim,
        validate_update: storage::claim_update,
        validate_status: storage::claim_status,
        ..Rules::DEFAULT
    },
    pod::ROW,
    Rules {
        resource: "podtemplates",
        generation: Generation::Of(&["template"]),
        validate: workloads::pod_template,
        warnings: workloads::template_warnings,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "resourcequotas",
        validate: limits::quota,
        revalidates_metadata: false,
        validate_update: limits::quota_update,
        validate_status: limits::quota_status,
        ..Rules::DEFAULT
    },
    Rules { resource: "serviceaccounts", warnings: configuration::service_account_warnings, ..Rules::DEFAULT },
];

/// Returns whether `spec.finalizers` keeps a namespace, because its controller has not removed all its content yet.
fn has_spec_finalizers(namespace: &Value) -> bool {
    namespace.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
}

/// Sets the phase Active, and the finalizer that keeps a namespace until its content is removed.
fn create_namespace(_context: &WriteContext<'_>, namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    if !namespace["spec"].is_object() {
        namespace["spec"] = json!({});
    }
    let finalizers = namespace["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        let all: Vec<Value> = finalizers.into_iter().chain([json!("kubernetes")]).collect();
        namespace["spec"]["finalizers"] = json!(all);
    }
}

/// Restores `spec.finalizers`, which only the subresource `finalize` changes.
fn update_namespace(context: &WriteContext<'_>, namespace: &mut Value, old: &Value) {
    if context.subresource != "finalize" {
        restore(namespace, old, &["spec", "finalizers"]);
    }
}

/// Removes `spec.configSource`, which kubelets no longer read. Only a node that already has it keeps it.
fn create_node(_context: &WriteContext<'_>, node: &mut Value) {
    let _ = node["spec"].as_object_mut().map(|spec| spec.remove("configSource"));
}

fn update_node(context: &WriteContext<'_>, node: &mut Value, old: &Value) {
    if old["spec"].get("configSource").is_none() {
        create_node(context, node);
    }
}

fn create_persistent_volume(context: &WriteContext<'_>, volume: &mut Value) {
    volume["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": time::format(context.now)});
}

/// Sets the time of the last phase change, unless the writer sets it.
fn set_phase_transition_time(context: &WriteContext<'_>, volume: &mut Value, old: &Value) {
    const WHEN: &str = "lastPhaseTransitionTime";
    let (given, before) = (volume["status"][WHEN].clone(), old["status"][WHEN].clone());
    if volume["status"]["phase"] != old["status"]["phase"] {
        if given.is_null() || given == before {
            volume["status"][WHEN] = json!(time::format(context.now));
        }
    } else if given.is_null() && !before.is_null() {
        volume["status"][WHEN] = before;
    }
}

fn create_claim(_context: &WriteContext<'_>, claim: &mut Value) {
    claim["status"] = json!({"phase": "Pending"});
    normalize_data_sources(claim, &Value::Null);
}

fn update_claim(_context: &WriteContext<'_>, claim: &mut Value, old: &Value) {
    normalize_data_sources(claim, old);
}

/// Drops data sources that v1.36 does not support: a `dataSourceRef` in another namespace, because its feature is off, and
/// a `dataSource` that is neither a claim nor a snapshot. A field that the old claim has stays.
fn normalize_data_sources(claim: &mut Value, old: &Value) {
    let has = |object: &Value, field: &str| object["spec"][field].is_object();
    let text = |source: &Value, field: &str| source[field].as_str().unwrap_or_default().to_owned();
    let (source, reference) = (&claim["spec"]["dataSource"], &claim["spec"]["dataSourceRef"]);
    let is_elsewhere = !text(reference, "namespace").is_empty() && !has(old, "dataSourceRef");
    let known = [("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")];
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    let is_known = known.contains(&(group.as_str(), kind.as_str()));
    let has_reference = has(claim, "dataSourceRef") && !is_elsewhere;
    let is_ignored = has(claim, "dataSource") && !is_known && !has_reference && !has(old, "dataSource");
    if let Some(spec) = claim["spec"].as_object_mut() {
        for (field, is_off) in [("dataSourceRef", is_elsewhere), ("dataSource", is_ignored)] {
            if is_off {
                spec.remove(field);
            }
        }
    }
    align_data_sources(claim);
}

/// Copies `dataSource` and `dataSourceRef` into each other, unless the latter names another namespace.
fn align_data_sources(claim: &mut Value) {
    let Some(spec) = claim["spec"].as_object_mut() else { return };
    let source_in = |field: &str| spec.get(field).filter(|source| source.is_object()).cloned();
    match (source_in("dataSource"), source_in("dataSourceRef")) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) if source["namespace"].as_str().is_none_or(str::is_empty) => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}
