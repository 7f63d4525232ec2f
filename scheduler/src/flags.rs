//! Lists every flag of kube-scheduler v1.36, and says which have an effect here.
//!
//! The flags with an effect are fields of `Config`, which documents them. Corresponds to
//! cmd/kube-scheduler/app/options.

use component_base::options::Original;
use component_base::options::original::Form::{Duration, Float, Int, Switch, Text};
use component_base::options::original::{
    DELEGATED_AUTH, Flag, JSON_LOGGING, LEADER_ELECTION, LOGGING, METRICS, REQUEST_HEADERS, SERVING, VERSIONS, none,
    works,
};

#[derive(Clone, Debug)]
pub struct KubeScheduler;

impl Original for KubeScheduler {
    const NAME: &'static str = "kube-scheduler";
    const FLAGS: &'static [&'static [Flag]] =
        &[OWN, LEADER_ELECTION, SERVING, DELEGATED_AUTH, REQUEST_HEADERS, LOGGING, JSON_LOGGING, METRICS, VERSIONS];
}

const OWN: &[Flag] = &[
    none("authentication-tolerate-lookup-failure", Switch, "true"),
    works("cert-dir", Text, ""),
    works("config", Text, ""),
    none("contention-profiling", Switch, "true"),
    works("kube-api-burst", Int, "100"),
    none("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    works("kube-api-qps", Float, "50").but(""),
    works("kubeconfig", Text, ""),
    works("leader-elect-resource-name", Text, "kube-scheduler"),
    none("master", Text, ""),
    none("pod-max-in-unschedulable-pods-duration", Duration, "5m0s"),
    none("profiling", Switch, "true"),
    works("secure-port", Int, "10259"),
    none("write-config-to", Text, ""),
];

#[cfg(test)]
mod tests {
    use super::KubeScheduler;
    use crate::Config;
    use component_base::options::Original;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // As many as `--help` of v1.36.2 lists, but for --help, --version and -v.
        assert_eq!(KubeScheduler::flags().count(), 59);
        assert_eq!(disagreements::<KubeScheduler, Config>(), [""; 0]);
    }
}
