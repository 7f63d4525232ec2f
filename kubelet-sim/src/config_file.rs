//! KubeletConfiguration: every field of v1beta1, each with the flag that it sets, or marked as ignored.
//!
//! Corresponds to k8s.io/kubelet/config/v1beta1.

use component_base::options::config_file::{Field, FileKind, flag, gates, ignored};

pub const KUBELET_CONFIGURATION: FileKind = FileKind {
    api_version: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    fields: &[SERVER, ACCESS, NODE, RESOURCES, EVICTION, CONTAINERS, IMAGES, SYSTEM],
};

const SERVER: &[Field] = &[
    flag("address", "bind-address"),
    flag("authentication.x509.clientCAFile", "client-ca-file"),
    ignored("enableDebugFlagsHandler"),
    ignored("enableDebuggingHandlers"),
    ignored("enableProfilingHandler"),
    ignored("enableServer"),
    ignored("enableSystemLogHandler"),
    ignored("enableSystemLogQuery"),
    ignored("healthzBindAddress"),
    ignored("healthzPort"),
    flag("port", "secure-port"),
    ignored("readOnlyPort"),
    ignored("serverTLSBootstrap"),
    flag("streamingConnectionIdleTimeout", "streaming-connection-idle-timeout"),
    flag("tlsCertFile", "tls-cert-file"),
    flag("tlsCipherSuites", "tls-cipher-suites"),
    flag("tlsMinVersion", "tls-min-version"),
    flag("tlsPrivateKeyFile", "tls-private-key-file"),
];

const ACCESS: &[Field] = &[
    ignored("authentication.anonymous.enabled"),
    ignored("authentication.webhook.cacheTTL"),
    ignored("authentication.webhook.enabled"),
    ignored("authorization.mode"),
    ignored("authorization.webhook.cacheAuthorizedTTL"),
    ignored("authorization.webhook.cacheUnauthorizedTTL"),
    ignored("contentType"),
    ignored("eventBurst"),
    ignored("eventRecordQPS"),
    flag("kubeAPIBurst", "kube-api-burst"),
    flag("kubeAPIQPS", "kube-api-qps"),
    flag("rotateCertificates", "rotate-certificates"),
];

const NODE: &[Field] = &[
    flag("nodeLeaseDurationSeconds", "node-lease-duration").in_unit("s"),
    ignored("nodeStatusMaxImages"),
    flag("nodeStatusReportFrequency", "node-status-report-frequency"),
    flag("nodeStatusUpdateFrequency", "node-status-update-frequency"),
    ignored("providerID"),
    ignored("registerNode"),
    ignored("registerWithTaints"),
    ignored("shutdownGracePeriod"),
    ignored("shutdownGracePeriodByPodPriority"),
    ignored("shutdownGracePeriodCriticalPods"),
];

const RESOURCES: &[Field] = &[
    ignored("cpuCFSQuota"),
    ignored("cpuCFSQuotaPeriod"),
    ignored("cpuManagerPolicy"),
    ignored("cpuManagerPolicyOptions"),
    ignored("cpuManagerReconcilePeriod"),
    ignored("enforceNodeAllocatable"),
    flag("kubeReserved", "kube-reserved"),
    flag("maxPods", "max-pods"),
    ignored("memoryManagerPolicy"),
    ignored("memorySwap.swapBehavior"),
    ignored("memoryThrottlingFactor"),
    ignored("podPidsLimit"),
    flag("podsPerCore", "pods-per-core"),
    ignored("qosReserved"),
    ignored("reservedMemory"),
    ignored("reservedSystemCPUs"),
    flag("systemReserved", "system-reserved"),
    ignored("topologyManagerPolicy"),
    ignored("topologyManagerPolicyOptions"),
    ignored("topologyManagerScope"),
];

const EVICTION: &[Field] = &[
    flag("evictionHard", "eviction-hard").joined_by("<"),
    ignored("evictionMaxPodGracePeriod"),
    ignored("evictionMinimumReclaim"),
    ignored("evictionPressureTransitionPeriod"),
    ignored("evictionSoft"),
    ignored("evictionSoftGracePeriod"),
    ignored("mergeDefaultEvictionSettings"),
];

const CONTAINERS: &[Field] = &[
    flag("allowedUnsafeSysctls", "allowed-unsafe-sysctls"),
    flag("clusterDNS", "cluster-dns"),
    flag("clusterDomain", "cluster-domain"),
    ignored("configMapAndSecretChangeDetectionStrategy"),
    ignored("containerLogMaxFiles"),
    ignored("containerLogMaxSize"),
    ignored("containerLogMaxWorkers"),
    ignored("containerLogMonitorInterval"),
    ignored("containerRuntimeEndpoint"),
    ignored("crashLoopBackOff.maxContainerRestartPeriod"),
    ignored("enableControllerAttachDetach"),
    ignored("fileCheckFrequency"),
    ignored("hairpinMode"),
    ignored("httpCheckFrequency"),
    ignored("iptablesDropBit"),
    ignored("iptablesMasqueradeBit"),
    ignored("localStorageCapacityIsolation"),
    ignored("makeIPTablesUtilChains"),
    ignored("podCIDR"),
    ignored("podLogsDir"),
    ignored("resolvConf"),
    ignored("runOnce"),
    ignored("runtimeRequestTimeout"),
    ignored("seccompDefault"),
    ignored("staticPodPath"),
    ignored("staticPodURL"),
    ignored("staticPodURLHeader"),
    ignored("syncFrequency"),
    ignored("userNamespaces"),
    ignored("volumePluginDir"),
    ignored("volumeStatsAggPeriod"),
];

const IMAGES: &[Field] = &[
    ignored("imageGCHighThresholdPercent"),
    ignored("imageGCLowThresholdPercent"),
    ignored("imageMaximumGCAge"),
    ignored("imageMinimumGCAge"),
    ignored("imagePullCredentialsVerificationPolicy"),
    ignored("imageServiceEndpoint"),
    ignored("maxParallelImagePulls"),
    ignored("preloadedImagesVerificationAllowlist"),
    ignored("registryBurst"),
    ignored("registryPullQPS"),
    ignored("serializeImagePulls"),
];

const SYSTEM: &[Field] = &[
    ignored("cgroupDriver"),
    ignored("cgroupRoot"),
    ignored("cgroupsPerQOS"),
    ignored("enableContentionProfiling"),
    ignored("failCgroupV1"),
    ignored("failSwapOn"),
    gates("featureGates"),
    ignored("kernelMemcgNotification"),
    ignored("kubeReservedCgroup"),
    ignored("kubeletCgroups"),
    ignored("logging"),
    ignored("maxOpenFiles"),
    ignored("oomScoreAdj"),
    ignored("protectKernelDefaults"),
    ignored("showHiddenMetricsForVersion"),
    ignored("singleProcessOOMKill"),
    ignored("systemCgroups"),
    ignored("systemReservedCgroup"),
    ignored("tracing"),
];
