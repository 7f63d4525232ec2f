//! The version that clients see, and `--version`.
//!
//! It is the version of the modelled Kubernetes release, because tools compare it letter by letter; kubectl's
//! `--match-server-version` compares the commit too. `buildDate`, `goVersion`, `compiler` and `platform` are this
//! program's own. Corresponds to k8s.io/component-base/version and its verflag.

use crate::go_bool;
use crate::metrics::Labels;
use semver::Version;
use serde::Serialize;

/// The release that is modelled.
pub const GIT_VERSION: &str = "v1.36.2";
const GIT_COMMIT: &str = "24e2b02af5543d7910c2bb074c7264df5a8f0467";

/// Value of the flag `--version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionFlag {
    /// Run the component.
    Run,
    /// Print the line for people.
    Line,
    /// Print everything that clients see, as Go does.
    Raw,
    /// Run, and report this version.
    Report(String),
}

impl VersionFlag {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "raw" {
            return Ok(Self::Raw);
        }
        if text.starts_with('v') {
            return check(text).map(|()| Self::Report(text.to_owned()));
        }
        Ok(if go_bool::parse(text)? { Self::Line } else { Self::Run })
    }

    /// Returns the text to print instead of running, if any.
    pub fn printed(&self) -> Option<String> {
        match self {
            Self::Run | Self::Report(_) => None,
            Self::Line => Some(format!("Kubernetes {GIT_VERSION}")),
            Self::Raw => Some(Info::of(GIT_VERSION).raw()),
        }
    }
}

/// Checks that a reported version differs from the real one only after the number.
fn check(reported: &str) -> Result<(), String> {
    let number = |text: &str| Version::parse(text.strip_prefix('v')?).ok().map(|v| (v.major, v.minor, v.patch));
    match number(reported) {
        None => Err(format!("could not parse {reported:?} as version")),
        own if own == number(GIT_VERSION) => Ok(()),
        _ => Err(format!("version {reported:?} must match major/minor/patch of default version {GIT_VERSION:?}")),
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    major: &'static str,
    minor: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    emulation_major: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    emulation_minor: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    min_compatibility_major: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    min_compatibility_minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

impl Info {
    fn of(git_version: &str) -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            major: "1",
            minor: "36",
            emulation_major: "",
            emulation_minor: "",
            min_compatibility_major: "",
            min_compatibility_minor: "",
            git_version: git_version.to_owned(),
            git_commit: GIT_COMMIT,
            git_tree_state: "clean",
            build_date: "1970-01-01T00:00:00Z",
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{arch}", std::env::consts::OS),
        }
    }

    /// Returns the answer of an API server that reports this version, for `/version`.
    pub fn of_server(git_version: &str) -> Self {
        Self {
            emulation_major: "1",
            emulation_minor: "36",
            min_compatibility_major: "1",
            min_compatibility_minor: "35",
            ..Self::of(git_version)
        }
    }

    fn raw(&self) -> String {
        let fields = [
            ("Major", self.major),
            ("Minor", self.minor),
            ("EmulationMajor", self.emulation_major),
            ("EmulationMinor", self.emulation_minor),
            ("MinCompatibilityMajor", self.min_compatibility_major),
            ("MinCompatibilityMinor", self.min_compatibility_minor),
            ("GitVersion", &self.git_version),
            ("GitCommit", self.git_commit),
            ("GitTreeState", self.git_tree_state),
            ("BuildDate", self.build_date),
            ("GoVersion", self.go_version),
            ("Compiler", self.compiler),
            ("Platform", &self.platform),
        ];
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}:{value:?}")).collect();
        format!("version.Info{{{}}}", fields.join(", "))
    }

    /// Returns the labels of a build-information metric.
    pub fn labels(self) -> Labels {
        let fields = [
            ("build_date", self.build_date.to_owned()),
            ("compiler", self.compiler.to_owned()),
            ("git_commit", self.git_commit.to_owned()),
            ("git_tree_state", self.git_tree_state.to_owned()),
            ("git_version", self.git_version),
            ("go_version", self.go_version.to_owned()),
            ("major", self.major.to_owned()),
            ("minor", self.minor.to_owned()),
            ("platform", self.platform),
        ];
        fields.into()
    }
}

/// Returns the labels of this program, for a metric.
pub fn own_labels() -> Labels {
    vec![("version", env!("CARGO_PKG_VERSION").to_owned()), ("models", GIT_VERSION.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_prints_or_names_what_is_reported() {
        let report = |text: &str| Ok(VersionFlag::Report(text.to_owned()));
        let other =
            |text: &str| Err(format!("version {text:?} must match major/minor/patch of default version \"v1.36.2\""));
        let no_version = |text: &str| Err(format!("could not parse {text:?} as version"));
        for (text, expected) in [
            ("true", Ok(VersionFlag::Line)),
            ("1", Ok(VersionFlag::Line)),
            ("false", Ok(VersionFlag::Run)),
            ("raw", Ok(VersionFlag::Raw)),
            ("v1.36.2", report("v1.36.2")),
            ("v1.36.2-lab.1", report("v1.36.2-lab.1")),
            ("v1.36.2+abc", report("v1.36.2+abc")),
            ("v1.36.2-rc.0+abc", report("v1.36.2-rc.0+abc")),
            ("v1.36.3", other("v1.36.3")),
            ("v1.37.2", other("v1.37.2")),
            ("v2.36.2-lab", other("v2.36.2-lab")),
            ("v1.36", no_version("v1.36")),
            ("v", no_version("v")),
            ("v1.36.2 ", no_version("v1.36.2 ")),
            ("1.36.2", Err("want true or false".to_owned())),
            ("yes", Err("want true or false".to_owned())),
        ] {
            assert_eq!(VersionFlag::parse(text), expected, "{text}");
        }
        assert_eq!(VersionFlag::Line.printed().as_deref(), Some("Kubernetes v1.36.2"));
        let raw = VersionFlag::Raw.printed().unwrap();
        let (begin, end) = raw.split_once(", EmulationMajor:\"\", ").unwrap();
        assert_eq!(begin, "version.Info{Major:\"1\", Minor:\"36\"");
        assert!(end.contains("GitVersion:\"v1.36.2\", GitCommit:\"24e2b02"), "{raw}");
    }
}
