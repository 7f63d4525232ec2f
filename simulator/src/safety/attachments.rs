//! The rule that a volume for one node at a time is attached to one node at a time.

use super::{Rule, RuleViolation, WriteContext, read};
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::VolumeAttachment;
use std::collections::{BTreeMap, BTreeSet};

const ATTACHMENTS: &str = "/registry/volumeattachments/";
const VOLUMES: &str = "/registry/persistentvolumes/";

#[derive(Default)]
pub struct Attachments {
    /// Names of the volumes that several nodes may have at once.
    shared: BTreeSet<String>,
    /// The volume and the node of each VolumeAttachment that is carried out.
    attached: BTreeMap<String, (String, String)>,
}

impl Attachments {
    fn check_attachment(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        self.attached.remove(key);
        let Some(attachment) = read::<VolumeAttachment>(key, value)? else { return Ok(()) };
        let Some(volume) = attachment.spec.source.persistent_volume_name else { return Ok(()) };
        if !attachment.status.is_some_and(|status| status.attached) {
            return Ok(());
        }
        let node = attachment.spec.node_name;
        let other = self.attached.iter().find(|(_, (other, _))| *other == volume && !self.shared.contains(&volume));
        let checked = other.map(|(other, (_, elsewhere))| {
            let what = format!("{volume} is attached to {node}, and still to {elsewhere}");
            RuleViolation::about(what, [other.clone(), format!("{VOLUMES}{volume}")])
        });
        self.attached.insert(key.to_owned(), (volume, node));
        checked.map_or(Ok(()), Err)
    }

    fn record_volume(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let name = key.strip_prefix(VOLUMES).unwrap_or_default();
        let modes = read::<PersistentVolume>(key, value)?.and_then(|volume| volume.spec?.access_modes);
        if modes.is_some_and(|modes| modes.iter().any(|mode| mode.ends_with("Many"))) {
            self.shared.insert(name.to_owned());
        } else {
            self.shared.remove(name);
        }
        Ok(())
    }
}

impl Rule for Attachments {
    fn prefixes(&self) -> &'static [&'static str] {
        &[ATTACHMENTS, VOLUMES]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(ATTACHMENTS) { self.check_attachment(key, value) } else { self.record_volume(key, value) }
    }
}
