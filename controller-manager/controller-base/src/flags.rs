//! Lists every flag of kube-controller-manager v1.36, and says which have an effect here.
//!
//! The flags with an effect are fields of `Config`, which documents them. Corresponds to
//! cmd/kube-controller-manager/app/options.

use component_base::options::Original;
use component_base::options::original::Form::{Duration, Float, Int, List, Switch, Text};
use component_base::options::original::{
    DELEGATED_AUTH, Flag, JSON_LOGGING, LEADER_ELECTION, LOGGING, METRICS, REQUEST_HEADERS, SERVING, VERSIONS, none,
    works,
};

#[derive(Clone, Debug)]
pub struct KubeControllerManager;

// Deviation: without flags, a controller manager gives controllers service accounts and nodes pod ranges, as kubeadm
// configures.

impl Original for KubeControllerManager {
    const NAME: &'static str = "kube-controller-manager";
    const FLAGS: &'static [&'static [Flag]] = &[
        GENERIC,
        OWN,
        WORKLOADS,
        SERVICES,
        NODES,
        HOUSEKEEPING,
        SIGNING,
        AUTOSCALING,
        VOLUMES,
        CLOUD,
        LEADER_ELECTION,
        SERVING,
        DELEGATED_AUTH,
        REQUEST_HEADERS,
        LOGGING,
        JSON_LOGGING,
        METRICS,
        VERSIONS,
    ];
}

/// Flags of every controller manager, also the cloud's. Corresponds to k8s.io/controller-manager/options.
pub const GENERIC: &[Flag] = &[
    none("authentication-tolerate-lookup-failure", Switch, ""),
    works("cert-dir", Text, ""),
    none("contention-profiling", Switch, ""),
    works("controller-start-interval", Duration, ""),
    works("controllers", List, "*"),
    works("enable-leader-migration", Switch, ""),
    works("kube-api-burst", Int, "30"),
    none("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    works("kube-api-qps", Float, "20").but(""),
    works("kubeconfig", Text, ""),
    works("leader-migration-config", Text, ""),
    none("master", Text, ""),
    none("min-resync-period", Duration, "12h0m0s"),
    none("profiling", Switch, "true"),
];

const OWN: &[Flag] = &[
    none("cloud-provider", Text, ""),
    works("controller-shutdown-timeout", Duration, "10s"),
    works("leader-elect-resource-name", Text, "kube-controller-manager"),
    works("secure-port", Int, "10257"),
    works("use-service-account-credentials", Switch, "").but("true"),
];

const WORKLOADS: &[Flag] = &[
    works("concurrent-cron-job-syncs", Int, "5"),
    works("concurrent-daemonset-syncs", Int, "2"),
    works("concurrent-deployment-syncs", Int, "5"),
    works("concurrent-job-syncs", Int, "5"),
    works("concurrent-rc-syncs", Int, "5"),
    works("concurrent-replicaset-syncs", Int, "5"),
    works("concurrent-statefulset-syncs", Int, "5"),
    works("concurrent-ttl-after-finished-syncs", Int, "5"),
    works("terminated-pod-gc-threshold", Int, "12500"),
];

const SERVICES: &[Flag] = &[
    works("concurrent-endpoint-syncs", Int, "5"),
    works("concurrent-service-endpoint-syncs", Int, "5"),
    works("endpoint-updates-batch-period", Duration, ""),
    works("endpointslice-updates-batch-period", Duration, ""),
    works("max-endpoints-per-slice", Int, "100"),
    works("mirroring-concurrent-service-endpoint-syncs", Int, "5"),
    works("mirroring-endpointslice-updates-batch-period", Duration, ""),
    works("mirroring-max-endpoints-per-subset", Int, "1000"),
    works("service-cluster-ip-range", Text, ""),
];

const NODES: &[Flag] = &[
    works("allocate-node-cidrs", Switch, "").but("true"),
    works("cluster-cidr", Text, "").but("10.244.0.0/16"),
    works("large-cluster-size-threshold", Int, "50"),
    works("node-cidr-mask-size", Int, "").but("24"),
    works("node-cidr-mask-size-ipv4", Int, ""),
    works("node-cidr-mask-size-ipv6", Int, "").but("64"),
    works("node-eviction-rate", Float, "0.1"),
    works("node-monitor-grace-period", Duration, "50s"),
    works("node-monitor-period", Duration, "5s"),
    works("node-startup-grace-period", Duration, "1m0s"),
    works("secondary-node-eviction-rate", Float, "0.01"),
    works("unhealthy-zone-threshold", Float, "0.55"),
];

const HOUSEKEEPING: &[Flag] = &[
    works("concurrent-device-taint-eviction-syncs", Int, "8"),
    works("concurrent-gc-syncs", Int, "20"),
    works("concurrent-namespace-syncs", Int, "10"),
    works("concurrent-resource-quota-syncs", Int, "5"),
    works("concurrent-resourceclaim-syncs", Int, "50"),
    works("concurrent-serviceaccount-token-syncs", Int, "5"),
    works("concurrent-validating-admission-policy-status-syncs", Int, "5"),
    works("enable-garbage-collector", Switch, "true"),
    works("legacy-service-account-token-clean-up-period", Duration, "8760h0m0s"),
    works("namespace-sync-period", Duration, "5m0s"),
    works("resource-quota-sync-period", Duration, "5m0s"),
    works("root-ca-file", Text, ""),
    works("service-account-private-key-file", Text, ""),
];

const SIGNING: &[Flag] = &[
    works("cluster-signing-cert-file", Text, ""),
    works("cluster-signing-duration", Duration, "8760h0m0s"),
    works("cluster-signing-key-file", Text, ""),
    works("cluster-signing-kube-apiserver-client-cert-file", Text, ""),
    works("cluster-signing-kube-apiserver-client-key-file", Text, ""),
    works("cluster-signing-kubelet-client-cert-file", Text, ""),
    works("cluster-signing-kubelet-client-key-file", Text, ""),
    works("cluster-signing-kubelet-serving-cert-file", Text, ""),
    works("cluster-signing-kubelet-serving-key-file", Text, ""),
    works("cluster-signing-legacy-unknown-cert-file", Text, ""),
    works("cluster-signing-legacy-unknown-key-file", Text, ""),
];

const AUTOSCALING: &[Flag] = &[
    works("concurrent-horizontal-pod-autoscaler-syncs", Int, "5"),
    works("horizontal-pod-autoscaler-cpu-initialization-period", Duration, "5m0s"),
    works("horizontal-pod-autoscaler-downscale-stabilization", Duration, "5m0s"),
    works("horizontal-pod-autoscaler-initial-readiness-delay", Duration, "30s"),
    works("horizontal-pod-autoscaler-sync-period", Duration, "15s"),
    works("horizontal-pod-autoscaler-tolerance", Float, "0.1"),
];

const VOLUMES: &[Flag] = &[
    works("attach-detach-reconcile-sync-period", Duration, "1m0s"),
    works("concurrent-ephemeralvolume-syncs", Int, "5"),
    works("disable-attach-detach-reconcile-sync", Switch, ""),
    works("disable-force-detach-on-timeout", Switch, ""),
    works("enable-dynamic-provisioning", Switch, "true"),
    none("enable-hostpath-provisioner", Switch, ""),
    none("flex-volume-plugin-dir", Text, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"),
    none("pv-recycler-increment-timeout-nfs", Int, "30"),
    none("pv-recycler-minimum-timeout-hostpath", Int, "60"),
    none("pv-recycler-minimum-timeout-nfs", Int, "300"),
    none("pv-recycler-pod-template-filepath-hostpath", Text, ""),
    none("pv-recycler-pod-template-filepath-nfs", Text, ""),
    none("pv-recycler-timeout-increment-hostpath", Int, "30"),
    works("pvclaimbinder-sync-period", Duration, "15s"),
];

/// Flags about the cloud, which have an effect in the cloud controller manager alone. Corresponds to KubeCloudSharedOptions of
/// k8s.io/cloud-provider/options.
const CLOUD: &[Flag] = &[
    none("cidr-allocator-type", Text, "RangeAllocator"),
    none("cloud-config", Text, ""),
    none("cluster-name", Text, "kubernetes"),
    none("concurrent-service-syncs", Int, "1"),
    none("configure-cloud-routes", Switch, "true"),
    none("external-cloud-volume-plugin", Text, ""),
    none("route-reconciliation-period", Duration, "10s"),
];

#[cfg(test)]
mod tests {
    use super::KubeControllerManager;
    use crate::options::Config;
    use component_base::options::Original;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // As many as `--help` of v1.36.2 lists, but for --help, --version and -v.
        assert_eq!(KubeControllerManager::flags().count(), 145);
        assert_eq!(disagreements::<KubeControllerManager, Config>(), [""; 0]);
    }
}
