//! Identity headers: name the authenticated user to a server that trusts this one's client certificate.
//!
//! Corresponds to SetAuthProxyHeaders of k8s.io/client-go/transport.

use http::{HeaderMap, HeaderName, HeaderValue};
use request::UserInfo;

/// Prefix of all identity headers.
pub const IDENTITY: &str = "x-remote-";
const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// Adds the headers that identify the user. The error names the header that cannot hold its value.
pub fn identify(headers: &mut HeaderMap, user: &UserInfo) -> Result<(), String> {
    let mut add = |name: HeaderName, value: &str| -> Result<(), String> {
        let value = HeaderValue::from_bytes(value.as_bytes());
        let value = value.map_err(|_| format!("net/http: invalid header field value for {name:?}"))?;
        headers.append(name, value);
        Ok(())
    };
    add(USER, &user.name)?;
    if !user.uid.is_empty() {
        add(UID, &user.uid)?;
    }
    user.groups.iter().try_for_each(|group| add(GROUP, group))?;
    for (key, values) in &user.extra {
        let name = HeaderName::from_bytes(format!("{EXTRA}{}", escaped(key)).as_bytes());
        let name = name.map_err(|_| format!("net/http: invalid header field name {key:?}"))?;
        values.iter().try_for_each(|value| add(name.clone(), value))?;
    }
    Ok(())
}

/// Percent-encodes the bytes of a key that a header name cannot hold.
fn escaped(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    key.bytes().map(|byte| if is_plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_caller_is_named_in_headers() {
        let extra = BTreeMap::from([("example.com/team".to_owned(), vec!["red".to_owned(), "blue".to_owned()])]);
        let user = UserInfo { uid: "7".into(), extra, ..UserInfo::new("ann", &["dev", "ops"]) };
        let mut named = HeaderMap::new();
        identify(&mut named, &user).unwrap();
        let mut shown: Vec<String> =
            named.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "x-remote-extra-example.com%2fteam: blue",
                "x-remote-extra-example.com%2fteam: red",
                "x-remote-group: dev",
                "x-remote-group: ops",
                "x-remote-uid: 7",
                "x-remote-user: ann",
            ]
        );
        // A user whom headers cannot name must not become anonymous, or the proxy itself.
        for user in [UserInfo::new("ann\r\nx-remote-group: system:masters", &[]), UserInfo::new("ann", &["a\0"])] {
            assert!(identify(&mut HeaderMap::new(), &user).unwrap_err().starts_with("net/http: invalid header field"));
        }
    }
}
