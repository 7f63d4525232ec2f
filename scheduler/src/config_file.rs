//! KubeSchedulerConfiguration: the fields of v1 with their flags, and the profile.
//!
//! Corresponds to k8s.io/kube-scheduler/config/v1.

use crate::plugins::selection::Selection;
use component_base::options::config_file::{Field, FileKind, flag, ignored, own};
use serde::Deserialize;
use serde_json::Value;

pub const KUBE_SCHEDULER_CONFIGURATION: FileKind =
    FileKind { api_version: "kubescheduler.config.k8s.io/v1", kind: "KubeSchedulerConfiguration", fields: &[FIELDS] };

pub const PROFILES: &str = "profiles";

const FIELDS: &[Field] = &[
    ignored("clientConnection.acceptContentTypes"),
    flag("clientConnection.burst", "kube-api-burst"),
    ignored("clientConnection.contentType"),
    flag("clientConnection.kubeconfig", "kubeconfig"),
    flag("clientConnection.qps", "kube-api-qps"),
    ignored("delayCacheUntilActive"),
    ignored("enableContentionProfiling"),
    ignored("enableProfiling"),
    ignored("extenders"),
    flag("leaderElection.leaderElect", "leader-elect"),
    flag("leaderElection.leaseDuration", "leader-elect-lease-duration"),
    flag("leaderElection.renewDeadline", "leader-elect-renew-deadline"),
    flag("leaderElection.resourceLock", "leader-elect-resource-lock"),
    flag("leaderElection.resourceName", "leader-elect-resource-name"),
    flag("leaderElection.resourceNamespace", "leader-elect-resource-namespace"),
    flag("leaderElection.retryPeriod", "leader-elect-retry-period"),
    ignored("parallelism"),
    ignored("percentageOfNodesToScore"),
    ignored("podInitialBackoffSeconds"),
    ignored("podMaxBackoffSeconds"),
    own(PROFILES),
];

/// One entry of `profiles`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileConfig {
    pub scheduler_name: Option<String>,
    pub plugins: Selection,
    plugin_config: Option<Value>,
    percentage_of_nodes_to_score: Option<Value>,
}

impl ProfileConfig {
    /// Returns the only profile of the file.
    pub fn of(profiles: &Value) -> Result<Self, String> {
        let profiles: Vec<Self> =
            serde_json::from_value(profiles.clone()).map_err(|error| format!("profiles: {error}"))?;
        match <[Self; 1]>::try_from(profiles) {
            Ok([profile]) => Ok(profile),
            Err(profiles) if profiles.is_empty() => Ok(Self::default()),
            Err(profiles) => Err(format!("profiles: there is room for one, and not for {}", profiles.len())),
        }
    }

    /// Returns the names of fields that have no effect.
    pub fn ignored(&self) -> impl Iterator<Item = &'static str> {
        let ignored = [
            ("profiles.pluginConfig", &self.plugin_config),
            ("profiles.percentageOfNodesToScore", &self.percentage_of_nodes_to_score),
        ];
        ignored.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn there_is_one_profile() {
        let profile = ProfileConfig::of(&json!([{"schedulerName": "mine", "pluginConfig": []}])).unwrap();
        assert_eq!(profile.scheduler_name.as_deref(), Some("mine"));
        assert_eq!(profile.ignored().collect::<Vec<_>>(), ["profiles.pluginConfig"]);
        assert_eq!(ProfileConfig::of(&json!([])).unwrap(), ProfileConfig::default());
        let two = ProfileConfig::of(&json!([{}, {}])).unwrap_err();
        assert_eq!(two, "profiles: there is room for one, and not for 2");
        let unknown = ProfileConfig::of(&json!([{"scheduler": "mine"}])).unwrap_err();
        assert!(unknown.starts_with("profiles: unknown field `scheduler`"), "{unknown}");
    }
}
