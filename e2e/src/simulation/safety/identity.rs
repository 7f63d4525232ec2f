//! The rule that an object keeps its UID, which no other object ever has, and that a deletion is final.

use super::seen::Any;
use super::{Complaint, Rule, When, read};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Identity {
    objects: BTreeMap<String, Known>,
    /// Every UID so far, with its object.
    owner_of: BTreeMap<String, String>,
}

struct Known {
    uid: String,
    generation: i64,
    deleting: bool,
}

impl Rule for Identity {
    fn prefixes(&self) -> &'static [&'static str] {
        &["/registry/"]
    }

    fn judge(&mut self, key: &str, value: Option<&[u8]>, _: When<'_>) -> Result<(), Complaint> {
        // Allocation ranges are no objects.
        if key.starts_with("/registry/ranges/") {
            return Ok(());
        }
        let Some(Any { metadata: meta }) = read(key, value)? else {
            self.objects.remove(key);
            return Ok(());
        };
        let now = Known { deleting: meta.is_deleting(), uid: meta.uid, generation: meta.generation };
        match self.objects.get(key) {
            Some(known) if known.uid != now.uid => {
                let (old, new) = (&known.uid, &now.uid);
                return Err(Complaint::new(format!("{key} became another object, {new} in place of {old}")));
            }
            Some(known) if known.deleting && !now.deleting => {
                return Err(Complaint::new(format!("{key} came back from its deletion")));
            }
            Some(known) if known.generation > now.generation => {
                return Err(Complaint::new(format!("the generation of {key} went back to {}", now.generation)));
            }
            Some(_) => {}
            None => {
                if let Some(other) = self.owner_of.insert(now.uid.clone(), key.to_owned()) {
                    let what = format!("{key} has the uid {} that {other} has or had", now.uid);
                    return Err(Complaint::about(what, [other]));
                }
            }
        }
        self.objects.insert(key.to_owned(), now);
        Ok(())
    }
}
