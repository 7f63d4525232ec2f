//! `Url`: a parsed URL. Corresponds to ParseRequestURI of Go's net/url.

/// The parts of a URL.
#[derive(Debug, PartialEq)]
pub struct Url {
    pub scheme: String,
    /// Host with the port.
    pub host: String,
    pub path: String,
    pub query: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.chars().any(|c| c.is_control()) {
            return Err("net/url: invalid control character in URL");
        }
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(text)?;
        if scheme.is_empty() && !rest.starts_with('/') {
            return Err("invalid URI for request");
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            _ if scheme.is_empty() => ("", rest),
            _ if rest.starts_with('/') => ("", rest),
            _ => return Err("invalid URI for request"),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        check_host(host)?;
        check_escapes(path)?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// Returns host and port, without the brackets of an IPv6 address.
    pub fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rfind(']') {
            Some(end) => (&self.host[..=end], self.host[end + 1..].strip_prefix(':').unwrap_or_default()),
            None => self.host.split_once(':').unwrap_or((&self.host, "")),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    if text.is_empty() {
        return Err("empty url");
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
    match end {
        Some(0) if text.starts_with(':') => Err("missing protocol scheme"),
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((&text[..end], &text[end + 1..]))
        }
        _ => Ok(("", text)),
    }
}

fn check_host(host: &str) -> Result<(), &'static str> {
    let (name, port) = match host.rfind(']') {
        Some(end) => (&host[..=end], &host[end + 1..]),
        None if host.starts_with('[') => return Err("missing ']' in host"),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port_is_sound =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
    if !port_is_sound {
        return Err("invalid port after host");
    }
    if name.chars().any(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '}' | '|')) {
        return Err("invalid character in host name");
    }
    check_escapes(name)
}

/// Checks that each `%` is followed by two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), &'static str> {
    let is_sound = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if text.split('%').skip(1).all(is_sound) { Ok(()) } else { Err("invalid URL escape") }
}

/// Escapes the characters that are not allowed in a path.
pub fn escaped(path: &str) -> String {
    let mut written = String::with_capacity(path.len());
    for byte in path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*%[]".contains(&byte);
        match is_plain {
            true => written.push(char::from(byte)),
            false => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}
