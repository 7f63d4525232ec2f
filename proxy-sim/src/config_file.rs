//! KubeProxyConfiguration: every field of v1alpha1, each with the flag that it sets, or marked as ignored.
//!
//! Corresponds to k8s.io/kube-proxy/config/v1alpha1.

use component_base::options::config_file::{Field, FileKind, flag, gates, ignored};

pub const KUBE_PROXY_CONFIGURATION: FileKind =
    FileKind { api_version: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration", fields: &[OWN, MODES] };

const OWN: &[Field] = &[
    flag("bindAddress", "bind-address"),
    ignored("bindAddressHardFail"),
    ignored("clientConnection.acceptContentTypes"),
    flag("clientConnection.burst", "kube-api-burst"),
    ignored("clientConnection.contentType"),
    flag("clientConnection.kubeconfig", "kubeconfig"),
    flag("clientConnection.qps", "kube-api-qps"),
    flag("clusterCIDR", "cluster-cidr"),
    ignored("configSyncPeriod"),
    ignored("conntrack"),
    ignored("detectLocal"),
    ignored("detectLocalMode"),
    ignored("enableProfiling"),
    gates("featureGates"),
    ignored("healthzBindAddress"),
    ignored("hostnameOverride"),
    ignored("logging"),
    ignored("metricsBindAddress"),
    ignored("nodePortAddresses"),
    ignored("oomScoreAdj"),
    ignored("portRange"),
    ignored("showHiddenMetricsForVersion"),
    ignored("windowsRunAsService"),
];

const MODES: &[Field] =
    &[ignored("iptables"), ignored("ipvs"), ignored("mode"), ignored("nftables"), ignored("winkernel")];
