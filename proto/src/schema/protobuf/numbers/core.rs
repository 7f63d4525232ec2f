//! Field numbers of the core group, in the notation of `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.core.v1
AWSElasticBlockStoreVolumeSource: volumeID fsType partition readOnly
Affinity: nodeAffinity podAffinity podAntiAffinity
AppArmorProfile SeccompProfile: type localhostProfile
AttachedVolume VolumeDevice: name devicePath
AzureDiskVolumeSource: diskName diskURI cachingMode fsType readOnly kind
AzureFilePersistentVolumeSource: secretName shareName readOnly secretNamespace
AzureFileVolumeSource: secretName shareName readOnly
Binding: metadata target
CSIPersistentVolumeSource: driver volumeHandle readOnly fsType volumeAttributes controllerPublishSecretRef
  nodeStageSecretRef nodePublishSecretRef controllerExpandSecretRef nodeExpandSecretRef
CSIVolumeSource: driver readOnly fsType volumeAttributes nodePublishSecretRef
Capabilities: add drop
CephFSPersistentVolumeSource CephFSVolumeSource: monitors path user secretFile secretRef readOnly
CinderPersistentVolumeSource CinderVolumeSource: volumeID fsType readOnly secretRef
ClientIPConfig: timeoutSeconds
ClusterTrustBundleProjection: name signerName labelSelector path optional
ComponentCondition: type status message error
ComponentStatus: metadata conditions
ConfigMap: metadata data binaryData immutable
ConfigMapEnvSource SecretEnvSource: +LocalObjectReference optional
ConfigMapKeySelector SecretKeySelector: +LocalObjectReference key optional
ConfigMapNodeConfigSource: namespace name uid resourceVersion kubeletConfigKey
ConfigMapProjection SecretProjection: +LocalObjectReference items _ optional
ConfigMapVolumeSource: +LocalObjectReference items defaultMode optional
Container EphemeralContainerCommon: name image command args workingDir ports env resources volumeMounts livenessProbe
  readinessProbe lifecycle terminationMessagePath imagePullPolicy securityContext stdin stdinOnce tty envFrom
  terminationMessagePolicy volumeDevices startupProbe resizePolicy restartPolicy restartPolicyRules
ContainerExtendedResourceRequest: containerName resourceName requestName
ContainerImage: names sizeBytes
ContainerPort: name hostPort containerPort protocol hostIP
ContainerResizePolicy: resourceName restartPolicy
ContainerRestartRule: action exitCodes
ContainerRestartRuleOnExitCodes: operator values
ContainerState: waiting running terminated
ContainerStateRunning: startedAt
ContainerStateTerminated: exitCode signal reason message startedAt finishedAt containerID
ContainerStateWaiting: reason message
ContainerStatus: name state lastState ready restartCount image imageID containerID started allocatedResources
  resources volumeMounts user allocatedResourcesStatus stopSignal
ContainerUser: linux
DaemonEndpoint: Port
DownwardAPIProjection: items
DownwardAPIVolumeFile: path fieldRef resourceFieldRef mode
DownwardAPIVolumeSource: items defaultMode
EmptyDirVolumeSource: medium sizeLimit
EndpointAddress: ip targetRef hostname nodeName
EndpointPort: name port protocol appProtocol
EndpointSubset: addresses notReadyAddresses ports
Endpoints: metadata subsets
EnvFromSource: prefix configMapRef secretRef
EnvVar: name value valueFrom
EnvVarSource: fieldRef resourceFieldRef configMapKeyRef secretKeyRef fileKeyRef
EphemeralContainer: +EphemeralContainerCommon targetContainerName
EphemeralVolumeSource: volumeClaimTemplate
Event: metadata involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series action
  related reportingComponent reportingInstance
EventSeries: count lastObservedTime
EventSource: component host
ExecAction: command
FCVolumeSource: targetWWNs lun fsType readOnly wwids
FileKeySelector: volumeName path key optional
FlexPersistentVolumeSource FlexVolumeSource: driver fsType secretRef readOnly options
FlockerVolumeSource: datasetName datasetUUID
GCEPersistentDiskVolumeSource: pdName fsType partition readOnly
GRPCAction: port service
GitRepoVolumeSource: repository revision directory
GlusterfsPersistentVolumeSource: endpoints path readOnly endpointsNamespace
GlusterfsVolumeSource: endpoints path readOnly
HTTPGetAction: path port host scheme httpHeaders
HTTPHeader PodDNSConfigOption Sysctl: name value
HostAlias: ip hostnames
HostIP PodIP: ip
HostPathVolumeSource: path type
ISCSIPersistentVolumeSource ISCSIVolumeSource: targetPortal iqn lun iscsiInterface fsType readOnly portals
  chapAuthDiscovery _ secretRef chapAuthSession initiatorName
ImageVolumeSource: reference pullPolicy
KeyToPath: key path mode
Lifecycle: postStart preStop stopSignal
LifecycleHandler: exec httpGet tcpSocket sleep
LimitRange PersistentVolumeClaimTemplate PodTemplateSpec: metadata spec
LimitRangeItem: type max min default defaultRequest maxLimitRequestRatio
LimitRangeSpec: limits
LinuxContainerUser: uid gid supplementalGroups
LoadBalancerIngress: ip hostname ipMode ports
LoadBalancerStatus: ingress
LocalObjectReference PodOS PodSchedulingGate: name
LocalVolumeSource: path fsType
ModifyVolumeStatus: targetVolumeAttributesClassName status
NFSVolumeSource: server path readOnly
Namespace Node PersistentVolume PersistentVolumeClaim Pod ReplicationController ResourceQuota Service: metadata spec
  status
NamespaceCondition: type status _ lastTransitionTime reason message
NamespaceSpec: finalizers
NamespaceStatus: phase conditions
NodeAddress: type address
NodeAffinity PodAffinity PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution
  preferredDuringSchedulingIgnoredDuringExecution
NodeCondition: type status lastHeartbeatTime lastTransitionTime reason message
NodeConfigSource: _ configMap
NodeConfigStatus: assigned active lastKnownGood error
NodeDaemonEndpoints: kubeletEndpoint
NodeFeatures: supplementalGroupsPolicy
NodeRuntimeHandler: name features
NodeRuntimeHandlerFeatures: recursiveReadOnlyMounts userNamespaces
NodeSelector: nodeSelectorTerms
NodeSelectorRequirement: key operator values
NodeSelectorTerm: matchExpressions matchFields
NodeSpec: podCIDR externalID providerID unschedulable taints configSource podCIDRs
NodeStatus: capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images volumesInUse
  volumesAttached config runtimeHandlers features declaredFeatures
NodeSwapStatus: capacity
NodeSystemInfo: machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeletVersion
  kubeProxyVersion operatingSystem architecture swap
ObjectFieldSelector: apiVersion fieldPath
ObjectReference: kind namespace name uid apiVersion resourceVersion fieldPath
PersistentVolumeClaimCondition: type status lastProbeTime lastTransitionTime reason message
PersistentVolumeClaimSpec: accessModes resources volumeName selector storageClassName volumeMode dataSource
  dataSourceRef volumeAttributesClassName
PersistentVolumeClaimStatus: phase accessModes capacity conditions allocatedResources _ allocatedResourceStatuses
  currentVolumeAttributesClassName modifyVolumeStatus
PersistentVolumeClaimVolumeSource: claimName readOnly
PersistentVolumeSource: gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd iscsi cinder cephfs fc
  flocker flexVolume azureFile vsphereVolume quobyte azureDisk photonPersistentDisk portworxVolume scaleIO local
  storageos csi
PersistentVolumeSpec: capacity +PersistentVolumeSource accessModes claimRef persistentVolumeReclaimPolicy
  storageClassName mountOptions volumeMode nodeAffinity volumeAttributesClassName
PersistentVolumeStatus: phase message reason lastPhaseTransitionTime
PhotonPersistentDiskVolumeSource: pdID fsType
PodAffinityTerm: labelSelector namespaces topologyKey namespaceSelector matchLabelKeys mismatchLabelKeys
PodCertificateProjection: signerName keyType maxExpirationSeconds credentialBundlePath keyPath certificateChainPath
  userAnnotations
PodCondition: type status lastProbeTime lastTransitionTime reason message observedGeneration
PodDNSConfig: nameservers searches options
PodExtendedResourceClaimStatus: requestMappings resourceClaimName
PodReadinessGate: conditionType
PodResourceClaim: name _ resourceClaimName resourceClaimTemplateName
PodResourceClaimStatus: name resourceClaimName
PodSecurityContext: seLinuxOptions runAsUser runAsNonRoot supplementalGroups fsGroup runAsGroup sysctls windowsOptions
  fsGroupChangePolicy seccompProfile appArmorProfile supplementalGroupsPolicy seLinuxChangePolicy
PodSpec: volumes containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector
  serviceAccountName serviceAccount nodeName hostNetwork hostPID hostIPC securityContext imagePullSecrets hostname
  subdomain affinity schedulerName initContainers automountServiceAccountToken tolerations hostAliases
  priorityClassName priority dnsConfig shareProcessNamespace readinessGates runtimeClassName enableServiceLinks
  preemptionPolicy overhead topologySpreadConstraints ephemeralContainers setHostnameAsFQDN os hostUsers
  schedulingGates resourceClaims resources hostnameOverride
PodStatus: phase conditions message reason hostIP podIP startTime containerStatuses qosClass initContainerStatuses
  nominatedNodeName podIPs ephemeralContainerStatuses resize resourceClaimStatuses hostIPs observedGeneration
  extendedResourceClaimStatus allocatedResources resources
PodTemplate: metadata template
PortStatus: port protocol error
PortworxVolumeSource: volumeID fsType readOnly
PreferredSchedulingTerm: weight preference
Probe: +ProbeHandler initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold
  terminationGracePeriodSeconds
ProbeHandler: exec httpGet tcpSocket grpc
ProjectedVolumeSource: sources defaultMode
QuobyteVolumeSource: registry volume readOnly user group tenant
RBDPersistentVolumeSource RBDVolumeSource: monitors image fsType pool user keyring secretRef readOnly
ReplicationControllerCondition: type status lastTransitionTime reason message
ReplicationControllerSpec: replicas selector template minReadySeconds
ReplicationControllerStatus: replicas fullyLabeledReplicas observedGeneration readyReplicas availableReplicas
  conditions
ResourceClaim: name request
ResourceFieldSelector: containerName resource divisor
ResourceHealth: resourceID health
ResourceQuotaSpec: hard scopes scopeSelector
ResourceQuotaStatus: hard used
ResourceRequirements: limits requests claims
ResourceStatus: name resources
SELinuxOptions: user role type level
ScaleIOPersistentVolumeSource ScaleIOVolumeSource: gateway system secretRef sslEnabled protectionDomain storagePool
  storageMode volumeName fsType readOnly
ScopeSelector: matchExpressions
ScopedResourceSelectorRequirement: scopeName operator values
Secret: metadata data type stringData immutable
SecretReference: name namespace
SecretVolumeSource: secretName items defaultMode optional
SecurityContext: capabilities privileged seLinuxOptions runAsUser runAsNonRoot readOnlyRootFilesystem
  allowPrivilegeEscalation runAsGroup procMount windowsOptions seccompProfile appArmorProfile
ServiceAccount: metadata secrets imagePullSecrets automountServiceAccountToken
ServiceAccountTokenProjection: audience expirationSeconds path
ServicePort: name protocol port targetPort nodePort appProtocol
ServiceSpec: ports selector clusterIP type externalIPs _ sessionAffinity loadBalancerIP loadBalancerSourceRanges
  externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig _ _
  ipFamilyPolicy clusterIPs ipFamilies allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy
  trafficDistribution
ServiceStatus: loadBalancer conditions
SessionAffinityConfig: clientIP
SleepAction: seconds
StorageOSPersistentVolumeSource StorageOSVolumeSource: volumeName volumeNamespace fsType readOnly secretRef
TCPSocketAction: port host
Taint: key value effect timeAdded
Toleration: key operator value effect tolerationSeconds
TopologySelectorLabelRequirement: key values
TopologySelectorTerm: matchLabelExpressions
TopologySpreadConstraint: maxSkew topologyKey whenUnsatisfiable labelSelector minDomains nodeAffinityPolicy
  nodeTaintsPolicy matchLabelKeys
TypedLocalObjectReference: apiGroup kind name
TypedObjectReference: apiGroup kind name namespace
Volume: name +VolumeSource
VolumeMount: name readOnly mountPath subPath mountPropagation subPathExpr recursiveReadOnly
VolumeMountStatus: name mountPath readOnly recursiveReadOnly
VolumeNodeAffinity: required
VolumeProjection: secret downwardAPI configMap serviceAccountToken clusterTrustBundle podCertificate
VolumeResourceRequirements: limits requests
VolumeSource: hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs
  persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile configMap vsphereVolume quobyte
  azureDisk photonPersistentDisk portworxVolume scaleIO projected storageos csi ephemeral image
VsphereVirtualDiskVolumeSource: volumePath fsType storagePolicyName storagePolicyID
WeightedPodAffinityTerm: weight podAffinityTerm
WindowsSecurityContextOptions: gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess
"#;
