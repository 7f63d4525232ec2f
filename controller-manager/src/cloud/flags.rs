//! Lists every flag of cloud-controller-manager v1.36, and says which have an effect here.
//!
//! The flags with an effect are fields of `Config`, which documents them. Corresponds to k8s.io/cloud-provider/options.

use component_base::options::Original;
use component_base::options::feature_gates::Notation;
use component_base::options::original::Form::{Duration, Gates, Int, Ip, List, Switch, Text};
use component_base::options::original::{
    DELEGATED_AUTH, Flag, LEADER_ELECTION, LOGGING, REQUEST_HEADERS, SERVING, none, works,
};
use controller_base::flags::GENERIC;

#[derive(Clone, Debug)]
pub struct CloudControllerManager;

impl Original for CloudControllerManager {
    const NAME: &'static str = "cloud-controller-manager";
    const FLAGS: &'static [&'static [Flag]] =
        &[GENERIC, SHARED, OWN, WEBHOOKS, LEADER_ELECTION, SERVING, DELEGATED_AUTH, REQUEST_HEADERS, LOGGING];
}

/// Flags about the cloud, which kube-controller-manager accepts too. Corresponds to KubeCloudSharedOptions.
const SHARED: &[Flag] = &[
    none("cidr-allocator-type", Text, "RangeAllocator"),
    works("cloud-config", Text, ""),
    none("cluster-name", Text, "kubernetes"),
    works("concurrent-service-syncs", Int, "1"),
    works("configure-cloud-routes", Switch, "true"),
    none("external-cloud-volume-plugin", Text, ""),
    works("route-reconciliation-period", Duration, "10s"),
];

const OWN: &[Flag] = &[
    works("allocate-node-cidrs", Switch, ""),
    works("cloud-provider", Text, ""),
    works("cluster-cidr", Text, ""),
    none("concurrent-node-status-updates", Int, ""),
    works("concurrent-node-syncs", Int, "1"),
    none("feature-gates", Gates(Notation::Plain), ""),
    works("leader-elect-resource-name", Text, "cloud-controller-manager"),
    none("node-cidr-mask-size", Int, ""),
    none("node-cidr-mask-size-ipv4", Int, ""),
    none("node-cidr-mask-size-ipv6", Int, ""),
    works("node-monitor-period", Duration, "5s"),
    works("node-status-update-frequency", Duration, "5m0s"),
    works("secure-port", Int, "10258"),
    none("service-cluster-ip-range", Text, ""),
    works("use-service-account-credentials", Switch, ""),
];

const WEBHOOKS: &[Flag] = &[
    none("webhook-bind-address", Ip, "0.0.0.0"),
    none("webhook-cert-dir", Text, ""),
    none("webhook-disable-http2-serving", Switch, ""),
    none("webhook-secure-port", Int, "10260"),
    none("webhook-tls-cert-file", Text, ""),
    none("webhook-tls-cipher-suites", List, ""),
    none("webhook-tls-curve-preferences", List, ""),
    none("webhook-tls-min-version", Text, ""),
    none("webhook-tls-private-key-file", Text, ""),
    none("webhook-tls-sni-cert-key", Text, ""),
    none("webhooks", List, ""),
];

#[cfg(test)]
mod tests {
    use super::super::options::Config;
    use super::CloudControllerManager;
    use component_base::options::Original;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // As many as `--help` of v1.36.2 lists, but for --help, --version and -v.
        assert_eq!(CloudControllerManager::flags().count(), 83);
        assert_eq!(disagreements::<CloudControllerManager, Config>(), [""; 0]);
    }
}
