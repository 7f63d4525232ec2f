//! resource.k8s.io: devices, and the claims of pods to them.
//!
//! Corresponds to pkg/registry/resource/rest.

use super::columns::{age, name, read, string, text};
use super::fields::{SelectableField, UnknownField};
use super::row::Group;
use super::{Conversion, Resource};
use serde_json::{Value, json};

const RESOURCE: Group = Group { name: "resource.k8s.io", version: "v1", package: "io.k8s.api.resource.v1" };
const BETA: Group = Group { name: "resource.k8s.io", version: "v1beta2", package: "io.k8s.api.resource.v1beta2" };
const ALPHA: Group = Group { name: "resource.k8s.io", version: "v1alpha3", package: "io.k8s.api.resource.v1alpha3" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        RESOURCE.cluster("deviceclasses", "DeviceClass").returns_deleted().columns(vec![name(), age()]),
        RESOURCE.namespaced("resourceclaims", "ResourceClaim").returns_deleted().status().columns(vec![
            name(),
            string("State", "Whether devices are allocated to it, and used.", |o, _| json!(state(o))),
            age(),
        ]),
        RESOURCE
            .namespaced("resourceclaimtemplates", "ResourceClaimTemplate")
            .returns_deleted()
            .columns(vec![name(), age()]),
        RESOURCE
            .cluster("resourceslices", "ResourceSlice")
            .returns_deleted()
            .columns(vec![
                name(),
                text("Node", "The node that has the devices.", "/spec/nodeName"),
                text("Driver", "The driver that offers them.", "/spec/driver"),
                text("Pool", "The pool that they belong to.", "/spec/pool/name"),
                age(),
            ])
            .selectable(
                vec![SelectableField::at("spec.nodeName"), SelectableField::at("spec.driver")],
                UnknownField::ForGvk,
            ),
        BETA.cluster("devicetaintrules", "DeviceTaintRule")
            .gated("DRADeviceTaintRules")
            .returns_deleted()
            .status()
            .columns(vec![name(), age()])
            .also(&ALPHA, Conversion::Same),
    ]
}

/// Returns `pending`, `allocated,reserved`, `deleted,allocated`, …
fn state(claim: &Value) -> String {
    let deleting = read::is_deleting(claim);
    let allocated = claim.pointer("/status/allocation").is_some_and(|allocation| !allocation.is_null());
    let states = [
        (deleting, "deleted"),
        (!allocated && !deleting, "pending"),
        (allocated, "allocated"),
        (allocated && read::count(claim, "/status/reservedFor") > 0, "reserved"),
    ];
    read::joined(states.iter().filter(|(holds, _)| *holds).map(|(_, state)| *state), ",")
}
