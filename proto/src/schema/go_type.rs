//! Go's names for the types of fields, for the errors of decoding.
//!
//! Corresponds to the struct definitions of k8s.io/api: named strings and maps, and structs that embed others.

use super::{Schema, Shape};

/// Fields whose Go type has a name that no schema contains: type, fields, name.
const NAMED: &[(&str, &[&str], &str)] = &[
    ("Container", &["imagePullPolicy"], "v1.PullPolicy"),
    ("Container", &["restartPolicy"], "v1.ContainerRestartPolicy"),
    ("Container", &["terminationMessagePolicy"], "v1.TerminationMessagePolicy"),
    ("ContainerPort", &["protocol"], "v1.Protocol"),
    ("CronJobSpec", &["concurrencyPolicy"], "v1.ConcurrencyPolicy"),
    ("DaemonSetUpdateStrategy", &["type"], "v1.DaemonSetUpdateStrategyType"),
    ("DeleteOptions", &["propagationPolicy"], "v1.DeletionPropagation"),
    ("DeploymentStrategy", &["type"], "v1.DeploymentStrategyType"),
    ("EmptyDirVolumeSource", &["medium"], "v1.StorageMedium"),
    ("EndpointSlice", &["addressType"], "v1.AddressType"),
    ("EphemeralContainer", &["imagePullPolicy"], "v1.PullPolicy"),
    ("HTTPGetAction", &["scheme"], "v1.URIScheme"),
    ("HTTPIngressPath", &["pathType"], "v1.PathType"),
    ("HostPathVolumeSource", &["type"], "v1.HostPathType"),
    ("JobSpec", &["completionMode"], "v1.CompletionMode"),
    ("JobSpec", &["podReplacementPolicy"], "v1.PodReplacementPolicy"),
    ("LabelSelectorRequirement", &["operator"], "v1.LabelSelectorOperator"),
    ("NamespaceStatus", &["phase"], "v1.NamespacePhase"),
    ("NodeSelectorRequirement", &["operator"], "v1.NodeSelectorOperator"),
    ("NodeStatus", &["capacity", "allocatable"], "v1.ResourceList"),
    ("NodeStatus", &["phase"], "v1.NodePhase"),
    ("ObjectMeta", &["uid"], "types.UID"),
    ("OwnerReference", &["uid"], "types.UID"),
    ("PersistentVolumeClaimSpec", &["volumeMode"], "v1.PersistentVolumeMode"),
    ("PersistentVolumeSpec", &["capacity"], "v1.ResourceList"),
    ("PersistentVolumeSpec", &["persistentVolumeReclaimPolicy"], "v1.PersistentVolumeReclaimPolicy"),
    ("PersistentVolumeSpec", &["volumeMode"], "v1.PersistentVolumeMode"),
    ("PodSpec", &["dnsPolicy"], "v1.DNSPolicy"),
    ("PodSpec", &["overhead"], "v1.ResourceList"),
    ("PodSpec", &["preemptionPolicy"], "v1.PreemptionPolicy"),
    ("PodSpec", &["restartPolicy"], "v1.RestartPolicy"),
    ("PodStatus", &["phase"], "v1.PodPhase"),
    ("PodStatus", &["qosClass"], "v1.PodQOSClass"),
    ("Preconditions", &["uid"], "types.UID"),
    ("ResourceQuotaSpec", &["hard"], "v1.ResourceList"),
    ("ResourceQuotaStatus", &["hard", "used"], "v1.ResourceList"),
    ("ResourceRequirements", &["limits", "requests"], "v1.ResourceList"),
    ("VolumeResourceRequirements", &["limits", "requests"], "v1.ResourceList"),
    ("Secret", &["type"], "v1.SecretType"),
    ("ServicePort", &["protocol"], "v1.Protocol"),
    ("ServiceSpec", &["externalTrafficPolicy"], "v1.ServiceExternalTrafficPolicy"),
    ("ServiceSpec", &["internalTrafficPolicy"], "v1.ServiceInternalTrafficPolicy"),
    ("ServiceSpec", &["ipFamilyPolicy"], "v1.IPFamilyPolicy"),
    ("ServiceSpec", &["sessionAffinity"], "v1.ServiceAffinity"),
    ("ServiceSpec", &["type"], "v1.ServiceType"),
    ("StatefulSetSpec", &["podManagementPolicy"], "v1.PodManagementPolicyType"),
    ("StatefulSetUpdateStrategy", &["type"], "v1.StatefulSetUpdateStrategyType"),
    ("StorageClass", &["reclaimPolicy"], "v1.PersistentVolumeReclaimPolicy"),
    ("StorageClass", &["volumeBindingMode"], "v1.VolumeBindingMode"),
    ("Taint", &["effect"], "v1.TaintEffect"),
    ("Toleration", &["effect"], "v1.TaintEffect"),
    ("Toleration", &["operator"], "v1.TolerationOperator"),
    ("VolumeMount", &["mountPropagation"], "v1.MountPropagationMode"),
];

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
    let named = NAMED.iter().find(|(name, fields, _)| *name == short(owner) && fields.contains(&field));
    named.map_or_else(|| of(schema), |(.., name)| (*name).to_owned())
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
