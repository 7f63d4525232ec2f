//! The index of label sets: all labels of an object as one text, behind its namespace.
//!
//! Nothing in client-go corresponds to it: its listers compare a selector with every object of a namespace. Most objects
//! share their labels with many others, so there are few sets to compare with.

use crate::cached::Cached;
use std::collections::BTreeMap;

/// Name of the index.
pub(crate) const INDEX: &str = "labelSet";

/// Neither names of namespaces nor labels contain them.
const END_OF_NAMESPACE: char = '\n';
const BETWEEN_LABELS: char = ',';
const BETWEEN_KEY_AND_VALUE: char = '=';

/// Returns how the values of a namespace's objects begin.
pub(crate) fn prefix(namespace: &str) -> String {
    format!("{namespace}{END_OF_NAMESPACE}")
}

/// Returns the value of an object in the index.
pub(crate) fn values<T: Cached>(object: &T) -> Vec<String> {
    let metadata = object.metadata();
    let mut value = prefix(metadata.namespace.as_deref().unwrap_or_default());
    append(&mut value, metadata.labels.iter().flatten());
    vec![value]
}

/// Appends labels to a value.
pub fn append<'a>(value: &mut String, labels: impl IntoIterator<Item = (&'a String, &'a String)>) {
    for (position, (key, label)) in labels.into_iter().enumerate() {
        if position > 0 {
            value.push(BETWEEN_LABELS);
        }
        value.push_str(key);
        value.push(BETWEEN_KEY_AND_VALUE);
        value.push_str(label);
    }
}

/// Returns labels that `append` has written.
pub fn parse(set: &str) -> BTreeMap<String, String> {
    let labels = set.split(BETWEEN_LABELS).filter_map(|label| label.split_once(BETWEEN_KEY_AND_VALUE));
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::PartialObject;

    #[test]
    fn labels_come_back() {
        for labels in [vec![], vec![("app", "web")], vec![("app", ""), ("example.org/a.b", "x-1")]] {
            let labels: BTreeMap<String, String> =
                labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let mut object = PartialObject::default();
            object.metadata.namespace = Some("shop".to_owned());
            object.metadata.labels = Some(labels.clone());
            let values = values(&object);
            assert_eq!(values.len(), 1);
            assert_eq!(parse(values[0].strip_prefix(&prefix("shop")).unwrap()), labels);
        }
    }
}
