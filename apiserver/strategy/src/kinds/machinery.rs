//! The remaining kinds: leases, events, classes, groups of pods, storage, devices, APIServices.
//!
//! Corresponds to pkg/registry/{coordination,scheduling,node,storage,resource} and the registries of
//! kube-aggregator.

use super::rules::{Generation, Rules, STATUS_METADATA};
use crate::validation::{
    api_services, cluster, devices, events, object_meta, pod_groups, storage, storage_version_migrations,
    storage_versions, volume_attachments, warnings,
};
use crate::write_context::WriteContext;
use serde_json::Value;

const SPEC: Generation = Generation::Of(&["spec"]);

const STORAGE: Rules = Rules { group: "storage.k8s.io", ..Rules::DEFAULT };
const DEVICES: Rules = Rules { group: "resource.k8s.io", ..Rules::DEFAULT };

pub const ROWS: &[Rules] = &[
    Rules {
        group: "coordination.k8s.io",
        resource: "leases",
        create_on_update: true,
        unconditional_update: false,
        create: |context, lease| drop_coordination(context, lease, &Value::Null),
        update: drop_coordination,
        validate: cluster::lease,
        ..Rules::DEFAULT
    },
    Rules {
        group: "events.k8s.io",
        resource: "events",
        name: object_meta::path_segment,
        create_on_update: true,
        validate: events::create,
        revalidates: false,
        revalidates_metadata: false,
        validate_update: events::update,
        ..Rules::DEFAULT
    },
    Rules {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        generation: Generation::One,
        validate: cluster::priority_class,
        revalidates: false,
        validate_update: cluster::priority_class_update,
        ..Rules::DEFAULT
    },
    Rules {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        unconditional_update: false,
        validate: cluster::runtime_class,
        validate_update: cluster::runtime_class_update,
        ..Rules::DEFAULT
    },
    Rules {
        resource: "storageclasses",
        validate: storage::class,
        warnings: warnings::storage_class,
        validate_update: storage::class_update,
        ..STORAGE
    },
    Rules {
        resource: "csidrivers",
        unconditional_update: false,
        validate: storage::driver,
        revalidates_metadata: false,
        validate_update: storage::driver_update,
        warnings: storage::driver_warnings,
        ..STORAGE
    },
    Rules {
        resource: "csinodes",
        unconditional_update: false,
        validate: storage::csi_node,
        validate_update: storage::csi_node_update,
        ..STORAGE
    },
    Rules {
        resource: "csistoragecapacities",
        validate: storage::capacity_object,
        validate_update: storage::capacity_object_update,
        ..STORAGE
    },
    Rules {
        resource: "volumeattachments",
        unconditional_update: false,
        validate: volume_attachments::create,
        validate_update: volume_attachments::update,
        ..STORAGE
    },
    Rules {
        resource: "volumeattributesclasses",
        validate: storage::attributes_class,
        update_first: true,
        validate_update: storage::attributes_class_update,
        ..STORAGE
    },
    Rules { resource: "deviceclasses", generation: SPEC, validate: devices::class, ..DEVICES },
    Rules {
        resource: "resourceclaims",
        validate: devices::claim::claim,
        revalidates: false,
        validate_update: devices::claim::update,
        update_status: devices::allocation::drop_deallocated_devices,
        validate_status: devices::allocation::status,
        status_resets: STATUS_METADATA,
        ..DEVICES
    },
    Rules {
        resource: "resourceclaimtemplates",
        validate: devices::claim::template,
        revalidates: false,
        validate_update: devices::claim::update,
        ..DEVICES
    },
    Rules {
        resource: "resourceslices",
        generation: SPEC,
        create: devices::taints::date_new,
        update: devices::taints::date,
        validate: devices::slice::create,
        revalidates: false,
        validate_update: devices::slice::update,
        ..DEVICES
    },
    Rules {
        resource: "devicetaintrules",
        generation: SPEC,
        unconditional_update: false,
        create: devices::taint_rules::date_new,
        update: devices::taint_rules::date,
        validate: devices::taint_rules::check,
        validate_status: devices::taint_rules::status,
        status_resets: STATUS_METADATA,
        ..DEVICES
    },
    Rules {
        group: "scheduling.k8s.io",
        resource: "podgroups",
        validate: pod_groups::pod_group,
        revalidates: false,
        validate_update: pod_groups::pod_group_update,
        validate_status: pod_groups::pod_group_status,
        status_resets: STATUS_METADATA,
        ..Rules::DEFAULT
    },
    Rules {
        group: "scheduling.k8s.io",
        resource: "workloads",
        validate: pod_groups::workload,
        revalidates: false,
        validate_update: pod_groups::workload_update,
        ..Rules::DEFAULT
    },
    Rules {
        group: "internal.apiserver.k8s.io",
        resource: "storageversions",
        name: storage_versions::name,
        unconditional_update: false,
        validate: storage_versions::create,
        revalidates: false,
        validate_status: storage_versions::status,
        ..Rules::DEFAULT
    },
    Rules {
        group: "storagemigration.k8s.io",
        resource: "storageversionmigrations",
        unconditional_update: false,
        validate: storage_version_migrations::create,
        validate_update: storage_version_migrations::update,
        validate_status: storage_version_migrations::status,
        status_resets: STATUS_METADATA,
        ..Rules::DEFAULT
    },
    Rules {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        name: object_meta::path_segment,
        unconditional_update: false,
        validate: api_services::api_service,
        validate_status: api_services::status,
        ..Rules::DEFAULT
    },
];

/// Removes the fields of coordinated leader election, which is off in v1.36. A lease that already has them keeps them.
fn drop_coordination(_context: &WriteContext<'_>, lease: &mut Value, old: &Value) {
    let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for field in ["strategy", "preferredHolder"] {
        if old["spec"][field].is_null() {
            spec.remove(field);
        }
    }
}
