//! `PodSecurityConfiguration`: the defaults of namespaces without labels, and the exemptions.
//!
//! Corresponds to k8s.io/pod-security-admission/admission/api.

use super::policy::{Level, LevelVersion, Policy, Version};
use serde::{Deserialize, Deserializer, de::Error};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodSecurityConfiguration {
    pub defaults: Defaults,
    pub exemptions: Exemptions,
}

/// Levels and versions by mode.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Defaults {
    #[serde(deserialize_with = "level")]
    enforce: Level,
    #[serde(deserialize_with = "version")]
    enforce_version: Version,
    #[serde(deserialize_with = "level")]
    audit: Level,
    #[serde(deserialize_with = "version")]
    audit_version: Version,
    #[serde(deserialize_with = "level")]
    warn: Level,
    #[serde(deserialize_with = "version")]
    warn_version: Version,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Exemptions {
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

fn level<'de, D: Deserializer<'de>>(from: D) -> Result<Level, D::Error> {
    let text = String::deserialize(from)?;
    Level::parse(&text).ok_or_else(|| D::Error::custom("must be one of privileged, baseline, restricted"))
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
    let text = String::deserialize(from)?;
    Version::parse(&text).ok_or_else(|| D::Error::custom("must be \"latest\" or \"v1.x\""))
}

impl Default for Defaults {
    fn default() -> Self {
        let (level, version) = (Level::Privileged, Version::LATEST);
        Self {
            enforce: level,
            enforce_version: version,
            audit: level,
            audit_version: version,
            warn: level,
            warn_version: version,
        }
    }
}

impl Defaults {
    pub fn policy(&self) -> Policy {
        Policy {
            enforce: LevelVersion { level: self.enforce, version: self.enforce_version },
            audit: LevelVersion { level: self.audit, version: self.audit_version },
            warn: LevelVersion { level: self.warn, version: self.warn_version },
        }
    }
}

impl Exemptions {
    /// Returns the reason of an exemption, if there is one.
    pub fn hold_for(&self, user: &str, namespace: &str, runtime_class: Option<&str>) -> Option<&'static str> {
        let among = |list: &[String], wanted: &str| list.iter().any(|known| known == wanted);
        if among(&self.namespaces, namespace) {
            Some("namespace")
        } else if among(&self.usernames, user) {
            Some("user")
        } else {
            runtime_class.filter(|class| among(&self.runtime_classes, class)).map(|_| "runtimeClass")
        }
    }
}
