//! Facts about the fields of devices and storage, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.resource.v1
AllocatedDeviceStatus
  conditions: map(type)
  shareID: pointer
AllocationResult ResourceClaimSpec . devices: always
CapacityRequestPolicy . validValues: atomic
CapacityRequestPolicyRange . min: pointer
Device
  allNodes allowMultipleAllocations bindsToNode nodeName: pointer
  bindingConditions bindingFailureConditions consumesCounters taints: atomic
DeviceAllocationConfiguration
  requests: atomic
  source: enum(FromClaim,FromClass)
DeviceAllocationResult . config results: atomic
DeviceAttribute
  bool int string version: pointer
  bools ints strings versions: atomic
DeviceClaim . config constraints requests: atomic
DeviceClaimConfiguration . requests: atomic
DeviceClassSpec
  config selectors: atomic
  extendedResourceName: pointer
DeviceConstraint
  distinctAttribute matchAttribute: pointer
  requests: atomic
DeviceRequest . firstAvailable: atomic
DeviceRequestAllocationResult
  adminAccess shareID: pointer
  bindingConditions bindingFailureConditions tolerations: atomic
DeviceSubRequest
  allocationMode: enum(All,ExactCount)
  selectors tolerations: atomic
DeviceTaint
  effect: enum(NoExecute,NoSchedule,None)
  timeAdded: pointer
DeviceToleration
  effect: enum(NoExecute,NoSchedule,None)
  operator: enum(Equal,Exists) default(Equal)
  tolerationSeconds: pointer
ExactDeviceRequest
  adminAccess: pointer
  allocationMode: enum(All,ExactCount)
  selectors tolerations: atomic
NetworkDeviceData . ips: atomic
ResourceClaim . status: always
ResourceClaimStatus
  devices: map(driver,device,pool,shareID)
  reservedFor: map(uid) merge(uid)
ResourceSliceSpec
  allNodes nodeName perDeviceNodeSelection: pointer
  devices sharedCounters: atomic
package io.k8s.api.resource.v1alpha3
DeviceTaint
  effect: enum(NoExecute,NoSchedule,None)
  timeAdded: pointer
DeviceTaintRule . status: always
DeviceTaintRuleStatus . conditions: map(type) merge(type)
DeviceTaintSelector . device driver pool: pointer
package io.k8s.api.resource.v1beta2
DeviceTaint
  effect: enum(NoExecute,NoSchedule,None)
  timeAdded: pointer
DeviceTaintRule . status: always
DeviceTaintRuleStatus . conditions: map(type) merge(type)
DeviceTaintSelector . device driver pool: pointer
package io.k8s.api.storage.v1
CSIDriverSpec
  attachRequired fsGroupPolicy nodeAllocatableUpdatePeriodSeconds podInfoOnMount preventPodSchedulingIfMissing requiresRepublish seLinuxMount serviceAccountTokenInSecrets storageCapacity: pointer
  tokenRequests: atomic
  volumeLifecycleModes: set
CSINodeDriver . topologyKeys: atomic always
CSINodeSpec . drivers: map(name) merge(name)
StorageClass
  allowVolumeExpansion: pointer
  allowedTopologies mountOptions: atomic
  reclaimPolicy: enum(Delete,Recycle,Retain) pointer
  volumeBindingMode: enum(Immediate,WaitForFirstConsumer) pointer
TokenRequest . expirationSeconds: pointer
VolumeAttachment . status: always
VolumeAttachmentSource . persistentVolumeName: pointer
VolumeError
  errorCode: pointer
  time: always
VolumeNodeResources . count: pointer
"#;
