//! What each kind of volume cannot do without, and what it may say.
//!
//! Corresponds to validateVolumeSource.

use super::paths::{descending, no_backsteps};
use super::projected::{downward_items, key_paths, mode, projected};
use crate::registry::validation::at::{At, Errors};
use crate::registry::validation::{object_meta, storage};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::json;

pub const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// Every kind of volume, in the order in which Kubernetes looks for them, and the fields that it cannot do without.
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
    ("quobyte", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &[]),
];

pub fn validate(volume: &At<'_>, pod: Option<&str>, errors: &mut Errors) {
    let mut found = false;
    for (kind, required) in SOURCES {
        let source = volume.field(kind);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.push(
                At::new(volume.path_of(listed(kind)), source.value)
                    .forbidden("may not specify more than 1 volume type"),
            );
            continue;
        }
        found = true;
        let source = At::new(volume.path_of(named(kind)), source.value);
        for field in *required {
            if source.field(field).is_empty() {
                errors.push(source.field(field).required(""));
            }
        }
        details(kind, &source, errors);
        of_volume(kind, volume, &source, pod, errors);
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// The name by which Kubernetes complains of a second source.
fn listed(kind: &str) -> &str {
    match kind {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        _ => kind,
    }
}

/// The name under which Kubernetes looks into a source.
fn named(kind: &str) -> &str {
    if kind == "gcePersistentDisk" { "persistentDisk" } else { kind }
}

/// The longest `<volume>:<portal>` of an initiator with a name of its own.
const MAX_PORTAL_CHARS: usize = 64;

/// What a source has to do with the volume's own name.
fn of_volume(kind: &str, volume: &At<'_>, source: &At<'_>, pod: Option<&str>, errors: &mut Errors) {
    let name = volume.field("name");
    match (kind, pod) {
        ("iscsi", _)
            if source.field("initiatorName").is_set()
                && name.len() + 1 + source.field("targetPortal").len() > MAX_PORTAL_CHARS =>
        {
            errors.push(name.invalid_text(
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if \
                 iscsi.initiatorName is specified.",
            ));
        }
        ("image", _) => {
            // A template may leave it to whoever completes it.
            if pod.is_some() && source.field("reference").is_empty() {
                errors.push(source.field("reference").required(""));
            }
            source.field("pullPolicy").check_enum(PULL_POLICIES, errors);
        }
        ("ephemeral", Some(pod)) if !name.is_empty() => {
            let claim = format!("{pod}-{}", name.text());
            for complaint in names::dns1123_subdomain(&claim) {
                errors.push(name.invalid(format!("PVC name {claim:?}: {complaint}")));
            }
        }
        _ => {}
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
        "hostPath" if !source.field("path").is_empty() => {
            no_backsteps(&source.field("path"), errors);
            host_path_type(&source.field("type"), errors);
        }
        "gitRepo" => descending(&source.field("directory"), errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = source.field("partition");
            if partition.integer().is_some_and(|number| !(0..=255).contains(&number)) {
                errors.push(partition.invalid("must be between 1 and 255, inclusive"));
            }
        }
        "nfs" => {
            let path = source.field("path");
            if !path.text().starts_with('/') {
                errors.push(path.invalid_text("must be an absolute path"));
            }
        }
        "iscsi" => iscsi(source, errors),
        "flocker" => flocker(source, errors),
        "cinder" | "storageos" => {
            if kind == "storageos" {
                for field in ["volumeName", "volumeNamespace"] {
                    if !source.field(field).is_empty() {
                        source.field(field).check(names::dns1123_label, errors);
                    }
                }
            }
            let secret = source.field("secretRef");
            if secret.is_set() && secret.field("name").is_empty() {
                errors.push(secret.field("name").required(""));
            }
        }
        "quobyte" => quobyte(source, errors),
        "fc" => fibre_channel(source, errors),
        "flexVolume" => flex_options(&source.field("options"), errors),
        "azureDisk" => azure_disk(source, errors),
        "downwardAPI" => {
            mode(&source.field("defaultMode"), errors);
            downward_items(source, errors);
        }
        "projected" => projected(source, errors),
        "csi" => csi(source, errors),
        "ephemeral" if source.field("volumeClaimTemplate").is_set() => {
            claim_template(&source.field("volumeClaimTemplate"), errors);
        }
        _ => {}
    }
}

fn host_path_type(at: &At<'_>, errors: &mut Errors) {
    let kinds = ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if at.is_set() && !kinds.contains(&at.text()) {
        errors.push(at.not_supported(&kinds));
    }
}

/// `iqn.2001-04.com.example:disk`, `eui.` and 16 or `naa.` and 32 letters or digits.
fn is_initiator(text: &str) -> bool {
    let alphanumeric = |rest: &str, len: usize| rest.len() == len && rest.bytes().all(|b| b.is_ascii_alphanumeric());
    if let Some(start) = text.find("iqn.") {
        let rest = &text.as_bytes()[start + 4..];
        let digits =
            |range: std::ops::Range<usize>| rest.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
        let dated = digits(0..4) && rest.get(4) == Some(&b'-') && digits(5..7) && rest.get(7) == Some(&b'.');
        let Some((authority, name)) = text.get(start + 12..).and_then(|rest| rest.split_once(':')) else {
            return false;
        };
        let authority =
            !authority.is_empty() && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
        let name = !name.is_empty() && !name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\u{c}']);
        return dated && authority && name;
    }
    text.strip_prefix("eui").is_some_and(|rest| rest.len() == 17 && alphanumeric(&rest[1..], 16))
        || text.strip_prefix("naa").is_some_and(|rest| rest.len() == 33 && alphanumeric(&rest[1..], 32))
}

fn initiator(at: &At<'_>, errors: &mut Errors) {
    if !["iqn", "eui", "naa"].iter().any(|prefix| at.text().starts_with(prefix)) {
        errors.push(at.invalid_text("must be valid format starting with iqn, eui, or naa"));
    } else if !is_initiator(at.text()) {
        errors.push(at.invalid("must be valid format"));
    }
}

fn lun(at: &At<'_>, errors: &mut Errors) {
    if at.integer().is_some_and(|lun| !(0..=255).contains(&lun)) {
        errors.push(at.invalid("must be between 0 and 255, inclusive"));
    }
}

fn iscsi(source: &At<'_>, errors: &mut Errors) {
    if !source.field("iqn").is_empty() {
        initiator(&source.field("iqn"), errors);
    }
    lun(&source.field("lun"), errors);
    let secret = source.field("secretRef");
    if ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| source.field(field).is_true()) && !secret.is_set() {
        errors.push(secret.required(""));
    }
    let name = source.field("initiatorName");
    if name.is_set() {
        initiator(&At::new(source.path_of("initiatorname"), name.value), errors);
    }
}

fn flocker(source: &At<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.field("datasetName"), source.field("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.push(source.required("one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let why = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(source.invalid_as(&json!("resource"), why));
    }
    if name.text().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

fn quobyte(source: &At<'_>, errors: &mut Errors) {
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    let why = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.push(registry.required(why));
    } else if tenant.len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let is_pair = |pair: &str| pair.matches(':').count() == 1 || (pair.starts_with('[') && pair.contains("]:"));
        let wrong = registry.text().split(',').filter(|pair| !is_pair(pair)).count();
        errors.extend((0..wrong).map(|_| registry.invalid(why)));
    }
    if source.field("volume").is_empty() {
        errors.push(source.field("volume").required(""));
    }
}

fn fibre_channel(source: &At<'_>, errors: &mut Errors) {
    let (targets, ids) = (source.field("targetWWNs"), source.field("wwids"));
    if targets.is_empty() && ids.is_empty() {
        errors.push(targets.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !targets.is_empty() && !ids.is_empty() {
        errors.push(targets.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    if !targets.is_empty() && !source.field("lun").is_set() {
        errors.push(source.field("lun").required("lun is required if targetWWNs is specified"));
    } else if !targets.is_empty() {
        lun(&source.field("lun"), errors);
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
    let (kind, uri) = (source.field("kind"), source.field("diskURI"));
    source.field("cachingMode").check_optional_enum(&["None", "ReadOnly", "ReadWrite"], errors);
    kind.check_optional_enum(&["Dedicated", "Managed", "Shared"], errors);
    let managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    let blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let uri = At::new(uri.path.clone(), if uri.is_set() { uri.value } else { &EMPTY });
    if kind.text() == "Managed" && !uri.text().starts_with("/subscriptions/") {
        errors.push(uri.not_supported(&[managed]));
    }
    if kind.is_set() && kind.text() != "Managed" && !uri.text().starts_with("https://") {
        errors.push(uri.not_supported(&[blob]));
    }
}

static EMPTY: serde_json::Value = serde_json::Value::String(String::new());

fn csi(source: &At<'_>, errors: &mut Errors) {
    let driver = source.field("driver");
    if !driver.is_empty() {
        if driver.len() > 63 {
            errors.push(driver.too_long(63));
        }
        let complaints = names::dns1123_subdomain(&driver.text().to_lowercase());
        errors.extend(complaints.into_iter().map(|complaint| driver.invalid(complaint)));
    }
    let secret = source.field("nodePublishSecretRef");
    if secret.is_set() && secret.field("name").is_empty() {
        errors.push(secret.field("name").required(""));
    } else if secret.is_set() {
        // Kubernetes names the source's own name here.
        At::new(source.path_of("name"), secret.field("name").value).check(names::dns1123_subdomain, errors);
    }
}

/// Metadata of the claim that comes with a pod has labels and annotations, and nothing else.
fn claim_template(template: &At<'_>, errors: &mut Errors) {
    let meta = template.field("metadata");
    object_meta::validate_annotations(&meta.field("annotations"), errors);
    meta.field("labels").check_labels(errors);
    const OTHERS: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
    ];
    for field in OTHERS.into_iter().filter(|field| !meta.field(field).is_empty()) {
        errors.push(meta.field(field).forbidden("cannot be set"));
    }
    storage::claim_spec(&template.field("spec"), errors);
}
