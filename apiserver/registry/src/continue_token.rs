//! Continue tokens: the key and the revision at which a list continues.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/continue.go. The tokens are the same, byte for byte.

use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use proto::Status;
use proto::wire::json_syntax;
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Token {
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "rv")]
    revision: i64,
    #[serde(rename = "start")]
    start: String,
}

/// The start of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The first key of the page, without the prefix that all keys of the list share.
    pub start: String,
    /// The revision of the list; `None` for the current one, which may be inconsistent with earlier pages.
    pub revision: Option<u64>,
}

impl Continue {
    pub fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(i64::MAX));
        let token = Token { version: VERSION.into(), revision, start: self.start.clone() };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a token is plain data"))
    }

    pub fn decode(text: &str) -> Result<Self, Status> {
        let invalid =
            |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .or_else(|_| URL_SAFE.decode(text))
            .map_err(|_| invalid(format!("illegal base64 data at input byte {}", bad_byte(text))))?;
        let token: Token = serde_json::from_slice(&bytes)
            .map_err(|e| invalid(json_syntax::syntax_error(&bytes).unwrap_or_else(|| e.to_string())))?;
        if token.version != VERSION {
            return Err(invalid(format!("server does not recognize this encoded version {}", token.version)));
        }
        if token.revision == 0 {
            return Err(invalid(format!("incorrect encoded start resourceVersion (version {VERSION})")));
        }
        if token.start.is_empty() {
            return Err(invalid(format!("encoded start key empty (version {VERSION})")));
        }
        if token.start.split('/').any(|segment| matches!(segment, "." | "..")) || token.start.contains("//") {
            return Err(invalid(token.start));
        }
        Ok(Self { start: token.start, revision: u64::try_from(token.revision).ok() })
    }
}

/// Returns the index of the first byte outside the URL-safe alphabet, as Go reports it.
fn bad_byte(text: &str) -> usize {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    text.bytes().position(|b| !is_good(b)).unwrap_or(text.len().saturating_sub(text.len() % 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_round() {
        let token = Continue { start: "shop/web\0".into(), revision: Some(7) };
        assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
        let token = Continue { start: "a".into(), revision: None };
        assert_eq!(Continue::decode(&token.encode()).unwrap(), token);
    }

    #[test]
    fn broken_tokens_are_refused_in_kubernetes_words() {
        let cases = [
            ("!!", "illegal base64 data at input byte 0"),
            ("abc", "invalid character 'i' looking for beginning of value"),
            ("eyJ2IjoieCJ9", "server does not recognize this encoded version x"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
            ("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0", "../a"),
        ];
        for (token, why) in cases {
            let message = Continue::decode(token).unwrap_err().message;
            assert_eq!(message, format!("invalid continue token: continue key is not valid: {why}"));
        }
    }
}
