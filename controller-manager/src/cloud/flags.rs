//! Every flag of cloud-controller-manager v1.36, and whether it has an effect here.
//!
//! Those that work are fields of `Config`, which says what they mean. Corresponds to k8s.io/cloud-provider/options.

use crate::flags::{CLOUD, GENERIC};
use component_base::options::Original;
use component_base::options::original::Form::{Duration, Int, Ip, List, Switch, Text};
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
        OWN,
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

const OWN: &[Flag] = &[
    none("allocate-node-cidrs", Switch, ""),
    works("cloud-provider", Text, ""),
    none("cluster-cidr", Text, ""),
    none("concurrent-node-syncs", Int, "1"),
    works("leader-elect-resource-name", Text, "cloud-controller-manager"),
    none("node-monitor-period", Duration, "5s"),
    none("node-status-update-frequency", Duration, "5m0s"),
    works("secure-port", Int, "10258"),
    works("use-service-account-credentials", Switch, ""),
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
