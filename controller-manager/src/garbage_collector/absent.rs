//! `AbsentOwners` caches owners that do not exist, so that the server is not asked again for each of their dependents.
//!
//! Corresponds to ReferenceCache in pkg/controller/garbagecollector/uid_cache.go.

use super::graph::Identity;
use std::collections::{BTreeSet, VecDeque};

/// Size of the cache, as in kube-controller-manager.
const MAX_OWNERS: usize = 500;

/// Entries never become wrong, because a uid is never used twice.
#[derive(Debug, Default)]
pub struct AbsentOwners {
    known: BTreeSet<Key>,
    /// Oldest first.
    order: VecDeque<Key>,
}

type Key = (String, String, String, String, String);

fn key(identity: &Identity) -> Key {
    let Identity { api_version, kind, namespace, name, uid, gvr: _ } = identity.clone();
    (api_version, kind, namespace, name, uid)
}

impl AbsentOwners {
    pub fn add(&mut self, identity: &Identity) {
        let key = key(identity);
        if !self.known.insert(key.clone()) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_OWNERS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns true if the referenced object is known to be absent, as a namespaced or as a cluster-scoped object.
    pub fn has(&self, identity: &Identity) -> bool {
        let cluster_scoped = Identity { namespace: String::new(), ..identity.clone() };
        self.known.contains(&key(identity)) || self.known.contains(&key(&cluster_scoped))
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
        let mut absent = AbsentOwners::default();
        absent.add(&identity("", "cluster"));
        absent.add(&identity("shop", "a"));
        assert!(absent.has(&identity("shop", "a")) && !absent.has(&identity("elsewhere", "a")));
        assert!(absent.has(&identity("shop", "cluster")), "referred to from a namespace");
        (0..MAX_OWNERS).for_each(|i| absent.add(&identity("shop", &format!("later-{i}"))));
        assert!(!absent.has(&identity("shop", "a")) && absent.has(&identity("shop", "later-0")));
    }
}
