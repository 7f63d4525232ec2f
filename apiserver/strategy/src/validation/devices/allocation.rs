//! Validates the status of a ResourceClaim: its allocation, its consumers and the device statuses of drivers.
//!
//! Corresponds to validateResourceClaimStatusUpdate, and to dropDeallocatedStatusDevices of the claims' registry.

use super::claim::{request_name, request_names, requests_of};
use super::identifiers::{driver, pool, share};
use super::{Context, MAX_CONFIGS, binding, each, each_once, itself, opaque, raw_object};
use crate::validation::at::{At, Errors, interface_address};
use crate::validation::conditions;
use crate::validation::pod::affinity::node_selector;
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

/// Validates an update of the status. Consumers and allocation have to agree.
pub fn status(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (claim.field("status"), old.field("status"));
    let (consumers, allocation) = (status.field("reservedFor"), status.field("allocation"));
    each_once(&consumers, |consumer| consumer["uid"].clone(), MAX_CONSUMERS, errors, &|consumer, errors| {
        for field in ["resource", "name", "uid"] {
            if consumer.field(field).is_empty() {
                errors.push(consumer.field(field).required(""));
            }
        }
    });
    let allocated = allocated(allocation.value);
    each_once(&status.field("devices"), device_id, usize::MAX, errors, &|told, errors| {
        device(told, &allocated, errors);
    });
    if !consumers.is_empty() {
        let was_there: Vec<&Value> = before.field("reservedFor").items().map(|consumer| consumer.value).collect();
        if !allocation.is_set() {
            errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
        } else if claim.down("metadata.deletionTimestamp").is_set()
            && consumers.items().any(|consumer| !was_there.contains(&consumer.value))
        {
            let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(consumers.forbidden(why));
        }
    }
    if allocation.is_set() && before.field("allocation").is_set() {
        allocation.check_unchanged(&before.field("allocation"), errors);
    } else if allocation.is_set() {
        result(&allocation, &request_names(&claim.down("spec.devices")), errors);
    }
}

/// Returns the key of a device in an allocation and in the device statuses.
fn device_id(device: &Value) -> Value {
    let text = |field: &str| device[field].as_str().unwrap_or_default();
    json!([text("driver"), text("pool"), text("device"), text("shareID")])
}

fn allocated(allocation: &Value) -> BTreeSet<String> {
    let results = allocation["devices"]["results"].as_array();
    results.into_iter().flatten().map(|result| device_id(result).to_string()).collect()
}

/// Removes the statuses of devices that an update deallocates.
pub fn forget_given_back(_context: &Context<'_>, claim: &mut Value, old: &Value) {
    let (before, after) = (allocated(&old["status"]["allocation"]), allocated(&claim["status"]["allocation"]));
    let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_array_mut) else { return };
    devices.retain(|device| {
        let id = device_id(device).to_string();
        !before.contains(&id) || after.contains(&id)
    });
    if devices.is_empty() {
        status.remove("devices");
    }
}

fn device(told: &At<'_>, allocated: &BTreeSet<String>, errors: &mut Errors) {
    driver(&told.field("driver"), errors);
    pool(&told.field("pool"), errors);
    told.field("device").check(names::dns1123_label, errors);
    if told.field("shareID").is_set() {
        share(&told.field("shareID"), errors);
    }
    if !allocated.contains(&device_id(told.value).to_string()) {
        // Go prints this structure without its values.
        let shown = r#"{"Driver":{},"Pool":{},"Device":{},"ShareID":{}}"#;
        errors.push(told.invalid_shown(shown, "must be an allocated device in the claim"));
    }
    let all = told.field("conditions");
    if all.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(all.path.clone(), all.len(), MAX_CONDITIONS));
    }
    conditions::check(&all, errors);
    let data = told.field("data");
    if data.is_set() {
        raw_object(&data, MAX_DATA_BYTES, errors);
    }
    let network = told.field("networkData");
    for (field, max_bytes) in [("interfaceName", MAX_INTERFACE_BYTES), ("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES)]
    {
        if network.field(field).len() > max_bytes {
            errors.push(network.field(field).too_long(max_bytes));
        }
    }
    each_once(&network.field("ips"), itself, MAX_ADDRESSES, errors, &|address, errors| {
        address.check(interface_address, errors);
    });
}

fn result(allocation: &At<'_>, requests: &BTreeSet<String>, errors: &mut Errors) {
    let devices = allocation.field("devices");
    each(&devices.field("results"), MAX_RESULTS, errors, &|result, errors| {
        request_name(&result.field("request"), requests, errors);
        driver(&result.field("driver"), errors);
        pool(&result.field("pool"), errors);
        result.field("device").check(names::dns1123_label, errors);
        binding(result, errors);
        if result.field("shareID").is_set() {
            share(&result.field("shareID"), errors);
        }
    });
    // Configurations of the class and of the claim.
    each(&devices.field("config"), 2 * MAX_CONFIGS, errors, &|config, errors| {
        config.field("source").check_enum(&["FromClaim", "FromClass"], errors);
        requests_of(config, requests, errors);
        opaque(config, errors);
    });
    if allocation.field("nodeSelector").is_set() {
        node_selector(&allocation.field("nodeSelector"), errors);
    }
}
