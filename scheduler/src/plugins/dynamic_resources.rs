//! DynamicResources rejects pods with resource claims.
//!
//! Corresponds to pkg/scheduler/framework/plugins/dynamicresources.
//!
//! Deviation: claims are not allocated; a pod that has any stays pending, and its condition has the reason.

use crate::cache::Snapshot;
use crate::framework::{
    CycleState, FailedCycle, Plugin, PostFilter, PostFilterResult, PreFilter, PreFilterResult, Rejection,
};
use crate::pod_info::PodInfo;

pub struct DynamicResources;

const NAME: &str = "DynamicResources";

/// Number of the pod's claims, which PreFilter writes.
#[derive(Clone)]
struct Claims(usize);

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let claims = pod.spec().resource_claims.as_ref().map_or(0, Vec::len);
        state.write(NAME, Claims(claims));
        if claims == 0 {
            return Ok(PreFilterResult::Skip);
        }
        Err(Rejection::unresolvable(NAME, "this scheduler does not allocate resource claims"))
    }
}

impl PostFilter for DynamicResources {
    /// Returns the messages of kube-scheduler's plugin, which would deallocate unused devices. It has a message for
    /// pods without claims too, and an error if another plugin's PreFilter ended the cycle first.
    fn post_filter(&self, failed: &FailedCycle<'_>) -> Result<PostFilterResult, String> {
        let message = match failed.state.read(NAME) {
            None => return Err("not found".to_owned()),
            Some(Claims(0)) => "no new claims to deallocate",
            Some(Claims(_)) => "still not schedulable",
        };
        Ok(PostFilterResult { message: message.to_owned(), ..PostFilterResult::default() })
    }
}
