//! KubeletConfiguration: every field of v1beta1, each with the flag that it sets, or marked as ignored.
//!
//! Corresponds to k8s.io/kubelet/config/v1beta1.

use crate::machines::shutdown::GracePeriod;
use crate::template;
use component_base::options::config_file::{Field, FileKind, flag, gates, ignored, own};
use proto::kinds::api::core::v1::Taint;
use serde_json::Value;
use stages::reader::Reader;
use std::collections::BTreeMap;
use std::time::Duration;

/// Fields that are lists of objects.
const TAINTS: &str = "registerWithTaints";
const SHUTDOWN_BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";

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
    flag("nodeStatusMaxImages", "node-status-max-images"),
    flag("nodeStatusReportFrequency", "node-status-report-frequency"),
    flag("nodeStatusUpdateFrequency", "node-status-update-frequency"),
    flag("providerID", "provider-id"),
    ignored("registerNode"),
    own(TAINTS),
    flag("shutdownGracePeriod", "shutdown-grace-period"),
    own(SHUTDOWN_BY_PRIORITY),
    flag("shutdownGracePeriodCriticalPods", "shutdown-grace-period-critical-pods"),
];

const RESOURCES: &[Field] = &[
    ignored("cpuCFSQuota"),
    ignored("cpuCFSQuotaPeriod"),
    flag("cpuManagerPolicy", "cpu-manager-policy"),
    flag("cpuManagerPolicyOptions", "cpu-manager-policy-options"),
    ignored("cpuManagerReconcilePeriod"),
    ignored("enforceNodeAllocatable"),
    flag("kubeReserved", "kube-reserved"),
    flag("maxPods", "max-pods"),
    flag("memoryManagerPolicy", "memory-manager-policy"),
    ignored("memorySwap.swapBehavior"),
    ignored("memoryThrottlingFactor"),
    ignored("podPidsLimit"),
    flag("podsPerCore", "pods-per-core"),
    ignored("qosReserved"),
    ignored("reservedMemory"),
    flag("reservedSystemCPUs", "reserved-cpus"),
    flag("systemReserved", "system-reserved"),
    flag("topologyManagerPolicy", "topology-manager-policy"),
    ignored("topologyManagerPolicyOptions"),
    flag("topologyManagerScope", "topology-manager-scope"),
];

const EVICTION: &[Field] = &[
    flag("evictionHard", "eviction-hard").joined_by("<"),
    flag("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"),
    flag("evictionMinimumReclaim", "eviction-minimum-reclaim"),
    flag("evictionPressureTransitionPeriod", "eviction-pressure-transition-period"),
    flag("evictionSoft", "eviction-soft").joined_by("<"),
    flag("evictionSoftGracePeriod", "eviction-soft-grace-period"),
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
    flag("fileCheckFrequency", "file-check-frequency"),
    ignored("hairpinMode"),
    flag("httpCheckFrequency", "http-check-frequency"),
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
    flag("staticPodPath", "pod-manifest-path"),
    flag("staticPodURL", "manifest-url"),
    ignored("staticPodURLHeader"),
    ignored("syncFrequency"),
    ignored("userNamespaces"),
    ignored("volumePluginDir"),
    ignored("volumeStatsAggPeriod"),
];

const IMAGES: &[Field] = &[
    flag("imageGCHighThresholdPercent", "image-gc-high-threshold"),
    flag("imageGCLowThresholdPercent", "image-gc-low-threshold"),
    ignored("imageMaximumGCAge"),
    flag("imageMinimumGCAge", "minimum-image-ttl-duration"),
    ignored("imagePullCredentialsVerificationPolicy"),
    ignored("imageServiceEndpoint"),
    flag("maxParallelImagePulls", "max-parallel-image-pulls"),
    ignored("preloadedImagesVerificationAllowlist"),
    ignored("registryBurst"),
    ignored("registryPullQPS"),
    flag("serializeImagePulls", "serialize-image-pulls"),
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

/// The fields of a file that no flag can say.
#[derive(Debug, Default, PartialEq)]
pub struct OwnFields {
    pub taints: Option<Vec<Taint>>,
    pub shutdown_by_priority: Vec<GracePeriod>,
}

impl OwnFields {
    /// Reads the fields; the error names every mistake.
    pub fn read(own: &BTreeMap<&'static str, Value>) -> Result<Self, String> {
        let mut reader = Reader::default();
        let mut items = |name: &'static str| match own.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::Array(items)) => Some(items.as_slice()),
            Some(_) => {
                reader.report(name, "must be a list");
                None
            }
        };
        let (taints, periods) = (items(TAINTS), items(SHUTDOWN_BY_PRIORITY));
        let taints = taints.map(|items| template::read_taints(&mut reader, items, TAINTS));
        let mut read = Self { taints, shutdown_by_priority: Vec::new() };
        for (index, item) in periods.unwrap_or_default().iter().enumerate() {
            let path = format!("{SHUTDOWN_BY_PRIORITY}[{index}]");
            let Some(fields) = reader.object(item, &path, &["priority", "shutdownGracePeriodSeconds"]) else {
                continue;
            };
            let number = |name| fields.get(name).map_or(Some(0), Value::as_i64);
            let period_s = number("shutdownGracePeriodSeconds").and_then(|seconds| u64::try_from(seconds).ok());
            match (number("priority").and_then(|priority| i32::try_from(priority).ok()), period_s) {
                (Some(priority), Some(period_s)) => {
                    let period = Duration::from_secs(period_s);
                    read.shutdown_by_priority.push(GracePeriod { priority, period });
                }
                _ => reader.report(path, "must have a priority and a number of seconds that is not negative"),
            }
        }
        let problems: Vec<String> = reader.problems.iter().map(ToString::to_string).collect();
        if problems.is_empty() { Ok(read) } else { Err(problems.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_of_objects_are_read() {
        let own = |taints: Value, periods: Value| BTreeMap::from([(TAINTS, taints), (SHUTDOWN_BY_PRIORITY, periods)]);
        let taint = json!({"key": "gpu", "value": "true", "effect": "NoSchedule"});
        let period = json!({"priority": 100_000, "shutdownGracePeriodSeconds": 10});
        let read = OwnFields::read(&own(json!([taint]), json!([period]))).unwrap();
        assert_eq!(read.taints.unwrap()[0].key, "gpu");
        assert_eq!(read.shutdown_by_priority, [GracePeriod { priority: 100_000, period: Duration::from_secs(10) }]);
        assert_eq!(OwnFields::read(&BTreeMap::new()), Ok(OwnFields::default()));
        let refused = OwnFields::read(&own(json!([{"key": "gpu", "effect": "Never"}]), json!([{"priority": "high"}])));
        let expected = "registerWithTaints[0].effect: must be NoSchedule, PreferNoSchedule or NoExecute; \
                        shutdownGracePeriodByPodPriority[0]: must have a priority and a number of seconds that is not negative";
        assert_eq!(refused, Err(expected.to_owned()));
    }
}
