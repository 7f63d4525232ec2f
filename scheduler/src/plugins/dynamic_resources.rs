//! DynamicResources: devices that pods claim.
//!
//! Corresponds to pkg/scheduler/framework/plugins/dynamicresources.
//!
//! Deviation: claims are not allocated; a pod that has any stays pending and is told why.

use crate::cache::Snapshot;
use crate::framework::{CycleState, Plugin, PostFilter, PostFiltered, PreFilter, PreFiltered, Rejection, Unfit};
use crate::pod_info::PodInfo;

pub struct DynamicResources;

const NAME: &str = "DynamicResources";

/// The number of the pod's claims; written by PreFilter.
#[derive(Clone)]
struct Claims(usize);

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PreFilter for DynamicResources {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFiltered, Rejection> {
        let claims = pod.spec().resource_claims.as_ref().map_or(0, Vec::len);
        state.write(NAME, Claims(claims));
        if claims == 0 {
            return Ok(PreFiltered::Skip);
        }
        Err(Rejection::unresolvable(NAME, "this scheduler does not allocate resource claims"))
    }
}

impl PostFilter for DynamicResources {
    /// Would free devices that nobody uses. Says so even of pods that have nothing to do with devices, as the original
    /// does; and where another plugin's PreFilter has ended the cycle before this one's, it has nothing to go by.
    fn post_filter(&self, unfit: &Unfit<'_>) -> Result<PostFiltered, String> {
        let message = match unfit.state.read(NAME) {
            None => return Err("not found".to_owned()),
            Some(Claims(0)) => "no new claims to deallocate",
            Some(Claims(_)) => "still not schedulable",
        };
        Ok(PostFiltered { message: message.to_owned(), ..PostFiltered::default() })
    }
}
