//! Validates the volume sources that pods and PersistentVolumes share.
//!
//! Corresponds to the validation of sources in pkg/apis/core/validation as far as ValidateVolumes and
//! ValidatePersistentVolumeSpec share it.

use super::paths::no_backsteps;
use field_checks::at::{At, Errors};
use proto::meta::names;
use regex::Regex;
use serde_json::json;
use std::sync::LazyLock;

/// Required fields by kind of source. They are checked first.
const REQUIRED: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("hostPath", &["path"]),
    ("nfs", &["server", "path"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

/// Returns the source of this kind, or `None` if it is absent. A second source is an error and is not returned.
pub fn only_source<'a>(volume: &At<'a>, kind: &str, found_another: bool, errors: &mut Errors) -> Option<At<'a>> {
    let source = volume.field(kind);
    if !source.is_set() {
        return None;
    }
    // Kubernetes has another name for some kinds in the error for a second source, and for one in all of its paths.
    let second = match kind {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        kind => kind,
    };
    let first = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
    if found_another {
        let second = At::new(volume.path_of(second), source.value);
        errors.push(second.forbidden("may not specify more than 1 volume type"));
        return None;
    }
    Some(At::new(volume.path_of(first), source.value))
}

/// Adds an error for each of the fields that is absent or empty.
pub fn require(at: &At<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields.iter().map(|field| at.field(field)).filter(At::is_empty) {
        errors.push(field.required(""));
    }
}

/// Validates a source by the rules that hold in pods and PersistentVolumes.
pub fn validate(kind: &str, source: &At<'_>, errors: &mut Errors) {
    if let Some((_, fields)) = REQUIRED.iter().find(|(name, _)| *name == kind) {
        require(source, fields, errors);
    }
    match kind {
        "hostPath" => host_path(source, errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            in_range(&source.field("partition"), 255, "must be between 1 and 255, inclusive", errors);
        }
        "nfs" if !source.field("path").text().starts_with('/') => {
            errors.push(source.field("path").invalid_text("must be an absolute path"));
        }
        "flocker" => flocker(source, errors),
        "quobyte" => quobyte(source, errors),
        "fc" => fibre_channel(source, errors),
        "flexVolume" => flex_options(&source.field("options"), errors),
        "azureDisk" => azure_disk(source, errors),
        "storageos" => {
            source.field("volumeName").check_required(names::dns1123_label, errors);
            if !source.field("volumeNamespace").is_empty() {
                source.field("volumeNamespace").check(names::dns1123_label, errors);
            }
            secret_name(source, errors);
        }
        "cinder" => secret_name(source, errors),
        _ => {}
    }
}

/// Checks that a reference to a secret has a name.
fn secret_name(source: &At<'_>, errors: &mut Errors) {
    let secret = source.field("secretRef");
    if secret.is_set() {
        require(&secret, &["name"], errors);
    }
}

/// Checks that a number lies between 0 and `max`. As in Kubernetes, the message `why` may name another range.
fn in_range(number: &At<'_>, max: i64, why: &str, errors: &mut Errors) {
    if number.integer().is_some_and(|number| !(0..=max).contains(&number)) {
        errors.push(number.invalid(why));
    }
}

fn lun(source: &At<'_>, errors: &mut Errors) {
    in_range(&source.field("lun"), 255, "must be between 0 and 255, inclusive", errors);
}

fn host_path(source: &At<'_>, errors: &mut Errors) {
    const KINDS: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !source.field("path").is_empty() {
        no_backsteps(&source.field("path"), errors);
        source.field("type").check_optional_enum(KINDS, errors);
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

fn quobyte(source: &At<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    if registry.is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.len() > 64 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let wrong = registry.text().split(',').filter(|pair| !is_host_and_port(pair)).count();
        errors.extend((0..wrong).map(|_| registry.invalid(PAIRS)));
    }
    require(source, &["volume"], errors);
}

/// Returns true for `host:port` or `[address]:port`, as Go's `net.SplitHostPort` does. Each part may be empty.
fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(enclosed) => enclosed.strip_suffix(']'),
        None => Some(host).filter(|host| !host.contains(':')),
    };
    host.is_some_and(|host| !host.contains(['[', ']'])) && !port.contains(['[', ']'])
}

fn fibre_channel(source: &At<'_>, errors: &mut Errors) {
    let (targets, ids) = (source.field("targetWWNs"), source.field("wwids"));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => errors.push(targets.required("must specify either targetWWNs or wwids, but not both")),
        (false, false) => errors.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously")),
        _ => {}
    }
    if !targets.is_empty() {
        if !source.field("lun").is_set() {
            errors.push(source.field("lun").required("lun is required if targetWWNs is specified"));
        }
        lun(source, errors);
    }
}

fn flex_options(options: &At<'_>, errors: &mut Errors) {
    for (key, option) in options.entries() {
        let namespace = format!(".{}", key.split_once('/').map_or(key, |(namespace, _)| namespace).to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            errors.push(option.invalid_as(&json!(key), "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

fn azure_disk(source: &At<'_>, errors: &mut Errors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (kind, uri) = (source.field("kind"), source.field("diskURI"));
    source.field("cachingMode").check_optional_enum(&["None", "ReadOnly", "ReadWrite"], errors);
    kind.check_optional_enum(&["Dedicated", "Managed", "Shared"], errors);
    let (start, form) = if kind.text() == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if kind.is_set() && !uri.text().starts_with(start) {
        let shown = json!(uri.text());
        errors.push(At::new(uri.path, &shown).not_supported(&[form]));
    }
}

/// Error for a volume name and a portal that are too long together.
pub const LONG_PORTAL: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                               iscsi.initiatorName is specified.";

/// Returns true if `PORTAL:VOLUME` is too long. A source with an initiator name gets an iSCSI interface of this name.
pub fn has_long_portal(volume_name: &str, source: &At<'_>) -> bool {
    source.field("initiatorName").is_set() && volume_name.len() + ":".len() + source.field("targetPortal").len() > 64
}

/// Validates an iSCSI source of a pod, or of a PersistentVolume, whose name is then `persistent_volume`.
pub fn iscsi(source: &At<'_>, persistent_volume: Option<&str>, errors: &mut Errors) {
    require(source, &["targetPortal"], errors);
    if persistent_volume.is_some_and(|name| has_long_portal(name, source)) {
        // As in Kubernetes, some of the paths are in lower case.
        let portal = At::new(source.path_of("targetportal"), source.field("targetPortal").value);
        errors.push(portal.invalid_text(LONG_PORTAL));
    }
    let unknown_kind = match persistent_volume {
        Some(_) => "must be valid format",
        None => "must be valid format starting with iqn, eui, or naa",
    };
    require(source, &["iqn"], errors);
    if !source.field("iqn").is_empty() {
        initiator(&source.field("iqn"), unknown_kind, errors);
    }
    lun(source, errors);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| source.field(field).is_true());
    if authenticates && !source.field("secretRef").is_set() {
        errors.push(source.field("secretRef").required(""));
    }
    if persistent_volume.is_some() {
        secret_name(source, errors);
    }
    let name = source.field("initiatorName");
    if name.is_set() {
        initiator(&At::new(source.path_of("initiatorname"), name.value), unknown_kind, errors);
    }
}

/// Checks the name of an initiator or a target. `unknown_kind` is the error for a name of no known kind.
fn initiator(at: &At<'_>, unknown_kind: &str, errors: &mut Errors) {
    match INITIATORS.iter().find(|(kind, _)| at.text().starts_with(kind)) {
        None => errors.push(at.invalid(unknown_kind)),
        Some((_, form)) if !form.is_match(at.text()) => errors.push(at.invalid("must be valid format")),
        Some(_) => {}
    }
}

/// The kinds of initiator names, with the form of each: `iqn.2001-04.com.example:disk` after any prefix, `eui.` with 16
/// letters or digits, `naa.` with 32.
static INITIATORS: LazyLock<[(&str, Regex); 3]> = LazyLock::new(|| {
    let form = |pattern| Regex::new(pattern).expect("the pattern is a constant that tests use");
    [
        ("iqn", form(r"iqn\.[0-9]{4}-[0-9]{2}\.[[:alnum:].-]+:[^,;*&$|\t\n\f\r ]+$")),
        ("eui", form("^eui.[[:alnum:]]{16}$")),
        ("naa", form("^naa.[[:alnum:]]{32}$")),
    ]
});

#[cfg(test)]
mod tests;
