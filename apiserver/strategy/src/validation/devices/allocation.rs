//! Validates the status of a ResourceClaim: its allocation, its consumers and the device statuses of drivers.
//!
//! Corresponds to validateResourceClaimStatusUpdate, and to dropDeallocatedStatusDevices of the claims' registry.

use super::claim::{request_names, request_reference, request_references};
use super::identifiers::{driver, pool, share_id};
use super::{Context, MAX_CONFIGS, binding_conditions, by_value, check_each, check_each_unique, opaque, raw_object};
use crate::validation::conditions;
use crate::validation::pod::affinity::node_selector;
use field_checks::at::{At, Errors, interface_address};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_DATA_BYTES: usize = 10 * 1024;
const MAX_INTERFACE_BYTES: usize = 256;
const MAX_HARDWARE_ADDRESS_BYTES: usize = 128;
const MAX_ADDRESSES: usize = 16;

/// Validates an update of the status. Only an allocated claim has consumers.
pub fn status(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (claim.field("status"), old.field("status"));
    let (consumers, allocation) = (status.field("reservedFor"), status.field("allocation"));
    check_each_unique(&consumers, |consumer| consumer["uid"].clone(), MAX_CONSUMERS, errors, &|consumer, errors| {
        for field in ["resource", "name", "uid"] {
            if consumer.field(field).is_empty() {
                errors.push(consumer.field(field).required(""));
            }
        }
    });
    let allocated = allocated(allocation.value);
    check_each_unique(&status.field("devices"), device_key, usize::MAX, errors, &|device, errors| {
        device_status(device, &allocated, errors);
    });
    if !consumers.is_empty() {
        let old_consumers: Vec<&Value> = before.field("reservedFor").items().map(|consumer| consumer.value).collect();
        if !allocation.is_set() {
            errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
        } else if claim.down("metadata.deletionTimestamp").is_set()
            && consumers.items().any(|consumer| !old_consumers.contains(&consumer.value))
        {
            let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(consumers.forbidden(why));
        }
    }
    if allocation.is_set() && before.field("allocation").is_set() {
        allocation.check_unchanged(&before.field("allocation"), errors);
    } else if allocation.is_set() {
        allocation_result(&allocation, &request_names(&claim.down("spec.devices")), errors);
    }
}

/// Returns the key of a device in the results of an allocation and in the device statuses.
fn device_key(device: &Value) -> Value {
    let text = |field: &str| device[field].as_str().unwrap_or_default();
    json!([text("driver"), text("pool"), text("device"), text("shareID")])
}

/// Returns the keys of the devices in an allocation.
fn allocated(allocation: &Value) -> BTreeSet<String> {
    let results = allocation["devices"]["results"].as_array();
    results.into_iter().flatten().map(|result| device_key(result).to_string()).collect()
}

/// Removes the statuses of devices that an update deallocates.
pub fn drop_deallocated_devices(_context: &Context<'_>, claim: &mut Value, old: &Value) {
    let (before, after) = (allocated(&old["status"]["allocation"]), allocated(&claim["status"]["allocation"]));
    let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else { return };
    devices.retain(|device| {
        let key = device_key(device).to_string();
        !before.contains(&key) || after.contains(&key)
    });
    if devices.is_empty() {
        status.remove("devices");
    }
}

/// Checks the status that a driver reports for a device.
fn device_status(device: &At<'_>, allocated: &BTreeSet<String>, errors: &mut Errors) {
    driver(&device.field("driver"), errors);
    pool(&device.field("pool"), errors);
    device.field("device").check(names::dns1123_label, errors);
    if device.field("shareID").is_set() {
        share_id(&device.field("shareID"), errors);
    }
    if !allocated.contains(&device_key(device.value).to_string()) {
        // Go prints this structure without its values.
        let shown = r#"{"Driver":{},"Pool":{},"Device":{},"ShareID":{}}"#;
        errors.push(device.invalid_shown(shown, "must be an allocated device in the claim"));
    }
    let list = device.field("conditions");
    if list.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), MAX_CONDITIONS));
    }
    conditions::check(&list, errors);
    let data = device.field("data");
    if data.is_set() {
        raw_object(&data, MAX_DATA_BYTES, errors);
    }
    let network = device.field("networkData");
    for (field, max_bytes) in [("interfaceName", MAX_INTERFACE_BYTES), ("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES)]
    {
        if network.field(field).len() > max_bytes {
            errors.push(network.field(field).too_long(max_bytes));
        }
    }
    check_each_unique(&network.field("ips"), by_value, MAX_ADDRESSES, errors, &|address, errors| {
        address.check(interface_address, errors);
    });
}

/// Checks the devices, the configurations and the node selector of a new allocation.
fn allocation_result(allocation: &At<'_>, requests: &BTreeSet<String>, errors: &mut Errors) {
    let devices = allocation.field("devices");
    check_each(&devices.field("results"), MAX_RESULTS, errors, &|result, errors| {
        request_reference(&result.field("request"), requests, errors);
        driver(&result.field("driver"), errors);
        pool(&result.field("pool"), errors);
        result.field("device").check(names::dns1123_label, errors);
        binding_conditions(result, errors);
        if result.field("shareID").is_set() {
            share_id(&result.field("shareID"), errors);
        }
    });
    // An allocation has the configurations of both the class and the claim.
    check_each(&devices.field("config"), 2 * MAX_CONFIGS, errors, &|config, errors| {
        config.field("source").check_enum(&["FromClaim", "FromClass"], errors);
        request_references(config, requests, errors);
        opaque(config, errors);
    });
    if allocation.field("nodeSelector").is_set() {
        node_selector(&allocation.field("nodeSelector"), errors);
    }
}
