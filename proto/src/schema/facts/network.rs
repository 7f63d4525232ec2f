//! Facts about the fields of service discovery and networking, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.discovery.v1
Endpoint
  addresses: set
  conditions: always
  hostname nodeName zone: pointer
EndpointConditions . ready serving terminating: pointer
EndpointHints . forNodes forZones: atomic
EndpointPort: atomic-map
  appProtocol name port: pointer
  protocol: enum(SCTP,TCP,UDP) pointer
EndpointSlice
  addressType: enum(FQDN,IPv4,IPv6)
  endpoints: atomic
  ports: atomic always
package io.k8s.api.networking.v1
HTTPIngressPath . pathType: enum(Exact,ImplementationSpecific,Prefix) null
HTTPIngressRuleValue . paths: atomic
IPAddressSpec . parentRef: pointer
IPBlock . except: atomic
Ingress ServiceCIDR . spec status: always
IngressClass NetworkPolicy . spec: always
IngressClassParametersReference . apiGroup namespace scope: pointer
IngressLoadBalancerIngress . ports: atomic
IngressLoadBalancerStatus . ingress: atomic
IngressPortStatus
  error: pointer
  protocol: enum(SCTP,TCP,UDP)
IngressServiceBackend . port: always
IngressSpec
  ingressClassName: pointer
  rules tls: atomic
IngressStatus . loadBalancer: always
IngressTLS . hosts: atomic
NetworkPolicyEgressRule . ports to: atomic
NetworkPolicyIngressRule . from ports: atomic
NetworkPolicyPort
  endPort: pointer
  protocol: enum(SCTP,TCP,UDP) pointer
NetworkPolicySpec
  egress ingress policyTypes: atomic
  podSelector: always
ServiceBackendPort: atomic-map
ServiceCIDRSpec . cidrs: atomic
ServiceCIDRStatus . conditions: map(type) merge(type)
"#;
