//! Authenticates bootstrap tokens, with which a new node joins the cluster. Each is a Secret in `kube-system`.
//!
//! Corresponds to plugin/pkg/auth/authenticator/token/bootstrap and k8s.io/cluster-bootstrap/token.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cacher::lookup::{Lookup, ObjectKey};
use jiff::Timestamp;
use request::UserInfo;
use serde_json::Value;
use subtle::ConstantTimeEq;

const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
const GROUP: &str = "system:bootstrappers";

/// Splits a bootstrap token such as `abcdef.0123456789abcdef` into id and secret.
pub fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_word = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    (is_word(id, 6) && is_word(secret, 16)).then_some((id, secret))
}

/// Returns the user of a valid bootstrap token.
pub fn authenticate(token: &str, now: Timestamp, objects: &dyn Lookup) -> Option<UserInfo> {
    let (id, secret) = parse(token)?;
    let name = format!("{NAME_PREFIX}{id}");
    let found = objects.get(ObjectKey::new("", "secrets", NAMESPACE, &name)).ok()??;
    if found.index.deleting {
        return None;
    }
    user_of(&found.peek(), id, secret, now)
        .inspect_err(|why| tracing::debug!(secret = name, why, "no bootstrap token"))
        .ok()
}

fn user_of(object: &Value, id: &str, secret: &str, now: Timestamp) -> Result<UserInfo, &'static str> {
    if object["type"] != SECRET_TYPE {
        return Err("it has another type");
    }
    let data = |key: &str| {
        let bytes = STANDARD.decode(object["data"][key].as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    if !bool::from(data("token-secret").as_bytes().ct_eq(secret.as_bytes())) || data("token-secret").is_empty() {
        return Err("its token-secret is another one");
    }
    if data("token-id") != id {
        return Err("its token-id is another one");
    }
    if has_expired(&data("expiration"), now) {
        return Err("it has expired");
    }
    if data("usage-bootstrap-authentication") != "true" {
        return Err("it is not for authentication");
    }
    let groups = groups(&data("auth-extra-groups")).ok_or("one of its groups has no valid name")?;
    Ok(UserInfo { name: format!("{USER_PREFIX}{id}"), groups, ..UserInfo::default() })
}

/// Tells whether a token has expired. An invalid timestamp counts as expired.
fn has_expired(text: &str, now: Timestamp) -> bool {
    !text.is_empty() && text.parse::<Timestamp>().map_or(true, |at| at <= now)
}

/// Returns `system:bootstrappers` and the token's extra groups, or `None` if one of these is no valid bootstrap group.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = vec![GROUP.to_owned()];
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let rest = group.strip_prefix("system:bootstrappers:")?;
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_fine = rest.len() <= 256
            && rest.bytes().all(|byte| is_plain(byte) || matches!(byte, b':' | b'-'))
            && rest.bytes().last().is_some_and(is_plain);
        is_fine.then(|| groups.push(group.to_owned()))?;
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_has_one_form() {
        assert_eq!(parse("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for bad in [
            "abcdef",
            "abcdeF.0123456789abcdef",
            "abcdef.0123456789abcde",
            "abcdef.0123456789abcdef.",
            "ab/def.0123456789abcdef",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_a_token_while_everything_about_it_is_right() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let good = |change: &dyn Fn(&mut Value)| {
            let mut plain = json!({
                "type": SECRET_TYPE, "token-id": "abcdef", "token-secret": "0123456789abcdef",
                "usage-bootstrap-authentication": "true", "expiration": "2026-01-01T12:00:01Z",
            });
            change(&mut plain);
            let kind = plain.as_object_mut().unwrap().remove("type").unwrap();
            let data = plain
                .as_object()
                .unwrap()
                .iter()
                .map(|(k, v)| (k.clone(), json!(STANDARD.encode(v.as_str().unwrap()))));
            let object = json!({"type": kind, "data": data.collect::<serde_json::Map<_, _>>()});
            user_of(&object, "abcdef", "0123456789abcdef", now).map(|user| (user.name, user.groups.join(" ")))
        };
        let known = |groups: &str| Ok(("system:bootstrap:abcdef".to_owned(), groups.to_owned()));
        for (key, value, expected) in [
            ("note", "x", known("system:bootstrappers")),
            ("expiration", "", known("system:bootstrappers")),
            (
                "auth-extra-groups",
                "system:bootstrappers:a,system:bootstrappers:kubeadm:x",
                known("system:bootstrappers system:bootstrappers:a system:bootstrappers:kubeadm:x"),
            ),
            ("auth-extra-groups", "system:masters", Err("one of its groups has no valid name")),
            ("auth-extra-groups", "system:bootstrappers:", Err("one of its groups has no valid name")),
            ("type", "Opaque", Err("it has another type")),
            ("token-secret", "0123456789abcdeX", Err("its token-secret is another one")),
            ("token-secret", "", Err("its token-secret is another one")),
            ("token-id", "abcdeg", Err("its token-id is another one")),
            ("expiration", "2026-01-01T12:00:00Z", Err("it has expired")),
            ("expiration", "tomorrow", Err("it has expired")),
            ("usage-bootstrap-authentication", "yes", Err("it is not for authentication")),
        ] {
            assert_eq!(good(&|plain| plain[key] = json!(value)), expected, "{key} {value}");
        }
    }
}
