//! Validates PersistentVolumes: capacity, access modes, source, node affinity, and the fields that are immutable.
//!
//! Corresponds to ValidatePersistentVolume and ValidatePersistentVolumeUpdate of pkg/apis/core/validation.

use super::difference::difference;
use super::paths::{leads_to_root, no_backsteps};
use super::pod::affinity::node_selector;
use super::storage::{access_modes, csi_driver_name};
use super::volume_sources::{self, only_source, require};
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

/// Volume sources, in the order in which Kubernetes checks them.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub fn volume(_context: &Context<'_>, volume: &At<'_>, errors: &mut Errors) {
    validate(&volume.field("spec"), Place::Object { name: volume.down("metadata.name").text() }, errors);
}

/// The object that contains the spec of a persistent volume.
#[derive(Clone, Copy, PartialEq)]
pub enum Place<'a> {
    /// A PersistentVolume.
    Object { name: &'a str },
    /// A VolumeAttachment, for an inline volume of a pod: it has no claim and no capacity.
    Inline,
}

const INLINE: &str = "may not be specified in the context of inline volumes";

pub fn validate(spec: &At<'_>, place: Place<'_>, errors: &mut Errors) {
    let is_inline = place == Place::Inline;
    if is_inline {
        if spec.field("claimRef").is_set() {
            errors.push(spec.field("claimRef").forbidden(INLINE));
        }
        if !spec.field("capacity").is_empty() {
            errors.push(spec.field("capacity").forbidden(INLINE));
        }
        if !spec.field("csi").is_set() {
            errors.push(spec.field("csi").required("has to be specified in the context of inline volumes"));
        }
    }
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    access_modes(&modes, errors);
    if !is_inline {
        capacity(&spec.field("capacity"), errors);
    }
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if is_inline && !reclaim.is_empty() && reclaim.text() != "Retain" {
        errors.push(reclaim.forbidden("may only be Retain in the context of inline volumes"));
    } else if !is_inline && !reclaim.is_empty() {
        reclaim.check_optional_enum(&["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() {
        match affinity.field("required") {
            _ if is_inline => errors.push(affinity.forbidden(INLINE)),
            required if required.is_set() => node_selector(&required, errors),
            required => errors.push(required.required("must specify required node constraints")),
        }
    }
    sources(spec, place, errors);
    if leads_to_root(spec.down("hostPath.path").text()) && reclaim.text() == "Recycle" {
        errors.push(reclaim.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    classes_and_mode(spec, is_inline, errors);
}

fn classes_and_mode(spec: &At<'_>, is_inline: bool, errors: &mut Errors) {
    let (class, mode) = (spec.field("storageClassName"), spec.field("volumeMode"));
    if is_inline {
        if !class.is_empty() {
            errors.push(class.forbidden(INLINE));
        }
        if mode.is_set() && mode.text() != "Filesystem" {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            errors.push(mode.forbidden(why));
        }
        return;
    }
    if !class.is_empty() {
        class.check(names::dns1123_subdomain, errors);
    }
    mode.check_optional_enum(&["Block", "Filesystem"], errors);
    let class = spec.field("volumeAttributesClassName");
    if class.is_set() {
        match class.is_empty() {
            true => errors.push(class.required("an empty string is disallowed")),
            false => class.check(names::dns1123_subdomain, errors),
        }
        if !spec.field("csi").is_set() {
            errors.push(spec.field("csi").required("has to be specified when using volumeAttributesClassName"));
        }
    }
}

fn capacity(capacity: &At<'_>, errors: &mut Errors) {
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        errors.push(capacity.not_supported(&["storage"]));
    }
    for (_, at) in capacity.entries() {
        let Ok(amount) = Quantity::try_from(at.value) else { continue };
        if amount.signum() < 0 {
            errors.push(at.invalid_as(&json!(amount.value()), "must be a valid resource quantity"));
        }
        if amount.signum() <= 0 {
            errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than zero"));
        }
    }
}

fn sources(spec: &At<'_>, place: Place<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in SOURCES {
        // Kubernetes does not report a flexVolume beside another source.
        let Some(source) = only_source(spec, kind, found && *kind != "flexVolume", errors) else { continue };
        found = true;
        check_source(kind, &source, place, errors);
        if *kind == "local" && (place == Place::Inline || !spec.field("nodeAffinity").is_set()) {
            errors.push(spec.field("nodeAffinity").required("Local volume requires node affinity"));
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
}

/// Checks the fields of one source. Unlike a pod's volume, it may refer to objects of another namespace.
fn check_source(kind: &str, source: &At<'_>, place: Place<'_>, errors: &mut Errors) {
    match kind {
        "local" => {
            require(source, &["path"], errors);
            no_backsteps(&source.field("path"), errors);
        }
        "csi" => csi(source, errors),
        "iscsi" => {
            let name = if let Place::Object { name } = place { name } else { "" };
            volume_sources::iscsi(source, Some(name), errors);
        }
        _ => volume_sources::validate(kind, source, errors),
    }
    let (secret, secret_namespace) = (source.field("secretRef"), source.field("secretNamespace"));
    let endpoints_namespace = source.field("endpointsNamespace");
    match kind {
        "cinder" | "storageos" if secret.is_set() => require(&secret, &["namespace"], errors),
        "azureFile" if secret_namespace.is_set() => require(source, &["secretNamespace"], errors),
        "glusterfs" if endpoints_namespace.is_set() => match endpoints_namespace.is_empty() {
            true => {
                let why = "if the endpointnamespace is set, it must be a valid namespace name";
                errors.push(endpoints_namespace.invalid(why));
            }
            false => endpoints_namespace.check(names::dns1123_label, errors),
        },
        _ => {}
    }
}

fn csi(source: &At<'_>, errors: &mut Errors) {
    csi_driver_name(&source.field("driver"), errors);
    require(source, &["volumeHandle"], errors);
    for field in
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"]
    {
        let secret = source.field(field);
        if secret.is_set() {
            secret.field("name").check_required(names::dns1123_subdomain, errors);
            secret.field("namespace").check_required(names::dns1123_label, errors);
        }
    }
}

/// Returns the volume source without the fields that an update may change: `controllerExpandSecretRef` may be set once.
fn immutable_source(spec: &At<'_>, before: &At<'_>) -> Value {
    let mut all: Value = SOURCES.iter().map(|kind| (*kind, spec.field(kind).value.clone())).collect();
    if !before.down("csi.controllerExpandSecretRef").is_set()
        && let Some(csi) = all["csi"].as_object_mut()
    {
        csi.remove("controllerExpandSecretRef");
    }
    all
}

pub fn update(_context: &Context<'_>, volume: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (volume.field("spec"), old.field("spec"));
    let (now, then) = (immutable_source(&spec, &before), immutable_source(&before, &before));
    if now != then {
        let difference = difference(&then, &now);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(At::new("spec.persistentvolumesource", spec.value).forbidden(why));
    }
    // Kubernetes reports these fields without their parent.
    At::new("volumeMode", spec.field("volumeMode").value).check_unchanged(&before.field("volumeMode"), errors);
    let affinity = spec.field("nodeAffinity");
    if before.field("nodeAffinity").is_set() && affinity.value != before.field("nodeAffinity").value {
        let why = "field is immutable, except for updating from beta label to GA";
        errors.push(At::new("nodeAffinity", affinity.value).invalid(why));
    }
    let class = spec.field("volumeAttributesClassName");
    if before.field("volumeAttributesClassName").is_set() && !class.is_set() {
        errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};
    use serde_json::{Value, json};

    fn volume(spec: Value) -> Value {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        }});
        volume["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        volume
    }

    #[test]
    fn sources_have_their_required_fields() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
                     is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let cases: Vec<(Value, Vec<String>)> = vec![
            (
                json!({"csi": {"driver": "", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s", "namespace": "A"}}}),
                vec![
                    "spec.csi.driver: Required value".into(),
                    "spec.csi.driver: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case \
                     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                     'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .into(),
                    format!("spec.csi.nodePublishSecretRef.namespace: Invalid value: \"A\": {label}"),
                ],
            ),
            (
                json!({"nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": ""}),
                vec![
                    "spec.volumeAttributesClassName: Required value: an empty string is disallowed".into(),
                    "spec.csi: Required value: has to be specified when using volumeAttributesClassName".into(),
                ],
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(create(volume(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn source_and_node_affinity_are_immutable() {
        let terms = |zone: &str| {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": [zone]},
            ]}]}})
        };
        let nfs =
            |path: &str, zone: &str| volume(json!({"nfs": {"server": "s", "path": path}, "nodeAffinity": terms(zone)}));
        let errors = update(nfs("/a", "x"), nfs("/b", "y"));
        assert!(
            errors[0].starts_with(
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
            ),
            "{errors:?}"
        );
        assert!(errors[1].starts_with("nodeAffinity: Invalid value: {"), "{errors:?}");
        assert!(errors[1].ends_with(": field is immutable, except for updating from beta label to GA"), "{errors:?}");
        let csi = |more: Value| {
            let mut source = json!({"driver": "d.example", "volumeHandle": "h"});
            source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            volume(json!({"csi": source}))
        };
        let secret = json!({"controllerExpandSecretRef": {"name": "s", "namespace": "n"}});
        assert_eq!(update(csi(json!({})), csi(secret.clone())), [""; 0]);
        assert_eq!(update(csi(secret), csi(json!({}))).len(), 1);
    }
}
