//! The envelope of a list: what stands before and after the items.
//!
//! Corresponds to metav1.ListMeta. Items are written between `head` and `tail` as they come, so that a long list is
//! never one piece of memory.

use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The revision at which the whole list is consistent.
    pub resource_version: String,
    /// Empty when this page is the last.
    pub continue_token: String,
    /// How many more there are; unknown when a selector filters.
    pub remaining_item_count: Option<u64>,
}

/// What stands after the last item.
pub const TAIL: &[u8] = b"]}";

impl ListMeta {
    pub fn at(revision: u64) -> Self {
        Self { resource_version: revision.to_string(), ..Self::default() }
    }

    pub fn to_value(&self) -> Value {
        let mut meta = Map::new();
        if !self.resource_version.is_empty() {
            meta.insert("resourceVersion".into(), json!(self.resource_version));
        }
        if !self.continue_token.is_empty() {
            meta.insert("continue".into(), json!(self.continue_token));
        }
        if let Some(count) = self.remaining_item_count {
            meta.insert("remainingItemCount".into(), json!(count));
        }
        Value::Object(meta)
    }

    /// `{"kind":"PodList","apiVersion":"v1","metadata":{…},"items":[`
    pub fn head(&self, api_version: &str, list_kind: &str) -> Vec<u8> {
        let (kind, api_version) = (json!(list_kind), json!(api_version));
        format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{},\"items\":[", self.to_value())
            .into_bytes()
    }

    /// The whole list as a tree, for those who need one.
    pub fn to_list(&self, api_version: &str, list_kind: &str, items: Vec<Value>) -> Value {
        json!({"kind": list_kind, "apiVersion": api_version, "metadata": self.to_value(), "items": items})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_items_and_tail_are_the_list() {
        let meta = ListMeta { continue_token: "next".into(), remaining_item_count: Some(3), ..ListMeta::at(7) };
        let mut bytes = meta.head("v1", "ConfigMapList");
        bytes.extend_from_slice(br#"{"data":{}}"#);
        bytes.extend_from_slice(TAIL);
        let streamed: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(streamed, meta.to_list("v1", "ConfigMapList", vec![json!({"data": {}})]));
        assert_eq!(
            String::from_utf8(ListMeta::at(1).head("v1", "PodList")).unwrap(),
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":["#
        );
    }
}
