//! The order in which Kubernetes writes the fields of its machinery's types: that of their Go structs.
//!
//! People compare these documents as text. Objects are not in this table: their members are sorted.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Field names in order, each with the order inside its value. What is not named follows, sorted.
#[derive(Debug)]
pub struct FieldOrder(&'static [(&'static str, FieldOrder)]);

/// A value without fields, or with fields that are sorted.
const PLAIN: FieldOrder = FieldOrder(&[]);

const SERVER_ADDRESSES: FieldOrder = FieldOrder(&[("clientCIDR", PLAIN), ("serverAddress", PLAIN)]);
const GROUP_VERSION: FieldOrder = FieldOrder(&[("groupVersion", PLAIN), ("version", PLAIN)]);
const GROUP_VERSION_KIND: FieldOrder = FieldOrder(&[("group", PLAIN), ("version", PLAIN), ("kind", PLAIN)]);

pub const LIST_META: FieldOrder =
    FieldOrder(&[("selfLink", PLAIN), ("resourceVersion", PLAIN), ("continue", PLAIN), ("remainingItemCount", PLAIN)]);

pub const API_VERSIONS: FieldOrder = FieldOrder(&[
    ("kind", PLAIN),
    ("apiVersion", PLAIN),
    ("versions", PLAIN),
    ("serverAddressByClientCIDRs", SERVER_ADDRESSES),
]);

pub const API_GROUP: FieldOrder = FieldOrder(&[
    ("kind", PLAIN),
    ("apiVersion", PLAIN),
    ("name", PLAIN),
    ("versions", GROUP_VERSION),
    ("preferredVersion", GROUP_VERSION),
    ("serverAddressByClientCIDRs", SERVER_ADDRESSES),
]);

pub const API_GROUP_LIST: FieldOrder = FieldOrder(&[("kind", PLAIN), ("apiVersion", PLAIN), ("groups", API_GROUP)]);

const API_RESOURCE: FieldOrder = FieldOrder(&[
    ("name", PLAIN),
    ("singularName", PLAIN),
    ("namespaced", PLAIN),
    ("group", PLAIN),
    ("version", PLAIN),
    ("kind", PLAIN),
    ("verbs", PLAIN),
    ("shortNames", PLAIN),
    ("categories", PLAIN),
    ("storageVersionHash", PLAIN),
]);

pub const API_RESOURCE_LIST: FieldOrder =
    FieldOrder(&[("kind", PLAIN), ("apiVersion", PLAIN), ("groupVersion", PLAIN), ("resources", API_RESOURCE)]);

const SUBRESOURCE_DISCOVERY: FieldOrder = FieldOrder(&[
    ("subresource", PLAIN),
    ("responseKind", GROUP_VERSION_KIND),
    ("acceptedTypes", GROUP_VERSION_KIND),
    ("verbs", PLAIN),
]);

const RESOURCE_DISCOVERY: FieldOrder = FieldOrder(&[
    ("resource", PLAIN),
    ("responseKind", GROUP_VERSION_KIND),
    ("scope", PLAIN),
    ("singularResource", PLAIN),
    ("verbs", PLAIN),
    ("shortNames", PLAIN),
    ("categories", PLAIN),
    ("subresources", SUBRESOURCE_DISCOVERY),
]);

const VERSION_DISCOVERY: FieldOrder =
    FieldOrder(&[("version", PLAIN), ("resources", RESOURCE_DISCOVERY), ("freshness", PLAIN)]);

const GROUP_DISCOVERY: FieldOrder = FieldOrder(&[("metadata", PLAIN), ("versions", VERSION_DISCOVERY)]);

pub const API_GROUP_DISCOVERY_LIST: FieldOrder =
    FieldOrder(&[("kind", PLAIN), ("apiVersion", PLAIN), ("metadata", LIST_META), ("items", GROUP_DISCOVERY)]);

pub const TABLE_COLUMN: FieldOrder =
    FieldOrder(&[("name", PLAIN), ("type", PLAIN), ("format", PLAIN), ("description", PLAIN), ("priority", PLAIN)]);

pub const TABLE_ROW_CONDITION: FieldOrder =
    FieldOrder(&[("type", PLAIN), ("status", PLAIN), ("reason", PLAIN), ("message", PLAIN)]);

/// A table without rows, as bookmarks have it.
pub const TABLE: FieldOrder = FieldOrder(&[
    ("kind", PLAIN),
    ("apiVersion", PLAIN),
    ("metadata", LIST_META),
    ("columnDefinitions", TABLE_COLUMN),
    ("rows", PLAIN),
]);

/// `/.well-known/openid-configuration`
pub const OPENID_CONFIGURATION: FieldOrder = FieldOrder(&[
    ("issuer", PLAIN),
    ("jwks_uri", PLAIN),
    ("response_types_supported", PLAIN),
    ("subject_types_supported", PLAIN),
    ("id_token_signing_alg_values_supported", PLAIN),
]);

const JSON_WEB_KEY: FieldOrder = FieldOrder(&[
    ("use", PLAIN),
    ("kty", PLAIN),
    ("kid", PLAIN),
    ("crv", PLAIN),
    ("alg", PLAIN),
    ("k", PLAIN),
    ("x", PLAIN),
    ("y", PLAIN),
    ("n", PLAIN),
    ("e", PLAIN),
]);

/// `/openid/v1/jwks`
pub const JSON_WEB_KEY_SET: FieldOrder = FieldOrder(&[("keys", JSON_WEB_KEY)]);

/// A tree that is written in the order of its type. A list is written in the order of its items' type.
pub struct InOrder<'a>(pub &'a Value, pub &'a FieldOrder);

impl InOrder<'_> {
    /// One line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a tree is plain data")
    }
}

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, FieldOrder(fields)) = self;
        match value {
            _ if fields.is_empty() => value.serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(|item| InOrder(item, self.1))),
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, inner) in *fields {
                    if let Some(member) = members.get(*name) {
                        map.serialize_entry(name, &InOrder(member, inner))?;
                    }
                }
                let is_named = |name: &str| fields.iter().any(|(known, _)| *known == name);
                for (name, member) in members.iter().filter(|(name, _)| !is_named(name)) {
                    map.serialize_entry(name, member)?;
                }
                map.end()
            }
            _ => value.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_stand_in_the_order_of_their_types_and_the_rest_is_sorted() {
        let list = json!({
            "zebra": 1, "apiVersion": "v1", "kind": "APIGroupList", "ant": 2,
            "groups": [{"versions": [{"version": "v1", "groupVersion": "apps/v1"}], "name": "apps"}],
        });
        assert_eq!(
            InOrder(&list, &API_GROUP_LIST).to_json(),
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}],"ant":2,"zebra":1}"#
        );
        assert_eq!(InOrder(&json!(null), &API_GROUP_LIST).to_json(), "null");
    }
}
