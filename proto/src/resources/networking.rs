//! networking.k8s.io: ways into the cluster, rules between pods, and the addresses of services.
//!
//! Corresponds to pkg/registry/networking/rest.

use super::Resource;
use super::row::Group;

const NETWORKING: Group = Group { name: "networking.k8s.io", version: "v1", package: "io.k8s.api.networking.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        NETWORKING.cluster("ingressclasses", "IngressClass"),
        NETWORKING.namespaced("ingresses", "Ingress").stored_at("ingress").short("ing").status(),
        NETWORKING.cluster("ipaddresses", "IPAddress").short("ip"),
        NETWORKING.namespaced("networkpolicies", "NetworkPolicy").short("netpol"),
        NETWORKING.cluster("servicecidrs", "ServiceCIDR").status(),
    ]
}
