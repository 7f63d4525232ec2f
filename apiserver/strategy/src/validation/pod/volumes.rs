//! Validates volumes of a pod, and their mounts and devices in containers.
//!
//! Corresponds to ValidateVolumes and ValidateVolumeMounts.

use super::volume_sources;
use crate::validation::paths::{descending, steps_back};
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The valid volumes of a pod by name.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Validates the volumes. `meta` is the metadata of a pod, whose name is part of the names of generated claims. It is
/// `None` for a template.
pub fn validate<'a>(volumes: &At<'a>, meta: Option<&At<'_>>, errors: &mut Errors) -> Volumes<'a> {
    let pod = meta.map(|meta| meta.field("name").text()).filter(|name| !name.is_empty());
    let generated: Vec<String> = pod.map_or_else(Vec::new, |pod| {
        let ephemeral = volumes.items().filter(|volume| volume.field("ephemeral").is_set());
        ephemeral.map(|volume| format!("{pod}-{}", volume.field("name").text())).collect()
    });
    let mut valid = Volumes::new();
    for volume in volumes.items() {
        let before = errors.len();
        volume_sources::validate(&volume, pod, errors);
        volume.field("name").check_required(names::dns1123_label, errors);
        let name = volume.field("name").text();
        if valid.contains_key(name) {
            errors.push(volume.field("name").duplicate());
        }
        if errors.len() == before {
            valid.insert(name, volume.value);
        }
        let claim = volume.down("persistentVolumeClaim.claimName");
        if generated.iter().any(|generated| generated == claim.text()) {
            errors.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    valid
}

pub fn mounts(container: &At<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let devices = container.field("volumeDevices");
    let in_devices =
        |field: &'static str| -> BTreeSet<&str> { devices.items().map(|device| device.field(field).text()).collect() };
    let mounts = container.field("volumeMounts");
    let mut paths = BTreeSet::new();
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
        if !paths.insert(path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        if in_devices("name").contains(name.text()) {
            errors.push(name.invalid("must not already exist in volumeDevices"));
        }
        if in_devices("devicePath").contains(path.text()) {
            errors.push(path.invalid("must not already exist as a path in volumeDevices"));
        }
        sub_paths(&mount, &mounts, errors);
        propagation(&mount, container, &mounts, errors);
        recursive_read_only(&mount, &mounts, errors);
    }
    self::devices(&devices, &mounts, volumes, errors);
}

/// Checks `subPath` and `subPathExpr`, of which a mount may have one.
fn sub_paths(mount: &At<'_>, mounts: &At<'_>, errors: &mut Errors) {
    // As in Kubernetes, the path is that of the list.
    let (path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !path.is_empty() {
        descending(&At::new(mounts.path_of("subPath"), path.value), errors);
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            errors.push(expression.invalid("subPathExpr and subPath are mutually exclusive"));
        }
        descending(&At::new(mounts.path_of("subPathExpr"), expression.value), errors);
    }
}

fn propagation(mount: &At<'_>, container: &At<'_>, mounts: &At<'_>, errors: &mut Errors) {
    let at = At::new(mounts.path_of("mountPropagation"), mount.field("mountPropagation").value);
    at.check_optional_enum(&["Bidirectional", "HostToContainer", "None"], errors);
    if at.text() == "Bidirectional" && !container.down("securityContext.privileged").is_true() {
        errors.push(at.forbidden("Bidirectional mount propagation is available only to privileged containers"));
    }
}

const RECURSIVE: &[&str] = &["Disabled", "Enabled", "IfPossible"];

fn recursive_read_only(mount: &At<'_>, mounts: &At<'_>, errors: &mut Errors) {
    let at = At::new(mounts.path_of("recursiveReadOnly"), mount.field("recursiveReadOnly").value);
    match at.text() {
        _ if !at.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").is_true() {
                errors.push(at.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(mount.field("mountPropagation").text(), "" | "None") {
                errors.push(at.forbidden("may only be specified when mountPropagation is None or not specified"));
            }
        }
        _ => errors.push(at.not_supported(RECURSIVE)),
    }
}

/// Checks the block devices of a container.
fn devices(devices: &At<'_>, mounts: &At<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        if name.is_empty() {
            errors.push(name.required(""));
        }
        if names.contains(name.text()) {
            errors.push(name.invalid("must be unique"));
        }
        match volumes.get(name.text()) {
            None => errors.push(At::new(name.path.clone(), &json!(name.text())).not_found()),
            Some(volume) if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none() => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(name.invalid(why));
            }
            Some(_) => {}
        }
        if path.is_empty() {
            errors.push(path.required(""));
        }
        if paths.contains(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
        if steps_back(path.text()) {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            paths.insert(path.text());
        }
        let mounted =
            |field: &str, value: &At<'_>| mounts.items().any(|mount| mount.field(field).text() == value.text());
        if mounted("name", &name) {
            errors.push(name.invalid_text("must not already exist in volumeMounts"));
        }
        if mounted("mountPath", &path) {
            errors.push(path.invalid_text("must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}
