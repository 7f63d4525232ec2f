//! The rule that a device belongs to one claim at a time. No scenario has devices that claims share.

use super::fields::{AllocatedDevice, ResourceClaim};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::BTreeMap;

const CLAIMS: &str = "/registry/resourceclaims/";

#[derive(Default)]
pub struct Devices {
    /// The devices of each claim.
    of_claims: BTreeMap<String, Vec<AllocatedDevice>>,
}

impl Rule for Devices {
    fn prefixes(&self) -> &'static [&'static str] {
        &[CLAIMS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        self.of_claims.remove(key);
        let Some(claim) = read::<ResourceClaim>(key, value)? else { return Ok(()) };
        let devices = claim.status.devices();
        let holder = |device: &AllocatedDevice| {
            let (other, _) = self.of_claims.iter().find(|(_, others)| others.contains(device))?;
            Some((format!("{device} is given to {key}, and {other} has it"), other.clone()))
        };
        let found = devices.iter().find_map(holder);
        self.of_claims.insert(key.to_owned(), devices);
        found.map_or(Ok(()), |(what, other)| Err(RuleViolation::about(what, [other])))
    }
}
