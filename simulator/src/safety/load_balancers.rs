//! The rule that a load balancer of the cloud never outlives its Service.
//!
//! The finalizer of a Service goes after the load balancer is gone. The cloud is looked at whenever a Service or a Lease is
//! written, so also while nothing else happens.

use super::fields::AnyObject;
use super::{Rule, RuleViolation, WriteContext, read};
use simulated_cloud::model::Holdings;
use simulated_cloud::running::RunningCloud;
use std::collections::BTreeMap;

const SERVICES: &str = "/registry/services/specs/";
const LEASES: &str = "/registry/leases/";

pub struct LoadBalancers {
    cloud: RunningCloud,
    balancers: Balancers,
}

/// The Services that exist, and those that did.
#[derive(Default)]
pub(super) struct Balancers {
    /// The key of each Service, by the name that its load balancer has in the cloud.
    services: BTreeMap<String, String>,
}

/// Returns the name of a Service's load balancer: `a`, and the UID without dashes.
pub fn balancer_of(uid: &str) -> String {
    let mut name = format!("a{}", uid.replace('-', ""));
    name.truncate(32);
    name
}

impl Balancers {
    pub(super) fn record(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        self.services.retain(|_, service| service != key);
        if let Some(AnyObject { metadata }) = read(key, value)? {
            self.services.insert(balancer_of(&metadata.uid), key.to_owned());
        }
        Ok(())
    }

    pub(super) fn check(&self, holdings: &Holdings) -> Result<(), RuleViolation> {
        match holdings.load_balancers.values().find(|balancer| !self.services.contains_key(&balancer.name)) {
            Some(balancer) => {
                let (name, what) = (&balancer.name, &balancer.spec.description);
                Err(RuleViolation::new(format!("the load balancer {name} ({what}) is there, and its Service is gone")))
            }
            None => Ok(()),
        }
    }
}

impl LoadBalancers {
    pub fn new(cloud: &RunningCloud) -> Self {
        Self { cloud: cloud.clone(), balancers: Balancers::default() }
    }
}

impl Rule for LoadBalancers {
    fn prefixes(&self) -> &'static [&'static str] {
        &[SERVICES, LEASES]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(SERVICES) {
            self.balancers.record(key, value)?;
        }
        self.cloud.look(|cloud| self.balancers.check(cloud.holdings()))
    }
}
