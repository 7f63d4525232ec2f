//! Functions of semantic versions.

use crate::failure::error;
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use semver::Version;
use std::sync::Arc;

pub const DECLARED: &str = "
    semver(string) semver
    semver(string, bool) semver
    isSemver(string) bool
    isSemver(string, bool) bool
    semver.major() int
    semver.minor() int
    semver.patch() int
    semver.isGreaterThan(semver) bool
    semver.isLessThan(semver) bool
    semver.compareTo(semver) int
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("isSemver" | "semver", [Value::String(text), rest @ ..]) => {
            let lenient = matches!(rest, [Value::Bool(true)]);
            let parsed = if lenient { Version::parse(&normalized(text)) } else { Version::parse(text) };
            match (name, parsed) {
                ("isSemver", parsed) => Ok(Value::Bool(parsed.is_ok())),
                (_, Ok(version)) => Ok(Value::Semver(Arc::new(version))),
                (_, Err(why)) => error(why.to_string()),
            }
        }
        (_, [Value::Semver(version)]) => {
            let part = match name {
                "major" => version.major,
                "minor" => version.minor,
                _ => version.patch,
            };
            i64::try_from(part).map_or_else(|_| error("integer overflow"), |part| Ok(Value::Int(part)))
        }
        (_, [Value::Semver(a), Value::Semver(b)]) => {
            let found = a.cmp_precedence(b);
            Ok(match name {
                "isGreaterThan" => Value::Bool(found.is_gt()),
                "isLessThan" => Value::Bool(found.is_lt()),
                _ => Value::Int(found as i64),
            })
        }
        _ => no_overload(name, arguments),
    }
}

/// Normalizes a version: `v1.2` becomes `1.2.0`, `01` becomes `1`.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (core, rest) = text.split_at(end);
    let mut parts: Vec<&str> = core.split('.').collect();
    parts.resize(parts.len().max(3), "0");
    let parts: Vec<&str> = parts
        .into_iter()
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            trimmed => trimmed,
        })
        .collect();
    format!("{}{rest}", parts.join("."))
}
