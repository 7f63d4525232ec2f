//! The rule that an object keeps its UID, that no other object ever has that UID, and that a deletion is final.

use super::fields::AnyObject;
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Identity {
    objects: BTreeMap<String, ObjectState>,
    /// Key of the object that has or had each UID.
    key_of_uid: BTreeMap<String, String>,
}

struct ObjectState {
    uid: String,
    generation: i64,
    deleting: bool,
}

impl Rule for Identity {
    fn prefixes(&self) -> &'static [&'static str] {
        &["/registry/"]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        // Allocation ranges are not objects.
        if key.starts_with("/registry/ranges/") {
            return Ok(());
        }
        let Some(AnyObject { metadata: meta }) = read(key, value)? else {
            self.objects.remove(key);
            return Ok(());
        };
        let now = ObjectState { deleting: meta.is_deleting(), uid: meta.uid, generation: meta.generation };
        match self.objects.get(key) {
            Some(before) if before.uid != now.uid => {
                let (old, new) = (&before.uid, &now.uid);
                return Err(RuleViolation::new(format!("{key} became another object, {new} in place of {old}")));
            }
            Some(before) if before.deleting && !now.deleting => {
                return Err(RuleViolation::new(format!("{key} came back from its deletion")));
            }
            Some(before) if before.generation > now.generation => {
                return Err(RuleViolation::new(format!("the generation of {key} went back to {}", now.generation)));
            }
            Some(_) => {}
            None => {
                if let Some(other) = self.key_of_uid.insert(now.uid.clone(), key.to_owned()) {
                    let what = format!("{key} has the uid {} that {other} has or had", now.uid);
                    return Err(RuleViolation::about(what, [other]));
                }
            }
        }
        self.objects.insert(key.to_owned(), now);
        Ok(())
    }
}
