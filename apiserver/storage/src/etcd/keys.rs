//! `Keys`: where in etcd's key space this cluster lies.
//!
//! Above the engine every key begins with `/registry`; in etcd it begins with `--etcd-prefix`, which is the same
//! unless somebody keeps several clusters in one etcd. Foreign keys need not be text; those are told and left out.

use crate::Key;
use parking_lot::Mutex;
use std::collections::BTreeSet;

/// What the registry's keys begin with.
const ROOT: &str = "/registry";

/// Foreign keys are told once each, up to so many.
const TOLD_KEYS: usize = 1000;

#[derive(Debug)]
pub struct Keys {
    prefix: String,
    told: Mutex<BTreeSet<Vec<u8>>>,
}

impl Keys {
    /// As kube-apiserver has it, the prefix may stand with or without its slash at the beginning.
    pub fn new(prefix: &str) -> Self {
        Self { prefix: format!("/{}", prefix.trim_matches('/')), told: Mutex::default() }
    }

    /// The key in etcd of a key, or of an end of a range.
    pub fn in_etcd(&self, key: &str) -> Vec<u8> {
        match key.strip_prefix(ROOT) {
            Some(rest) => [self.prefix.as_bytes(), rest.as_bytes()].concat(),
            None => key.as_bytes().to_owned(),
        }
    }

    /// The key of a key in etcd; None, and told, where it is none of ours.
    pub fn of_etcd(&self, key: &[u8]) -> Option<Key> {
        let Ok(text) = std::str::from_utf8(key) else {
            let mut told = self.told.lock();
            if told.len() < TOLD_KEYS && told.insert(key.to_owned()) {
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
