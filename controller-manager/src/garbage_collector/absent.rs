//! Owners that are known to be gone for good, so that each of their thousand dependents need not ask again.
//!
//! Corresponds to ReferenceCache in pkg/controller/garbagecollector/uid_cache.go.

use super::graph::Identity;
use std::collections::{BTreeSet, VecDeque};

/// As many as in kube-controller-manager: the owners deleted most lately are those whose dependents are at work.
const MOST: usize = 500;

/// A uid is never given twice, so what is here stays true.
#[derive(Debug, Default)]
pub struct Absent {
    known: BTreeSet<Key>,
    /// Oldest first.
    order: VecDeque<Key>,
}

type Key = (String, String, String, String, String);

fn key(identity: &Identity) -> Key {
    let Identity { api_version, kind, namespace, name, uid, gvr: _ } = identity.clone();
    (api_version, kind, namespace, name, uid)
}

impl Absent {
    pub fn add(&mut self, identity: &Identity) {
        let key = key(identity);
        if !self.known.insert(key.clone()) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Whether the object that a reference means is known to be absent, be it in the namespace or in none.
    pub fn has(&self, identity: &Identity) -> bool {
        let in_none = Identity { namespace: String::new(), ..identity.clone() };
        self.known.contains(&key(identity)) || self.known.contains(&key(&in_none))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(namespace: &str, uid: &str) -> Identity {
        Identity { namespace: namespace.to_owned(), uid: uid.to_owned(), ..Identity::default() }
    }

    #[test]
    fn the_latest_are_remembered() {
        let mut absent = Absent::default();
        absent.add(&identity("", "cluster"));
        absent.add(&identity("shop", "a"));
        assert!(absent.has(&identity("shop", "a")) && !absent.has(&identity("elsewhere", "a")));
        assert!(absent.has(&identity("shop", "cluster")), "referred to from a namespace");
        (0..MOST).for_each(|i| absent.add(&identity("shop", &format!("later-{i}"))));
        assert!(!absent.has(&identity("shop", "a")) && absent.has(&identity("shop", "later-0")));
    }
}
