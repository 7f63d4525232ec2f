//! Checks the defaults that the descriptions of fields promise: each is in the tables, or excluded here with a reason.

use super::apply_defaults;
use crate::resources::builtin;
use crate::schema::{Schema, Shape};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Promised defaults that mean the same as an absent field.
const ABSENCE: &[&str] = &["false", "\"false\"", "0", "\"\"", "nil", "empty", "None)", "no group", "the empty string"];

/// Fields without a default in the tables: type, fields, and the reason or the code that sets them.
const EXCLUDED: &[(&str, &[&str], &str)] = &[
    ("AWSElasticBlockStoreVolumeSource", &["partition"], UNWRITTEN),
    ("AzureFilePersistentVolumeSource", &["secretNamespace"], UNWRITTEN),
    ("CephFSPersistentVolumeSource", &["path", "secretFile", "user"], UNWRITTEN),
    ("CephFSVolumeSource", &["path", "secretFile", "user"], UNWRITTEN),
    ("ContainerResizePolicy", &["restartPolicy"], "has to be given"),
    ("ContainerStatus", &["ready"], "written by the node"),
    ("CronJobSpec", &["timeZone"], UNWRITTEN),
    ("CustomResourceDefinitionNames", &["listKind", "singular"], "follows from the kind, which is not there"),
    ("DeviceCapacity", &["requestPolicy"], UNWRITTEN),
    ("DeviceSubRequest", &["capacity"], UNWRITTEN),
    ("ExactDeviceRequest", &["capacity"], UNWRITTEN),
    ("PodGroupSpec", &["disruptionMode"], "its feature is off by default"),
    ("GCEPersistentDiskVolumeSource", &["partition"], UNWRITTEN),
    ("GlusterfsPersistentVolumeSource", &["endpointsNamespace"], UNWRITTEN),
    ("HTTPGetAction", &["host"], UNWRITTEN),
    ("IngressTLS", &["hosts"], UNWRITTEN),
    ("JSONSchemaProps", &["default", "x-kubernetes-list-type"], "a schema speaks of the defaults of others"),
    ("JobSpec", &["backoffLimit"], "a cron job's template gets it when it becomes a job"),
    ("Lifecycle", &["stopSignal"], UNWRITTEN),
    ("NetworkPolicySpec", &["podSelector"], "written by decoding, which always writes this field"),
    ("NodeAllocatableResourceMapping", &["allocationMultiplier"], UNWRITTEN),
    ("NodeStatus", &["allocatable"], "follows from the capacity, which is not there"),
    ("PodSecurityContext", &["runAsUser"], UNWRITTEN),
    ("PodSpec", &["enableServiceLinks"], "given to pods, not to templates of pods"),
    ("PodSpec", &["hostUsers"], UNWRITTEN),
    ("PodSpec", &["preemptionPolicy"], "given by admission, which knows the priority class"),
    ("QuobyteVolumeSource", &["user"], UNWRITTEN),
    ("ResourceFieldSelector", &["divisor"], "written by decoding, as \"0\", which means one"),
    ("ResourceRequirements", &["requests"], "follow from limits, which are not there"),
    ("RollingUpdateStatefulSetStrategy", &["maxUnavailable"], "dropped by the strategy, as long as its feature is off"),
    ("SecurityContext", &["capabilities", "runAsUser"], UNWRITTEN),
    ("ServiceAccountTokenProjection", &["audience"], UNWRITTEN),
    ("ServiceSpec", &["allocateLoadBalancerNodePorts"], "given where the type is LoadBalancer"),
    ("SuccessPolicyRule", &["succeededCount", "succeededIndexes"], UNWRITTEN),
    ("TCPSocketAction", &["host"], UNWRITTEN),
    ("TokenRequest", &["audience"], UNWRITTEN),
    ("TokenReviewSpec", &["audiences"], "filled in by whoever reviews the token"),
    ("Toleration", &["operator"], UNWRITTEN),
    ("ValidationRule", &["reason"], UNWRITTEN),
    ("VolumeResourceRequirements", &["requests"], UNWRITTEN),
    ("WindowsSecurityContextOptions", &["runAsUserName"], UNWRITTEN),
];

/// The reason for a field whose readers take absence for the default.
const UNWRITTEN: &str = "the reader's default, never written";

/// Returns the text of a description behind "Defaults to" or similar words.
fn promise(description: &str) -> Option<&str> {
    ["Defaults to ", "defaults to ", "Default to ", "default to ", "Default is ", "default is "]
        .iter()
        .filter_map(|words| description.split_once(words).map(|(before, after)| (before.len(), after)))
        .min_by_key(|(place, _)| *place)
        .map(|(_, after)| after)
}

/// The path to a field of a kind: names of fields, `*` for the items of a list and `key` for the values of a map.
type FieldPath = Vec<String>;

struct Walk<'a> {
    path: FieldPath,
    types: Vec<&'a str>,
    found: Vec<(String, String, FieldPath, String)>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Schema) {
        match &schema.shape {
            Shape::Ref(target) if !self.types.contains(&&*target.name) => {
                self.types.push(&target.name);
                self.visit(target.schema());
                self.types.pop();
            }
            Shape::Object(properties) => {
                for (name, field) in &properties.fields {
                    self.path.push(name.to_string());
                    if let Some(promise) = promise(&field.description) {
                        let owner = self.types.last().copied().unwrap_or_default();
                        let short = owner.rsplit('.').next().unwrap_or(owner).to_owned();
                        self.found.push((short, name.to_string(), self.path.clone(), promise.to_owned()));
                    }
                    self.visit(field);
                    self.path.pop();
                }
            }
            Shape::List(items) => self.below("*", items),
            Shape::Map(values) => self.below("key", values),
            _ => {}
        }
    }

    fn below(&mut self, step: &str, schema: &'a Schema) {
        self.path.push(step.to_owned());
        self.visit(schema);
        self.path.pop();
    }
}

/// Returns an object that has nothing but the objects and lists around a field.
fn around(path: &[String]) -> Value {
    match path {
        [] | [_] => json!({}),
        [list, star, rest @ ..] if star == "*" => json!({list: [around_items(rest)]}),
        [field, rest @ ..] => json!({field: around(rest)}),
    }
}

fn around_items(rest: &[String]) -> Value {
    around(rest)
}

fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| if step == "*" { value.get(0) } else { value.get(step) })
}

#[test]
fn every_default_that_is_described_is_given_or_has_a_reason() {
    let mut given: BTreeMap<(String, String), BTreeSet<bool>> = BTreeMap::new();
    let mut where_not: BTreeMap<(String, String), String> = BTreeMap::new();
    for row in builtin() {
        for served in &row.served {
            let gvk = served.gvk();
            let mut walk = Walk { path: Vec::new(), types: vec![&*served.schema.name], found: Vec::new() };
            walk.visit(served.schema.schema());
            for (owner, field, path, promise) in walk.found {
                if path[0] == "metadata" || ABSENCE.iter().any(|words| promise.starts_with(words)) {
                    continue;
                }
                let mut object = around(&path);
                object.as_object_mut().unwrap().entry("metadata").or_insert_with(|| Value::Object(Map::new()));
                apply_defaults(&gvk, &mut object);
                let is_given = at(&object, &path).is_some_and(|value| !value.is_null());
                let key = (owner, field);
                if !is_given {
                    let short: String = promise.chars().take(60).collect();
                    where_not.entry(key.clone()).or_insert(format!("{gvk} {} | {short}", path.join(".")));
                }
                given.entry(key).or_default().insert(is_given);
            }
        }
    }
    let mut unexplained = Vec::new();
    let excluded = |key: &(String, String)| {
        EXCLUDED.iter().any(|(owner, fields, _)| *owner == key.0 && fields.contains(&key.1.as_str()))
    };
    for (key, outcomes) in &given {
        if outcomes.contains(&false) && !excluded(key) {
            unexplained.push(format!("{}.{}: {}", key.0, key.1, where_not[key]));
        }
    }
    assert_eq!(unexplained, Vec::<String>::new());
    let all = EXCLUDED
        .iter()
        .flat_map(|(owner, fields, _)| fields.iter().map(|field| (owner.to_string(), field.to_string())));
    let idle: Vec<(String, String)> = all.filter(|key| !where_not.contains_key(key)).collect();
    assert_eq!(idle, Vec::new(), "these are given everywhere");
}
