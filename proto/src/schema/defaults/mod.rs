//! Defaults of built-in kinds: one table of rows per kind, and the engine that runs them.
//!
//! Corresponds to `SetDefaults_*` of pkg/apis. A row says where, under which condition, and what; the tables nest as the
//! types do, so a container's rows are written once and stand in every pod template. The engine sees decoded trees:
//! what is empty is absent.

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
    /// Gives the field a value if it has none.
    Set(&'static str, Give),
    /// The same for a text that Go always writes, so that an empty one is none.
    SetEmpty(&'static str, Give),
    /// `Set`, if the object around the field meets a condition.
    SetIf(fn(&Members) -> bool, &'static str, Give),
    /// Rows for the object at a path, if it is there.
    In(&'static str, &'static [Row]),
    /// Rows for the object at a path, which is put there first if the object around it has a place for it.
    InNew(&'static str, &'static [Row]),
    /// Rows for every element of the list at a path.
    Each(&'static str, &'static [Row]),
    /// What takes more than one field.
    Fix(fn(&mut Members)),
    /// Drops a field whose feature is off by default in this version.
    Off(&'static str),
}

/// What a row gives.
pub enum Give {
    Text(&'static str),
    Int(i64),
    Bool(bool),
    /// `{}`
    Empty,
    Texts(&'static [&'static str]),
    /// Something that depends on the fields beside it; `None` gives nothing.
    Of(fn(&Members) -> Option<Value>),
}

/// Fills in what the object's kind gives by itself.
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
            Row::Set(field, give) => set(members, field, give),
            Row::SetEmpty(field, give) => {
                if text(members, field).is_empty() {
                    members.remove(*field);
                    set(members, field, give);
                }
            }
            Row::SetIf(condition, field, give) => {
                if condition(members) {
                    set(members, field, give);
                }
            }
            Row::In(path, rows) => {
                if let Some(inner) = object_at(members, path) {
                    run(rows, inner);
                }
            }
            Row::InNew(field, rows) => {
                set(members, field, &Give::Empty);
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

fn set(members: &mut Members, field: &str, give: &Give) {
    if !is_unset(members, field) {
        return;
    }
    let value = match give {
        Give::Text(text) => Value::from(*text),
        Give::Int(number) => Value::from(*number),
        Give::Bool(truth) => Value::from(*truth),
        Give::Empty => Value::Object(Map::new()),
        Give::Texts(texts) => texts.iter().map(|text| Value::from(*text)).collect(),
        Give::Of(compute) => match compute(members) {
            Some(value) => value,
            None => return,
        },
    };
    members.insert(field.to_owned(), value);
}

/// Absent or null. A decoded tree has an empty text where Go has a pointer to one, which is a value like others, and
/// where Go always writes a text.
pub fn is_unset(members: &Members, field: &str) -> bool {
    members.get(field).is_none_or(Value::is_null)
}

pub fn is_set(members: &Members, field: &str) -> bool {
    !is_unset(members, field)
}

/// A string field; empty where absent.
pub fn text<'a>(members: &'a Members, field: &str) -> &'a str {
    members.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The object at a dotted path.
pub fn object_at<'a>(members: &'a mut Members, path: &str) -> Option<&'a mut Members> {
    let mut at = members;
    for field in path.split('.') {
        at = at.get_mut(field)?.as_object_mut()?;
    }
    Some(at)
}

/// The list at a dotted path; empty where absent.
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
