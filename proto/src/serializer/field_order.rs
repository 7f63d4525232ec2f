//! The order in which Kubernetes writes the fields of its machinery's types: the order of the Go structs.
//!
//! People compare these documents as text. API objects are not in this table, because their members are sorted.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Field names in order, each with the order inside its value. Other fields follow in alphabetical order.
#[derive(Debug)]
pub struct FieldOrder(&'static [(&'static str, FieldOrder)]);

/// A value without fields, or with fields that are sorted.
const PLAIN: FieldOrder = FieldOrder(&[]);

/// `NAME: field field(ORDER_OF_ITS_VALUE);`
macro_rules! orders {
    (@) => { PLAIN };
    (@ $inner:ident) => { $inner };
    ($($(#[$doc:meta])* $visibility:vis $name:ident: $($field:ident $(($inner:ident))?)+;)+) => {
        $($(#[$doc])* $visibility const $name: FieldOrder =
            FieldOrder(&[$((stringify!($field), orders!(@ $($inner)?))),+]);)+
    };
}

orders! {
    pub LIST_META: selfLink resourceVersion continue remainingItemCount;

    // Discovery.
    SERVER_ADDRESSES: clientCIDR serverAddress;
    GROUP_VERSION: groupVersion version;
    GROUP_VERSION_KIND: group version kind;
    pub API_VERSIONS: kind apiVersion versions serverAddressByClientCIDRs(SERVER_ADDRESSES);
    pub API_GROUP: kind apiVersion name versions(GROUP_VERSION) preferredVersion(GROUP_VERSION)
        serverAddressByClientCIDRs(SERVER_ADDRESSES);
    pub API_GROUP_LIST: kind apiVersion groups(API_GROUP);
    API_RESOURCE: name singularName namespaced group version kind verbs shortNames categories storageVersionHash;
    pub API_RESOURCE_LIST: kind apiVersion groupVersion resources(API_RESOURCE);
    SUBRESOURCE_DISCOVERY: subresource responseKind(GROUP_VERSION_KIND) acceptedTypes(GROUP_VERSION_KIND) verbs;
    RESOURCE_DISCOVERY: resource responseKind(GROUP_VERSION_KIND) scope singularResource verbs shortNames categories
        subresources(SUBRESOURCE_DISCOVERY);
    VERSION_DISCOVERY: version resources(RESOURCE_DISCOVERY) freshness;
    GROUP_DISCOVERY: metadata versions(VERSION_DISCOVERY);
    pub API_GROUP_DISCOVERY_LIST: kind apiVersion metadata(LIST_META) items(GROUP_DISCOVERY);

    // Tables. The rows are written one by one, so that their order is not named here.
    pub TABLE_COLUMN: name type format description priority;
    pub TABLE_ROW_CONDITION: type status reason message;
    pub TABLE: kind apiVersion metadata(LIST_META) columnDefinitions(TABLE_COLUMN) rows;

    /// `/.well-known/openid-configuration`
    pub OPENID_CONFIGURATION: issuer jwks_uri response_types_supported subject_types_supported
        id_token_signing_alg_values_supported;
    JSON_WEB_KEY: use kty kid crv alg k x y n e;
    /// `/openid/v1/jwks`
    pub JSON_WEB_KEY_SET: keys(JSON_WEB_KEY);
}

/// A tree that is serialized in the order of its type. In a list, the order applies to every item.
pub struct InOrder<'a>(pub &'a Value, pub &'a FieldOrder);

impl InOrder<'_> {
    /// Returns one line of JSON.
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
