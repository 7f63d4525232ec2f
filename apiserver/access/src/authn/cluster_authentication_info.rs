//! `ClusterAuthenticationInfo`: the certificate authorities and request headers that this server accepts, as it publishes
//! them to extension API servers in a ConfigMap.
//! them to extension API servers in a ConfigMap.
//!
//! Several API servers write the same ConfigMap: existing entries stay, and missing ones are added.
//! Corresponds to pkg/controlplane/controller/clusterauthenticationtrust.

use super::request_header::RequestHeaders;
use serde_json::{Map, Value, json};

/// Data of ConfigMap `extension-apiserver-authentication`: certificates as PEM, lists as JSON.
#[derive(Clone, Debug, Default)]
pub struct ClusterAuthenticationInfo {
    pub client_ca: Option<String>,
    pub proxy_ca: Option<String>,
    pub request_headers: Option<RequestHeaders>,
}

impl ClusterAuthenticationInfo {
    /// Returns the data of the ConfigMap with the entries of this server added.
    pub fn merged_into(&self, known: &Map<String, Value>) -> Map<String, Value> {
        let mut data = known.clone();
        let mut add = |key: &str, merge: &dyn Fn(&str) -> String| {
            let text = data.get(key).and_then(Value::as_str).unwrap_or_default();
            let merged = merge(text);
            data.insert(key.to_owned(), json!(merged));
        };
        if let Some(ca) = &self.client_ca {
            add("client-ca-file", &|known| with_certificates(known, ca));
        }
        if let (Some(ca), Some(headers)) = (&self.proxy_ca, &self.request_headers) {
            add("requestheader-client-ca-file", &|known| with_certificates(known, ca));
            for (key, items) in headers.published() {
                add(key, &|known| with_items(known, items));
            }
        }
        data
    }
}

fn with_certificates(known: &str, more: &str) -> String {
    let more = more.trim();
    match known.trim() {
        "" => format!("{more}\n"),
        held if held.contains(more) => known.to_owned(),
        held => format!("{held}\n{more}\n"),
    }
}

fn with_items(known: &str, more: &[String]) -> String {
    let mut items: Vec<String> = serde_json::from_str(known).unwrap_or_default();
    items.extend(more.iter().filter(|item| !items.contains(item)).cloned().collect::<Vec<_>>());
    json!(items).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::request_header::RequestHeaderOptions;

    fn trust(client_ca: &str, name: &str) -> ClusterAuthenticationInfo {
        let options = RequestHeaderOptions {
            requestheader_client_ca_file: Some("ca.crt".into()),
            requestheader_username_headers: vec!["X-Remote-User".to_owned()],
            requestheader_allowed_names: vec![name.to_owned()],
            ..RequestHeaderOptions::default()
        };
        ClusterAuthenticationInfo {
            client_ca: Some(client_ca.to_owned()),
            proxy_ca: Some("PROXY\n".to_owned()),
            request_headers: options.authenticator().unwrap(),
        }
    }

    #[test]
    fn servers_add_to_what_others_believe() {
        let first = trust("ONE\n", "front").merged_into(&Map::new());
        let expected = json!({
            "client-ca-file": "ONE\n",
            "requestheader-client-ca-file": "PROXY\n",
            "requestheader-allowed-names": "[\"front\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[]",
            "requestheader-extra-headers-prefix": "[]",
        });
        assert_eq!(Value::Object(first.clone()), expected);
        assert_eq!(trust("ONE\n", "front").merged_into(&first), first);
        let both = trust("TWO", "aggregator").merged_into(&first);
        assert_eq!(both["client-ca-file"], "ONE\nTWO\n");
        assert_eq!(both["requestheader-allowed-names"], r#"["front","aggregator"]"#);
        assert_eq!(trust("ONE", "front").merged_into(&both), both);
        assert_eq!(ClusterAuthenticationInfo::default().merged_into(&Map::new()), Map::new());
    }
}
