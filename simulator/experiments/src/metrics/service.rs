//! `Service`: the load of a Deployment and the pods that share it.

use crate::amounts::CPU;
use crate::load;
use crate::record::PodCreated;
use std::collections::BTreeSet;

/// A Deployment at one time. CPU is in thousandths of a core.
#[derive(Clone, Debug, Default)]
pub struct Service {
    pub load_milli: i64,
    /// Pods that run.
    pub pods: BTreeSet<String>,
    request_milli: i64,
    limit_milli: Option<i64>,
}

impl Service {
    /// Notes a pod that runs from now on. All pods of a Deployment are alike.
    pub fn begin(&mut self, pod: &PodCreated) {
        self.request_milli = pod.requests.get(CPU).copied().unwrap_or_default();
        self.limit_milli = pod.cpu_limit;
        self.pods.insert(pod.pod.clone());
    }

    /// Returns what each pod uses.
    pub fn share(&self) -> i64 {
        load::share(self.load_milli, self.pods.len(), self.limit_milli)
    }

    /// Returns the part of the load beyond what the pods request.
    pub fn excess_milli(&self) -> i64 {
        let requested = i64::try_from(self.pods.len()).unwrap_or(i64::MAX).saturating_mul(self.request_milli);
        (self.load_milli - requested).max(0)
    }
}
