//! `FrontProxy`: believes the API server's aggregator about the users on whose behalf it asks.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/headerrequest, with the usual names of headers. The proxy
//! shows a certificate of the request-header authority.

use component_base::network::ConnectionInfo;
use component_base::pki;
use http::HeaderMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const USER: &str = "x-remote-user";
const UID: &str = "x-remote-uid";
const GROUP: &str = "x-remote-group";
const EXTRA_PREFIX: &str = "x-remote-extra-";

/// The proxies that are believed.
#[derive(Clone, Debug, Default)]
pub struct FrontProxy {
    /// Common names that a proxy's certificate may have; empty for any.
    pub allowed_names: Vec<String>,
}

impl FrontProxy {
    /// Returns the user whom a proxy names, as in a SubjectAccessReview; `None` for a caller that is no proxy.
    pub fn user_of(&self, connection: &ConnectionInfo, headers: &HeaderMap) -> Option<Value> {
        let certificate = connection.proxy_certificate.as_ref()?;
        if !self.allowed_names.is_empty() {
            let (common_name, _) = pki::subject(certificate)?;
            self.allowed_names.contains(&common_name).then_some(())?;
        }
        let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        let name = text(USER).filter(|name| !name.is_empty())?;
        let groups: Vec<&str> = headers.get_all(GROUP).iter().filter_map(|group| group.to_str().ok()).collect();
        let mut extra: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (header, value) in headers {
            if let (Some(key), Ok(value)) = (header.as_str().strip_prefix(EXTRA_PREFIX), value.to_str()) {
                let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().push(value);
            }
        }
        Some(json!({"username": name, "uid": text(UID), "groups": groups, "extra": extra}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::pki::{Authority, Subject};
    use component_base::tls;
    use std::sync::Arc;

    #[test]
    fn a_proxy_of_an_allowed_name_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        let authority = Authority::load_or_create(folder.path(), now).unwrap();
        let pair = authority.issue(&Subject { common_name: "aggregator", ..Subject::default() }, now).unwrap();
        let leaf = tls::certificates("proxy", &pair.cert_pem).unwrap().remove(0);
        let connection = |leaf: Option<_>| ConnectionInfo {
            peer_certificates: Arc::default(),
            rejected_certificate: false,
            proxy_certificate: leaf,
            remote_address: ([127, 0, 0, 1], 1).into(),
        };
        let proxy = connection(Some(Arc::new(leaf)));
        let mut headers = HeaderMap::new();
        for (name, value) in
            [(USER, "ada"), (GROUP, "dev"), (GROUP, "ops"), ("x-remote-extra-example.com%2fteam", "red")]
        {
            headers.append(name, value.parse().unwrap());
        }
        let allowing = |names: &[&str]| FrontProxy { allowed_names: names.iter().map(ToString::to_string).collect() };
        let user = allowing(&["aggregator"]).user_of(&proxy, &headers).unwrap();
        let expected = json!({
            "username": "ada", "uid": null, "groups": ["dev", "ops"], "extra": {"example.com/team": ["red"]},
        });
        assert_eq!(user, expected);
        assert!(allowing(&[]).user_of(&proxy, &headers).is_some());
        assert_eq!(allowing(&["other"]).user_of(&proxy, &headers), None);
        assert_eq!(allowing(&[]).user_of(&connection(None), &headers), None, "no proxy");
        assert_eq!(allowing(&[]).user_of(&proxy, &HeaderMap::new()), None, "no user");
    }
}
