//! Every feature gate of Kubernetes v1.36.2: stage, default, whether it can be changed, the gates that it needs, and what it
//! switches here.
//!
//! The programs' help lists only alpha and beta gates, but the programs know stable and deprecated ones too. Corresponds
//! to pkg/features, k8s.io/apiserver/pkg/features, k8s.io/client-go/features and their sisters.

use super::{Gate, Stage};

const fn gate(name: &'static str, stage: Stage, default: bool) -> Gate {
    let (is_locked, needs, unknown_to) = (false, &[], "");
    let (serves, controls, schedules, everywhere) = ("", "", "", "");
    Gate { name, stage, default, is_locked, needs, unknown_to, serves, controls, schedules, everywhere }
}

const fn alpha(name: &'static str) -> Gate {
    gate(name, Stage::Alpha, false)
}

const fn beta(name: &'static str, default: bool) -> Gate {
    gate(name, Stage::Beta, default)
}

const fn ga(name: &'static str) -> Gate {
    gate(name, Stage::Ga, true)
}

const fn deprecated(name: &'static str, default: bool) -> Gate {
    gate(name, Stage::Deprecated, default)
}

impl Gate {
    const fn locked(self) -> Self {
        Self { is_locked: true, ..self }
    }

    /// Sets the gates that this one needs. Gates that are locked on are left out.
    const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    const fn unknown_to(self, component: &'static str) -> Self {
        Self { unknown_to: component, ..self }
    }

    /// Says what the gate switches in the API server.
    const fn serves(self, what: &'static str) -> Self {
        Self { serves: what, ..self }
    }

    /// Says what the gate switches in the controller manager.
    const fn controls(self, what: &'static str) -> Self {
        Self { controls: what, ..self }
    }

    /// Says what the gate switches in the scheduler.
    const fn schedules(self, what: &'static str) -> Self {
        Self { schedules: what, ..self }
    }

    /// Says what the gate switches in every component.
    const fn switches(self, what: &'static str) -> Self {
        Self { everywhere: what, ..self }
    }
}

/// Gates of the libraries that all components use.
pub const LIBRARIES: &[Gate] = &[
    beta("APIResponseCompression", true).serves("answers with gzip"),
    beta("APIServerIdentity", true)
        .controls("with `StorageVersionAPI`: the controller that deletes versions of servers that are gone"),
    ga("APIServerTracing").locked(),
    alpha("APIServingWithRoutine"),
    deprecated("AggregatedDiscoveryRemoveBetaType", true).locked(),
    alpha("AllAlpha"),
    beta("AllBeta", false),
    beta("AllowParsingUserUIDFromCertAuth", true),
    alpha("AllowUnsafeMalformedObjectDeletion"),
    ga("AnonymousAuthConfigurableEndpoints").locked(),
    ga("AuthorizeWithSelectors").locked(),
    ga("BtreeWatchCache").locked(),
    alpha("CBORServingAndStorage"),
    alpha("CloudControllerManagerWatchBasedRoutesReconciliation"),
    alpha("CloudControllerManagerWebhook"),
    beta("ComponentFlagz", true).switches("the page `/flagz`"),
    beta("ComponentStatusz", true).switches("the page `/statusz`"),
    beta("ConcurrentWatchObjectDecode", false),
    ga("ConsistentListFromCache").locked(),
    beta("ConstrainedImpersonation", true),
    beta("ContextualLogging", true),
    alpha("ControllerManagerReleaseLeaderElectionLockOnExit").unknown_to("kube-scheduler"),
    beta("CoordinatedLeaderElection", false),
    ga("DeclarativeValidation").locked(),
    beta("DeclarativeValidationBeta", true),
    deprecated("DeclarativeValidationTakeover", false),
    beta("DetectCacheInconsistency", true),
    deprecated("KMSv1", false),
    beta("ListFromCacheSnapshot", true),
    alpha("LoggingAlphaOptions"),
    beta("LoggingBetaOptions", true),
    alpha("ManifestBasedAdmissionControlConfig"),
    ga("MutatingAdmissionPolicy"),
    alpha("NativeHistograms"),
    beta("OpenAPIEnums", true),
    beta("RemoteRequestHeaderUID", true),
    ga("ResilientWatchCacheInitialization").locked(),
    ga("RetryGenerateName").locked(),
    deprecated("SeparateCacheWatchRPC", false).locked(),
    alpha("ShardedListAndWatch"),
    beta("SizeBasedListCostEstimate", true),
    alpha("StorageVersionAPI")
        .needs(&["APIServerIdentity"])
        .serves("StorageVersions, if their version is enabled too")
        .controls("the controller that deletes versions of servers that are gone"),
    beta("StorageVersionHash", true),
    ga("StructuredAuthenticationConfiguration").locked(),
    beta("StructuredAuthenticationConfigurationEgressSelector", true),
    beta("StructuredAuthenticationConfigurationJWKSMetrics", true),
    beta("TokenRequestServiceAccountUIDValidation", true),
    beta("UnauthenticatedHTTP2DOSMitigation", true),
    beta("UnknownVersionInteroperabilityProxy", true).needs(&["APIServerIdentity"]),
    beta("WatchCacheInitializationPostStartHook", true),
    beta("WatchList", true).serves("`sendInitialEvents` of watches"),
];

/// Gates of Kubernetes' own components, which a cloud controller manager does not have.
pub const KUBERNETES: &[Gate] = &[
    deprecated("AllowDNSOnlyNodeCSR", false),
    deprecated("AllowInsecureKubeletCertificateSigningRequests", false),
    deprecated("AllowOverwriteTerminationGracePeriodSeconds", false).locked(),
    ga("AllowServiceExternalIPs"),
    ga("AnyVolumeDataSource").locked(),
    beta("AtomicFIFO", true),
    ga("AuthorizeNodeWithSelectors").locked(),
    beta("AuthorizePodWebsocketUpgradeCreatePermission", true),
    alpha("CPUManagerPolicyAlphaOptions"),
    beta("CPUManagerPolicyBetaOptions", true),
    ga("CPUManagerPolicyOptions").locked(),
    beta("CRDObservedGenerationTracking", true),
    ga("CRDValidationRatcheting").locked(),
    alpha("CRIListStreaming"),
    ga("CSIServiceAccountTokenSecrets").locked(),
    alpha("CSIVolumeHealth"),
    deprecated("ChangeContainerStatusOnKubeletRestart", false),
    beta("ClearingNominatedNodeNameAfterBinding", true),
    beta("ClientsAllowCARotation", true),
    alpha("ClientsAllowCBOR"),
    beta("ClientsAllowTLSCacheGC", true),
    alpha("ClientsPreferCBOR"),
    beta("ClusterTrustBundle", false)
        .serves("ClusterTrustBundles, if one of their versions is enabled too")
        .controls("the controller that publishes the authority of the API server's certificate"),
    beta("ClusterTrustBundleProjection", false).needs(&["ClusterTrustBundle"]),
    beta("ContainerCheckpoint", true),
    beta("ContainerRestartRules", true).serves("`restartPolicy` and `restartPolicyRules` of single containers"),
    alpha("ContainerStopSignals").serves("`lifecycle.stopSignal` of containers"),
    alpha("CrossNamespaceVolumeDataSource").serves("`dataSourceRef.namespace` of claims"),
    ga("CustomCPUCFSQuotaPeriod"),
    ga("CustomResourceFieldSelectors").locked(),
    ga("DRAAdminAccess").locked(),
    beta("DRAConsumableCapacity", true).serves("capacity of devices that several claims share"),
    beta("DRADeviceBindingConditions", true)
        .needs(&["DRAResourceClaimDeviceStatus"])
        .serves("conditions that a device waits for before a pod is bound"),
    beta("DRADeviceTaintRules", false)
        .needs(&["DRADeviceTaints"])
        .serves("DeviceTaintRules, if one of their versions is enabled too")
        .controls("taints of DeviceTaintRules")
        .schedules("taints of DeviceTaintRules"),
    beta("DRADeviceTaints", true)
        .serves("`taints` of devices, and `tolerations` of requests")
        .controls("the controller that evicts pods from tainted devices"),
    beta("DRAExtendedResource", true).serves("`extendedResourceName` of DeviceClasses"),
    alpha("DRAListTypeAttributes"),
    alpha("DRANodeAllocatableResources"),
    beta("DRAPartitionableDevices", true)
        .serves("counters of devices that can be divided, and nodes of single devices"),
    ga("DRAPrioritizedList").serves("`firstAvailable` of device requests"),
    beta("DRAResourceClaimDeviceStatus", true).serves("`status.devices` of ResourceClaims"),
    beta("DRAResourceClaimGranularStatusAuthorization", true).needs(&["DRAResourceClaimDeviceStatus"]),
    alpha("DRAResourcePoolStatus"),
    beta("DRASchedulerFilterTimeout", true),
    alpha("DRAWorkloadResourceClaims")
        .needs(&["GenericWorkload"])
        .serves("`resourceClaims` of PodGroups and of their templates"),
    beta("DeploymentReplicaSetTerminatingReplicas", true)
        .serves("`status.terminatingReplicas` of Deployments and ReplicaSets"),
    ga("DisableAllocatorDualWrite").locked(),
    deprecated("DisableCPUQuotaWithExclusiveCPUs", true),
    deprecated("DisableNodeKubeProxyVersion", true).locked(),
    ga("DynamicResourceAllocation").locked(),
    beta("EnvFiles", true).serves("`fileKeyRef` of environment variables"),
    alpha("EventedPLEG"),
    ga("ExecProbeTimeout").locked(),
    beta("ExtendWebSocketsToKubelet", true).needs(&["NodeDeclaredFeatures"]),
    ga("ExternalServiceAccountTokenSigner").locked(),
    alpha("GangScheduling")
        .needs(&["GenericWorkload"])
        .schedules("the plugin that holds a gang until all its pods fit"),
    alpha("GenericWorkload")
        .serves("`schedulingGroup` of pods; Workloads and PodGroups, if their version is enabled too")
        .controls("the controller that keeps deleted PodGroups while their pods run")
        .schedules("one cycle for all pods of a PodGroup, and the status of PodGroups"),
    deprecated("GitRepoVolumeDriver", false).locked(),
    beta("GracefulNodeShutdown", true),
    beta("GracefulNodeShutdownBasedOnPodPriority", true).needs(&["GracefulNodeShutdown"]),
    beta("HPAConfigurableTolerance", true).serves("`tolerance` in the behavior of HorizontalPodAutoscalers"),
    alpha("HPAScaleToZero").serves("`minReplicas: 0` of HorizontalPodAutoscalers"),
    beta("HostnameOverride", true).serves("`hostnameOverride` of pods"),
    ga("ImageMaximumGCAge").locked(),
    ga("ImageVolume").locked(),
    alpha("ImageVolumeWithDigest"),
    ga("InOrderInformers").locked(),
    beta("InOrderInformersBatchProcess", true),
    beta("InPlacePodLevelResourcesVerticalScaling", true)
        .needs(&["PodLevelResources", "NodeDeclaredFeatures"])
        .serves("`resources` and `allocatedResources` in the status of a pod as a whole"),
    ga("InPlacePodVerticalScaling").locked(),
    alpha("InPlacePodVerticalScalingExclusiveCPUs"),
    alpha("InPlacePodVerticalScalingExclusiveMemory"),
    beta("InPlacePodVerticalScalingInitContainers", true).needs(&["NodeDeclaredFeatures"]),
    ga("InformerResourceVersion"),
    ga("JobBackoffLimitPerIndex").locked(),
    ga("JobManagedBy").locked(),
    ga("JobPodReplacementPolicy").locked(),
    ga("JobSuccessPolicy").locked(),
    ga("KubeletCgroupDriverFromCRI").locked(),
    beta("KubeletCrashLoopBackOffMax", true),
    beta("KubeletEnsureSecretPulledImages", true),
    ga("KubeletFineGrainedAuthz").locked(),
    alpha("KubeletInUserNamespace"),
    ga("KubeletPSI").locked(),
    ga("KubeletPodResourcesDynamicResources").locked(),
    ga("KubeletPodResourcesGet").locked(),
    deprecated("KubeletPodResourcesListUseActivePods", true),
    deprecated("KubeletRegistrationGetOnExistsOnly", false),
    beta("KubeletSeparateDiskGC", true),
    beta("KubeletServiceAccountTokenForCredentialProviders", true),
    ga("KubeletTracing").locked(),
    beta("LocalStorageCapacityIsolationFSQuotaMonitoring", false),
    ga("LogarithmicScaleDown").locked(),
    ga("MatchLabelKeysInPodAffinity").locked(),
    beta("MatchLabelKeysInPodTopologySpread", true),
    beta("MatchLabelKeysInPodTopologySpreadSelectorMerge", true).needs(&["MatchLabelKeysInPodTopologySpread"]),
    beta("MaxUnavailableStatefulSet", false).serves("`updateStrategy.rollingUpdate.maxUnavailable` of StatefulSets"),
    alpha("MemoryQoS"),
    ga("MultiCIDRServiceAllocator").locked(),
    ga("MutableCSINodeAllocatableCount").locked(),
    alpha("MutablePVNodeAffinity"),
    beta("MutablePodResourcesForSuspendedJobs", true),
    beta("MutableSchedulingDirectivesForSuspendedJobs", true),
    ga("NFTablesProxyMode").locked(),
    beta("NodeDeclaredFeatures", true)
        .serves(
            "`status.declaredFeatures` of nodes, and the refusal of changes of pods that need what their node lacks",
        )
        .schedules("the plugin that rejects nodes without a feature that a pod needs"),
    ga("NodeInclusionPolicyInPodTopologySpread").locked(),
    ga("NodeLogQuery").locked(),
    ga("NodeSwap").locked(),
    beta("NominatedNodeNameForExpectation", true)
        .schedules("`status.nominatedNodeName` of pods whose binding has to wait"),
    beta("OpportunisticBatching", true).schedules("results of a cycle that the next equal pod uses"),
    ga("OrderedNamespaceDeletion").locked(),
    beta("PLEGOnDemandRelist", true),
    alpha("PersistentVolumeClaimUnusedSinceTime"),
    alpha("PodAndContainerStatsFromCRI"),
    beta("PodCertificateRequest", false)
        .serves("PodCertificateRequests, if their version is enabled too")
        .controls("the controller that deletes old requests"),
    beta("PodDeletionCost", true),
    alpha("PodLevelResourceManagers").needs(&["PodLevelResources"]),
    beta("PodLevelResources", true).serves("`resources` of a pod as a whole"),
    ga("PodLifecycleSleepAction").locked(),
    ga("PodLifecycleSleepActionAllowZero").locked(),
    alpha("PodLogsQuerySplitStreams"),
    ga("PodObservedGenerationTracking").locked(),
    beta("PodReadyToStartContainersCondition", true),
    ga("PodSchedulingReadiness").locked(),
    beta("PodTopologyLabelsAdmission", true),
    alpha("PodsAPI"),
    beta("PortForwardWebsockets", true),
    ga("PreferSameTrafficDistribution").locked(),
    beta("PreventStaticPodAPIReferences", true),
    ga("ProcMountType").locked(),
    alpha("QOSReserved"),
    ga("RecoverVolumeExpansionFailure").locked(),
    ga("RecursiveReadOnlyMounts").locked(),
    alpha("ReduceDefaultCrashLoopBackOffDecay"),
    ga("RelaxedDNSSearchValidation").locked(),
    ga("RelaxedEnvironmentVariableValidation").locked(),
    beta("RelaxedServiceNameValidation", true),
    beta("ReloadKubeletClientCAFile", true),
    beta("ReloadKubeletServerCertificateFile", true),
    beta("ResourceHealthStatus", true).serves("`allocatedResourcesStatus` of containers"),
    beta("ResourceHealthStatusMessage", true).needs(&["ResourceHealthStatus"]),
    beta("RestartAllContainersOnContainerExits", true).needs(&["ContainerRestartRules", "NodeDeclaredFeatures"]),
    beta("RotateKubeletServerCertificate", true),
    alpha("RuntimeClassInImageCriApi"),
    ga("SELinuxChangePolicy").locked(),
    beta("SELinuxMount", false),
    ga("SELinuxMountReadWriteOncePod").locked(),
    beta("SchedulerAsyncAPICalls", false),
    beta("SchedulerAsyncPreemption", true).schedules("deletions of victims beside the next cycles"),
    beta("SchedulerPopFromBackoffQ", true),
    ga("SchedulerQueueingHints").locked(),
    ga("SeparateTaintEvictionController").locked(),
    beta("ServiceAccountNodeAudienceRestriction", true),
    ga("ServiceAccountTokenJTI").locked(),
    ga("ServiceAccountTokenNodeBinding").locked(),
    ga("ServiceAccountTokenNodeBindingValidation").locked(),
    ga("ServiceAccountTokenPodNodeInfo").locked(),
    deprecated("ServiceCIDRStatusFieldWiping", true),
    ga("SidecarContainers").locked(),
    beta("StaleControllerConsistencyDaemonSet", true).needs(&["AtomicFIFO"]),
    beta("StaleControllerConsistencyJob", true).needs(&["AtomicFIFO"]),
    beta("StaleControllerConsistencyReplicaSet", true).needs(&["AtomicFIFO"]),
    beta("StaleControllerConsistencyStatefulSet", true).needs(&["AtomicFIFO"]),
    beta("StatefulSetSemanticRevisionComparison", true),
    alpha("StorageCapacityScoring")
        .schedules("scores of nodes by the use of their storage, by `shape` of VolumeBindingArgs"),
    deprecated("StorageNamespaceIndex", true),
    beta("StorageVersionMigrator", false)
        .serves("StorageVersionMigrations, if their version is enabled too")
        .controls("the controller that rewrites stored objects"),
    ga("StreamingCollectionEncodingToJSON").locked(),
    ga("StreamingCollectionEncodingToProtobuf").locked(),
    beta("StrictIPCIDRValidation", true),
    ga("SupplementalGroupsPolicy").locked(),
    ga("SystemdWatchdog").locked(),
    alpha("TaintTolerationComparisonOperators"),
    alpha("TopologyAwareWorkloadScheduling")
        .needs(&["GenericWorkload"])
        .serves("`schedulingConstraints` of PodGroups and of their templates")
        .schedules("the choice of a topology domain for a PodGroup"),
    alpha("TopologyManagerPolicyAlphaOptions"),
    beta("TopologyManagerPolicyBetaOptions", true),
    ga("TopologyManagerPolicyOptions").locked(),
    beta("TranslateStreamCloseWebsocketRequests", true),
    beta("UnlockWhileProcessingFIFO", true),
    alpha("UserNamespacesHostNetworkSupport").needs(&["NodeDeclaredFeatures"]),
    ga("UserNamespacesSupport").locked(),
    ga("VolumeAttributesClass").locked(),
    alpha("VolumeLimitScaling"),
    beta("WatchListClient", true),
    ga("WinDSR").locked(),
    ga("WinOverlay").locked(),
    alpha("WindowsCPUAndMemoryAffinity"),
    beta("WindowsGracefulNodeShutdown", true).needs(&["GracefulNodeShutdown"]),
    deprecated("WindowsHostNetwork", false),
    alpha("WorkloadAwarePreemption")
        .needs(&["GangScheduling"])
        .serves("`disruptionMode`, `priorityClassName` and `priority` of PodGroups and of their templates")
        .schedules("preemption for a PodGroup as a whole"),
    alpha("WorkloadWithJob").needs(&["GenericWorkload"]),
];
