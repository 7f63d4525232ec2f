//! The `format` of strings: checks a text against it.
//!
//! Corresponds to k8s.io/kube-openapi/pkg/validation/strfmt; formats that Kubernetes does not know accept any text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

/// The formats that Kubernetes knows.
pub static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "\
        bsonobjectid byte cidr creditcard date datetime date-time duration email hexcolor hostname int32 int64 ipv4 \
        ipv6 isbn isbn10 isbn13 k8s-long-name k8s-short-name mac password rgbcolor ssn uri uuid uuid3 uuid4 uuid5 \
        double float"
        .split_whitespace()
        .collect()
});

fn matches(pattern: &LazyLock<Regex>, text: &str) -> bool {
    pattern.is_match(text)
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a fixed expression is well-formed"));
    };
}

pattern!(BSON, "^[0-9a-fA-F]{24}$");
pattern!(CREDIT_CARD, "^[0-9]{13,19}$");
pattern!(EMAIL, r"^[^@\s]+@[^@\s]+$");
pattern!(HEX_COLOR, "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(HOSTNAME, r"^([a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9\p{S}\p{L}-]{0,62})\.?)+$");
pattern!(ISBN10, "^([0-9]{9}X|[0-9]{10})$");
pattern!(ISBN13, "^[0-9]{13}$");
pattern!(
    MAC,
    "^([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2}[:-]){0,2}[0-9a-fA-F]{2}$|^([0-9a-fA-F]{4}\\.){2,3}[0-9a-fA-F]{4}$"
);
pattern!(RGB_COLOR, r"^rgb\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)$");
pattern!(SSN, r"^\d{3}[- ]?\d{2}[- ]?\d{4}$");
pattern!(UUID, "^(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(
    DURATION,
    r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$"
);
pattern!(
    WORDED_DURATION,
    r"^(?i)\s*[0-9]+\s*(ns|nanosecond|nanoseconds|nanosec|nanosecs|us|microsecond|microseconds|ms|millisecond|milliseconds|s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days|w|week|weeks)\s*$"
);

/// Returns whether a text is valid for a format.
pub fn is_valid(format: &str, text: &str) -> bool {
    let uuid_of = |version: u8| matches(&UUID, text) && text.replace('-', "").as_bytes().get(12) == Some(&version);
    match format {
        "bsonobjectid" => matches(&BSON, text),
        "byte" => STANDARD.decode(text.replace(['\r', '\n'], "")).is_ok(),
        "cidr" => text.parse::<ipnet::IpNet>().is_ok(),
        "creditcard" => matches(&CREDIT_CARD, &text.replace(['-', ' '], "")),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" | "date-time" => is_date_time(text),
        "duration" => {
            let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
            unsigned == "0" || matches(&DURATION, unsigned) || matches(&WORDED_DURATION, text)
        }
        "email" => matches(&EMAIL, text),
        "hexcolor" => matches(&HEX_COLOR, text),
        "hostname" => text.len() <= 255 && matches(&HOSTNAME, text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "isbn" | "isbn10" | "isbn13" => {
            let digits = text.replace(['-', ' '], "");
            (format != "isbn13" && matches(&ISBN10, &digits)) || (format != "isbn10" && matches(&ISBN13, &digits))
        }
        "k8s-short-name" => crate::meta::names::dns1123_label(text).is_empty(),
        "k8s-long-name" => crate::meta::names::dns1123_subdomain(text).is_empty(),
        "mac" => matches(&MAC, text),
        "rgbcolor" => is_rgb(text),
        "ssn" => matches(&SSN, text),
        "uri" => is_uri(text),
        "uuid" => matches(&UUID, text),
        "uuid3" => uuid_of(b'3'),
        "uuid4" => uuid_of(b'4'),
        "uuid5" => uuid_of(b'5'),
        _ => true,
    }
}

/// Returns whether a text is a time of RFC 3339, with or without a fraction, and with `T` or `t`.
fn is_date_time(text: &str) -> bool {
    text.len() >= 20
        && text.as_bytes().get(10).is_some_and(|sep| matches!(sep, b'T' | b't'))
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_rgb(text: &str) -> bool {
    let Some(parts) = RGB_COLOR.captures(text) else { return false };
    (1..=3).all(|part| parts[part].parse::<u16>().is_ok_and(|value| value <= 255))
}

/// Returns whether Go's ParseRequestURI accepts a text: it needs a scheme, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    text.starts_with('/') || has_scheme
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn each_format_takes_its_own() {
        for (format, good, bad) in [
            ("date-time", "2026-01-02T03:04:05Z", "soon"),
            ("date-time", "2026-01-02T03:04:05.678+01:00", "2026-01-02"),
            ("date", "2026-01-02", "2026-13-02"),
            ("ipv4", "1.2.3.4", "1.2.3"),
            ("ipv6", "::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0"),
            ("byte", "aGk=", "%%"),
            ("duration", "1h30m", "1x"),
            ("duration", "3 days", "days"),
            ("uuid", "7b2c9f40-1d2e-4f3a-8b4c-5d6e7f809102", "7b2c"),
            ("uuid4", "7b2c9f40-1d2e-4f3a-8b4c-5d6e7f809102", "7b2c9f40-1d2e-3f3a-8b4c-5d6e7f809102"),
            ("email", "a@b.example", "ab"),
            ("uri", "https://a.example/x", "a b"),
            ("hostname", "a.example", "a_b!"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("hexcolor", "#fff", "#ffff"),
            ("rgbcolor", "rgb(1, 2, 255)", "rgb(1,2,256)"),
            ("k8s-short-name", "web", "Web"),
            ("k8s-long-name", "web.example", "web..example"),
            ("isbn", "0-306-40615-2", "12"),
        ] {
            assert!(is_valid(format, good), "{format} {good}");
            assert!(!is_valid(format, bad), "{format} {bad}");
        }
        assert!(is_valid("odd", "anything"));
    }
}
