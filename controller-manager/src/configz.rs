//! `/configz`: the manager's flags as kube-controller-manager prints its configuration, one section a controller.
//!
//! Names are those of Go's fields, since Kubernetes prints its internal type, which has no names for JSON. Corresponds to
//! pkg/controller/apis/config/types.go and k8s.io/component-base/configz.

use component_base::options::{OptionsError, OriginalFlags};
use controller_base::flags::KubeControllerManager;
use controller_base::leader_migration::LeaderMigration;
use controller_base::options::Settings;
use serde_json::{Map, Value, json};

/// Name of the page's one member.
const NAME: &str = "kubecontrollermanager.config.k8s.io";

/// Fields of a section, each with the flag that sets it.
type Fields = &'static [(&'static str, &'static str)];

/// Sections by path, outermost first.
const SECTIONS: &[(&str, Fields)] = &[
    (
        "Generic.ClientConnection",
        &[
            ("Kubeconfig", "kubeconfig"),
            ("ContentType", "kube-api-content-type"),
            ("QPS", "kube-api-qps"),
            ("Burst", "kube-api-burst"),
        ],
    ),
    ("Generic", &[("MinResyncPeriod", "min-resync-period"), ("ControllerStartInterval", "controller-start-interval")]),
    (
        "Generic.LeaderElection",
        &[
            ("LeaderElect", "leader-elect"),
            ("LeaseDuration", "leader-elect-lease-duration"),
            ("RenewDeadline", "leader-elect-renew-deadline"),
            ("RetryPeriod", "leader-elect-retry-period"),
            ("ResourceLock", "leader-elect-resource-lock"),
            ("ResourceName", "leader-elect-resource-name"),
            ("ResourceNamespace", "leader-elect-resource-namespace"),
        ],
    ),
    ("Generic", &[("Controllers", "controllers")]),
    ("Generic.Debugging", &[("EnableProfiling", "profiling"), ("EnableContentionProfiling", "contention-profiling")]),
    ("Generic", &[("LeaderMigrationEnabled", "enable-leader-migration")]),
    ("KubeCloudShared.CloudProvider", &[("Name", "cloud-provider"), ("CloudConfigFile", "cloud-config")]),
    (
        "KubeCloudShared",
        &[
            ("ExternalCloudVolumePlugin", "external-cloud-volume-plugin"),
            ("UseServiceAccountCredentials", "use-service-account-credentials"),
            ("RouteReconciliationPeriod", "route-reconciliation-period"),
            ("NodeMonitorPeriod", "node-monitor-period"),
            ("ClusterName", "cluster-name"),
            ("ClusterCIDR", "cluster-cidr"),
            ("AllocateNodeCIDRs", "allocate-node-cidrs"),
            ("CIDRAllocatorType", "cidr-allocator-type"),
            ("ConfigureCloudRoutes", "configure-cloud-routes"),
        ],
    ),
    (
        "AttachDetachController",
        &[
            ("DisableAttachDetachReconcilerSync", "disable-attach-detach-reconcile-sync"),
            ("ReconcilerSyncLoopPeriod", "attach-detach-reconcile-sync-period"),
            ("DisableForceDetachOnTimeout", "disable-force-detach-on-timeout"),
        ],
    ),
    (
        "CSRSigningController",
        &[
            ("ClusterSigningCertFile", "cluster-signing-cert-file"),
            ("ClusterSigningKeyFile", "cluster-signing-key-file"),
        ],
    ),
    (
        "CSRSigningController.KubeletServingSignerConfiguration",
        &[
            ("CertFile", "cluster-signing-kubelet-serving-cert-file"),
            ("KeyFile", "cluster-signing-kubelet-serving-key-file"),
        ],
    ),
    (
        "CSRSigningController.KubeletClientSignerConfiguration",
        &[
            ("CertFile", "cluster-signing-kubelet-client-cert-file"),
            ("KeyFile", "cluster-signing-kubelet-client-key-file"),
        ],
    ),
    (
        "CSRSigningController.KubeAPIServerClientSignerConfiguration",
        &[
            ("CertFile", "cluster-signing-kube-apiserver-client-cert-file"),
            ("KeyFile", "cluster-signing-kube-apiserver-client-key-file"),
        ],
    ),
    (
        "CSRSigningController.LegacyUnknownSignerConfiguration",
        &[
            ("CertFile", "cluster-signing-legacy-unknown-cert-file"),
            ("KeyFile", "cluster-signing-legacy-unknown-key-file"),
        ],
    ),
    ("CSRSigningController", &[("ClusterSigningDuration", "cluster-signing-duration")]),
    ("DaemonSetController", &[("ConcurrentDaemonSetSyncs", "concurrent-daemonset-syncs")]),
    ("DeploymentController", &[("ConcurrentDeploymentSyncs", "concurrent-deployment-syncs")]),
    ("StatefulSetController", &[("ConcurrentStatefulSetSyncs", "concurrent-statefulset-syncs")]),
    (
        "EndpointController",
        &[
            ("ConcurrentEndpointSyncs", "concurrent-endpoint-syncs"),
            ("EndpointUpdatesBatchPeriod", "endpoint-updates-batch-period"),
        ],
    ),
    (
        "EndpointSliceController",
        &[
            ("ConcurrentServiceEndpointSyncs", "concurrent-service-endpoint-syncs"),
            ("MaxEndpointsPerSlice", "max-endpoints-per-slice"),
            ("EndpointUpdatesBatchPeriod", "endpointslice-updates-batch-period"),
        ],
    ),
    (
        "EndpointSliceMirroringController",
        &[
            ("MirroringConcurrentServiceEndpointSyncs", "mirroring-concurrent-service-endpoint-syncs"),
            ("MirroringMaxEndpointsPerSubset", "mirroring-max-endpoints-per-subset"),
            ("MirroringEndpointUpdatesBatchPeriod", "mirroring-endpointslice-updates-batch-period"),
        ],
    ),
    ("EphemeralVolumeController", &[("ConcurrentEphemeralVolumeSyncs", "concurrent-ephemeralvolume-syncs")]),
    (
        "GarbageCollectorController",
        &[("EnableGarbageCollector", "enable-garbage-collector"), ("ConcurrentGCSyncs", "concurrent-gc-syncs")],
    ),
    (
        "HPAController",
        &[
            ("ConcurrentHorizontalPodAutoscalerSyncs", "concurrent-horizontal-pod-autoscaler-syncs"),
            ("HorizontalPodAutoscalerSyncPeriod", "horizontal-pod-autoscaler-sync-period"),
            (
                "HorizontalPodAutoscalerDownscaleStabilizationWindow",
                "horizontal-pod-autoscaler-downscale-stabilization",
            ),
            ("HorizontalPodAutoscalerTolerance", "horizontal-pod-autoscaler-tolerance"),
            ("HorizontalPodAutoscalerCPUInitializationPeriod", "horizontal-pod-autoscaler-cpu-initialization-period"),
            ("HorizontalPodAutoscalerInitialReadinessDelay", "horizontal-pod-autoscaler-initial-readiness-delay"),
        ],
    ),
    ("JobController", &[("ConcurrentJobSyncs", "concurrent-job-syncs")]),
    ("CronJobController", &[("ConcurrentCronJobSyncs", "concurrent-cron-job-syncs")]),
    ("LegacySATokenCleaner", &[("CleanUpPeriod", "legacy-service-account-token-clean-up-period")]),
    (
        "NamespaceController",
        &[("NamespaceSyncPeriod", "namespace-sync-period"), ("ConcurrentNamespaceSyncs", "concurrent-namespace-syncs")],
    ),
    (
        "NodeIPAMController",
        &[
            ("ServiceCIDR", "service-cluster-ip-range"),
            ("NodeCIDRMaskSize", "node-cidr-mask-size"),
            ("NodeCIDRMaskSizeIPv4", "node-cidr-mask-size-ipv4"),
            ("NodeCIDRMaskSizeIPv6", "node-cidr-mask-size-ipv6"),
        ],
    ),
    (
        "NodeLifecycleController",
        &[
            ("NodeEvictionRate", "node-eviction-rate"),
            ("SecondaryNodeEvictionRate", "secondary-node-eviction-rate"),
            ("NodeStartupGracePeriod", "node-startup-grace-period"),
            ("NodeMonitorGracePeriod", "node-monitor-grace-period"),
            ("LargeClusterSizeThreshold", "large-cluster-size-threshold"),
            ("UnhealthyZoneThreshold", "unhealthy-zone-threshold"),
        ],
    ),
    ("PersistentVolumeBinderController", &[("PVClaimBinderSyncPeriod", "pvclaimbinder-sync-period")]),
    (
        "PersistentVolumeBinderController.VolumeConfiguration",
        &[
            ("EnableHostPathProvisioning", "enable-hostpath-provisioner"),
            ("EnableDynamicProvisioning", "enable-dynamic-provisioning"),
            ("FlexVolumePluginDir", "flex-volume-plugin-dir"),
        ],
    ),
    (
        "PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration",
        &[
            ("MinimumTimeoutNFS", "pv-recycler-minimum-timeout-nfs"),
            ("PodTemplateFilePathNFS", "pv-recycler-pod-template-filepath-nfs"),
            ("IncrementTimeoutNFS", "pv-recycler-increment-timeout-nfs"),
            ("PodTemplateFilePathHostPath", "pv-recycler-pod-template-filepath-hostpath"),
            ("MinimumTimeoutHostPath", "pv-recycler-minimum-timeout-hostpath"),
            ("IncrementTimeoutHostPath", "pv-recycler-timeout-increment-hostpath"),
        ],
    ),
    ("PodGCController", &[("TerminatedPodGCThreshold", "terminated-pod-gc-threshold")]),
    ("ReplicaSetController", &[("ConcurrentRSSyncs", "concurrent-replicaset-syncs")]),
    ("ReplicationController", &[("ConcurrentRCSyncs", "concurrent-rc-syncs")]),
    (
        "ResourceQuotaController",
        &[
            ("ResourceQuotaSyncPeriod", "resource-quota-sync-period"),
            ("ConcurrentResourceQuotaSyncs", "concurrent-resource-quota-syncs"),
        ],
    ),
    (
        "SAController",
        &[
            ("ServiceAccountKeyFile", "service-account-private-key-file"),
            ("ConcurrentSATokenSyncs", "concurrent-serviceaccount-token-syncs"),
            ("RootCAFile", "root-ca-file"),
        ],
    ),
    ("ServiceController", &[("ConcurrentServiceSyncs", "concurrent-service-syncs")]),
    ("TTLAfterFinishedController", &[("ConcurrentTTLSyncs", "concurrent-ttl-after-finished-syncs")]),
    (
        "ValidatingAdmissionPolicyStatusController",
        &[("ConcurrentPolicySyncs", "concurrent-validating-admission-policy-status-syncs")],
    ),
    ("DeviceTaintEvictionController", &[("ConcurrentSyncs", "concurrent-device-taint-eviction-syncs")]),
    ("ResourceClaimController", &[("ConcurrentSyncs", "concurrent-resourceclaim-syncs")]),
];

/// Fields that no flag sets, with the only value that they have.
fn fixed() -> [(&'static str, &'static str, Value); 7] {
    let events = |group: &str| json!({"Group": group, "Resource": "events"});
    [
        ("Generic", "Port", 0.into()),
        ("Generic", "Address", "0.0.0.0".into()),
        ("Generic.ClientConnection", "AcceptContentTypes", "".into()),
        ("KubeCloudShared", "AllowUntaggedCloud", false.into()),
        ("KubeCloudShared", "NodeSyncPeriod", "0s".into()),
        ("GarbageCollectorController", "GCIgnoredResources", json!([events(""), events("events.k8s.io")])),
        (
            "PersistentVolumeBinderController.VolumeConfiguration.PersistentVolumeRecyclerConfiguration",
            "MaximumRetry",
            3.into(),
        ),
    ]
}

/// Returns the page.
pub fn page(flags: &OriginalFlags<KubeControllerManager>, settings: &Settings) -> Result<Value, OptionsError> {
    let mut root = Value::Object(Map::new());
    for (path, fields) in SECTIONS {
        for (name, flag) in *fields {
            section(&mut root, path)[*name] = flags.value(flag);
        }
    }
    for (path, name, value) in fixed() {
        section(&mut root, path)[name] = value;
    }
    // It has no fields left.
    section(&mut root, "DeprecatedController");
    section(&mut root, "Generic")["LeaderMigration"] = leader_migration(settings.leader_migration.migration()?);
    Ok(json!({NAME: root}))
}

/// Returns the section at a path; it is made if it is not there.
fn section<'a>(root: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(root, |section, name| {
        let below = &mut section[name];
        if below.is_null() {
            *below = Value::Object(Map::new());
        }
        below
    })
}

fn leader_migration(migration: Option<LeaderMigration>) -> Value {
    let Some(migration) = migration else {
        return json!({"LeaderName": "", "ResourceLock": "", "ControllerLeaders": null});
    };
    let leaders = migration.leaders().map(|(name, component)| json!({"Name": name, "Component": component}));
    let leaders: Vec<Value> = leaders.collect();
    json!({"LeaderName": migration.leader_name, "ResourceLock": "leases", "ControllerLeaders": leaders})
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command, FromArgMatches};
    use controller_base::options::Config;
    use std::collections::BTreeSet;

    fn page_for(flags: &[&str]) -> Value {
        let command = Config::augment_args(Command::new("controller-manager"));
        let matches = command.get_matches_from([&["controller-manager"], flags].concat());
        let config = Config::from_arg_matches(&matches).unwrap();
        page(&config.original, &config.settings).unwrap()[NAME].take()
    }

    #[test]
    fn every_field_has_its_value_in_the_form_of_go() {
        let page = page_for(&[
            "--concurrent-job-syncs=7",
            "--node-monitor-grace-period=90s",
            "--controllers=*,-job",
            "--min-resync-period=1h",
            "--enable-leader-migration",
        ]);
        for (path, expected) in [
            ("/JobController/ConcurrentJobSyncs", json!(7)),
            ("/NodeLifecycleController/NodeMonitorGracePeriod", json!("1m30s")),
            ("/NodeLifecycleController/NodeEvictionRate", json!(0.1)),
            ("/Generic/Controllers", json!(["*", "-job"])),
            ("/Generic/MinResyncPeriod", json!("1h0m0s")),
            ("/Generic/LeaderElection/LeaderElect", json!(true)),
            ("/Generic/LeaderElection/LeaseDuration", json!("15s")),
            ("/Generic/ClientConnection/QPS", json!(0)),
            ("/Generic/LeaderMigration/LeaderName", json!("cloud-provider-extraction-migration")),
            ("/KubeCloudShared/ClusterCIDR", json!("10.244.0.0/16")),
            ("/EndpointController/EndpointUpdatesBatchPeriod", json!("0s")),
            ("/DeprecatedController", json!({})),
        ] {
            assert_eq!(page.pointer(path), Some(&expected), "{path}");
        }
    }

    #[test]
    fn no_field_is_without_a_value_and_no_flag_sets_two() {
        let page = page_for(&[]);
        let mut flags = BTreeSet::new();
        for (path, fields) in SECTIONS {
            for (name, flag) in *fields {
                assert!(flags.insert(*flag), "--{flag} stands in the table twice");
                let pointer = format!("/{}/{name}", path.replace('.', "/"));
                assert!(page.pointer(&pointer).is_some_and(|value| !value.is_null()), "{pointer}");
            }
        }
    }
}
