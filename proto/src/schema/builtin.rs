//! Kubernetes' own types by their OpenAPI names, by which the rows of the resource table refer to them.
//!
//! Corresponds to the generated definitions of k8s.io/kube-openapi. Shapes and descriptions come from the client
//! library's schemas, the rest from `schema::facts`. All types are built together at the first use.

use super::facts::{self, Facts, TypeFacts};
use super::{Merge, Properties, Schema, Shape, TypeRef, Written};
use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
pub const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
pub const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
pub const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

type Types = BTreeMap<Arc<str>, TypeRef>;

/// Returns the type of a name: `io.k8s.api.core.v1.Pod`. An unknown name gives a type without a definition.
pub fn builtin_type(name: &str) -> TypeRef {
    all().get(name).cloned().unwrap_or_else(|| TypeRef::declared(name))
}

/// Returns all types by name.
pub fn all() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(build)
}

fn build() -> Types {
    let mut generator = SchemaGenerator::default();
    generate_roots(&mut generator);
    let definitions = generator.take_definitions(true);
    let types: Types = definitions.keys().map(|name| (Arc::from(name.as_str()), TypeRef::declared(name))).collect();
    let empty = TypeFacts::default();
    let builder = Builder { types: &types, none: "".into() };
    for (name, definition) in &definitions {
        let facts = facts::all().get(name.as_str()).unwrap_or(&empty);
        types[name.as_str()].define(builder.definition(name, definition, facts));
    }
    types
}

struct Builder<'a> {
    types: &'a Types,
    /// The empty text, which all types without a description or format share.
    none: Arc<str>,
}

impl Builder<'_> {
    fn definition(&self, name: &str, definition: &Value, facts: &TypeFacts) -> Schema {
        let mut schema = self.schema(definition, facts);
        if let Some(shape) = well_known(name) {
            schema.shape = shape;
        }
        schema.merge.atomic_map = facts.own.atomic_map == Some(true);
        schema
    }

    fn schema(&self, source: &Value, facts: &TypeFacts) -> Schema {
        let text = |key: &str| source.get(key).and_then(Value::as_str);
        let shape = self.shape(source, facts);
        Schema {
            description: text("description").map_or_else(|| self.none.clone(), Arc::from),
            // A reference repeats the map type of its target, so that readers need not follow it.
            merge: Merge { atomic_map: is_atomic(&shape), ..Merge::default() },
            shape,
            allowed: Vec::new(),
            default: None,
            nullable: false,
            format: text("format").map_or_else(|| self.none.clone(), Arc::from),
            written: Written::AsGiven,
        }
    }

    fn shape(&self, source: &Value, facts: &TypeFacts) -> Shape {
        if let Some(target) = source.get("$ref").and_then(Value::as_str) {
            let name = target.rsplit('/').next().expect("splitting gives at least one part");
            return well_known(name).filter(|shape| !matches!(shape, Shape::Any)).unwrap_or_else(|| {
                Shape::Ref(self.types.get(name).expect("the generator defines what it refers to").clone())
            });
        }
        let unconstrained = TypeFacts::default();
        match source.get("type").and_then(Value::as_str) {
            Some("string") => Shape::String,
            Some("integer") => Shape::Integer,
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            Some("array") => Shape::List(Box::new(self.schema(&source["items"], &unconstrained))),
            Some("object") => match (source.get("properties"), source.get("additionalProperties")) {
                (Some(properties), _) => Shape::Object(self.properties(properties, source, facts)),
                (None, Some(values)) => Shape::Map(Box::new(self.schema(values, &unconstrained))),
                (None, None) => Shape::Object(Properties { preserve_unknown: true, ..Properties::default() }),
            },
            _ => Shape::Any,
        }
    }

    fn properties(&self, properties: &Value, source: &Value, facts: &TypeFacts) -> Properties {
        let mut required: Vec<Arc<str>> = source["required"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).map(Arc::from).collect())
            .unwrap_or_default();
        // The library requires metadata, but Kubernetes does not.
        required.retain(|name| &**name != "metadata");
        let mut fields = BTreeMap::new();
        let mut always = Vec::new();
        let mut optional = Vec::new();
        for (name, property) in properties.as_object().into_iter().flatten() {
            let name: Arc<str> = name.as_str().into();
            let schema = self.field(property, facts.fields.get(&*name), required.contains(&name));
            if matches!(schema.written, Written::Always | Written::AlwaysNull) {
                always.push(name.clone());
            }
            if schema.written == Written::UnlessEmpty {
                optional.push(name.clone());
            }
            fields.insert(name, schema);
        }
        // The library requires fields that have a default. They may be omitted all the same.
        required.retain(|name| !optional.contains(name));
        Properties { fields, required, preserve_unknown: false, always }
    }

    fn field(&self, property: &Value, facts: Option<&Facts>, required: bool) -> Schema {
        let mut schema = self.schema(property, &TypeFacts::default());
        schema.written = facts.and_then(|facts| facts.written).unwrap_or_else(|| usual(&schema.shape, required));
        if required || schema.written == Written::Always {
            schema.default = zero_default(&schema);
        }
        if let Some(facts) = facts {
            self.apply(&mut schema, facts);
        }
        schema
    }

    fn apply(&self, schema: &mut Schema, facts: &Facts) {
        schema.merge.list_type = facts.list_type;
        schema.merge.map_keys = facts.map_keys.iter().map(|key| Arc::from(*key)).collect();
        schema.merge.key_defaults = key_defaults(&schema.shape, &facts.map_keys);
        schema.merge.atomic_map = facts.atomic_map.unwrap_or(schema.merge.atomic_map);
        schema.merge.patch_strategy = facts.strategy;
        schema.merge.patch_merge_key = facts.merge_key.map(Arc::from);
        schema.allowed = facts.allowed.iter().map(|value| Value::from(*value)).collect();
        if facts.default.is_some() {
            schema.default.clone_from(&facts.default);
        }
    }
}

/// Returns how a field is written if the tables have no fact about it.
fn usual(shape: &Shape, required: bool) -> Written {
    match shape {
        _ if required => Written::Always,
        Shape::Ref(target) if matches!(&*target.name, OBJECT_META | LIST_META) => Written::Always,
        Shape::String | Shape::Integer | Shape::Number | Shape::Boolean | Shape::List(_) | Shape::Map(_) => {
            Written::UnlessEmpty
        }
        _ => Written::AsGiven,
    }
}

/// Returns the default that OpenAPI shows for a field that is always written.
fn zero_default(schema: &Schema) -> Option<Value> {
    match &schema.shape {
        Shape::String if &*schema.format == "byte" => None,
        Shape::String => Some(Value::from("")),
        Shape::Integer | Shape::Number => Some(Value::from(0)),
        Shape::Boolean => Some(Value::from(false)),
        Shape::Ref(_) => Some(Value::Object(Map::new())),
        _ => None,
    }
}

/// Returns the defaults of key fields: `protocol` is part of the key of ports, and is TCP if absent.
fn key_defaults(shape: &Shape, keys: &[&str]) -> Vec<(Arc<str>, Value)> {
    let Shape::List(items) = shape else { return Vec::new() };
    let Shape::Ref(target) = &items.shape else { return Vec::new() };
    let Some(item) = facts::all().get(&*target.name) else { return Vec::new() };
    keys.iter().filter_map(|key| Some((Arc::from(*key), item.fields.get(key)?.default.clone()?))).collect()
}

fn is_atomic(shape: &Shape) -> bool {
    match shape {
        Shape::Ref(target) => facts::all().get(&*target.name).is_some_and(|facts| facts.own.atomic_map == Some(true)),
        _ => false,
    }
}

/// Returns the shape of a type whose wire form differs from its schema.
fn well_known(name: &str) -> Option<Shape> {
    let (_, short) = name.rsplit_once('.')?;
    match name {
        QUANTITY => Some(Shape::Quantity),
        INT_OR_STRING => Some(Shape::IntOrString),
        TIME => Some(Shape::Time),
        MICRO_TIME => Some(Shape::MicroTime),
        _ => matches!(
            short,
            "RawExtension"
                | "FieldsV1"
                | "JSON"
                | "JSONSchemaPropsOrArray"
                | "JSONSchemaPropsOrBool"
                | "JSONSchemaPropsOrStringArray"
        )
        .then_some(Shape::Any),
    }
}

/// Asks the generator for the schema of every kind. It adds the types that they are made of by itself.
fn generate_roots(generator: &mut SchemaGenerator) {
    macro_rules! roots {
        ($($module:path: $($kind:ident)+;)+) => {$({
            use $module as module;
            $(generator.subschema_for::<module::$kind>();)+
        })+};
    }
    roots! {
        api::admissionregistration::v1: MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
            MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
            ValidatingWebhookConfiguration;
        api::apiserverinternal::v1alpha1: StorageVersion;
        apiextensions: CustomResourceDefinition;
        apiregistration: APIService;
        api::apps::v1: ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet;
        api::authentication::v1: SelfSubjectReview TokenRequest TokenReview;
        api::authorization::v1: LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview
            SubjectAccessReview;
        api::autoscaling::v1: HorizontalPodAutoscaler Scale;
        api::autoscaling::v2: HorizontalPodAutoscaler;
        api::batch::v1: CronJob Job;
        api::certificates::v1: CertificateSigningRequest;
        api::certificates::v1alpha1: ClusterTrustBundle;
        api::certificates::v1beta1: ClusterTrustBundle PodCertificateRequest;
        api::coordination::v1: Lease;
        api::core::v1: Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
            PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount;
        api::discovery::v1: EndpointSlice;
        api::events::v1: Event;
        api::flowcontrol::v1: FlowSchema PriorityLevelConfiguration;
        api::networking::v1: IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR;
        api::node::v1: RuntimeClass;
        api::policy::v1: Eviction PodDisruptionBudget;
        api::rbac::v1: ClusterRole ClusterRoleBinding Role RoleBinding;
        api::resource::v1: DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice;
        api::resource::v1alpha3: DeviceTaintRule;
        api::resource::v1beta2: DeviceTaintRule;
        api::scheduling::v1: PriorityClass;
        api::scheduling::v1alpha2: PodGroup Workload;
        api::storage::v1: CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass;
        api::storagemigration::v1beta1: StorageVersionMigration;
        meta: APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta MicroTime Patch Status;
        k8s_openapi::apimachinery::pkg::api::resource: Quantity;
        k8s_openapi::apimachinery::pkg::version: Info;
    }
    generator.subschema_for::<meta::WatchEvent<k8s_openapi::apimachinery::pkg::runtime::RawExtension>>();
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn field<'a>(schema: &'a Schema, path: &str) -> &'a Schema {
        path.split('.').fold(schema, |schema, name| match name {
            "*" => schema.items().expect("a list"),
            name => schema.field(name).unwrap_or_else(|| panic!("no field {name}")),
        })
    }

    #[test]
    fn every_fact_belongs_to_a_type_and_a_field() {
        for (name, facts) in facts::all() {
            let target = all().get(name.as_str()).unwrap_or_else(|| panic!("no type {name}"));
            for field in facts.fields.keys() {
                assert!(target.schema().field(field).is_some(), "{name} has no field {field}");
            }
        }
    }

    #[test]
    fn shapes_follow_the_wire_form() {
        let pod = builtin_type("io.k8s.api.core.v1.Pod");
        let container = field(pod.schema(), "spec.containers.*");
        assert!(matches!(field(container, "resources.limits.cpu").shape, Shape::Quantity));
        assert!(matches!(field(container, "livenessProbe.httpGet.port").shape, Shape::IntOrString));
        assert!(matches!(field(pod.schema(), "metadata.creationTimestamp").shape, Shape::Time));
        assert!(matches!(field(pod.schema(), "metadata.managedFields.*.fieldsV1").resolve().shape, Shape::Any));
    }

    #[test]
    fn merge_facts_sit_on_the_referring_field() {
        let service = builtin_type("io.k8s.api.core.v1.Service");
        let ports = field(service.schema(), "spec.ports");
        assert_eq!(ports.merge.map_keys, ["port".into(), "protocol".into()] as [Arc<str>; 2]);
        assert_eq!(ports.merge.key_defaults, [("protocol".into(), json!("TCP"))]);
        assert_eq!(ports.merge.patch_merge_key.as_deref(), Some("port"));
        let volume = builtin_type("io.k8s.api.core.v1.PersistentVolume");
        assert!(!field(volume.schema(), "spec.claimRef").merge.atomic_map, "granular undoes the type's own word");
        let binding = builtin_type("io.k8s.api.rbac.v1.RoleBinding");
        assert!(field(binding.schema(), "roleRef").merge.atomic_map);
        assert!(field(binding.schema(), "subjects.*").merge.atomic_map);
    }

    #[test]
    fn metadata_is_always_written_but_never_required() {
        let Shape::Object(properties) = &builtin_type("io.k8s.api.core.v1.ConfigMap").schema().shape.clone() else {
            panic!("a ConfigMap is an object")
        };
        assert_eq!(properties.always, ["metadata".into()] as [Arc<str>; 1]);
        assert!(properties.required.is_empty());
    }
}
