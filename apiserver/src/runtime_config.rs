//! `--runtime-config`: which of the APIs that this server has are served.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/resourceconfig.

use proto::gvk::api_version;
use proto::resources::Catalogue;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `group/version=true`, or one of the words for many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSwitch {
    api: String,
    is_on: bool,
}

impl FromStr for ApiSwitch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Without a value it is switched on.
        let (api, value) = text.split_once('=').unwrap_or((text, "true"));
        let is_api = api == "v1" || api.matches('/').count() == 1 && !api.starts_with('/') && !api.ends_with('/');
        match value.parse() {
            Ok(is_on) if is_api => Ok(Self { api: api.to_owned(), is_on }),
            _ => Err("want GROUP/VERSION=true or =false".to_owned()),
        }
    }
}

/// As on the command line.
impl fmt::Display for ApiSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.api, self.is_on)
    }
}

/// A group that this server does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown api groups {0}")]
pub struct UnknownGroup(String);

/// What is left of the catalogue. One API's own switch counts more than a word for many, and that more than `api/all`;
/// of two that say the same name the later one counts.
pub fn served(catalogue: &Arc<Catalogue>, switches: &[ApiSwitch]) -> Result<Arc<Catalogue>, UnknownGroup> {
    for switch in switches.iter().filter(|switch| switch.api != "v1" && !switch.api.starts_with("api/")) {
        let group = switch.api.split('/').next().unwrap_or_default();
        if !catalogue.groups().iter().any(|known| known.group == group) {
            return Err(UnknownGroup(group.to_owned()));
        }
        // A version that is not there cannot be switched on; as for the original, that is no error.
    }
    if switches.is_empty() {
        return Ok(catalogue.clone());
    }
    let said = |name: &str| switches.iter().rev().find(|switch| switch.api == name).map(|switch| switch.is_on);
    Ok(Arc::new(catalogue.only(|group, version| {
        let own = said(&api_version(group, version));
        own.or_else(|| said(stability(version))).or_else(|| said("api/all")).unwrap_or(true)
    })))
}

fn stability(version: &str) -> &'static str {
    if version.contains("alpha") {
        "api/alpha"
    } else if version.contains("beta") {
        "api/beta"
    } else {
        "api/ga"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(switches: &[&str], group: &str) -> Vec<String> {
        let switches: Vec<ApiSwitch> = switches.iter().map(|text| text.parse().unwrap()).collect();
        let served = served(&Catalogue::builtin(), &switches).unwrap();
        let found = served.groups().iter().find(|known| known.group == group);
        found.map(|known| known.versions.clone()).unwrap_or_default()
    }

    #[test]
    fn the_more_exact_switch_counts() {
        for (switches, group, expected) in [
            (&[][..], "autoscaling", &["v2", "v1"][..]),
            (&["autoscaling/v1=false"], "autoscaling", &["v2"]),
            (&["autoscaling/v1=false", "autoscaling/v1=true"], "autoscaling", &["v2", "v1"]),
            (&["api/all=false", "autoscaling/v1"], "autoscaling", &["v1"]),
            (&["api/all=false", "autoscaling/v1=true"], "apps", &[]),
            (&["api/all=false", "api/ga=true"], "apps", &["v1"]),
            (&["v1=false"], "", &[]),
            (&["api/beta=false", "apps/v1beta1=true"], "apps", &["v1"]),
        ] {
            assert_eq!(shown(switches, group), expected, "{switches:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["apps=true", "apps/v1=perhaps", "/v1=true", "apps/v1/deployments=true", ""] {
            text.parse::<ApiSwitch>().unwrap_err();
        }
        let unknown = served(&Catalogue::builtin(), &["none/v1=true".parse().unwrap()]).unwrap_err();
        assert_eq!(unknown.to_string(), "unknown api groups none");
    }
}
