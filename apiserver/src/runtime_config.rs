//! `--runtime-config`: switches APIs of the server on and off.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/resourceconfig.

use proto::gvk::api_version;
use proto::resources::{Catalogue, Resource, Served, Stability};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use strategy::gates::Gates;

const CORE: &str = "v1";
const ALL: &str = "api/all";
/// Accepted and ignored, as in Kubernetes.
const LEGACY: &str = "api/legacy";
/// Switches that stand for many APIs.
const WORDS: [&str; 5] = [ALL, "api/ga", "api/beta", "api/alpha", LEGACY];

/// One switch: `group/version=true`, `group/version/resource=true`, or one of the words for many APIs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSwitch {
    api: String,
    is_on: bool,
}

impl FromStr for ApiSwitch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A switch without a value is on.
        let (api, value) = text.split_once('=').unwrap_or((text, "true"));
        let api = if is_core(api) { CORE } else { api };
        let is_api =
            api == CORE || matches!(api.matches('/').count(), 1 | 2) && !api.starts_with('/') && !api.ends_with('/');
        match value.parse() {
            Ok(is_on) if is_api => Ok(Self { api: api.to_owned(), is_on }),
            _ => Err("want GROUP/VERSION=true or =false, or GROUP/VERSION/RESOURCE=true or =false".to_owned()),
        }
    }
}

/// Writes the switch as on the command line.
impl fmt::Display for ApiSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.api, self.is_on)
    }
}

/// Returns true for the names of the core group that kube-apiserver accepts.
fn is_core(api: &str) -> bool {
    let api = api.strip_prefix("api/").unwrap_or(api);
    api == CORE || api.starts_with("v1/")
}

/// Switches that this server refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    #[error("--runtime-config: unknown api groups {0}")]
    UnknownGroup(String),
    #[error("--runtime-config: invalid key with only api/all=false")]
    NothingLeft,
    #[error("--runtime-config={0}=false conflicts with --enable-priority-and-fairness=true")]
    NoFlowSchemas(&'static str),
}

/// Refuses switches that leave no API, or that switch off the API of FlowSchemas while priority and fairness is on.
pub fn check(switches: &[ApiSwitch], is_fair: bool) -> Result<(), SwitchError> {
    if value_of(switches, ALL) == Some(false) && switches.iter().all(|switch| [ALL, LEGACY].contains(&&*switch.api)) {
        return Err(SwitchError::NothingLeft);
    }
    let flow_schemas = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", ALL];
    let first = flow_schemas.into_iter().find_map(|api| Some((api, value_of(switches, api)?)));
    match first {
        Some((api, false)) if is_fair => Err(SwitchError::NoFlowSchemas(api)),
        _ => Ok(()),
    }
}

/// Returns the value of the last switch with a name.
fn value_of(switches: &[ApiSwitch], name: &str) -> Option<bool> {
    switches.iter().rev().find(|switch| switch.api == name).map(|switch| switch.is_on)
}

/// Returns the part of the catalogue that is served. The switch of a resource takes precedence over that of its version,
/// that over `api/ga`, `api/beta` and `api/alpha`, and these over `api/all`. Of two switches with the same name the later
/// one counts. Without a switch, only stable versions are served. A resource behind a gate also needs the gate.
pub fn served(catalogue: &Catalogue, switches: &[ApiSwitch], gates: &Gates) -> Result<Arc<Catalogue>, SwitchError> {
    for switch in switches.iter().filter(|switch| switch.api != CORE && !WORDS.contains(&&*switch.api)) {
        let group = switch.api.split('/').next().unwrap_or_default();
        let mut versions = catalogue.rows().iter().flat_map(|row| &row.served);
        if !versions.any(|known| known.group == group) {
            return Err(SwitchError::UnknownGroup(group.to_owned()));
        }
        // Switching on a version that does not exist is not an error, as in Kubernetes.
    }
    Ok(Arc::new(catalogue.only(|row, version| is_enabled(version, switches) && has_gate(row, version, gates))))
}

fn is_enabled(version: &Served, switches: &[ApiSwitch]) -> bool {
    let value = |name: &str| value_of(switches, name);
    let own = api_version(&version.group, &version.version);
    let all_of_its_kind = match version.stability() {
        Stability::Alpha => "api/alpha",
        Stability::Beta => "api/beta",
        Stability::Stable => "api/ga",
    };
    value(&format!("{own}/{}", version.resource))
        .or_else(|| value(&own))
        .or_else(|| value(all_of_its_kind))
        .or_else(|| value(ALL))
        .unwrap_or(version.stability() == Stability::Stable)
}

fn has_gate(row: &Resource, version: &Served, gates: &Gates) -> bool {
    let Some(gate) = row.gate.filter(|gate| !gates.is_on(gate)) else { return true };
    let (kind, api_version) = (&version.kind, version.api_version());
    tracing::warn!("{kind} of {api_version} is not served because the {gate} feature gate is disabled");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(switches: &[&str], gates: &str) -> Arc<Catalogue> {
        let switches: Vec<ApiSwitch> = switches.iter().map(|text| text.parse().unwrap()).collect();
        served(&Catalogue::complete(), &switches, &Gates::with(gates)).unwrap()
    }

    fn shown(switches: &[&str], group: &str) -> Vec<String> {
        let served = serving(switches, "");
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
            (&["api/v1=false"], "", &[]),
            (&["api/all=false", "api/v1=true"], "", &["v1"]),
            (&["api/all=false", "api/v1=true"], "apps", &[]),
            (&["api/beta=false", "apps/v1beta1=true"], "apps", &["v1"]),
            (&["autoscaling/v1=false", "autoscaling/v1/horizontalpodautoscalers=true"], "autoscaling", &["v2", "v1"]),
            (&["api/all=true"], "certificates.k8s.io", &["v1"]),
        ] {
            assert_eq!(shown(switches, group), expected, "{switches:?}");
        }
    }

    #[test]
    fn a_resource_behind_a_gate_needs_the_gate_and_its_version() {
        let versions = |switches: &[&str], gates: &str| -> String {
            let served = serving(switches, gates);
            let of = |version: &Served| served.by_gvr(&version.gvr()).is_some();
            let rows = served.rows().iter().flat_map(|row| &row.served);
            let shown = rows.filter(|version| version.stability() != Stability::Stable && of(version));
            shown.map(|version| format!("{}/{}", version.version, version.resource)).collect::<Vec<_>>().join(" ")
        };
        let both = "ClusterTrustBundle=true,PodCertificateRequest=true";
        let beta = "certificates.k8s.io/v1beta1=true";
        assert_eq!(versions(&[], both), "");
        assert_eq!(versions(&[beta], ""), "");
        assert_eq!(versions(&[beta], "ClusterTrustBundle=true"), "v1beta1/clustertrustbundles");
        assert_eq!(versions(&[beta], both), "v1beta1/clustertrustbundles v1beta1/podcertificaterequests");
        assert_eq!(
            versions(&["certificates.k8s.io/v1beta1/podcertificaterequests=true"], both),
            "v1beta1/podcertificaterequests"
        );
        assert_eq!(versions(&["api/alpha=true"], both), "v1alpha1/clustertrustbundles");
        assert_eq!(
            versions(&["api/all=true"], both),
            "v1beta1/clustertrustbundles v1alpha1/clustertrustbundles v1beta1/podcertificaterequests"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["apps=true", "api=true", "apps/v1=perhaps", "/v1=true", "apps/v1/deployments/scale=true", ""] {
            text.parse::<ApiSwitch>().unwrap_err();
        }
        for (text, group) in [("none/v1=true", "none"), ("api/other=true", "api")] {
            let unknown = served(&Catalogue::complete(), &[text.parse().unwrap()], &Gates::default()).unwrap_err();
            assert_eq!(unknown.to_string(), format!("--runtime-config: unknown api groups {group}"));
        }
    }

    #[test]
    fn some_api_is_left_and_fairness_keeps_its_own() {
        let checked = |switches: &[&str], is_fair: bool| {
            let switches: Vec<ApiSwitch> = switches.iter().map(|text| text.parse().unwrap()).collect();
            check(&switches, is_fair).map_err(|error| error.to_string())
        };
        let conflict =
            |api: &str| Err(format!("--runtime-config={api}=false conflicts with --enable-priority-and-fairness=true"));
        let nothing_left = || Err("--runtime-config: invalid key with only api/all=false".to_owned());
        let own = "flowcontrol.apiserver.k8s.io/v1";
        for (switches, is_fair, expected) in [
            (&[][..], true, Ok(())),
            (&["api/all=false"], false, nothing_left()),
            (&["api/all=false", "api/legacy=true"], false, nothing_left()),
            (&["api/all=false", "api/all=true"], true, Ok(())),
            (&["api/all=false", "v1=true"], true, conflict("api/all")),
            (&["api/all=false", "v1=true"], false, Ok(())),
            (&["api/ga=false"], true, conflict("api/ga")),
            (&["flowcontrol.apiserver.k8s.io/v1=false", "api/ga=true"], true, conflict(own)),
            (&["api/ga=false", "flowcontrol.apiserver.k8s.io/v1=true"], true, Ok(())),
            (&["api/beta=false"], true, Ok(())),
        ] {
            assert_eq!(checked(switches, is_fair), expected, "{switches:?} {is_fair}");
        }
    }
}
