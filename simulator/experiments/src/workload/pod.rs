//! Builds the pods of a workload.

use crate::amounts::{Amounts, GPU, GPU_COUNT, GPU_MILLI, GPU_MODEL, quantity_text};
use crate::units::micros_of;
use crate::workload::{Arrival, PodFacts};
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodSchedulingGroup};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Namespace of the pods that studies make.
pub(crate) const NAMESPACE: &str = "default";
/// Label with the user who owns a pod.
pub const USER: &str = "orrery.dev/user";
/// Label with the gang that a pod belongs to, and annotation with the number of its pods.
pub const GANG: &str = "orrery.dev/gang";
/// Annotation with the time that the containers run, which simulated nodes read.
pub(crate) const RUN_FOR: &str = "orrery.dev/run-for";

/// What a pod is made of.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    pub name: String,
    pub requests: Amounts,
    pub gpu_count: u32,
    pub gpu_milli: u32,
    pub gpu_models: Vec<String>,
    pub user: String,
    pub gang: Option<(String, usize)>,
    pub priority: i32,
    pub labels: BTreeMap<String, String>,
    /// Fields that are merged into the PodSpec.
    pub spec: Option<Value>,
}

impl Shape {
    /// Builds a pod that arrives at a time.
    pub fn arrival(self, at: Duration, duration: Option<Duration>) -> Result<Arrival, String> {
        let mut requests = self.requests;
        if self.gpu_count > 0 {
            requests.insert(GPU_MILLI.to_owned(), i64::from(self.gpu_count) * i64::from(self.gpu_milli));
        }
        let (gpu_count, gpu_milli) = match requests.get(GPU) {
            _ if self.gpu_count > 0 => (self.gpu_count, self.gpu_milli),
            // Whole GPUs of a device plugin, which pods do not share.
            Some(whole) if *whole > 0 => (u32::try_from(*whole).unwrap_or(u32::MAX), 1000),
            _ => (0, 0),
        };
        let facts = PodFacts {
            requests,
            gpu_count,
            gpu_milli,
            gpu_models: if self.gpu_count > 0 { self.gpu_models.clone() } else { Vec::new() },
            user: self.user,
            gang: self.gang.as_ref().map(|(name, _)| name.clone()),
            priority: self.priority,
        };
        let mut labels = self.labels;
        if !facts.user.is_empty() {
            labels.insert(USER.to_owned(), facts.user.clone());
        }
        let mut annotations = BTreeMap::new();
        if let Some((name, size)) = &self.gang {
            labels.insert(GANG.to_owned(), name.clone());
            annotations.insert(GANG.to_owned(), size.to_string());
        }
        if self.gpu_count > 0 {
            annotations.insert(GPU_COUNT.to_owned(), facts.gpu_count.to_string());
            annotations.insert(GPU_MILLI.to_owned(), facts.gpu_milli.to_string());
            if !facts.gpu_models.is_empty() {
                annotations.insert(GPU_MODEL.to_owned(), facts.gpu_models.join("|"));
            }
        }
        let texts: BTreeMap<&String, String> =
            facts.requests.iter().map(|(name, amount)| (name, quantity_text(name, *amount))).collect();
        // An extended resource has a limit equal to its request.
        let limits: BTreeMap<&&String, &String> = texts.iter().filter(|(name, _)| name.contains('/')).collect();
        let mut spec = json!({
            "restartPolicy": "Never",
            "priority": facts.priority,
            "containers": [{"name": "main", "image": "workload", "resources": {"requests": texts, "limits": limits}}],
        });
        if facts.priority == 0 {
            spec.as_object_mut().map(|spec| spec.remove("priority"));
        }
        if !self.gpu_models.is_empty() {
            let term = json!({"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": self.gpu_models}]});
            spec["affinity"] = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
            }});
        }
        let has_own_fields = self.spec.is_some();
        if let (Some(Value::Object(fields)), Some(spec)) = (self.spec, spec.as_object_mut()) {
            merge(spec, fields);
        }
        let pod = Pod::decode_value(json!({
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": labels, "annotations": annotations},
            "spec": spec,
        }));
        let pod = pod.map_err(|error| error.to_string())?;
        let mut unknown = Vec::new();
        if has_own_fields {
            find_unknown(&spec, &serde_json::to_value(&pod.spec).unwrap_or_default(), "", &mut unknown);
        }
        match unknown.is_empty() {
            true => Ok(Arrival { at, pod, duration, facts }),
            false => Err(unknown.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Finds the paths of fields that are given and have not been read.
fn find_unknown(given: &Value, read: &Value, path: &str, unknown: &mut Vec<String>) {
    match (given, read) {
        (Value::Object(given), _) => {
            for (name, member) in given {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let is_empty = match member {
                    Value::Null => true,
                    Value::Array(items) => items.is_empty(),
                    Value::Object(members) => members.is_empty(),
                    _ => false,
                };
                match read.get(name) {
                    Some(read) => find_unknown(member, read, &path, unknown),
                    None if is_empty => {}
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(read)) => {
            for (index, (given, read)) in given.iter().zip(read).enumerate() {
                find_unknown(given, read, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}

fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Makes the pod of a gang one of the PodGroup of this name.
pub fn join_group(arrival: &mut Arrival) {
    let Some(gang) = &arrival.facts.gang else { return };
    let group = PodSchedulingGroup { pod_group_name: Some(gang.clone()) };
    arrival.pod.spec.get_or_insert_default().scheduling_group = Some(group);
}

/// Writes the duration of an arrival into its pod, for the simulated node.
pub fn with_duration(mut arrival: Arrival) -> Arrival {
    if let Some(duration) = arrival.duration {
        let text = format!("{}ms", micros_of(duration).div_ceil(1000));
        arrival.pod.metadata.annotations.get_or_insert_default().insert(RUN_FOR.to_owned(), text);
    }
    arrival
}
