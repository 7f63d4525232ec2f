//! The effective configuration as `/configz` shows it: with the names of the fields of kube-scheduler's internal types.
//!
//! Corresponds to pkg/scheduler/apis/config/types.go, which k8s.io/component-base/configz prints.
//!
//! Deviation: `/configz` has the content type JSON, and QPS and Burst of 0 unless they are given: requests are JSON, and
//! nothing limits their rate. A profile also has `TieBreak`.

use super::Configuration;
use component_base::duration::format_duration;
use component_base::options::{ClientOptions, LeaderElectionOptions};
use serde_json::{Map, Value, json};

/// Fields whose value has a type of the API, so that the names below are those of the API.
const API_TYPES: [&str; 2] = ["addedAffinity", "defaultConstraints"];

/// The group and version of the configuration, which the original adds to its internal type.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// Returns the content of `/configz`.
pub fn configz(configuration: &Configuration, election: &LeaderElectionOptions, client: &ClientOptions) -> Value {
    let mut shown = internal(&json!(configuration));
    shown["apiVersion"] = json!(API_VERSION);
    let kubeconfig = client.kubeconfig.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    shown["ClientConnection"] = json!({
        "Kubeconfig": kubeconfig,
        "AcceptContentTypes": "",
        "ContentType": "application/json",
        "QPS": client.kube_api_qps.unwrap_or(0.0),
        "Burst": client.kube_api_burst.unwrap_or(0),
    });
    shown["LeaderElection"] = json!({
        "LeaderElect": election.leader_elect,
        "LeaseDuration": format_duration(election.leader_elect_lease_duration),
        "RenewDeadline": format_duration(election.leader_elect_renew_deadline),
        "RetryPeriod": format_duration(election.leader_elect_retry_period),
        "ResourceLock": "leases",
        "ResourceName": election.leader_elect_resource_name.as_deref().unwrap_or("kube-scheduler"),
        "ResourceNamespace": election.leader_elect_resource_namespace,
    });
    json!({"componentconfig": shown})
}

/// Renames the fields of an object and of everything below it. A list without items is null, as Go writes one that nobody
/// has set.
fn internal(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.iter().map(|(name, value)| {
                let is_api = API_TYPES.contains(&name.as_str()) && *value != json!([]);
                (internal_name(name), if is_api { value.clone() } else { internal(value) })
            });
            Value::Object(renamed.collect::<Map<_, _>>())
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => items.iter().map(internal).collect(),
        other => other.clone(),
    }
}

/// Returns the Go name of a field: `schedulerName` is `SchedulerName`, and `httpTimeout` is `HTTPTimeout`.
fn internal_name(name: &str) -> String {
    let initials = ["url", "http", "tls", "ca"]
        .into_iter()
        .find(|short| name.strip_prefix(short).is_some_and(|rest| rest.starts_with(char::is_uppercase)));
    let upper = initials.map_or(1, str::len).min(name.len());
    name[..upper].to_uppercase() + &name[upper..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::options::defaults;

    /// What kube-scheduler v1.36 shows without a file, worked out from its types, its defaults and their conversion.
    #[test]
    fn the_defaults_are_shown_as_the_original_shows_them() {
        let mut shown = configz(&Configuration::default(), &defaults(), &ClientOptions::default());
        let mut config = shown["componentconfig"].take();
        let own = config["Profiles"][0].as_object_mut().unwrap().remove("TieBreak");
        assert_eq!(own, Some(json!("Random")));
        let set = json!({"Enabled": null, "Disabled": null});
        let plugin = |(name, weight): (&str, i64)| json!({"Name": name, "Weight": weight});
        let plugins = [
            ("SchedulingGates", 0),
            ("PrioritySort", 0),
            ("NodeUnschedulable", 0),
            ("NodeName", 0),
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodePorts", 0),
            ("NodeResourcesFit", 1),
            ("VolumeRestrictions", 0),
            ("NodeVolumeLimits", 0),
            ("VolumeBinding", 0),
            ("VolumeZone", 0),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),
            ("DefaultPreemption", 0),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
            ("DefaultBinder", 0),
            ("NodeDeclaredFeatures", 0),
        ];
        let resources = json!([{"Name": "cpu", "Weight": 1}, {"Name": "memory", "Weight": 1}]);
        let strategy = json!({"Type": "LeastAllocated", "Resources": resources, "RequestedToCapacityRatio": null});
        let args = json!([
            {"Name": "DefaultPreemption", "Args": {"MinCandidateNodesPercentage": 10, "MinCandidateNodesAbsolute": 100}},
            {"Name": "DynamicResources", "Args": {"FilterTimeout": "10s", "BindingTimeout": "10m0s"}},
            {
                "Name": "InterPodAffinity",
                "Args": {"HardPodAffinityWeight": 1, "IgnorePreferredTermsOfExistingPods": false},
            },
            {"Name": "NodeAffinity", "Args": {"AddedAffinity": null}},
            {"Name": "NodeResourcesBalancedAllocation", "Args": {"Resources": resources}},
            {
                "Name": "NodeResourcesFit",
                "Args": {"IgnoredResources": null, "IgnoredResourceGroups": null, "ScoringStrategy": strategy},
            },
            {"Name": "PodTopologySpread", "Args": {"DefaultConstraints": null, "DefaultingType": "System"}},
            {"Name": "VolumeBinding", "Args": {"BindTimeoutSeconds": 600, "Shape": null}},
        ]);
        let mut points = json!({"MultiPoint": {"Enabled": plugins.map(plugin), "Disabled": null}});
        for point in [
            "PreEnqueue",
            "QueueSort",
            "PreFilter",
            "Filter",
            "PostFilter",
            "PreScore",
            "Score",
            "Reserve",
            "Permit",
            "PreBind",
            "Bind",
            "PostBind",
        ] {
            points[point] = set.clone();
        }
        let profile = json!({
            "SchedulerName": "default-scheduler", "PercentageOfNodesToScore": null, "Plugins": points, "PluginConfig": args,
        });
        let expected = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "Parallelism": 16,
            "LeaderElection": {
                "LeaderElect": true, "LeaseDuration": "15s", "RenewDeadline": "10s", "RetryPeriod": "2s",
                "ResourceLock": "leases", "ResourceName": "kube-scheduler", "ResourceNamespace": "kube-system",
            },
            "ClientConnection": {
                "Kubeconfig": "", "AcceptContentTypes": "", "ContentType": "application/json", "QPS": 0.0, "Burst": 0,
            },
            "EnableProfiling": true,
            "EnableContentionProfiling": true,
            "PercentageOfNodesToScore": 0,
            "PodInitialBackoffSeconds": 1,
            "PodMaxBackoffSeconds": 10,
            "Profiles": [profile],
            "Extenders": null,
            "DelayCacheUntilActive": false,
        });
        assert_eq!(config, expected);
    }

    #[test]
    fn fields_have_the_names_of_go() {
        for (name, expected) in [("urlPrefix", "URLPrefix"), ("caFile", "CAFile"), ("capacity", "Capacity")] {
            assert_eq!(internal_name(name), expected);
        }
    }
}
