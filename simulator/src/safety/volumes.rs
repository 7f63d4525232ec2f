//! The rule that claims and volumes are bound one to one: no volume is given to a second claim, and a bound claim has a volume
//! that refers to it.

use super::{Rule, RuleViolation, WriteContext, read};
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::collections::BTreeMap;

const VOLUMES: &str = "/registry/persistentvolumes/";
const CLAIMS: &str = "/registry/persistentvolumeclaims/";

#[derive(Default)]
pub struct Volumes {
    /// The uid of the claim that each volume refers to; empty for none.
    claim_of: BTreeMap<String, String>,
    claims: BTreeMap<String, Claim>,
}

struct Claim {
    uid: String,
    volume: String,
    is_bound: bool,
}

impl Rule for Volumes {
    fn prefixes(&self) -> &'static [&'static str] {
        &[VOLUMES, CLAIMS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(VOLUMES) { self.volume(key, value) } else { self.claim(key, value) }
    }
}

impl Volumes {
    fn volume(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let before = self.claim_of.remove(key).unwrap_or_default();
        let Some(volume) = read::<PersistentVolume>(key, value)? else { return Ok(()) };
        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let after = reference.and_then(|claim| claim.uid.clone()).unwrap_or_default();
        self.claim_of.insert(key.to_owned(), after.clone());
        if before.is_empty() || before == after {
            return Ok(());
        }
        // A volume is taken back only from a claim that has another one.
        match self.claims.iter().find(|(_, claim)| claim.uid == before) {
            None => {
                Err(RuleViolation::new(format!("{key} held data of {before}, which is gone, and went to {after:?}")))
            }
            Some((owner, claim)) if claim.is_bound && claim.volume == volume.name() => {
                Err(RuleViolation::about(format!("{key} was taken from {owner}"), [owner.clone()]))
            }
            Some(_) => Ok(()),
        }
    }

    fn claim(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        self.claims.remove(key);
        let Some(object) = read::<PersistentVolumeClaim>(key, value)? else { return Ok(()) };
        let claim = Claim {
            uid: object.uid().to_owned(),
            volume: object.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default(),
            is_bound: object.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound"),
        };
        let volume = format!("{VOLUMES}{}", claim.volume);
        let refers = self.claim_of.get(&volume).is_none_or(|uid| *uid == claim.uid);
        let has_rival = |(_, other): &(&String, &Claim)| other.is_bound && other.volume == claim.volume;
        let rival = self.claims.iter().find(has_rival).map(|(key, _)| key.clone());
        let is_bound = claim.is_bound;
        self.claims.insert(key.to_owned(), claim);
        match (is_bound, rival) {
            (true, Some(rival)) => {
                Err(RuleViolation::about(format!("{key} and {rival} are bound to {volume}"), [rival, volume]))
            }
            (true, None) if !refers => {
                Err(RuleViolation::about(format!("{key} is bound to {volume}, which refers to another"), [volume]))
            }
            _ => Ok(()),
        }
    }
}
