//! Every flag of kube-proxy v1.36: those that work here, and those that are accepted without effect.
//!
//! The working ones are fields of `Config`, which documents them. Corresponds to cmd/kube-proxy/app/options.go.

use component_base::options::Original;
use component_base::options::feature_gates::Notation;
use component_base::options::original::Form::{Address, Duration, Float, Gates, Int, Ip, List, Switch, Text};
use component_base::options::original::{Flag, JSON_LOGGING, LOGGING, none, works};

/// The original that proxy-sim simulates, with its flags.
#[derive(Clone, Debug)]
pub struct KubeProxy;

// Deviation: one process serves the proxies of all nodes, so the bind address is that of its own port. The range of
// pods defaults to kubeadm's usual value.
impl Original for KubeProxy {
    const NAME: &'static str = "kube-proxy";
    const FLAGS: &'static [&'static [Flag]] = &[OWN, CONNECTION_TRACKING, IPTABLES, IPVS, LOGGING, JSON_LOGGING];
}

const OWN: &[Flag] = &[
    works("bind-address", Ip, "0.0.0.0"),
    none("bind-address-hard-fail", Switch, ""),
    none("boot-id-file", Text, "/proc/sys/kernel/random/boot_id"),
    none("cleanup", Switch, ""),
    works("cluster-cidr", Text, "").but("10.244.0.0/16"),
    works("config", Text, ""),
    none("config-sync-period", Duration, "15m0s"),
    none("detect-local-mode", Text, ""),
    none("feature-gates", Gates(Notation::Plain), ""),
    none("healthz-bind-address", Address, "0.0.0.0:10256"),
    none("hostname-override", Text, ""),
    none("init-only", Switch, ""),
    works("kube-api-burst", Int, "10"),
    none("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    works("kube-api-qps", Float, "5").but(""),
    works("kubeconfig", Text, ""),
    none("machine-id-file", Text, "/etc/machine-id,/var/lib/dbus/machine-id"),
    none("masquerade-all", Switch, ""),
    none("master", Text, ""),
    none("metrics-bind-address", Address, "127.0.0.1:10249"),
    none("nodeport-addresses", List, ""),
    none("oom-score-adj", Int, "-999"),
    none("pod-bridge-interface", Text, ""),
    none("pod-interface-name-prefix", Text, ""),
    none("profiling", Switch, ""),
    none("proxy-mode", Text, ""),
    none("show-hidden-metrics-for-version", Text, ""),
    none("write-config-to", Text, ""),
];

const CONNECTION_TRACKING: &[Flag] = &[
    none("conntrack-max-per-core", Int, "32768"),
    none("conntrack-min", Int, "131072"),
    none("conntrack-tcp-be-liberal", Switch, ""),
    none("conntrack-tcp-timeout-close-wait", Duration, "1h0m0s"),
    none("conntrack-tcp-timeout-established", Duration, "24h0m0s"),
    none("conntrack-udp-timeout", Duration, ""),
    none("conntrack-udp-timeout-stream", Duration, ""),
];

const IPTABLES: &[Flag] = &[
    none("iptables-localhost-nodeports", Switch, "true"),
    none("iptables-masquerade-bit", Int, "14"),
    none("iptables-min-sync-period", Duration, "1s"),
    none("iptables-sync-period", Duration, "30s"),
];

const IPVS: &[Flag] = &[
    none("ipvs-exclude-cidrs", List, ""),
    none("ipvs-min-sync-period", Duration, "1s"),
    none("ipvs-scheduler", Text, ""),
    none("ipvs-strict-arp", Switch, ""),
    none("ipvs-sync-period", Duration, "30s"),
    none("ipvs-tcp-timeout", Duration, ""),
    none("ipvs-tcpfin-timeout", Duration, ""),
    none("ipvs-udp-timeout", Duration, ""),
];

#[cfg(test)]
mod tests {
    use super::KubeProxy;
    use crate::Config;
    use component_base::options::Original;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // As many as `--help` of v1.36.2 lists, but for --help, --version and -v.
        assert_eq!(KubeProxy::flags().count(), 54);
        assert_eq!(disagreements::<KubeProxy, Config>(), [""; 0]);
    }
}
