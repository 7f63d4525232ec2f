//! Go's names for the types of fields, for the errors of decoding.
//!
//! Corresponds to the struct definitions of k8s.io/api: named strings and maps, and structs that embed others.

use super::{Schema, Shape};

/// Fields whose Go type has a name that no schema contains: a type, then its fields with their types. A type without a
/// package is one of `v1`.
const NAMED: &str = "\
Container: imagePullPolicy=PullPolicy restartPolicy=ContainerRestartPolicy
Container: terminationMessagePolicy=TerminationMessagePolicy
ContainerPort: protocol=Protocol
CronJobSpec: concurrencyPolicy=ConcurrencyPolicy
DaemonSetUpdateStrategy: type=DaemonSetUpdateStrategyType
DeleteOptions: propagationPolicy=DeletionPropagation
DeploymentStrategy: type=DeploymentStrategyType
EmptyDirVolumeSource: medium=StorageMedium
EndpointSlice: addressType=AddressType
EphemeralContainer: imagePullPolicy=PullPolicy
HTTPGetAction: scheme=URIScheme
HTTPIngressPath: pathType=PathType
HostPathVolumeSource: type=HostPathType
JobSpec: completionMode=CompletionMode podReplacementPolicy=PodReplacementPolicy
LabelSelectorRequirement: operator=LabelSelectorOperator
NamespaceStatus: phase=NamespacePhase
NodeSelectorRequirement: operator=NodeSelectorOperator
NodeStatus: capacity=ResourceList allocatable=ResourceList phase=NodePhase
ObjectMeta: uid=types.UID
OwnerReference: uid=types.UID
PersistentVolumeClaimSpec: volumeMode=PersistentVolumeMode
PersistentVolumeSpec: capacity=ResourceList volumeMode=PersistentVolumeMode
PersistentVolumeSpec: persistentVolumeReclaimPolicy=PersistentVolumeReclaimPolicy
PodSpec: dnsPolicy=DNSPolicy overhead=ResourceList preemptionPolicy=PreemptionPolicy restartPolicy=RestartPolicy
PodStatus: phase=PodPhase qosClass=PodQOSClass
Preconditions: uid=types.UID
ResourceQuotaSpec: hard=ResourceList
ResourceQuotaStatus: hard=ResourceList used=ResourceList
ResourceRequirements: limits=ResourceList requests=ResourceList
Secret: type=SecretType
ServicePort: protocol=Protocol
ServiceSpec: externalTrafficPolicy=ServiceExternalTrafficPolicy internalTrafficPolicy=ServiceInternalTrafficPolicy
ServiceSpec: ipFamilyPolicy=IPFamilyPolicy sessionAffinity=ServiceAffinity type=ServiceType
StatefulSetSpec: podManagementPolicy=PodManagementPolicyType
StatefulSetUpdateStrategy: type=StatefulSetUpdateStrategyType
StorageClass: reclaimPolicy=PersistentVolumeReclaimPolicy volumeBindingMode=VolumeBindingMode
Taint: effect=TaintEffect
Toleration: effect=TaintEffect operator=TolerationOperator
VolumeMount: mountPropagation=MountPropagationMode
VolumeResourceRequirements: limits=ResourceList requests=ResourceList
";

/// Structs that embed another: the outer struct, the embedded one, and the fields of the outer struct itself. Errors
/// name the path through the embedded struct.
const EMBEDDED: &[(&str, &str, &str)] = &[
    ("ConfigMapEnvSource", "LocalObjectReference", "optional"),
    ("ConfigMapKeySelector", "LocalObjectReference", "key optional"),
    ("ConfigMapProjection", "LocalObjectReference", "items optional"),
    ("ConfigMapVolumeSource", "LocalObjectReference", "items defaultMode optional"),
    ("EphemeralContainer", "EphemeralContainerCommon", "targetContainerName"),
    ("NamedRuleWithOperations", "RuleWithOperations", "resourceNames"),
    (
        "PersistentVolumeSpec",
        "PersistentVolumeSource",
        "capacity accessModes claimRef persistentVolumeReclaimPolicy storageClassName mountOptions volumeMode \
         nodeAffinity volumeAttributesClassName",
    ),
    (
        "Probe",
        "ProbeHandler",
        "initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold \
         terminationGracePeriodSeconds",
    ),
    ("RuleWithOperations", "Rule", "operations"),
    ("SecretEnvSource", "LocalObjectReference", "optional"),
    ("SecretKeySelector", "LocalObjectReference", "key optional"),
    ("SecretProjection", "LocalObjectReference", "items optional"),
    ("Volume", "VolumeSource", "name"),
];

/// Returns the last part of a type's name: `PodSpec`.
pub fn short(type_name: &str) -> &str {
    type_name.rsplit('.').next().unwrap_or(type_name)
}

/// Returns the embedded struct that contains a field, if there is one.
pub fn embedded(owner: &str, field: &str) -> Option<&'static str> {
    let (_, embedded, own) = EMBEDDED.iter().find(|(outer, ..)| *outer == short(owner))?;
    (!own.split(' ').any(|name| name == field)).then_some(*embedded)
}

/// Returns the Go type of a field.
pub fn of_field(schema: &Schema, owner: &str, field: &str) -> String {
    let lines = NAMED.lines().filter_map(|line| line.split_once(": ")).filter(|(name, _)| *name == short(owner));
    let mut types = lines.flat_map(|(_, fields)| fields.split(' ')).filter_map(|word| word.split_once('='));
    match types.find(|(name, _)| *name == field) {
        Some((_, name)) if name.contains('.') => name.to_owned(),
        Some((_, name)) => format!("v1.{name}"),
        None => of(schema),
    }
}

/// Returns the Go type of a schema.
pub fn of(schema: &Schema) -> String {
    match &schema.shape {
        Shape::String if &*schema.format == "byte" => "[]uint8".to_owned(),
        Shape::String => "string".to_owned(),
        Shape::Integer => integer(&schema.format).to_owned(),
        Shape::Number => "float64".to_owned(),
        Shape::Boolean => "bool".to_owned(),
        Shape::List(items) => format!("[]{}", of(items)),
        Shape::Map(values) => format!("map[string]{}", of(values)),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Any | Shape::Object(_) => "map[string]interface {}".to_owned(),
        // Type names end in the Go package's version and the Go name.
        Shape::Ref(target) => {
            let mut parts = target.name.rsplitn(3, '.');
            let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            format!("{package}.{name}")
        }
    }
}

pub fn integer(format: &str) -> &'static str {
    if format == "int64" { "int64" } else { "int32" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin_type;

    #[test]
    fn types_are_named_as_go_names_them() {
        let cases = [
            ("io.k8s.api.core.v1.PodSpec", "containers", "[]v1.Container"),
            ("io.k8s.api.core.v1.PodSpec", "restartPolicy", "v1.RestartPolicy"),
            ("io.k8s.api.core.v1.PodSpec", "terminationGracePeriodSeconds", "int64"),
            ("io.k8s.api.core.v1.ConfigMap", "data", "map[string]string"),
            ("io.k8s.api.core.v1.ConfigMap", "binaryData", "map[string][]uint8"),
            ("io.k8s.api.apps.v1.DeploymentSpec", "selector", "v1.LabelSelector"),
            ("io.k8s.api.core.v1.ResourceRequirements", "limits", "v1.ResourceList"),
        ];
        for (owner, field, expected) in cases {
            let schema = builtin_type(owner).schema().field(field).unwrap().clone();
            assert_eq!(of_field(&schema, owner, field), expected);
        }
    }

    #[test]
    fn embedded_structs_own_all_other_fields() {
        assert_eq!(embedded("io.k8s.api.core.v1.Probe", "httpGet"), Some("ProbeHandler"));
        assert_eq!(embedded("io.k8s.api.core.v1.Probe", "periodSeconds"), None);
        assert_eq!(embedded("io.k8s.api.core.v1.Pod", "spec"), None);
    }
}
