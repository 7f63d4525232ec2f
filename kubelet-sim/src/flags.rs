//! Every flag of the kubelet v1.36: those that work here, and those that are accepted without effect.
//!
//! The working ones are fields of `Config`, which documents them. Corresponds to cmd/kubelet/app/options.

use component_base::options::Original;
use component_base::options::feature_gates::Notation;
use component_base::options::original::Form::{Duration, Gates, Int, Ip, List, Pairs, Switch, Text};
use component_base::options::original::{Flag, JSON_LOGGING, LOGGING, none, works};

/// The original that kubelet-sim simulates, with its flags.
#[derive(Clone, Debug)]
pub struct Kubelet;

// Deviation: images lie on the node's only disk, so the image filesystem has no eviction threshold of its own.
impl Original for Kubelet {
    const NAME: &'static str = "kubelet";
    const FLAGS: &'static [&'static [Flag]] =
        &[OWN, SERVER, ACCESS, NODE, RESOURCES, EVICTION, CONTAINERS, IMAGES, CGROUPS, CADVISOR, LOGGING, JSON_LOGGING];
}

const OWN: &[Flag] = &[
    works("bootstrap-kubeconfig", Text, ""),
    works("cert-dir", Text, "/var/lib/kubelet/pki"),
    works("cloud-provider", Text, ""),
    works("config", Text, ""),
    none("config-dir", Text, ""),
    none("event-burst", Int, "100"),
    none("event-qps", Int, "50"),
    none("exit-on-lock-contention", Switch, ""),
    none("feature-gates", Gates(Notation::Plain), ""),
    works("kube-api-burst", Int, "100"),
    none("kube-api-content-type", Text, "application/vnd.kubernetes.protobuf"),
    works("kube-api-qps", Int, "50").but(""),
    works("kubeconfig", Text, ""),
    none("lock-file", Text, ""),
    none("max-open-files", Int, "1000000"),
    none("oom-score-adj", Int, "-999"),
    none("root-dir", Text, "/var/lib/kubelet"),
    works("rotate-certificates", Switch, ""),
    none("runonce", Switch, ""),
];

const SERVER: &[Flag] = &[
    works("address", Ip, "0.0.0.0").as_ours("bind-address"),
    works("client-ca-file", Text, ""),
    none("contention-profiling", Switch, ""),
    none("enable-debugging-handlers", Switch, "true"),
    none("enable-server", Switch, "true"),
    none("healthz-bind-address", Ip, "127.0.0.1"),
    none("healthz-port", Int, "10248"),
    works("port", Int, "10250").as_ours("secure-port"),
    none("read-only-port", Int, "10255"),
    none("rotate-server-certificates", Switch, ""),
    works("streaming-connection-idle-timeout", Duration, "4h0m0s"),
    works("tls-cert-file", Text, ""),
    works("tls-cipher-suites", List, ""),
    works("tls-min-version", Text, ""),
    works("tls-private-key-file", Text, ""),
];

/// None has an effect: every request is authenticated and authorized by the API server.
const ACCESS: &[Flag] = &[
    none("anonymous-auth", Switch, "true"),
    none("authentication-token-webhook", Switch, ""),
    none("authentication-token-webhook-cache-ttl", Duration, "2m0s"),
    none("authorization-mode", Text, "AlwaysAllow"),
    none("authorization-webhook-cache-authorized-ttl", Duration, "5m0s"),
    none("authorization-webhook-cache-unauthorized-ttl", Duration, "30s"),
];

const NODE: &[Flag] = &[
    works("hostname-override", Text, ""),
    works("node-ip", Text, ""),
    works("node-labels", Pairs, ""),
    works("node-status-max-images", Int, "50"),
    works("node-status-update-frequency", Duration, "10s"),
    works("provider-id", Text, ""),
    none("register-node", Switch, "true"),
    works("register-with-taints", Text, ""),
];

const RESOURCES: &[Flag] = &[
    none("cpu-cfs-quota", Switch, "true"),
    none("cpu-cfs-quota-period", Duration, "100ms"),
    works("cpu-manager-policy", Text, "none"),
    works("cpu-manager-policy-options", Pairs, ""),
    none("cpu-manager-reconcile-period", Duration, "10s"),
    none("enforce-node-allocatable", List, "pods"),
    works("kube-reserved", Pairs, ""),
    works("max-pods", Int, "110"),
    works("memory-manager-policy", Text, "None"),
    none("pod-max-pids", Int, "-1"),
    works("pods-per-core", Int, ""),
    none("qos-reserved", Pairs, ""),
    works("reserved-cpus", Text, ""),
    none("reserved-memory", Text, ""),
    works("system-reserved", Pairs, ""),
    works("topology-manager-policy", Text, "none"),
    none("topology-manager-policy-options", Pairs, ""),
    works("topology-manager-scope", Text, "container"),
];

const EVICTION: &[Flag] = &[
    works("eviction-hard", List, "").but("memory.available<100Mi,nodefs.available<10%"),
    works("eviction-max-pod-grace-period", Int, ""),
    works("eviction-minimum-reclaim", Pairs, ""),
    works("eviction-pressure-transition-period", Duration, "5m0s"),
    works("eviction-soft", List, ""),
    works("eviction-soft-grace-period", Pairs, ""),
    none("experimental-allocatable-ignore-eviction", Switch, ""),
];

const CONTAINERS: &[Flag] = &[
    works("allowed-unsafe-sysctls", List, ""),
    works("cluster-dns", List, "").but("10.96.0.10"),
    works("cluster-domain", Text, "").but("cluster.local"),
    none("container-log-max-files", Int, "5"),
    none("container-log-max-size", Text, "10Mi"),
    none("container-runtime-endpoint", Text, "unix:///run/containerd/containerd.sock"),
    none("enable-controller-attach-detach", Switch, "true"),
    none("experimental-mounter-path", Text, ""),
    works("file-check-frequency", Duration, "20s"),
    none("hairpin-mode", Text, "promiscuous-bridge"),
    works("http-check-frequency", Duration, "20s"),
    none("local-storage-capacity-isolation", Switch, "true"),
    none("make-iptables-util-chains", Switch, "true"),
    works("manifest-url", Text, ""),
    works("manifest-url-header", List, ""),
    none("maximum-dead-containers", Int, "-1"),
    none("maximum-dead-containers-per-container", Int, "1"),
    none("minimum-container-ttl-duration", Duration, ""),
    none("pod-cidr", Text, ""),
    works("pod-manifest-path", Text, ""),
    none("protect-kernel-defaults", Switch, ""),
    none("resolv-conf", Text, "/etc/resolv.conf"),
    none("runtime-request-timeout", Duration, "2m0s"),
    none("seccomp-default", Switch, ""),
    none("sync-frequency", Duration, "1m0s"),
    none("volume-plugin-dir", Text, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"),
    none("volume-stats-agg-period", Duration, "1m0s"),
];

const IMAGES: &[Flag] = &[
    none("image-credential-provider-bin-dir", Text, ""),
    none("image-credential-provider-config", Text, ""),
    works("image-gc-high-threshold", Int, "85"),
    works("image-gc-low-threshold", Int, "80"),
    none("image-service-endpoint", Text, ""),
    works("minimum-image-ttl-duration", Duration, "2m0s"),
    none("registry-burst", Int, "10"),
    none("registry-qps", Int, "5"),
    works("serialize-image-pulls", Switch, "true"),
];

const CGROUPS: &[Flag] = &[
    none("cgroup-driver", Text, "cgroupfs"),
    none("cgroup-root", Text, ""),
    none("cgroups-per-qos", Switch, "true"),
    none("fail-cgroupv1", Switch, "true"),
    none("fail-swap-on", Switch, "true"),
    none("kernel-memcg-notification", Switch, ""),
    none("kube-reserved-cgroup", Text, ""),
    none("kubelet-cgroups", Text, ""),
    none("runtime-cgroups", Text, ""),
    none("system-cgroups", Text, ""),
    none("system-reserved-cgroup", Text, ""),
];

/// The flags of cadvisor, which is part of the kubelet.
const CADVISOR: &[Flag] = &[
    none("application-metrics-count-limit", Int, "100"),
    none("boot-id-file", Text, "/proc/sys/kernel/random/boot_id"),
    none("container-hints", Text, "/etc/cadvisor/container_hints.json"),
    none("containerd", Text, "/run/containerd/containerd.sock"),
    none("containerd-namespace", Text, "k8s.io"),
    none("enable-load-reader", Switch, ""),
    none("event-storage-age-limit", Text, "default=0"),
    none("event-storage-event-limit", Text, "default=0"),
    none("global-housekeeping-interval", Duration, "1m0s"),
    none("housekeeping-interval", Duration, "10s"),
    none("log-cadvisor-usage", Switch, ""),
    none("machine-id-file", Text, "/etc/machine-id,/var/lib/dbus/machine-id"),
    none("max-housekeeping-interval", Duration, "15s"),
    none("storage-driver-buffer-duration", Duration, "1m0s"),
    none("storage-driver-db", Text, "cadvisor"),
    none("storage-driver-host", Text, "localhost:8086"),
    none("storage-driver-password", Text, "root"),
    none("storage-driver-secure", Switch, ""),
    none("storage-driver-table", Text, "stats"),
    none("storage-driver-user", Text, "root"),
];

#[cfg(test)]
mod tests {
    use super::Kubelet;
    use crate::Config;
    use component_base::options::Original;
    use component_base::options::original::disagreements;

    #[test]
    fn every_flag_of_the_original_is_accepted_and_every_field_is_as_there() {
        // As many as `--help` of v1.36.2 lists, but for --help, --version and -v.
        assert_eq!(Kubelet::flags().count(), 147);
        assert_eq!(disagreements::<Kubelet, Config>(), [""; 0]);
    }
}
