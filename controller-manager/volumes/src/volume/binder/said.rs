//! `Said`: the events that the rounds about claims and volumes have recorded, so that none is repeated while nothing changes.
//!
//! Deviation: Kubernetes records the events about a claim that waits once in every `--pvclaimbinder-sync-period`. Here they are
//! recorded again when the claim has changed, or when they say something else: an unchanged state writes nothing. A restart
//! begins anew.

use client::{Action, Plan};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The resource version of an object, and what was said about it, by the object's uid.
#[derive(Debug, Default)]
pub struct Said(Mutex<BTreeMap<String, (String, Vec<String>)>>);

impl Said {
    /// Returns the plan, without actions if it would only repeat what was said. Only plans without writes are remembered:
    /// after a write the object is another one.
    pub fn news(&self, uid: &str, resource_version: &str, plan: &Plan) -> Plan {
        let mut said = self.0.lock();
        let says = !plan.actions.is_empty() && plan.actions.iter().all(|action| matches!(action, Action::Event(_)));
        if !says {
            said.remove(uid);
            return plan.clone();
        }
        let words = (resource_version.to_owned(), plan.actions.iter().map(ToString::to_string).collect());
        if said.get(uid) == Some(&words) {
            return Plan { actions: Vec::new(), ..plan.clone() };
        }
        said.insert(uid.to_owned(), words);
        plan.clone()
    }

    /// Call it when an object is gone.
    pub fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::claim;
    use controller_base::actions;

    #[test]
    fn nothing_is_said_twice_while_nothing_changes() {
        let said = Said::default();
        let claim = claim("c", None);
        let event = |why: &str| Plan::of([actions::normal(&claim, "FailedBinding", why)]);
        let count = |version: &str, plan: &Plan| said.news("u", version, plan).actions.len();
        assert_eq!([count("1", &event("a")), count("1", &event("a")), count("1", &event("b"))], [1, 0, 1]);
        assert_eq!([count("2", &event("b")), count("2", &event("b"))], [1, 0], "the claim has changed");
        let write = Plan::of([actions::delete_exactly(&claim)]);
        assert_eq!([count("2", &write), count("2", &write), count("2", &event("b"))], [1, 1, 1]);
        assert_eq!([count("2", &Plan::default()), count("2", &event("b"))], [0, 1], "it was well in between");
        said.forget("u");
        assert_eq!(count("2", &event("b")), 1);
    }
}
