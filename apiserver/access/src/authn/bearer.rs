//! Finds the bearer token of a request: in the `Authorization` header or, for browsers, among the subprotocols of a
//! WebSocket.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/{bearertoken,websocket}.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use request::header_text::text;
use std::borrow::Cow;

const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns the token of a request. The error says that it is not valid text.
pub fn token(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, String> {
    if let Some(token) = authorization(headers) {
        return Ok(Some(token));
    }
    let Some(encoded) = protocols(headers).find_map(|protocol| protocol.strip_prefix(PROTOCOL_PREFIX)) else {
        return Ok(None);
    };
    let decoded = URL_SAFE_NO_PAD.decode(encoded).map_err(|error| error.to_string())?;
    let token = String::from_utf8(decoded).map_err(|_| "token is not utf-8".to_owned())?;
    if protocols(headers).all(|protocol| protocol.starts_with(PROTOCOL_PREFIX)) {
        return Err("missing additional subprotocol".to_owned());
    }
    Ok(Some(Cow::Owned(token)))
}

/// Returns the token of `Authorization: Bearer …`; other schemes are ignored.
fn authorization(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    // A malformed token is still a token: its sender is not anonymous.
    match text(headers.get(header::AUTHORIZATION)?) {
        Cow::Borrowed(value) => of_value(value).map(Cow::Borrowed),
        Cow::Owned(value) => of_value(&value).map(|token| Cow::Owned(token.to_owned())),
    }
}

fn of_value(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Removes the token from the subprotocols that are negotiated later.
pub fn remove(headers: &mut HeaderMap) {
    if !protocols(headers).any(|protocol| protocol.starts_with(PROTOCOL_PREFIX)) {
        return;
    }
    let rest: Vec<&str> = protocols(headers).filter(|protocol| !protocol.starts_with(PROTOCOL_PREFIX)).collect();
    let rest = HeaderValue::from_str(&rest.join(",")).expect("parts of a header's value are one");
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_in_a_header_of_two() {
        for (name, value, expected) in [
            ("authorization", "Bearer abc", Ok(Some("abc"))),
            ("authorization", "bearer  abc", Ok(None)),
            ("authorization", "bearer abc def", Ok(Some("abc"))),
            ("authorization", "Bearer zoë", Ok(Some("zoë"))),
            ("authorization", "Basic abc", Ok(None)),
            ("authorization", "Bearer", Ok(None)),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io",
                Ok(Some("abc")),
            ),
            (
                "sec-websocket-protocol",
                "base64url.bearer.authorization.k8s.io.YWJj",
                Err("missing additional subprotocol"),
            ),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io._w, a", Err("token is not utf-8")),
            ("sec-websocket-protocol", "v5.channel.k8s.io", Ok(None)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            let found = token(&headers).map(|token| token.map(Cow::into_owned));
            assert_eq!(found.as_ref().map(|t| t.as_deref()).map_err(String::as_str), expected, "{value}");
            remove(&mut headers);
            assert!(!format!("{headers:?}").contains("YWJj"));
        }
    }
}
