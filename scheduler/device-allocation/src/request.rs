//! `Request`: an exact request, or one alternative of a request with `firstAvailable`.
//!
//! Corresponds to requestAccessor of the structured allocator.

use proto::kinds::api::resource::v1::{CapacityRequirements, DeviceRequest, DeviceSelector, DeviceToleration};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub name: &'a str,
    /// Name of the request that has this alternative.
    pub parent: Option<&'a str>,
    pub class_name: &'a str,
    pub wants_all: bool,
    pub count: i64,
    pub has_admin_access: bool,
    pub selectors: &'a [DeviceSelector],
    pub tolerations: &'a [DeviceToleration],
    pub capacity: Option<&'a BTreeMap<String, WireQuantity>>,
}

/// The allocation mode of a request for every device that it selects.
const ALL: &str = "All";

/// Returns the alternatives of a request, the preferred one first. An exact request is its own only alternative.
pub fn alternatives(request: &DeviceRequest) -> Vec<Request<'_>> {
    if let Some(exactly) = &request.exactly {
        return vec![Request {
            name: &request.name,
            parent: None,
            class_name: &exactly.device_class_name,
            wants_all: exactly.allocation_mode.as_deref() == Some(ALL),
            count: exactly.count.unwrap_or(1),
            has_admin_access: exactly.admin_access == Some(true),
            selectors: exactly.selectors.as_deref().unwrap_or_default(),
            tolerations: exactly.tolerations.as_deref().unwrap_or_default(),
            capacity: requested(exactly.capacity.as_ref()),
        }];
    }
    let listed = request.first_available.iter().flatten();
    listed
        .map(|one| Request {
            name: &one.name,
            parent: Some(&request.name),
            class_name: &one.device_class_name,
            wants_all: one.allocation_mode.as_deref() == Some(ALL),
            count: one.count.unwrap_or(1),
            has_admin_access: false,
            selectors: one.selectors.as_deref().unwrap_or_default(),
            tolerations: one.tolerations.as_deref().unwrap_or_default(),
            capacity: requested(one.capacity.as_ref()),
        })
        .collect()
}

fn requested(capacity: Option<&CapacityRequirements>) -> Option<&BTreeMap<String, WireQuantity>> {
    capacity?.requests.as_ref()
}

impl Request<'_> {
    /// Returns the name in the results of an allocation: `REQUEST` or `REQUEST/ALTERNATIVE`.
    pub fn full_name(&self) -> String {
        match self.parent {
            Some(parent) => format!("{parent}/{}", self.name),
            None => self.name.to_owned(),
        }
    }

    /// Returns true if a list of requests names this one. An empty list is about all requests.
    pub fn is_among(&self, requests: &[String]) -> bool {
        let is_named = |name: &String| match self.parent {
            Some(parent) => name == parent || *name == self.full_name(),
            None => name == self.name,
        };
        requests.is_empty() || requests.iter().any(is_named)
    }
}
