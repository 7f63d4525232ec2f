//! Every flag of cloud-controller-manager v1.36, and whether it has an effect here.
//!
//! Those that work are fields of `Config`, which says what they mean. Corresponds to k8s.io/cloud-provider/options.

use component_base::options::Original;
use component_base::options::original::Form::{Duration, Float, Int, Ip, List, Switch, Text};
use component_base::options::original::{
    DELEGATED_AUTH, Flag, LEADER_ELECTION, LOGGING, METRICS, REQUEST_HEADERS, SERVING, VERSIONS, none, works,
};

#[derive(Clone, Debug)]
pub struct CloudControllerManager;

impl Original for CloudControllerManager {
    const NAME: &'static str = "cloud-controller-manager";
    const FLAGS: &'static [&'static [Flag]] = &[
        GENERIC,
        CLOUD,
        WEBHOOKS,
        LEADER_ELECTION,
        SERVING,
        DELEGATED_AUTH,
        REQUEST_HEADERS,
        LOGGING,
        METRICS,
        VERSIONS,
    ];
}

const GENERIC: &[Flag] = &[
    none("authentication-tolerate-lookup-failure", Switch, ""),
    none("cert-dir", Text, ""),
    none("contention-profiling", Switch, ""),
    none("controller-start-interval", Duration, ""),
    works("controllers", List, "*"),
    none("enable-leader-migration", Switch, ""),
    works("kube-api-burst", Int, "30"),
    none("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    works("kube-api-qps", Float, "20").but(""),
    works("kubeconfig", Text, ""),
    works("leader-elect-resource-name", Text, "cloud-controller-manager"),
    none("leader-migration-config", Text, ""),
    none("master", Text, ""),
    none("min-resync-period", Duration, "12h0m0s"),
    none("profiling", Switch, "true"),
    works("secure-port", Int, "10258"),
    works("use-service-account-credentials", Switch, ""),
];

const CLOUD: &[Flag] = &[
    none("allocate-node-cidrs", Switch, ""),
    none("cidr-allocator-type", Text, "RangeAllocator"),
    none("cloud-config", Text, ""),
    works("cloud-provider", Text, ""),
    none("cluster-cidr", Text, ""),
    none("cluster-name", Text, "kubernetes"),
    none("concurrent-node-syncs", Int, "1"),
    none("concurrent-service-syncs", Int, "1"),
    none("configure-cloud-routes", Switch, "true"),
    none("external-cloud-volume-plugin", Text, ""),
    none("node-monitor-period", Duration, "5s"),
    none("node-status-update-frequency", Duration, "5m0s"),
    none("route-reconciliation-period", Duration, "10s"),
];

const WEBHOOKS: &[Flag] = &[
    none("webhook-bind-address", Ip, "0.0.0.0"),
    none("webhook-cert-dir", Text, ""),
    none("webhook-secure-port", Int, "10260"),
    none("webhook-tls-cert-file", Text, ""),
    none("webhook-tls-private-key-file", Text, ""),
    none("webhooks", List, ""),
];

#[cfg(test)]
mod tests {
    use super::super::options::Config;
    use super::CloudControllerManager;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        assert_eq!(disagreements::<CloudControllerManager, Config>(), [""; 0]);
    }
}
