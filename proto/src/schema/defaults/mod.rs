//! Defaults of built-in kinds: one table of rows per kind, and the engine that runs them.
//!
//! Corresponds to `SetDefaults_*` of pkg/apis. A row names a field, a value, and perhaps a condition. The tables nest
//! as the types do, so the rows of a container are written once and used by every pod template. The engine runs on
//! decoded trees, in which empty fields are absent.

mod addresses;
mod admission;
mod autoscaling;
mod batch;
mod cluster;
mod network;
mod pod;
mod pod_fixes;
mod resources;
mod volume;
mod workload;

use crate::gvk::Gvk;
use serde_json::{Map, Value};

pub type Members = Map<String, Value>;

/// One row of a table.
pub enum Row {
    /// Sets the field if it has no value.
    Set(&'static str, DefaultValue),
    /// `Set` for a text that Go always writes, so that an empty text counts as no value.
    SetEmpty(&'static str, DefaultValue),
    /// `Set`, if the object around the field satisfies a condition.
    SetIf(fn(&Members) -> bool, &'static str, DefaultValue),
    /// Runs rows on the object at a path, if there is one.
    In(&'static str, &'static [Row]),
    /// Runs rows on the object in a field, which is created first if it is absent.
    InNew(&'static str, &'static [Row]),
    /// Runs rows on every element of the list at a path.
    Each(&'static str, &'static [Row]),
    /// Runs a function, for rules about more than one field.
    Fix(fn(&mut Members)),
    /// Removes a field whose feature is off by default in this version.
    Off(&'static str),
}

/// The value that a row sets.
pub enum DefaultValue {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    /// `{}`
    Empty,
    Texts(&'static [&'static str]),
    /// Computes the value from the fields beside it. `None` sets nothing.
    Of(fn(&Members) -> Option<Value>),
}

/// Sets the defaults of the object's kind.
pub fn apply_defaults(gvk: &Gvk, value: &mut Value) {
    if let Value::Object(members) = value {
        run(rows(&gvk.group, &gvk.version, &gvk.kind), members);
    }
}

fn rows(group: &str, version: &str, kind: &str) -> &'static [Row] {
    match (group, kind) {
        ("", _) => match kind {
            "Pod" => pod::POD,
            "PodTemplate" => pod::POD_TEMPLATE,
            "ReplicationController" => workload::REPLICATION_CONTROLLER,
            "Service" => network::SERVICE,
            "Endpoints" => network::ENDPOINTS,
            "Secret" => cluster::SECRET,
            "Namespace" => cluster::NAMESPACE,
            "Node" => cluster::NODE,
            "PersistentVolume" => volume::PERSISTENT_VOLUME,
            "PersistentVolumeClaim" => volume::PERSISTENT_VOLUME_CLAIM,
            "LimitRange" => resources::LIMIT_RANGE,
            "ResourceQuota" => resources::RESOURCE_QUOTA,
            _ => &[],
        },
        ("apps", "DaemonSet") => workload::DAEMON_SET,
        ("apps", "Deployment") => workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => workload::REPLICA_SET,
        ("apps", "StatefulSet") => workload::STATEFUL_SET,
        ("batch", "Job") => batch::JOB,
        ("batch", "CronJob") => batch::CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") if version == "v1" => autoscaling::V1,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::V2,
        ("networking.k8s.io", "NetworkPolicy") => network::NETWORK_POLICY,
        ("networking.k8s.io", "IngressClass") => network::INGRESS_CLASS,
        ("discovery.k8s.io", "EndpointSlice") => network::ENDPOINT_SLICE,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => cluster::ROLE_BINDING,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("certificates.k8s.io", "PodCertificateRequest") => cluster::POD_CERTIFICATE_REQUEST,
        ("authentication.k8s.io", "TokenRequest") => cluster::TOKEN_REQUEST,
        ("apiregistration.k8s.io", "APIService") => cluster::API_SERVICE,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::CUSTOM_RESOURCE_DEFINITION,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => cluster::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => cluster::PRIORITY_LEVEL,
        ("node.k8s.io", "RuntimeClass") => cluster::RUNTIME_CLASS,
        ("storage.k8s.io", "StorageClass") => volume::STORAGE_CLASS,
        ("storage.k8s.io", "CSIDriver") => volume::CSI_DRIVER,
        ("storage.k8s.io", "VolumeAttachment") => volume::VOLUME_ATTACHMENT,
        ("resource.k8s.io", "ResourceClaim") => resources::RESOURCE_CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => resources::RESOURCE_CLAIM_TEMPLATE,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => admission::MUTATING_WEBHOOKS,
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => admission::VALIDATING_WEBHOOKS,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy" | "ValidatingAdmissionPolicy") => admission::POLICY,
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding") => {
            admission::POLICY_BINDING
        }
        _ => &[],
    }
}

fn run(rows: &[Row], members: &mut Members) {
    for row in rows {
        match row {
            Row::Set(field, default) => set(members, field, default),
            Row::SetEmpty(field, default) => {
                if text(members, field).is_empty() {
                    members.remove(*field);
                    set(members, field, default);
                }
            }
            Row::SetIf(condition, field, default) => {
                if condition(members) {
                    set(members, field, default);
                }
            }
            Row::In(path, rows) => {
                if let Some(inner) = object_at(members, path) {
                    run(rows, inner);
                }
            }
            Row::InNew(field, rows) => {
                set(members, field, &DefaultValue::Empty);
                if let Some(inner) = object_at(members, field) {
                    run(rows, inner);
                }
            }
            Row::Each(path, rows) => {
                for element in list_at(members, path) {
                    if let Value::Object(element) = element {
                        run(rows, element);
                    }
                }
            }
            Row::Fix(fix) => fix(members),
            Row::Off(field) => drop(members.remove(*field)),
        }
    }
}

fn set(members: &mut Members, field: &str, default: &DefaultValue) {
    if !is_unset(members, field) {
        return;
    }
    let value = match default {
        DefaultValue::Text(text) => Value::from(*text),
        DefaultValue::Int(number) => Value::from(*number),
        DefaultValue::Bool(truth) => Value::from(*truth),
        DefaultValue::Empty => Value::Object(Map::new()),
        DefaultValue::Texts(texts) => texts.iter().map(|text| Value::from(*text)).collect(),
        DefaultValue::Of(compute) => match compute(members) {
            Some(value) => value,
            None => return,
        },
    };
    members.insert(field.to_owned(), value);
}

/// Returns whether a field is absent or null. An empty text is a value: it comes from a pointer to a text, or from a
/// text that Go always writes.
pub fn is_unset(members: &Members, field: &str) -> bool {
    members.get(field).is_none_or(Value::is_null)
}

pub fn is_set(members: &Members, field: &str) -> bool {
    !is_unset(members, field)
}

/// Returns the text in a field, empty if absent.
pub fn text<'a>(members: &'a Members, field: &str) -> &'a str {
    members.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the map in a field, and puts an empty one there if the field is absent or null. `None` if it is no map.
pub fn map_in<'a>(members: &'a mut Members, field: &str) -> Option<&'a mut Members> {
    let value = members.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Returns the object at a dotted path.
pub fn object_at<'a>(members: &'a mut Members, path: &str) -> Option<&'a mut Members> {
    let mut at = members;
    for field in path.split('.') {
        at = at.get_mut(field)?.as_object_mut()?;
    }
    Some(at)
}

/// Returns the list at a dotted path, empty if absent.
pub fn list_at<'a>(members: &'a mut Members, path: &str) -> &'a mut [Value] {
    let (above, field) = path.rsplit_once('.').map_or((None, path), |(above, field)| (Some(above), field));
    let holder = match above {
        Some(above) => object_at(members, above),
        None => Some(members),
    };
    holder.and_then(|holder| holder.get_mut(field)).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

#[cfg(test)]
mod tests;
