//! Addresses of web pages: `http://host:80/path?query`.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// The path with its leading slash, and the query.
    pub target: String,
    /// `user:password`, if it was given.
    pub user: Option<String>,
}

impl Url {
    /// Reads an address; one without a scheme is of HTTP.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("http".to_owned(), text),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(at);
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user.to_owned()), authority),
            None => (None, authority),
        };
        let (host, port) = host_and_port(authority)?;
        let default = if scheme == "https" { 443 } else { 80 };
        (!host.is_empty()).then_some(Self { scheme, host, port: port.unwrap_or(default), target, user })
    }

    pub fn is_tls(&self) -> bool {
        self.scheme == "https"
    }

    /// Returns host and port as the header `Host` has them: the usual port is left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let is_usual = self.port == if self.is_tls() { 443 } else { 80 };
        if is_usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the address that a redirection leads to.
    pub fn join(&self, location: &str) -> Option<Self> {
        if location.contains("://") {
            return Self::parse(location);
        }
        let target = match location.strip_prefix('/') {
            Some(_) => location.to_owned(),
            None => format!("{}/{location}", self.target.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        Some(Self { target, ..self.clone() })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.authority(), self.target)
    }
}

/// Splits `host:80`, `host` or `[::1]:80`.
pub fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host.to_owned(), Some(port.parse().ok()?))),
            None => rest.is_empty().then(|| (host.to_owned(), None)),
        };
    }
    match text.split_once(':') {
        Some((host, "")) => Some((host.to_owned(), None)),
        Some((host, port)) => Some((host.to_owned(), Some(port.parse().ok()?))),
        None => Some((text.to_owned(), None)),
    }
}

/// Replaces `%41` and `+` in a part of a query.
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let escaped = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (escaped, byte) {
            (Some(value), _) => {
                found.push(value);
                at += 2;
            }
            (None, b'+') => found.push(b' '),
            (None, byte) => found.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&found).into_owned()
}

/// Writes a part of a query so that every other character than letters, digits and `-_.~` is escaped.
pub fn encoded(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_many_forms() {
        for (text, expected) in [
            ("web", Some("http web 80 /")),
            ("web:8080/a?b=c#d", Some("http web 8080 /a?b=c")),
            ("http://web?x", Some("http web 80 /?x")),
            ("HTTPS://u:p@web/", Some("https web 443 /")),
            ("http://[fd00::1]:81/", Some("http fd00::1 81 /")),
            ("http://web:x/", None),
            ("http:///a", None),
        ] {
            let found = Url::parse(text).map(|url| format!("{} {} {} {}", url.scheme, url.host, url.port, url.target));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let url = Url::parse("http://[::1]:81/a/b").unwrap();
        assert_eq!(url.to_string(), "http://[::1]:81/a/b");
        assert_eq!(url.join("c").unwrap().target, "/a/c");
        assert_eq!(url.join("https://x/").unwrap().port, 443);
        assert_eq!(decoded("a%20b+c%"), "a b c%");
        assert_eq!(encoded("a b/"), "a%20b%2F");
    }
}
