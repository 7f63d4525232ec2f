//! `Query`: the decoded query string, with Go's rules for numbers and booleans.
//!
//! Corresponds to net/url.Values and k8s.io/apimachinery/pkg/runtime/converter conversions of query parameters.

use proto::Status;

/// Decoded parameters in their order in the query; a name may repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query string. Malformed pairs are left out, as in Go.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(name, true)?, unescape(value, true)?))
        });
        Self(pairs.collect())
    }

    /// Returns the first value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the first value of that name, or the empty text if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// Reads a boolean as Kubernetes does: true unless it is absent, `false` or `0`.
    pub fn switch(&self, name: &str) -> bool {
        self.optional_switch(name).unwrap_or(false)
    }

    /// As `switch`, with `None` for an absent parameter.
    pub fn optional_switch(&self, name: &str) -> Option<bool> {
        let value = self.get(name)?;
        Some(!(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => parse_integer(value).map(Some).map_err(Status::bad_request),
        }
    }
}

/// Parses as Go's strconv.ParseInt with base 10, with its error messages.
pub fn parse_integer(value: &str) -> Result<i64, String> {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"));
    }
    value.parse().map_err(|_| format!("strconv.ParseInt: parsing {value:?}: value out of range"))
}

/// Parses as Go's strconv.ParseUint with base 10, with its error messages.
pub fn parse_unsigned(value: &str) -> Result<u64, String> {
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("strconv.ParseUint: parsing {value:?}: invalid syntax"));
    }
    value.parse().map_err(|_| format!("strconv.ParseUint: parsing {value:?}: value out of range"))
}

/// Decodes percent escapes, and `+` as a blank if `plus_is_blank`. Returns `None` for an invalid escape.
pub fn unescape(text: &str, plus_is_blank: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let hex = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
                out.push(u8::from_str_radix(hex, 16).ok()?);
                at += 2;
            }
            b'+' if plus_is_blank => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_follow_kubernetes() {
        let cases = [
            ("", None),
            ("w", Some(true)),
            ("w=", Some(true)),
            ("w=0", Some(false)),
            ("w=False", Some(false)),
            ("w=maybe", Some(true)),
        ];
        for (text, expected) in cases {
            assert_eq!(Query::parse(text).optional_switch("w"), expected, "{text}");
        }
    }

    #[test]
    fn escapes_and_repeats() {
        let query = Query::parse("a=x%3Dy+z&a=2&bad=%zz&c");
        assert_eq!(query.get("a"), Some("x=y z"));
        assert_eq!(query.all("a").count(), 2);
        assert!(!query.has("bad"));
        assert_eq!(query.get("c"), Some(""));
    }

    #[test]
    fn numbers_fail_in_gos_words() {
        assert_eq!(parse_integer("-5"), Ok(-5));
        assert_eq!(parse_integer("1.5").unwrap_err(), r#"strconv.ParseInt: parsing "1.5": invalid syntax"#);
        assert_eq!(parse_unsigned("-1").unwrap_err(), r#"strconv.ParseUint: parsing "-1": invalid syntax"#);
    }
}
