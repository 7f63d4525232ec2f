//! Reads the pod security levels from a namespace's labels.
//!
//! Corresponds to k8s.io/pod-security-admission/api.

use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::fmt;

/// Prefix of labels and of audit annotations.
pub const PREFIX: &str = "pod-security.kubernetes.io/";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The minor version of the checks; [`Version::LATEST`] is above all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32);

impl Version {
    pub const LATEST: Self = Self(u32::MAX);

    pub const fn minor(minor: u32) -> Self {
        Self(minor)
    }

    pub fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::LATEST);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_number = minor == "0"
            || (minor.starts_with(|c: char| ('1'..='9').contains(&c)) && minor.bytes().all(|b| b.is_ascii_digit()));
        minor.parse().ok().filter(|_| is_number).map(Self)
    }
}

impl Level {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            "restricted" => Self::Restricted,
            _ => return None,
        })
    }
}

/// A level with a version, formatted as `baseline:v1.24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::LATEST => write!(f, "{level}:latest"),
            Version(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The level of each mode: enforce, audit and warn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl Policy {
    /// Returns a policy even for invalid labels: an invalid `enforce` label means restricted, an invalid `audit` or `warn` label
    /// privileged.
    pub fn of(namespace: &Value, defaults: &Self) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let (enforce, has_enforce, _) = mode(namespace, "enforce", defaults.enforce, Level::Restricted, &mut errors);
        let (audit, ..) = mode(namespace, "audit", defaults.audit, Level::Privileged, &mut errors);
        let (mut warn, has_warn, has_version) = mode(namespace, "warn", defaults.warn, Level::Privileged, &mut errors);
        if has_enforce && !has_warn {
            // Templates are not rejected: warn of those whose pods would be.
            warn.level = enforce.level;
            if !has_version {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }
}

/// Returns level and version of one mode, and whether each has a label.
fn mode(
    namespace: &Value,
    mode: &str,
    default: LevelVersion,
    when_wrong: Level,
    errors: &mut Vec<FieldError>,
) -> (LevelVersion, bool, bool) {
    let mut found = default;
    let label = |suffix: &str| {
        let key = format!("{PREFIX}{mode}{suffix}");
        let value = namespace.get("metadata")?.get("labels")?.get(&key)?.as_str()?;
        Some((key, value))
    };
    let mut refuse = |key: &str, value: &str, why: &str| {
        errors.push(FieldError::invalid(format!("metadata.labels[{key}]"), &json!(value), why));
    };
    let level = label("");
    if let Some((key, value)) = &level {
        found.level = Level::parse(value).unwrap_or_else(|| {
            refuse(key, value, "must be one of privileged, baseline, restricted");
            when_wrong
        });
    }
    let version = label("-version");
    if let Some((key, value)) = &version {
        found.version = Version::parse(value).unwrap_or_else(|| {
            refuse(key, value, "must be \"latest\" or \"v1.x\"");
            Version::LATEST
        });
    }
    (found, level.is_some(), version.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::configuration::Defaults;
    use super::*;

    fn policy(labels: &[(&str, &str)]) -> (String, String, Vec<String>) {
        let labels: serde_json::Map<String, Value> =
            labels.iter().map(|(key, value)| (format!("{PREFIX}{key}"), json!(value))).collect();
        let (policy, errors) = Policy::of(&json!({"metadata": {"labels": labels}}), &Defaults::default().policy());
        (policy.enforce.to_string(), policy.warn.to_string(), errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn labels_say_what_is_enforced_and_warned_of() {
        for (labels, enforce, warn) in [
            (&[][..], "privileged:latest", "privileged:latest"),
            (&[("enforce", "baseline")], "baseline:latest", "baseline:latest"),
            (&[("enforce", "baseline"), ("enforce-version", "v1.24")], "baseline:v1.24", "baseline:v1.24"),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.24"), ("warn", "restricted")],
                "baseline:v1.24",
                "restricted:latest",
            ),
            (&[("warn", "restricted"), ("warn-version", "v1.9")], "privileged:latest", "restricted:v1.9"),
        ] {
            assert_eq!(policy(labels), (enforce.into(), warn.into(), vec![]));
        }
    }

    #[test]
    fn wrong_labels_are_told_in_order_and_enforced_strictly() {
        let (enforce, warn, errors) =
            policy(&[("warn-version", "v9"), ("warn", "odd"), ("enforce", "x"), ("audit-version", "v1.01")]);
        assert_eq!((enforce.as_str(), warn.as_str()), ("restricted:latest", "privileged:latest"));
        assert_eq!(
            errors,
            [
                r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one of privileged, baseline, restricted"#,
                r#"metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "v1.01": must be "latest" or "v1.x""#,
                r#"metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "odd": must be one of privileged, baseline, restricted"#,
                r#"metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "v9": must be "latest" or "v1.x""#,
            ]
        );
    }
}
