//! Field numbers of networking, devices and storage, in the notation of `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.discovery.v1
Endpoint: addresses conditions hostname targetRef deprecatedTopology nodeName zone hints
EndpointConditions: ready serving terminating
EndpointHints: forZones forNodes
EndpointPort: name protocol port appProtocol
EndpointSlice: metadata endpoints ports addressType
ForNode ForZone: name
package io.k8s.api.networking.v1
HTTPIngressPath: path backend pathType
HTTPIngressRuleValue: paths
IPAddress IngressClass NetworkPolicy: metadata spec
IPAddressSpec: parentRef
IPBlock: cidr except
Ingress ServiceCIDR: metadata spec status
IngressBackend: _ _ resource service
IngressClassParametersReference: apiGroup kind name scope namespace
IngressClassSpec: controller parameters
IngressLoadBalancerIngress: ip hostname _ ports
IngressLoadBalancerStatus: ingress
IngressPortStatus: port protocol error
IngressRule: host +IngressRuleValue
IngressRuleValue: http
IngressServiceBackend: name port
IngressSpec: defaultBackend tls rules ingressClassName
IngressStatus: loadBalancer
IngressTLS: hosts secretName
NetworkPolicyEgressRule: ports to
NetworkPolicyIngressRule: ports from
NetworkPolicyPeer: podSelector namespaceSelector ipBlock
NetworkPolicyPort: protocol port endPort
NetworkPolicySpec: podSelector ingress egress policyTypes
ParentReference: group resource namespace name
ServiceBackendPort: name number
ServiceCIDRSpec: cidrs
ServiceCIDRStatus: conditions
package io.k8s.api.resource.v1
AllocatedDeviceStatus: driver pool device conditions data networkData shareID
AllocationResult: devices _ nodeSelector _ allocationTimestamp
CELDeviceSelector: expression
CapacityRequestPolicy: default _ validValues validRange
CapacityRequestPolicyRange: min max step
CapacityRequirements: requests
Counter: value
CounterSet: name counters
Device: name attributes capacity consumesCounters nodeName nodeSelector allNodes taints bindsToNode bindingConditions
  bindingFailureConditions allowMultipleAllocations
DeviceAllocationConfiguration: source requests +DeviceConfiguration
DeviceAllocationResult: results config
DeviceAttribute: _ int bool string version
DeviceCapacity: value requestPolicy
DeviceClaim: requests constraints config
DeviceClaimConfiguration: requests +DeviceConfiguration
DeviceClass ResourceClaimTemplate ResourceClaimTemplateSpec ResourceSlice: metadata spec
DeviceClassConfiguration: +DeviceConfiguration
DeviceClassSpec: selectors config _ extendedResourceName
DeviceConfiguration: opaque
DeviceConstraint: requests matchAttribute distinctAttribute
DeviceCounterConsumption: counterSet counters
DeviceRequest: name exactly firstAvailable
DeviceRequestAllocationResult: request driver pool device adminAccess tolerations bindingConditions
  bindingFailureConditions shareID consumedCapacity
DeviceSelector: cel
DeviceSubRequest: name deviceClassName selectors allocationMode count tolerations capacity
DeviceTaint: key value effect timeAdded
DeviceToleration: key operator value effect tolerationSeconds
ExactDeviceRequest: deviceClassName selectors allocationMode count adminAccess tolerations capacity
NetworkDeviceData: interfaceName ips hardwareAddress
OpaqueDeviceConfiguration: driver parameters
ResourceClaim: metadata spec status
ResourceClaimConsumerReference: apiGroup _ resource name uid
ResourceClaimSpec: devices
ResourceClaimStatus: allocation reservedFor _ devices
ResourcePool: name generation resourceSliceCount
ResourceSliceSpec: driver pool nodeName nodeSelector allNodes devices perDeviceNodeSelection sharedCounters
package io.k8s.api.resource.v1alpha3
DeviceTaint: key value effect timeAdded
DeviceTaintRule: metadata spec status
DeviceTaintRuleSpec: deviceSelector taint
DeviceTaintRuleStatus: conditions
DeviceTaintSelector: _ driver pool device
package io.k8s.api.resource.v1beta2
DeviceTaint: key value effect timeAdded
DeviceTaintRule: metadata spec status
DeviceTaintRuleSpec: deviceSelector taint
DeviceTaintRuleStatus: conditions
DeviceTaintSelector: _ driver pool device
package io.k8s.api.storage.v1
CSIDriver CSINode: metadata spec
CSIDriverSpec: attachRequired podInfoOnMount volumeLifecycleModes storageCapacity fsGroupPolicy tokenRequests
  requiresRepublish seLinuxMount nodeAllocatableUpdatePeriodSeconds serviceAccountTokenInSecrets
CSINodeDriver: name nodeID topologyKeys allocatable
CSINodeSpec: drivers
CSIStorageCapacity: metadata nodeTopology storageClassName capacity maximumVolumeSize
StorageClass: metadata provisioner parameters reclaimPolicy mountOptions allowVolumeExpansion volumeBindingMode
  allowedTopologies
TokenRequest: audience expirationSeconds
VolumeAttachment: metadata spec status
VolumeAttachmentSource: persistentVolumeName inlineVolumeSpec
VolumeAttachmentSpec: attacher source nodeName
VolumeAttachmentStatus: attached attachmentMetadata attachError detachError
VolumeAttributesClass: metadata driverName parameters
VolumeError: time message errorCode
VolumeNodeResources: count
"#;
