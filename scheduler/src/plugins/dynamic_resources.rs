//! DynamicResources: devices that pods claim.
//!
//! Corresponds to pkg/scheduler/framework/plugins/dynamicresources.
//!
//! Deviation: claims are not allocated; a pod that has any stays pending and is told why.

use crate::cache::Snapshot;
use crate::framework::{CycleState, Plugin, PreFilter, PreFiltered, Rejection};
use crate::pod_info::PodInfo;

pub struct DynamicResources;

const NAME: &str = "DynamicResources";

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFiltered, Rejection> {
        if pod.spec().resource_claims.as_ref().is_none_or(Vec::is_empty) {
            return Ok(PreFiltered::Skip);
        }
        Err(Rejection::unresolvable(NAME, "this scheduler does not allocate resource claims"))
    }
}
