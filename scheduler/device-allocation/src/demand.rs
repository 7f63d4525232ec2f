//! `Demand`: what a claim wants on one node: its requests with their classes, and the devices of requests for all.
//!
//! Corresponds to validateDeviceRequest and isSelectable of the structured allocator.

use crate::MAX_RESULTS;
use crate::allocated::AllocatedState;
use crate::capacity;
use crate::constraint::Constraint;
use crate::device::Device;
use crate::pool::{PoolState, Reach};
use crate::refusal::Refusal;
use crate::request::{Request, alternatives};
use crate::selectors::Selectors;
use proto::Kind;
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The classes that claims name.
pub type Classes = BTreeMap<String, Arc<DeviceClass>>;

/// One request, or one alternative of a request.
#[derive(Debug)]
pub struct Target<'a> {
    pub request: Request<'a>,
    pub class: Arc<DeviceClass>,
    /// Number of devices.
    pub count: usize,
    /// The candidates of a request for all devices.
    pub all: Option<Vec<usize>>,
}

#[derive(Debug)]
pub struct Demand<'a> {
    pub claim: &'a ResourceClaim,
    /// The alternatives of each request.
    pub requests: Vec<Vec<Target<'a>>>,
    pub constraints: Vec<Constraint<'a>>,
}

/// What demands are compared with.
pub struct Supply<'a> {
    pub reach: &'a Reach,
    pub classes: &'a Classes,
    pub selectors: &'a Selectors,
    pub allocated: &'a AllocatedState,
}

impl<'a> Demand<'a> {
    pub fn of(claim: &'a ResourceClaim, supply: &Supply<'_>) -> Result<Self, Refusal> {
        let devices = claim.spec.devices.as_ref();
        let mut requests = Vec::new();
        for request in devices.iter().flat_map(|devices| devices.requests.iter().flatten()) {
            let targets = alternatives(request).into_iter().map(|request| Target::of(claim, request, supply));
            let targets: Vec<Target<'_>> = targets.collect::<Result<_, _>>()?;
            if targets.is_empty() {
                let claim = claim.key();
                return Err(Refusal::Broken(format!(
                    "resource claim {claim}, request {}: unknown request type",
                    request.name
                )));
            }
            requests.push(targets);
        }
        let least: usize =
            requests.iter().map(|targets| targets.iter().map(|target| target.count).min().unwrap_or(0)).sum();
        if least > MAX_RESULTS {
            return Err(Refusal::Broken(format!(
                "claim {}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}",
                claim.key()
            )));
        }
        let mut constraints = Vec::new();
        let given = devices.iter().flat_map(|devices| devices.constraints.iter().flatten());
        for (number, constraint) in given.enumerate() {
            constraints.push(Constraint::new(constraint).ok_or_else(|| {
                let why = "empty constraint (unsupported constraint type?)";
                Refusal::Broken(format!("claim {}, constraint #{number}: {why}", claim.key()))
            })?);
        }
        Ok(Self { claim, requests, constraints })
    }
}

impl<'a> Target<'a> {
    fn of(claim: &'a ResourceClaim, request: Request<'a>, supply: &Supply<'_>) -> Result<Self, Refusal> {
        let broken = |why: String| Refusal::Broken(format!("claim {}, request {}: {why}", claim.key(), request.name));
        let class = supply.classes.get(request.class_name).cloned().ok_or_else(|| {
            let name = request.class_name;
            let missing = format!("deviceclass.resource.k8s.io {name:?} not found");
            broken(format!("could not retrieve device class {name}: {missing}"))
        })?;
        let mut target = Self { request, class, count: 0, all: None };
        if !request.wants_all {
            target.count = usize::try_from(request.count).unwrap_or(0);
            return Ok(target);
        }
        for pool in &supply.reach.pools {
            let state = match &pool.state {
                PoolState::Usable => continue,
                PoolState::Incomplete => "being updated",
                PoolState::Invalid(_) => "invalid",
            };
            return Err(broken(format!("asks for all devices, but resource pool {} is currently {state}", pool.id)));
        }
        let mut all = Vec::new();
        for (number, candidate) in supply.reach.candidates.iter().enumerate() {
            let device = &candidate.device;
            let in_use = supply.allocated.consumed(&device.id);
            if target.selects(claim, device, supply.selectors)?
                && capacity::consumed(&request, device, &[in_use]).is_some()
            {
                all.push(number);
            }
        }
        target.count = all.len();
        target.all = Some(all);
        Ok(target)
    }

    /// Returns true if the selectors of the class and of the request match a device.
    pub fn selects(&self, claim: &ResourceClaim, device: &Device, selectors: &Selectors) -> Result<bool, Refusal> {
        let of_class = self.class.spec.selectors.as_deref().unwrap_or_default();
        let matches = selectors.match_all(of_class, device, &|| format!("class {}", self.class.name()));
        let matches = match matches {
            Ok(true) => selectors.match_all(self.request.selectors, device, &|| format!("claim {}", claim.key())),
            other => other,
        };
        matches.map_err(Refusal::Broken)
    }
}
