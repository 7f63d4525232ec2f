//! `Gates`: the feature gates that the strategies ask, and the fields that are dropped where a gate is off.
//!
//! Corresponds to the dropDisabledFields functions in pkg/api/pod/util.go and in the strategies of pkg/registry.

use component_base::options::feature_gates::{self, GateValues};
use serde_json::Value;
use std::collections::BTreeSet;

const COMPONENT: &str = "kube-apiserver";

/// Fields that exist only where a gate is on.
///
/// A path has the names of nested fields. `name[]` stands for every element of a list, `*` for every value of a map, and a
/// field with `?` goes too if nothing is left in it.
#[derive(Clone, Copy, Debug)]
struct Gated {
    gate: &'static str,
    of: Of,
    paths: &'static [&'static str],
}

/// The objects whose fields a row names.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// Objects of a resource, by group and name.
    Resource(&'static str, &'static str),
    /// The specs of pods, and of all templates of pods.
    PodSpec,
    /// Specs of ResourceClaims and of their templates.
    ClaimSpec,
}

const SLICES: Of = Of::Resource("resource.k8s.io", "resourceslices");
const CLAIMS: Of = Of::Resource("resource.k8s.io", "resourceclaims");
const GROUPS: Of = Of::Resource("scheduling.k8s.io", "podgroups");
const WORKLOADS: Of = Of::Resource("scheduling.k8s.io", "workloads");

const GATED: &[Gated] = &[
    Gated {
        gate: "MaxUnavailableStatefulSet",
        of: Of::Resource("apps", "statefulsets"),
        paths: &["spec.updateStrategy.rollingUpdate.maxUnavailable"],
    },
    Gated {
        gate: "HPAConfigurableTolerance",
        of: Of::Resource("autoscaling", "horizontalpodautoscalers"),
        paths: &["spec.behavior.scaleUp.tolerance", "spec.behavior.scaleDown.tolerance"],
    },
    Gated {
        gate: "DeploymentReplicaSetTerminatingReplicas",
        of: Of::Resource("apps", "deployments"),
        paths: &["status.terminatingReplicas"],
    },
    Gated {
        gate: "DeploymentReplicaSetTerminatingReplicas",
        of: Of::Resource("apps", "replicasets"),
        paths: &["status.terminatingReplicas"],
    },
    Gated { gate: "PodLevelResources", of: Of::PodSpec, paths: &["resources"] },
    Gated {
        gate: "InPlacePodLevelResourcesVerticalScaling",
        of: Of::Resource("", "pods"),
        paths: &["status.resources", "status.allocatedResources"],
    },
    Gated {
        gate: "ContainerRestartRules",
        of: Of::PodSpec,
        paths: &[
            "containers[].restartPolicy",
            "containers[].restartPolicyRules",
            "initContainers[].restartPolicyRules",
        ],
    },
    Gated { gate: "HostnameOverride", of: Of::PodSpec, paths: &["hostnameOverride"] },
    Gated {
        gate: "EnvFiles",
        of: Of::PodSpec,
        paths: &[
            "containers[].env[].valueFrom.fileKeyRef",
            "initContainers[].env[].valueFrom.fileKeyRef",
            "ephemeralContainers[].env[].valueFrom.fileKeyRef",
        ],
    },
    Gated {
        gate: "ContainerStopSignals",
        of: Of::PodSpec,
        paths: &["containers[].lifecycle?.stopSignal", "initContainers[].lifecycle?.stopSignal"],
    },
    Gated { gate: "GenericWorkload", of: Of::PodSpec, paths: &["schedulingGroup"] },
    Gated {
        gate: "WorkloadAwarePreemption",
        of: GROUPS,
        paths: &["spec.disruptionMode", "spec.priorityClassName", "spec.priority"],
    },
    Gated {
        gate: "WorkloadAwarePreemption",
        of: WORKLOADS,
        paths: &[
            "spec.podGroupTemplates[].disruptionMode",
            "spec.podGroupTemplates[].priorityClassName",
            "spec.podGroupTemplates[].priority",
        ],
    },
    Gated { gate: "TopologyAwareWorkloadScheduling", of: GROUPS, paths: &["spec.schedulingConstraints"] },
    Gated {
        gate: "TopologyAwareWorkloadScheduling",
        of: WORKLOADS,
        paths: &["spec.podGroupTemplates[].schedulingConstraints"],
    },
    Gated {
        gate: "DRAWorkloadResourceClaims",
        of: GROUPS,
        paths: &["spec.resourceClaims", "status.resourceClaimStatuses"],
    },
    Gated { gate: "DRAWorkloadResourceClaims", of: WORKLOADS, paths: &["spec.podGroupTemplates[].resourceClaims"] },
    Gated {
        gate: "ResourceHealthStatus",
        of: Of::Resource("", "pods"),
        paths: &[
            "status.containerStatuses[].allocatedResourcesStatus",
            "status.initContainerStatuses[].allocatedResourcesStatus",
            "status.ephemeralContainerStatuses[].allocatedResourcesStatus",
        ],
    },
    Gated { gate: "NodeDeclaredFeatures", of: Of::Resource("", "nodes"), paths: &["status.declaredFeatures"] },
    Gated {
        gate: "CrossNamespaceVolumeDataSource",
        of: Of::Resource("", "persistentvolumeclaims"),
        paths: &["spec.dataSourceRef.namespace"],
    },
    Gated { gate: "DRAPrioritizedList", of: Of::ClaimSpec, paths: &["devices.requests[].firstAvailable"] },
    Gated {
        gate: "DRADeviceTaints",
        of: Of::ClaimSpec,
        paths: &["devices.requests[].exactly.tolerations", "devices.requests[].firstAvailable[].tolerations"],
    },
    Gated { gate: "DRADeviceTaints", of: SLICES, paths: &["spec.devices[].taints"] },
    Gated {
        gate: "DRAConsumableCapacity",
        of: Of::ClaimSpec,
        paths: &[
            "devices.requests[].exactly.capacity",
            "devices.requests[].firstAvailable[].capacity",
            "devices.constraints[].distinctAttribute",
        ],
    },
    Gated {
        gate: "DRAConsumableCapacity",
        of: CLAIMS,
        paths: &[
            "status.allocation.devices.results[].shareID",
            "status.allocation.devices.results[].consumedCapacity",
            "status.devices[].shareID",
        ],
    },
    Gated {
        gate: "DRAConsumableCapacity",
        of: SLICES,
        paths: &["spec.devices[].allowMultipleAllocations", "spec.devices[].capacity.*.requestPolicy"],
    },
    Gated {
        gate: "DRAPartitionableDevices",
        of: SLICES,
        paths: &[
            "spec.sharedCounters",
            "spec.perDeviceNodeSelection",
            "spec.devices[].consumesCounters",
            "spec.devices[].nodeName",
            "spec.devices[].nodeSelector",
            "spec.devices[].allNodes",
        ],
    },
    Gated {
        gate: "DRADeviceBindingConditions",
        of: SLICES,
        paths: &[
            "spec.devices[].bindsToNode",
            "spec.devices[].bindingConditions",
            "spec.devices[].bindingFailureConditions",
        ],
    },
    Gated {
        gate: "DRADeviceBindingConditions",
        of: CLAIMS,
        paths: &[
            "status.allocation.allocationTimestamp",
            "status.allocation.devices.results[].bindingConditions",
            "status.allocation.devices.results[].bindingFailureConditions",
        ],
    },
    Gated { gate: "DRAResourceClaimDeviceStatus", of: CLAIMS, paths: &["status.devices"] },
    Gated {
        gate: "DRAExtendedResource",
        of: Of::Resource("resource.k8s.io", "deviceclasses"),
        paths: &["spec.extendedResourceName"],
    },
    Gated { gate: "DRAExtendedResource", of: Of::Resource("", "pods"), paths: &["status.extendedResourceClaimStatus"] },
];

/// The feature gates of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    on: BTreeSet<&'static str>,
    /// Rows of [`GATED`] whose gates are off.
    dropped: Vec<usize>,
}

impl Default for Gates {
    /// Returns the gates that are on by default.
    fn default() -> Self {
        Self::new(feature_gates::enabled(COMPONENT, &GateValues::new()))
    }
}

impl Gates {
    pub fn new(on: BTreeSet<&'static str>) -> Self {
        let dropped = (0..GATED.len()).filter(|row| !on.contains(GATED[*row].gate)).collect();
        Self { on, dropped }
    }

    /// Returns the default gates with changes, written as on the command line.
    ///
    /// # Panics
    ///
    /// If the text is not a list of gates.
    #[cfg(any(test, feature = "testing"))]
    pub fn with(text: &str) -> Self {
        let notation = feature_gates::Notation::Grouped;
        let asked = feature_gates::parse([text], notation).unwrap_or_else(|error| panic!("{error}"));
        Self::new(feature_gates::enabled(COMPONENT, &asked))
    }

    pub fn is_on(&self, gate: &str) -> bool {
        self.on.contains(gate)
    }

    /// Drops the fields whose gates are off from an object that is created or updated. An update keeps the fields of a gate
    /// of which the old object has one.
    pub fn drop_fields(&self, (group, resource): (&str, &str), object: &mut Value, old: Option<&Value>) {
        for row in self.dropped.iter().map(|row| &GATED[*row]) {
            let Some(base) = row.of.base(group, resource) else { continue };
            let is_used =
                old.and_then(|old| at(old, base)).is_some_and(|old| row.paths.iter().any(|path| has(old, path)));
            if let Some(object) = at_mut(object, base).filter(|_| !is_used) {
                row.paths.iter().for_each(|path| remove(object, path));
            }
        }
    }
}

impl Of {
    /// Returns where the fields of an object of the resource begin; `None` if the row is not about them.
    fn base(self, group: &str, resource: &str) -> Option<&'static str> {
        match (self, group, resource) {
            (Self::Resource(of_group, of_resource), ..) => ((of_group, of_resource) == (group, resource)).then_some(""),
            (Self::PodSpec, "", "pods") => Some("spec"),
            (Self::PodSpec, "", "podtemplates") => Some("template.spec"),
            (Self::PodSpec, "", "replicationcontrollers")
            | (Self::PodSpec, "apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
            | (Self::PodSpec, "batch", "jobs") => Some("spec.template.spec"),
            (Self::PodSpec, "batch", "cronjobs") => Some("spec.jobTemplate.spec.template.spec"),
            (Self::ClaimSpec, "resource.k8s.io", "resourceclaims") => Some("spec"),
            (Self::ClaimSpec, "resource.k8s.io", "resourceclaimtemplates") => Some("spec.spec"),
            _ => None,
        }
    }
}

fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|name| !name.is_empty()).try_fold(value, |value, name| value.get(name))
}

fn at_mut<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split('.').filter(|name| !name.is_empty()).try_fold(value, |value, name| value.get_mut(name))
}

/// Returns whether a value has one of the fields that the path names.
fn has(value: &Value, path: &str) -> bool {
    let Some((name, rest)) = path.split_once('.') else { return value.get(path).is_some_and(|field| !field.is_null()) };
    if name == "*" {
        return value.as_object().into_iter().flatten().any(|(_, value)| has(value, rest));
    }
    match name.strip_suffix("[]") {
        Some(list) => value.get(list).and_then(Value::as_array).into_iter().flatten().any(|item| has(item, rest)),
        None => value.get(name.trim_end_matches('?')).is_some_and(|value| has(value, rest)),
    }
}

fn remove(value: &mut Value, path: &str) {
    let Some(fields) = value.as_object_mut() else { return };
    let Some((name, rest)) = path.split_once('.') else { return drop(fields.remove(path)) };
    if name == "*" {
        return fields.values_mut().for_each(|value| remove(value, rest));
    }
    if let Some(list) = name.strip_suffix("[]") {
        let items = fields.get_mut(list).and_then(Value::as_array_mut);
        return items.into_iter().flatten().for_each(|item| remove(item, rest));
    }
    let (name, goes_too) = (name.trim_end_matches('?'), name.ends_with('?'));
    let Some(field) = fields.get_mut(name) else { return };
    let was_set = has(field, rest);
    remove(field, rest);
    if goes_too && was_set && field.as_object().is_some_and(serde_json::Map::is_empty) {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::resources::Catalogue;
    use proto::schema::Schema;
    use serde_json::json;

    #[test]
    fn a_field_needs_its_gate_unless_the_old_object_has_it() {
        let with = |limit: Option<i32>| {
            let mut set = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
            if let Some(limit) = limit {
                set["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!(limit);
            }
            set
        };
        for (gates, old, expected) in [
            ("", None, None),
            ("", Some(None), None),
            ("", Some(Some(1)), Some(2)),
            ("MaxUnavailableStatefulSet=true", None, Some(2)),
            ("MaxUnavailableStatefulSet=true", Some(None), Some(2)),
            ("AllBeta=true", None, Some(2)),
        ] {
            let (mut set, old_set) = (with(Some(2)), old.map(with));
            Gates::with(gates).drop_fields(("apps", "statefulsets"), &mut set, old_set.as_ref());
            assert_eq!(set, with(expected), "{gates} {old:?}");
        }
    }

    #[test]
    fn fields_go_from_every_template_list_and_map() {
        let spec = json!({
            "hostnameOverride": "a",
            "containers": [
                {"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"}},
                {"name": "b", "lifecycle": {"stopSignal": "SIGUSR1", "preStop": {"sleep": {"seconds": 1}}}},
                {"name": "c", "lifecycle": {}},
            ],
        });
        let left = json!({"containers": [
            {"name": "a"}, {"name": "b", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}, {"name": "c", "lifecycle": {}},
        ]});
        let gates = Gates::with("HostnameOverride=false,DRAConsumableCapacity=false");
        let dropped = |resource, mut object: Value| {
            gates.drop_fields(resource, &mut object, None);
            object
        };
        assert_eq!(dropped(("", "pods"), json!({"spec": spec})), json!({"spec": left}));
        let job = |spec: &Value| json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        assert_eq!(dropped(("batch", "cronjobs"), job(&spec)), job(&left));
        assert_eq!(dropped(("", "nodes"), json!({"spec": spec})), json!({"spec": spec}));
        let slice = |capacity: Value| json!({"spec": {"devices": [{"name": "d", "capacity": {"memory": capacity}}]}});
        let full = slice(json!({"value": "1Gi", "requestPolicy": {"default": "1Mi"}}));
        assert_eq!(dropped(("resource.k8s.io", "resourceslices"), full), slice(json!({"value": "1Gi"})));
    }

    /// Returns the schema of the field at a path.
    fn schema_at<'s>(schema: &'s Schema, path: &str) -> Option<&'s Schema> {
        path.split('.').filter(|name| !name.is_empty()).try_fold(schema, |schema, name| {
            let field = schema.field(name.trim_end_matches(['?', '[', ']']))?;
            if name.ends_with("[]") { field.items() } else { Some(field) }
        })
    }

    #[test]
    fn every_row_names_a_gate_and_fields_that_exist() {
        let catalogue = Catalogue::builtin();
        for Gated { gate, of, paths } in GATED {
            assert!(feature_gates::switches(COMPONENT, gate).is_some(), "the table of gates says what {gate} switches");
            let mut resources = 0;
            for row in catalogue.rows() {
                let stored = row.storage_version();
                let Some(base) = of.base(&stored.group, &stored.resource) else { continue };
                resources += 1;
                let schema = schema_at(stored.schema.schema(), base).expect("the base is a field");
                let missing: Vec<_> = paths.iter().filter(|path| schema_at(schema, path).is_none()).collect();
                assert_eq!(missing, [&""; 0], "{gate}: fields of {}", stored.resource);
            }
            assert!(resources > 0, "{gate}: {of:?}");
        }
    }
}
