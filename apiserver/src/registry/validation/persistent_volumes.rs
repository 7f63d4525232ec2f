//! Persistent volumes: what they hold, where they are, and what about them never changes.
//!
//! Corresponds to ValidatePersistentVolume and ValidatePersistentVolumeUpdate of pkg/apis/core/validation.

use super::at::{At, Errors};
use super::difference::difference;
use super::pod::affinity::node_selector;
use super::storage::{access_modes, csi_driver_name};
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

/// Every kind of source, in the order in which they are looked at, with what it has to name.
const SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &["volume"]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &["volumeID"]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &[]),
    ("csi", &[]),
];

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub fn volume(_context: &Context<'_>, volume: &At<'_>, errors: &mut Errors) {
    let spec = volume.field("spec");
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    access_modes(&modes, errors);
    capacity(&spec.field("capacity"), errors);
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() && !["Delete", "Recycle", "Retain"].contains(&reclaim.text()) {
        errors.push(reclaim.not_supported(&["Delete", "Recycle", "Retain"]));
    }
    let affinity = spec.down("nodeAffinity.required");
    if spec.field("nodeAffinity").is_set() {
        match affinity.is_set() {
            true => node_selector(&affinity, errors),
            false => errors.push(affinity.required("must specify required node constraints")),
        }
    }
    sources(&spec, errors);
    let path = spec.down("hostPath.path").text();
    let is_root = !path.is_empty() && path.split('/').all(|step| step.is_empty() || step == ".");
    if is_root && path.starts_with('/') && reclaim.text() == "Recycle" {
        errors.push(reclaim.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").check(names::dns1123_subdomain, errors);
    }
    spec.field("volumeMode").check_optional_enum(&["Block", "Filesystem"], errors);
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

fn sources(spec: &At<'_>, errors: &mut Errors) {
    let mut found = false;
    for (kind, required) in SOURCES {
        let source = spec.field(kind);
        if !source.is_set() {
            continue;
        }
        if found && *kind != "flexVolume" {
            // Kubernetes writes this one with capitals here.
            let path = if *kind == "cephfs" { spec.path_of("cephFS") } else { source.path };
            errors.push(At::new(path, source.value).forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        // And this one by another name.
        let path = if *kind == "gcePersistentDisk" { spec.path_of("persistentDisk") } else { source.path };
        let source = At::new(path, source.value);
        if *kind == "quobyte" {
            quobyte_registry(&source, errors);
        }
        for field in *required {
            if source.field(field).is_empty() {
                errors.push(source.field(field).required(""));
            }
        }
        source_details(&source, kind, errors);
        if *kind == "local" && !spec.field("nodeAffinity").is_set() {
            errors.push(spec.field("nodeAffinity").required("Local volume requires node affinity"));
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
}

fn quobyte_registry(source: &At<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.field("registry");
    if registry.is_empty() {
        errors.push(registry.required(PAIRS));
    } else if source.field("tenant").len() > 64 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(source.field("tenant").required(why));
    } else {
        let is_pair = |pair: &str| pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':'));
        for _ in registry.text().split(',').filter(|pair| !is_pair(pair)) {
            errors.push(registry.invalid(PAIRS));
        }
    }
}

/// What a source asks beyond that its fields are there.
fn source_details(source: &At<'_>, kind: &str, errors: &mut Errors) {
    let path = source.field("path");
    match kind {
        "hostPath" if path.is_empty() => {}
        "hostPath" => {
            no_backsteps(&path, errors);
            source.field("type").check_optional_enum(HOST_PATH_TYPES, errors);
        }
        "local" => no_backsteps(&path, errors),
        "nfs" if !path.text().starts_with('/') => errors.push(path.invalid_text("must be an absolute path")),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            check_range(&source.field("partition"), 255, "must be between 1 and 255, inclusive", errors);
        }
        "glusterfs" => {
            let namespace = source.field("endpointsNamespace");
            if namespace.is_set() && namespace.is_empty() {
                errors.push(namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name"));
            } else if namespace.is_set() {
                namespace.check(names::dns1123_label, errors);
            }
        }
        "flocker" => flocker(source, errors),
        "iscsi" => iscsi(source, errors),
        "fc" => fibre_channel(source, errors),
        "cinder" => secret_of(source, errors),
        "flexVolume" => {
            for (key, at) in source.field("options").entries() {
                let namespace = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
                if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
                    errors.push(at.invalid_as(&json!(key), "kubernetes.io and k8s.io namespaces are reserved"));
                }
            }
        }
        "azureFile" => {
            let namespace = source.field("secretNamespace");
            if namespace.is_set() && namespace.is_empty() {
                errors.push(namespace.required(""));
            }
        }
        "azureDisk" => azure_disk(source, errors),
        "storageos" => {
            source.field("volumeName").check_required(names::dns1123_label, errors);
            if !source.field("volumeNamespace").is_empty() {
                source.field("volumeNamespace").check(names::dns1123_label, errors);
            }
            secret_of(source, errors);
        }
        "csi" => csi(source, errors),
        _ => {}
    }
}

fn no_backsteps(path: &At<'_>, errors: &mut Errors) {
    if path.text().split('/').any(|part| part == "..") {
        errors.push(path.invalid("must not contain '..'"));
    }
}

fn check_range(number: &At<'_>, max: i64, why: &str, errors: &mut Errors) {
    if number.integer().is_some_and(|number| !(0..=max).contains(&number)) {
        errors.push(number.invalid(why));
    }
}

fn secret_of(source: &At<'_>, errors: &mut Errors) {
    let secret = source.field("secretRef");
    for field in ["name", "namespace"] {
        if secret.is_set() && secret.field(field).is_empty() {
            errors.push(secret.field(field).required(""));
        }
    }
}

fn flocker(source: &At<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.field("datasetName"), source.field("datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.push(source.required("one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(source.invalid_as(&json!("resource"), why));
        }
        _ => {}
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

fn iscsi(source: &At<'_>, errors: &mut Errors) {
    let iqn = source.field("iqn");
    if !iqn.is_empty() && !["iqn", "eui", "naa"].iter().any(|kind| iqn.text().starts_with(kind)) {
        errors.push(iqn.invalid("must be valid format starting with iqn, eui, or naa"));
    }
    check_range(&source.field("lun"), 255, "must be between 0 and 255, inclusive", errors);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| source.field(field).is_true());
    if authenticates && !source.field("secretRef").is_set() {
        errors.push(source.field("secretRef").required(""));
    }
}

fn fibre_channel(source: &At<'_>, errors: &mut Errors) {
    let (targets, wwids, lun) = (source.field("targetWWNs"), source.field("wwids"), source.field("lun"));
    match (targets.is_empty(), wwids.is_empty()) {
        (true, true) => errors.push(targets.required("must specify either targetWWNs or wwids, but not both")),
        (false, false) => errors.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously")),
        _ => {}
    }
    if !targets.is_empty() && !lun.is_set() {
        errors.push(lun.required("lun is required if targetWWNs is specified"));
    } else if !targets.is_empty() {
        check_range(&lun, 255, "must be between 0 and 255, inclusive", errors);
    }
}

fn azure_disk(source: &At<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    source.field("cachingMode").check_optional_enum(&["None", "ReadOnly", "ReadWrite"], errors);
    let (kind, uri) = (source.field("kind"), source.field("diskURI"));
    kind.check_optional_enum(&["Dedicated", "Managed", "Shared"], errors);
    if kind.text() == "Managed" && !uri.text().starts_with("/subscriptions/") {
        errors.push(uri.not_supported(&[MANAGED]));
    } else if kind.is_set() && kind.text() != "Managed" && !uri.text().starts_with("https://") {
        errors.push(uri.not_supported(&[BLOB]));
    }
}

fn csi(source: &At<'_>, errors: &mut Errors) {
    csi_driver_name(&source.field("driver"), errors);
    if source.field("volumeHandle").is_empty() {
        errors.push(source.field("volumeHandle").required(""));
    }
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

/// The source as it may be compared: a secret for expansion may be named once.
fn compared(spec: &At<'_>, before: &At<'_>) -> Value {
    let mut all: Value = SOURCES.iter().map(|(kind, _)| (*kind, spec.field(kind).value.clone())).collect();
    if !before.down("csi.controllerExpandSecretRef").is_set()
        && let Some(csi) = all["csi"].as_object_mut()
    {
        csi.remove("controllerExpandSecretRef");
    }
    all
}

pub fn update(_context: &Context<'_>, volume: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (volume.field("spec"), old.field("spec"));
    let (now, then) = (compared(&spec, &before), compared(&before, &before));
    if now != then {
        let difference = difference(&then, &now);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(At::new("spec.persistentvolumesource", spec.value).forbidden(why));
    }
    // Kubernetes names these fields without their parent.
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
    use super::super::testing::{create, update};
    use serde_json::{Value, json};

    fn volume(spec: Value) -> Value {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        }});
        volume["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        volume
    }

    #[test]
    fn sources_name_what_they_need() {
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation \
                     is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        let cases: Vec<(Value, Vec<String>)> = vec![
            (json!({"hostPath": {"path": ""}}), vec!["spec.hostPath.path: Required value".into()]),
            (
                json!({"hostPath": {"path": "/a/..", "type": "Odd"}}),
                vec![
                    "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'".into(),
                    "spec.hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", \
                     \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\""
                        .into(),
                ],
            ),
            (
                json!({"nfs": {"server": "", "path": ""}}),
                vec![
                    "spec.nfs.server: Required value".into(),
                    "spec.nfs.path: Required value".into(),
                    "spec.nfs.path: Invalid value: \"\": must be an absolute path".into(),
                ],
            ),
            (
                json!({"gcePersistentDisk": {"pdName": "", "partition": 256}}),
                vec![
                    "spec.persistentDisk.pdName: Required value".into(),
                    "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive".into(),
                ],
            ),
            (
                json!({"nfs": {"server": "s", "path": "/"}, "cephfs": {"monitors": ["m"]}}),
                vec!["spec.cephFS: Forbidden: may not specify more than 1 volume type".into()],
            ),
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
    fn a_volume_stays_where_it_is() {
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
