//! `Namespaces`, the labels of namespaces, which affinity terms may select.

use proto::Kind;
use proto::kinds::api::core::v1::Namespace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clones share the labels until one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespaces(Arc<BTreeMap<String, BTreeMap<String, String>>>);

impl Namespaces {
    /// Returns the labels of a namespace; empty if it is not known.
    pub fn labels(&self, namespace: &str) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.0.get(namespace).unwrap_or(&NONE)
    }

    /// Returns the labels of every namespace, by its name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, String>)> {
        self.0.iter()
    }

    /// Returns true if both are one map, or equal ones.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self == other
    }

    pub fn set(&mut self, namespace: &Namespace) {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        if self.0.get(namespace.name()) != Some(&labels) {
            Arc::make_mut(&mut self.0).insert(namespace.name().to_owned(), labels);
        }
    }

    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.0).remove(name);
    }
}
