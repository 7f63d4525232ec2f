//! Facts about the fields of the core group, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.core.v1
AppArmorProfile SeccompProfile
  localhostProfile: pointer
  type: enum(Localhost,RuntimeDefault,Unconfined)
AzureDiskVolumeSource
  cachingMode: enum(None,ReadOnly,ReadWrite) default(ReadWrite) pointer
  fsType: default(ext4) pointer
  kind: enum(Dedicated,Managed,Shared) default(Shared) pointer
  readOnly: default(false) pointer
AzureFilePersistentVolumeSource . secretNamespace: pointer
CSIVolumeSource . fsType readOnly: pointer
Capabilities . add drop: atomic
CephFSPersistentVolumeSource CephFSVolumeSource . monitors: atomic
ClientIPConfig . timeoutSeconds: pointer
ClusterTrustBundleProjection . name optional signerName: pointer
ComponentStatus ReplicationControllerStatus . conditions: map(type) merge(type)
ConfigMap Secret . immutable: pointer
ConfigMapEnvSource SecretEnvSource
  name: omitempty
  optional: pointer
ConfigMapKeySelector SecretKeySelector: atomic-map
  name: omitempty
  optional: pointer
ConfigMapProjection SecretProjection
  items: atomic
  name: omitempty
  optional: pointer
ConfigMapVolumeSource
  defaultMode optional: pointer
  items: atomic
  name: omitempty
Container EphemeralContainer
  args command envFrom resizePolicy restartPolicyRules: atomic
  env: map(name) merge(name)
  imagePullPolicy: enum(Always,IfNotPresent,Never)
  ports: map(containerPort,protocol) merge(containerPort)
  resources: always
  restartPolicy: pointer
  terminationMessagePolicy: enum(FallbackToLogsOnError,File)
  volumeDevices: map(devicePath) merge(devicePath)
  volumeMounts: map(mountPath) merge(mountPath)
ContainerImage . names: atomic
ContainerPort . protocol: enum(SCTP,TCP,UDP) default(TCP)
ContainerRestartRuleOnExitCodes . values: set
ContainerStateRunning . startedAt: always
ContainerStateTerminated . finishedAt startedAt: always
ContainerStatus
  allocatedResourcesStatus: map(name) merge(name)
  lastState state: always
  started: pointer
  stopSignal: enum(@signals) pointer
  volumeMounts: map(mountPath) merge(mountPath)
DownwardAPIProjection . items: atomic
DownwardAPIVolumeFile KeyToPath . mode: pointer
DownwardAPIVolumeSource
  defaultMode: pointer
  items: atomic
EndpointAddress: atomic-map
  nodeName: pointer
EndpointPort: atomic-map
  appProtocol: pointer
  protocol: enum(SCTP,TCP,UDP)
EndpointSubset . addresses notReadyAddresses ports: atomic
Endpoints . subsets: atomic
Event . eventTime firstTimestamp lastTimestamp reportingComponent reportingInstance source: always
EventSeries . lastObservedTime: always
ExecAction . command: atomic
FCVolumeSource
  lun: pointer
  targetWWNs wwids: atomic
FileKeySelector: atomic-map
  optional: default(false) pointer
GRPCAction . service: pointer
GlusterfsPersistentVolumeSource . endpointsNamespace: pointer
HTTPGetAction
  httpHeaders: atomic
  scheme: enum(HTTP,HTTPS)
HostAlias . hostnames: atomic
HostPathVolumeSource . type: enum(,BlockDevice,CharDevice,Directory,DirectoryOrCreate,File,FileOrCreate,Socket) pointer
ISCSIPersistentVolumeSource ISCSIVolumeSource
  initiatorName: pointer
  iscsiInterface: default(default)
  portals: atomic
ImageVolumeSource . pullPolicy: enum(Always,IfNotPresent,Never)
Lifecycle . stopSignal: enum(@signals) pointer
LimitRange PodTemplateSpec . spec: always
LimitRangeSpec . limits: atomic
LinuxContainerUser . supplementalGroups: atomic
LoadBalancerIngress
  ipMode: pointer
  ports: atomic
LoadBalancerStatus . ingress: atomic
LocalObjectReference: atomic-map
  name: omitempty
LocalVolumeSource . fsType: pointer
ModifyVolumeStatus . status: enum(InProgress,Infeasible,Pending)
Namespace Node PersistentVolume PersistentVolumeClaim Pod ReplicationController ResourceQuota Service . spec status: always
NamespaceCondition ReplicationControllerCondition . lastTransitionTime: always
NamespaceSpec . finalizers: atomic
NamespaceStatus
  conditions: map(type) merge(type)
  phase: enum(Active,Terminating)
NodeAffinity . preferredDuringSchedulingIgnoredDuringExecution: atomic
NodeAllocatableResourceClaimStatus . containers: set
NodeCondition . lastHeartbeatTime lastTransitionTime: always
NodeDaemonEndpoints . kubeletEndpoint: always
NodeFeatures . supplementalGroupsPolicy: pointer
NodeRuntimeHandlerFeatures . recursiveReadOnlyMounts userNamespaces: pointer
NodeSelector: atomic-map
  nodeSelectorTerms: atomic
NodeSelectorRequirement
  operator: enum(DoesNotExist,Exists,Gt,In,Lt,NotIn)
  values: atomic
NodeSelectorTerm: atomic-map
  matchExpressions matchFields: atomic
NodeSpec
  podCIDRs: set merge
  taints: atomic
NodeStatus
  addresses conditions: map(type) merge(type)
  daemonEndpoints nodeInfo: always
  declaredFeatures images runtimeHandlers volumesAttached volumesInUse: atomic
  phase: enum(Pending,Running,Terminated)
NodeSwapStatus . capacity: pointer
ObjectFieldSelector ObjectReference SecretReference: atomic-map
PersistentVolumeClaimCondition PodCondition . lastProbeTime lastTransitionTime: always
PersistentVolumeClaimSpec
  accessModes: atomic
  resources: always
  storageClassName volumeAttributesClassName: pointer
  volumeMode: enum(Block,Filesystem) pointer
PersistentVolumeClaimStatus
  accessModes: atomic
  allocatedResourceStatuses: granular-map
  conditions: map(type) merge(type)
  currentVolumeAttributesClassName: pointer
  phase: enum(Bound,Lost,Pending)
PersistentVolumeSpec
  accessModes mountOptions: atomic
  claimRef: granular-map
  persistentVolumeReclaimPolicy: enum(Delete,Recycle,Retain)
  volumeAttributesClassName: pointer
  volumeMode: enum(Block,Filesystem) pointer
PersistentVolumeStatus
  lastPhaseTransitionTime: pointer
  phase: enum(Available,Bound,Failed,Pending,Released)
PodAffinity PodAntiAffinity . preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution: atomic
PodAffinityTerm . matchLabelKeys mismatchLabelKeys namespaces: atomic
PodCertificateProjection . maxExpirationSeconds: pointer
PodDNSConfig . nameservers options searches: atomic
PodDNSConfigOption . value: pointer
PodExtendedResourceClaimStatus . requestMappings: atomic
PodResourceClaim . resourceClaimName resourceClaimTemplateName: pointer
PodResourceClaimStatus . resourceClaimName: pointer
PodSchedulingGroup . podGroupName: pointer
PodSecurityContext
  fsGroup runAsGroup runAsNonRoot runAsUser seLinuxChangePolicy: pointer
  fsGroupChangePolicy: enum(Always,OnRootMismatch) pointer
  supplementalGroups sysctls: atomic
  supplementalGroupsPolicy: enum(Merge,Strict) pointer
PodSpec
  activeDeadlineSeconds automountServiceAccountToken enableServiceLinks hostUsers hostnameOverride priority runtimeClassName setHostnameAsFQDN shareProcessNamespace terminationGracePeriodSeconds: pointer
  containers ephemeralContainers imagePullSecrets initContainers schedulingGates: map(name) merge(name)
  dnsPolicy: enum(ClusterFirst,ClusterFirstWithHostNet,Default,None)
  hostAliases: map(ip) merge(ip)
  nodeSelector: atomic-map
  preemptionPolicy: enum(Never,PreemptLowerPriority) pointer
  readinessGates tolerations: atomic
  resourceClaims volumes: map(name) merge(name) retainKeys
  restartPolicy: enum(Always,Never,OnFailure)
  topologySpreadConstraints: map(topologyKey,whenUnsatisfiable) merge(topologyKey)
PodStatus
  conditions: map(type) merge(type)
  containerStatuses ephemeralContainerStatuses initContainerStatuses nodeAllocatableResourceClaimStatuses: atomic
  hostIPs: atomic merge(ip)
  phase: enum(Failed,Pending,Running,Succeeded,Unknown)
  podIPs: map(ip) merge(ip)
  qosClass: enum(BestEffort,Burstable,Guaranteed)
  resourceClaimStatuses: map(name) merge(name) retainKeys
  startTime: pointer
PodTemplate . template: always
PortStatus
  error: pointer
  protocol: enum(SCTP,TCP,UDP)
Probe . terminationGracePeriodSeconds: pointer
ProjectedVolumeSource
  defaultMode: pointer
  sources: atomic always
RBDPersistentVolumeSource RBDVolumeSource
  keyring: default(/etc/ceph/keyring)
  monitors: atomic
  pool: default(rbd)
  user: default(admin)
ReplicationControllerSpec
  minReadySeconds: default(0)
  replicas: default(1) pointer
  selector: atomic-map
ResourceFieldSelector: atomic-map
  divisor: always
ResourceQuotaSpec . scopes: atomic
ResourceRequirements . claims: map(name)
ResourceStatus . resources: map(resourceID)
ScaleIOPersistentVolumeSource ScaleIOVolumeSource
  fsType: default(xfs)
  secretRef: null
  storageMode: default(ThinProvisioned)
ScopeSelector: atomic-map
  matchExpressions: atomic
ScopedResourceSelectorRequirement
  operator: enum(DoesNotExist,Exists,In,NotIn)
  scopeName: enum(BestEffort,CrossNamespacePodAffinity,NotBestEffort,NotTerminating,PriorityClass,Terminating,VolumeAttributesClass)
  values: atomic
SecretVolumeSource
  defaultMode optional: pointer
  items: atomic
SecurityContext
  allowPrivilegeEscalation privileged readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser: pointer
  procMount: enum(Default,Unmasked) pointer
ServiceAccount
  automountServiceAccountToken: pointer
  imagePullSecrets: atomic
  secrets: map(name) merge(name)
ServiceAccountTokenProjection . expirationSeconds: pointer
ServicePort
  appProtocol: pointer
  protocol: enum(SCTP,TCP,UDP) default(TCP)
  targetPort: always
ServiceSpec
  allocateLoadBalancerNodePorts loadBalancerClass trafficDistribution: pointer
  clusterIPs externalIPs ipFamilies loadBalancerSourceRanges: atomic
  externalTrafficPolicy: enum(Cluster,Local)
  internalTrafficPolicy: enum(Cluster,Local) pointer
  ipFamilyPolicy: enum(PreferDualStack,RequireDualStack,SingleStack) pointer
  ports: map(port,protocol) merge(port)
  selector: atomic-map
  sessionAffinity: enum(ClientIP,None)
  type: enum(ClusterIP,ExternalName,LoadBalancer,NodePort)
ServiceStatus
  conditions: map(type) merge(type)
  loadBalancer: always
Taint
  effect: enum(NoExecute,NoSchedule,PreferNoSchedule)
  timeAdded: pointer
Toleration
  effect: enum(NoExecute,NoSchedule,PreferNoSchedule)
  operator: enum(Equal,Exists,Gt,Lt)
  tolerationSeconds: pointer
TopologySelectorLabelRequirement . values: atomic
TopologySelectorTerm: atomic-map
  matchLabelExpressions: atomic
TopologySpreadConstraint
  matchLabelKeys: atomic
  minDomains: pointer
  nodeAffinityPolicy nodeTaintsPolicy: enum(Honor,Ignore) pointer
  whenUnsatisfiable: enum(DoNotSchedule,ScheduleAnyway)
TypedLocalObjectReference: atomic-map
  apiGroup: null
TypedObjectReference
  apiGroup: null
  namespace: pointer
VolumeMount
  mountPropagation: enum(Bidirectional,HostToContainer,None) pointer
  recursiveReadOnly: pointer
VolumeMountStatus . recursiveReadOnly: pointer
WindowsSecurityContextOptions . gmsaCredentialSpec gmsaCredentialSpecName hostProcess runAsUserName: pointer
"#;
