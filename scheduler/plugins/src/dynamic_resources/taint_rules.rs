//! DeviceTaintRules, as they are seen in the slices of the devices that they select.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/resourceslice/tracker.

use proto::kinds::api::resource::v1::{Device, DeviceTaint, ResourceSlice};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use std::sync::Arc;

/// Returns a slice with the taints of the rules. A slice that no rule selects is the same object.
pub fn apply(rules: &[Arc<DeviceTaintRule>], slice: Arc<ResourceSlice>) -> Arc<ResourceSlice> {
    let mut slice = slice;
    for rule in rules {
        let spec = &slice.spec;
        let devices = spec.devices.iter().flatten().enumerate();
        let selected = devices.filter(|(_, device)| selects(rule, &spec.driver, &spec.pool.name, device));
        let selected: Vec<usize> = selected.map(|(index, _)| index).collect();
        if selected.is_empty() {
            continue;
        }
        let taint = taint(rule);
        let devices = Arc::make_mut(&mut slice).spec.devices.iter_mut().flatten().enumerate();
        for (_, device) in devices.filter(|(index, _)| selected.contains(index)) {
            device.taints.get_or_insert_default().push(taint.clone());
        }
    }
    slice
}

/// Returns true if a rule selects a device. A rule without a selector selects none.
fn selects(rule: &DeviceTaintRule, driver: &str, pool: &str, device: &Device) -> bool {
    let fits = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    rule.spec.device_selector.as_ref().is_some_and(|selector| {
        fits(&selector.driver, driver) && fits(&selector.pool, pool) && fits(&selector.device, &device.name)
    })
}

fn taint(rule: &DeviceTaintRule) -> DeviceTaint {
    let taint = &rule.spec.taint;
    DeviceTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: taint.time_added.clone(),
    }
}
