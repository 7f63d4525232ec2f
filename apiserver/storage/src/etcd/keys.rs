//! `Keys`: translates between the keys of the store and the keys in etcd.
//!
//! In the store every key begins with `/registry`; in etcd it begins with `--etcd-prefix`. The two are the same unless
//! several clusters share one etcd. Foreign keys need not be text; those are logged and left out.

use crate::Key;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Prefix of all keys of the registry.
const ROOT: &str = "/registry";

/// Largest number of foreign keys that are logged, once each.
const MAX_REPORTED_KEYS: usize = 1000;

#[derive(Debug)]
pub struct Keys {
    prefix: String,
    reported: Mutex<BTreeSet<Vec<u8>>>,
}

impl Keys {
    /// Builds the translation for a prefix with or without its leading slash, as kube-apiserver does.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: format!("/{}", prefix.trim_matches('/')), reported: Mutex::default() }
    }

    /// Returns the etcd key for a key, or for an end of a range.
    pub fn in_etcd(&self, key: &str) -> Vec<u8> {
        match key.strip_prefix(ROOT) {
            Some(rest) => [self.prefix.as_bytes(), rest.as_bytes()].concat(),
            None => key.as_bytes().to_owned(),
        }
    }

    /// Returns the key for an etcd key, or `None` for a foreign key that is not text, which is logged.
    pub fn of_etcd(&self, key: &[u8]) -> Option<Key> {
        let Ok(text) = std::str::from_utf8(key) else {
            let mut reported = self.reported.lock();
            if reported.len() < MAX_REPORTED_KEYS && reported.insert(key.to_owned()) {
                let shown = String::from_utf8_lossy(key);
                tracing::error!(key = %shown, "a foreign key in etcd is not text and is left out");
            }
            return None;
        };
        match text.strip_prefix(&self.prefix) {
            Some(rest) if self.prefix != ROOT => Some(format!("{ROOT}{rest}").into()),
            _ => Some(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_kubernetes_below_the_prefix() {
        let cases = [
            ("/registry", "/registry/pods/default/web", "/registry/pods/default/web"),
            ("registry/", "/registry/pods0", "/registry/pods0"),
            ("/blue", "/registry/pods/default/web", "/blue/pods/default/web"),
            ("/teams/blue/", "/registry/pods0", "/teams/blue/pods0"),
        ];
        for (prefix, key, in_etcd) in cases {
            let keys = Keys::new(prefix);
            assert_eq!(String::from_utf8(keys.in_etcd(key)).unwrap(), in_etcd);
            assert_eq!(keys.of_etcd(in_etcd.as_bytes()).as_deref(), Some(key));
        }
    }

    #[test]
    fn a_key_that_is_not_text_is_left_out() {
        assert_eq!(Keys::new("/registry").of_etcd(b"/registry/pods/x/\xff"), None);
    }
}
