//! Volumes, and where containers mount them.
//!
//! Corresponds to ValidateVolumes, validateVolumeSource and ValidateVolumeMounts.

use super::env;
use crate::registry::validation::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The valid volumes of a pod by name.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Every kind of volume, and the fields that it cannot do without.
const SOURCES: &[(&str, &[&str])] = &[
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["registry", "volume"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &[]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
];

pub fn validate<'a>(volumes: &At<'a>, errors: &mut Errors) -> Volumes<'a> {
    let mut valid = Volumes::new();
    for volume in volumes.items() {
        let before = errors.len();
        sources(&volume, errors);
        volume.field("name").check_required(names::dns1123_label, errors);
        let name = volume.field("name").text();
        if valid.contains_key(name) {
            errors.push(volume.field("name").duplicate());
        }
        if errors.len() == before {
            valid.insert(name, volume.value);
        }
    }
    valid
}

fn sources(volume: &At<'_>, errors: &mut Errors) {
    let mut found = false;
    for (kind, required) in SOURCES {
        let source = volume.field(kind);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        for field in *required {
            if source.field(field).is_empty() {
                errors.push(source.field(field).required(""));
            }
        }
        details(kind, &source, errors);
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn details(kind: &str, source: &At<'_>, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let negative = Quantity::try_from(source.field("sizeLimit").value).is_ok_and(|limit| limit.signum() < 0);
            if negative {
                let why = "SizeLimit field must be a valid resource quantity";
                errors.push(source.field("sizeLimit").forbidden(why));
            }
        }
        "secret" | "configMap" => {
            mode(&source.field("defaultMode"), errors);
            key_paths(&source.field("items"), errors);
        }
        "hostPath" => {
            let kinds =
                ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
            let at = source.field("type");
            if at.is_set() && !kinds.contains(&at.text()) {
                errors.push(at.not_supported(&kinds));
            }
            no_backsteps(&source.field("path"), errors);
        }
        "nfs" => {
            let path = source.field("path");
            if !path.is_empty() && !path.text().starts_with('/') {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        "downwardAPI" => {
            mode(&source.field("defaultMode"), errors);
            downward_items(&source.field("items"), errors);
        }
        "projected" => projected(source, errors),
        _ => {}
    }
}

fn mode(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(at.invalid("must be a number between 0 and 0777 (octal), both inclusive"));
    }
}

fn key_paths(items: &At<'_>, errors: &mut Errors) {
    for item in items.items() {
        if item.field("key").is_empty() {
            errors.push(item.field("key").required(""));
        }
        if item.field("path").is_empty() {
            errors.push(item.field("path").required(""));
        }
        relative(&item.field("path"), errors);
        mode(&item.field("mode"), errors);
    }
}

fn downward_items(items: &At<'_>, errors: &mut Errors) {
    for item in items.items() {
        if item.field("path").is_empty() {
            errors.push(item.field("path").required(""));
        }
        relative(&item.field("path"), errors);
        let (field, resource) = (item.field("fieldRef"), item.field("resourceFieldRef"));
        match (field.is_set(), resource.is_set()) {
            (true, true) => {
                errors.push(item.invalid("fieldRef and resourceFieldRef can not be specified simultaneously"))
            }
            (true, false) => env::field_ref(&field, env::VOLUME_FIELDS, errors),
            (false, true) => env::resource_field_ref(&resource, true, errors),
            (false, false) => errors.push(item.required("one of fieldRef and resourceFieldRef is required")),
        }
        mode(&item.field("mode"), errors);
    }
}

fn projected(source: &At<'_>, errors: &mut Errors) {
    mode(&source.field("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for projection in source.field("sources").items() {
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        let mut found = 0;
        for kind in kinds.iter().filter(|kind| projection.field(kind).is_set()) {
            let one = projection.field(kind);
            found += 1;
            if found > 1 {
                errors.push(one.forbidden("may not specify more than 1 volume type"));
                continue;
            }
            projection_details(kind, &one, &mut paths, source, errors);
        }
    }
}

fn projection_details<'a>(
    kind: &str,
    one: &At<'a>,
    paths: &mut BTreeSet<&'a str>,
    source: &At<'_>,
    errors: &mut Errors,
) {
    let mut conflict = |path: &'a str, errors: &mut Errors| {
        if !path.is_empty() && !paths.insert(path) {
            errors.push(source.invalid_as(&json!(path), "conflicting duplicate paths"));
        }
    };
    match kind {
        "secret" | "configMap" => {
            if one.field("name").is_empty() {
                errors.push(one.field("name").required(""));
            }
            key_paths(&one.field("items"), errors);
            one.field("items").items().for_each(|item| conflict(item.field("path").text(), errors));
        }
        "downwardAPI" => {
            downward_items(&one.field("items"), errors);
            one.field("items").items().for_each(|item| conflict(item.field("path").text(), errors));
        }
        "serviceAccountToken" => {
            let expiry = one.field("expirationSeconds");
            if expiry.integer().is_some_and(|s| s < 600) {
                errors.push(expiry.invalid("may not specify a duration less than 10 minutes"));
            } else if expiry.integer().is_some_and(|s| s > 1 << 32) {
                errors.push(expiry.invalid("may not specify a duration larger than 2^32 seconds"));
            }
            if one.field("path").is_empty() {
                errors.push(one.field("path").required(""));
            }
            relative(&one.field("path"), errors);
            conflict(one.field("path").text(), errors);
        }
        _ => {}
    }
}

/// A path below the volume's root.
fn relative(at: &At<'_>, errors: &mut Errors) {
    if at.text().starts_with('/') {
        errors.push(at.invalid("must be a relative path"));
    }
    no_backsteps(at, errors);
}

fn no_backsteps(at: &At<'_>, errors: &mut Errors) {
    if at.text().split('/').any(|part| part == "..") {
        errors.push(at.invalid("must not contain '..'"));
    }
}

pub fn mounts(container: &At<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let devices = container.field("volumeDevices");
    let device_of =
        |field: &'static str| -> BTreeSet<&str> { devices.items().map(|device| device.field(field).text()).collect() };
    let mounts = container.field("volumeMounts");
    let mut places = BTreeSet::new();
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        if name.is_empty() {
            errors.push(name.required(""));
        }
        if !volumes.contains_key(name.text()) {
            errors.push(At::new(name.path.clone(), &json!(name.text())).not_found());
        }
        if path.is_empty() {
            errors.push(path.required(""));
        }
        if !places.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        if device_of("name").contains(name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if device_of("devicePath").contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        sub_paths(&mount, &mounts, errors);
        propagation(&mount, container, &mounts, errors);
    }
    self::devices(&devices, &mounts, volumes, errors);
}

fn sub_paths(mount: &At<'_>, mounts: &At<'_>, errors: &mut Errors) {
    // Kubernetes names the list here, not the item.
    let (path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !path.is_empty() {
        relative(&At::new(mounts.path_of("subPath"), path.value), errors);
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
        }
        relative(&At::new(mounts.path_of("subPathExpr"), expression.value), errors);
    }
}

fn propagation(mount: &At<'_>, container: &At<'_>, mounts: &At<'_>, errors: &mut Errors) {
    let at = At::new(mounts.path_of("mountPropagation"), mount.field("mountPropagation").value);
    at.check_optional_enum(&["Bidirectional", "HostToContainer", "None"], errors);
    if at.text() == "Bidirectional" && !container.down("securityContext.privileged").is_true() {
        errors.push(at.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
}

fn devices(devices: &At<'_>, mounts: &At<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        if name.is_empty() {
            errors.push(name.required(""));
        }
        if !names.insert(name.text()) {
            errors.push(name.invalid("must be unique"));
        }
        let volume = volumes.get(name.text());
        if volume
            .is_some_and(|volume| volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none())
        {
            let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.push(name.invalid(why));
        }
        if volume.is_none() {
            errors.push(At::new(name.path.clone(), &json!(name.text())).not_found());
        }
        if path.is_empty() {
            errors.push(path.required(""));
        } else if !paths.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        no_backsteps(&path, errors);
        let mounted = mounts.items().any(|mount| mount.field("name").text() == name.text());
        if mounted {
            errors.push(name.invalid("must not already exist in volumeMounts"));
        }
    }
}
