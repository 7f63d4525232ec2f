//! The envelope of a list: the text before the items, and the metadata of the list.
//!
//! Corresponds to metav1.ListMeta. The items are written one by one behind `head`, so that a long list is never a
//! single piece of memory.

use crate::serializer::field_order::{InOrder, LIST_META};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The revision of the store that the list shows.
    pub resource_version: String,
    /// Empty on the last page.
    pub continue_token: String,
    /// Number of items on later pages. `None` if a selector filters the list.
    pub remaining_item_count: Option<u64>,
    /// Whether the last page has an empty `continue`, as lists of custom resources have.
    pub shows_end: bool,
}

impl ListMeta {
    pub fn at(revision: u64) -> Self {
        Self { resource_version: revision.to_string(), ..Self::default() }
    }

    pub fn to_value(&self) -> Value {
        let mut meta = Map::new();
        if !self.resource_version.is_empty() {
            meta.insert("resourceVersion".into(), json!(self.resource_version));
        }
        if !self.continue_token.is_empty() || self.shows_end {
            meta.insert("continue".into(), json!(self.continue_token));
        }
        if let Some(count) = self.remaining_item_count {
            meta.insert("remainingItemCount".into(), json!(count));
        }
        Value::Object(meta)
    }

    /// Returns one line of JSON. The members are sorted for custom resources, whose lists have no Go struct.
    pub fn to_json(&self) -> String {
        let value = self.to_value();
        if self.shows_end { value.to_string() } else { InOrder(&value, &LIST_META).to_json() }
    }

    /// Returns `{"kind":"PodList","apiVersion":"v1","metadata":{…},"items":`, behind which come the list and `}`.
    pub fn head(&self, api_version: &str, list_kind: &str) -> Vec<u8> {
        let (kind, api_version) = (json!(list_kind), json!(api_version));
        format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{},\"items\":", self.to_json())
            .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_begins_with_what_it_is_and_how_it_goes_on() {
        let meta = ListMeta { continue_token: "next".into(), remaining_item_count: Some(3), ..ListMeta::at(7) };
        assert_eq!(
            String::from_utf8(meta.head("v1", "PodList")).unwrap(),
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},"items":"#
        );
        let of_custom_resources = ListMeta { shows_end: true, ..meta };
        let sorted = r#"{"continue":"next","remainingItemCount":3,"resourceVersion":"7"}"#;
        assert_eq!(of_custom_resources.to_json(), sorted);
    }
}
