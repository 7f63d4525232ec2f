//! Volumes and claims, apart from pods.
//!
//! Corresponds to ValidatePersistentVolume and ValidatePersistentVolumeClaim of pkg/apis/core/validation.

use super::at::{At, Errors};
use super::devices::driver_name;
use super::difference::difference;
use super::pod::affinity::node_selector;
use super::pod::resources;
use super::selector;
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

pub const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub fn access_modes(modes: &At<'_>, errors: &mut Errors) {
    let (mut alone, mut others) = (false, false);
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.push(At::new(modes.path.clone(), mode.value).not_supported(ACCESS_MODES));
        }
        alone |= mode.text() == "ReadWriteOncePod";
        others |= mode.text() != "ReadWriteOncePod";
    }
    if alone && others {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

pub fn positive_storage(at: &At<'_>, errors: &mut Errors) {
    let Ok(amount) = Quantity::try_from(at.value) else { return };
    resources::check_amount(at, "storage", errors);
    if amount.is_zero() {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than zero"));
    }
}

pub fn claim_spec(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    selector::check(&spec.field("selector"), errors);
    access_modes(&modes, errors);
    let requested = spec.down("resources.requests").key("storage");
    if requested.is_set() {
        positive_storage(&requested, errors);
    } else {
        errors.push(spec.field("resources").key("storage").required(""));
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").check(names::dns1123_subdomain, errors);
    }
    spec.field("volumeMode").check_optional_enum(&["Block", "Filesystem"], errors);
    if !spec.field("volumeAttributesClassName").is_empty() {
        spec.field("volumeAttributesClassName").check(names::dns1123_subdomain, errors);
    }
}

const PV_SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &["registry", "volume"]),
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
    volume_sources(&spec, errors);
    if spec.field("hostPath").is_set() && spec.down("hostPath.path").text() == "/" && reclaim.text() == "Recycle" {
        errors.push(reclaim.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
    for class in ["storageClassName", "volumeAttributesClassName"] {
        if !spec.field(class).is_empty() {
            spec.field(class).check(names::dns1123_subdomain, errors);
        }
    }
    spec.field("volumeMode").check_optional_enum(&["Block", "Filesystem"], errors);
}

fn capacity(capacity: &At<'_>, errors: &mut Errors) {
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    let storage = capacity.key("storage");
    if !storage.is_set() || capacity.len() > 1 {
        errors.push(capacity.not_supported(&["storage"]));
        return;
    }
    let Ok(amount) = Quantity::try_from(storage.value) else { return };
    if amount.signum() < 0 {
        errors.push(storage.invalid_as(&json!(amount.value()), "must be a valid resource quantity"));
    }
    if amount.signum() <= 0 {
        errors.push(storage.invalid_as(&json!(amount.to_string()), "must be greater than zero"));
    }
}

fn volume_sources(spec: &At<'_>, errors: &mut Errors) {
    let mut found = false;
    for (kind, required) in PV_SOURCES {
        let source = spec.field(kind);
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
        match *kind {
            "hostPath" | "local" if source.field("path").text().split('/').any(|part| part == "..") => {
                errors.push(source.field("path").invalid("must not contain '..'"));
            }
            "csi" => {
                source.field("driver").check_required(names::dns1123_subdomain, errors);
                if source.field("volumeHandle").is_empty() {
                    errors.push(source.field("volumeHandle").required(""));
                }
            }
            _ => {}
        }
        if *kind == "local" && !spec.field("nodeAffinity").is_set() {
            errors.push(spec.field("nodeAffinity").required("Local volume requires node affinity"));
        }
    }
    if !found {
        errors.push(spec.required("must specify a volume type"));
    }
}

pub fn volume_update(_context: &Context<'_>, volume: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (volume.field("spec"), old.field("spec"));
    let changed = PV_SOURCES.iter().any(|(kind, _)| spec.field(kind).value != before.field(kind).value);
    if changed {
        errors.push(spec.forbidden("spec.persistentvolumesource is immutable after creation"));
    }
    spec.field("volumeMode").check_unchanged(&before.field("volumeMode"), errors);
    if before.field("nodeAffinity").is_set() && spec.field("nodeAffinity").value != before.field("nodeAffinity").value {
        errors.push(spec.field("nodeAffinity").invalid(super::at::IMMUTABLE));
    }
}

pub fn claim(_context: &Context<'_>, claim: &At<'_>, errors: &mut Errors) {
    claim_spec(&claim.field("spec"), errors);
}

const CLAIM_FIXED: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// A claim is what it is; once bound it may grow.
pub fn claim_update(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (claim.field("spec"), old.field("spec"));
    let bound = old.down("status.phase").text() == "Bound";
    let mut munged = spec.value.clone();
    if before.field("volumeName").is_empty() {
        take_back(&mut munged, before.value, &["volumeName"]);
    }
    if !before.field("storageClassName").is_set() && spec.field("storageClassName").is_set() {
        take_back(&mut munged, before.value, &["storageClassName"]);
    }
    if bound {
        take_back(&mut munged, before.value, &["volumeAttributesClassName"]);
        take_back(&mut munged, before.value, &["resources", "requests"]);
    }
    if munged != *before.value {
        let difference = difference(before.value, &munged);
        errors.push(spec.forbidden(format!("{CLAIM_FIXED}\n{difference}")));
    }
    let requested = |spec: &At<'_>| Quantity::try_from(spec.down("resources.requests").key("storage").value).ok();
    if let (Some(now), Some(then)) = (requested(&spec), requested(&before))
        && now < then
    {
        errors.push(spec.down("resources.requests.storage").forbidden("field can not be less than status.capacity"));
    }
    // Kubernetes names the field without its parent here.
    At::new("volumeMode", spec.field("volumeMode").value).check_unchanged(&before.field("volumeMode"), errors);
}

fn take_back(spec: &mut Value, old: &Value, path: &[&str]) {
    crate::registry::strategies::rules::restore(spec, old, path);
}

pub fn claim_status(_context: &Context<'_>, claim: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    if claim.down("spec.resources").is_empty() {
        errors.push(claim.down("spec.resources").required(""));
    }
    for (name, amount) in claim.down("status.capacity").entries() {
        resources::check_amount(&amount, name, errors);
    }
}

pub fn class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let provisioner = class.field("provisioner");
    if provisioner.is_empty() {
        errors.push(provisioner.required(""));
    } else {
        let lower = provisioner.text().to_lowercase();
        let complaints = names::qualified_name(&lower);
        errors.extend(complaints.into_iter().map(|complaint| provisioner.invalid_as(&json!(lower), complaint)));
    }
    let parameters = class.field("parameters");
    for (key, _) in parameters.entries().filter(|(key, _)| key.is_empty()) {
        errors.push(parameters.invalid_as(&json!(key), "field can not be empty."));
    }
    let reclaim = class.field("reclaimPolicy");
    if !reclaim.is_empty() && !["Delete", "Retain"].contains(&reclaim.text()) {
        errors.push(reclaim.not_supported(&["Delete", "Retain"]));
    }
    let binding = class.field("volumeBindingMode");
    if !binding.is_set() {
        errors.push(binding.required(""));
    }
    binding.check_optional_enum(&["Immediate", "WaitForFirstConsumer"], errors);
    for term in class.field("allowedTopologies").items() {
        term.field("matchLabelExpressions").items().for_each(|expression| topology(&expression, errors));
    }
}

fn topology(expression: &At<'_>, errors: &mut Errors) {
    let values = expression.field("values");
    if values.is_empty() {
        errors.push(values.required(""));
    }
    let mut seen = Vec::new();
    for value in values.items() {
        if seen.contains(&value.text()) {
            errors.push(value.duplicate());
        }
        seen.push(value.text());
    }
    expression.field("key").check(names::qualified_name, errors);
}

pub fn class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if class.field(field).value != old.field(field).value {
            let why = match field {
                "parameters" | "provisioner" | "reclaimPolicy" => format!("updates to {field} are forbidden."),
                _ => {
                    errors.push(class.field(field).invalid(super::at::IMMUTABLE));
                    continue;
                }
            };
            errors.push(class.field(field).forbidden(why));
        }
    }
}

pub fn driver(_context: &Context<'_>, driver: &At<'_>, errors: &mut Errors) {
    let spec = driver.field("spec");
    for field in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if !spec.field(field).is_set() {
            errors.push(spec.field(field).required(""));
        }
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    spec.field("fsGroupPolicy").check_optional_enum(&policies, errors);
    let mut seen = Vec::new();
    for request in spec.field("tokenRequests").items() {
        let (audience, expiry) = (request.field("audience"), request.field("expirationSeconds"));
        if seen.contains(&audience.text()) {
            errors.push(audience.duplicate());
        }
        seen.push(audience.text());
        if expiry.integer().is_some_and(|s| s < 600) {
            errors.push(expiry.invalid("may not specify a duration less than 10 minutes"));
        }
        if expiry.integer().is_some_and(|s| s > 1 << 32) {
            errors.push(expiry.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        if !["Persistent", "Ephemeral"].contains(&mode.text()) {
            errors.push(At::new(modes.path.clone(), mode.value).not_supported(&["Persistent", "Ephemeral"]));
        }
    }
}

/// Tokens in a volume's attributes end in logs.
pub fn driver_warnings(_context: &Context<'_>, driver: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let spec = driver.field("spec");
    if spec.field("tokenRequests").is_empty() || spec.field("serviceAccountTokenInSecrets").is_set() {
        return Vec::new();
    }
    vec![
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
         logging of tokens in volume attributes"
            .to_owned(),
    ]
}

pub fn driver_update(_context: &Context<'_>, driver: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["attachRequired", "volumeLifecycleModes"] {
        driver.field("spec").field(field).check_unchanged(&old.field("spec").field(field), errors);
    }
}

const MAX_NODE_ID_BYTES: usize = 192;

pub fn csi_node(_context: &Context<'_>, node: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for driver in node.down("spec.drivers").items() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        driver_name(&name, errors);
        if id.is_empty() {
            errors.push(id.required(""));
        } else if id.len() > MAX_NODE_ID_BYTES {
            errors.push(id.invalid(format!("must be {MAX_NODE_ID_BYTES} characters or less")));
        }
        driver.down("allocatable.count").check_non_negative(errors);
        if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
        let mut topology = Vec::new();
        for key in driver.field("topologyKeys").items() {
            if topology.contains(&key.text()) {
                errors.push(key.duplicate());
            }
            topology.push(key.text());
            key.check(names::qualified_name, errors);
        }
    }
}

/// A driver that stays is the same but for how much it has room for.
pub fn csi_node_update(_context: &Context<'_>, node: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    const FIXED: [&str; 2] = ["nodeID", "topologyKeys"];
    for driver in node.down("spec.drivers").items() {
        let same = |before: &At<'_>| before.field("name").value == driver.field("name").value;
        if let Some(before) = old.down("spec.drivers").items().find(same) {
            FIXED.iter().for_each(|field| driver.field(field).check_unchanged(&before.field(field), errors));
        }
    }
}

pub fn attachment(_context: &Context<'_>, attachment: &At<'_>, errors: &mut Errors) {
    let spec = attachment.field("spec");
    spec.field("attacher").check_required(names::dns1123_subdomain, errors);
    spec.field("nodeName").check_required(names::dns1123_subdomain, errors);
    let source = spec.field("source");
    let (name, inline) = (source.field("persistentVolumeName"), source.field("inlineVolumeSpec"));
    match (!name.is_empty(), inline.is_set()) {
        (true, true) => {
            errors.push(source.forbidden("must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
        }
        (false, false) => {
            errors.push(source.required("must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
        }
        _ => {}
    }
}

pub fn attachment_update(_context: &Context<'_>, attachment: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if attachment.field("spec").value != old.field("spec").value {
        errors.push(attachment.field("spec").invalid(super::at::IMMUTABLE));
    }
}

pub fn capacity_object(_context: &Context<'_>, capacity: &At<'_>, errors: &mut Errors) {
    selector::check(&capacity.field("nodeTopology"), errors);
    capacity.field("storageClassName").check_required(names::dns1123_subdomain, errors);
    for field in ["capacity", "maximumVolumeSize"] {
        let at = capacity.field(field);
        if Quantity::try_from(at.value).is_ok_and(|amount| amount.signum() < 0) {
            errors.push(at.invalid("must be greater than or equal to 0"));
        }
    }
}

pub fn capacity_object_update(_context: &Context<'_>, capacity: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["nodeTopology", "storageClassName"] {
        capacity.field(field).check_unchanged(&old.field(field), errors);
    }
}

pub fn attributes_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    class.field("driverName").check_required(names::dns1123_subdomain, errors);
    if class.field("parameters").is_empty() {
        errors.push(class.field("parameters").required("must contain at least one key/value pair"));
    }
}

pub fn attributes_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["driverName", "parameters"] {
        if class.field(field).value != old.field(field).value {
            errors.push(class.field(field).forbidden(format!("updates to {field} are forbidden.")));
        }
    }
}
