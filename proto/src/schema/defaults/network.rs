//! Defaults of services, endpoints and network policies.
//!
//! Corresponds to `SetDefaults_Service`, `SetDefaults_Endpoints`, pkg/apis/discovery and pkg/apis/networking.

use super::DefaultValue::{Bool, Int, Of, Text};
use super::Row::{self, Each, Fix, In, InNew, Set, SetIf};
use super::{Members, is_set, text};
use serde_json::Value;

pub const SERVICE: &[Row] = &[
    In(
        "spec",
        &[
            Set("sessionAffinity", Text("None")),
            Fix(session_affinity_config),
            Set("type", Text("ClusterIP")),
            Each("ports", &[Set("protocol", Text("TCP")), Fix(target_port)]),
            SetIf(is_reachable_from_outside, "externalTrafficPolicy", Text("Cluster")),
            SetIf(has_cluster_ip, "internalTrafficPolicy", Text("Cluster")),
            SetIf(|spec| text(spec, "type") == "LoadBalancer", "allocateLoadBalancerNodePorts", Bool(true)),
        ],
    ),
    Each("status.loadBalancer.ingress", &[SetIf(|ingress| is_set(ingress, "ip"), "ipMode", Text("VIP"))]),
];

fn has_cluster_ip(spec: &Members) -> bool {
    matches!(text(spec, "type"), "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn is_reachable_from_outside(spec: &Members) -> bool {
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => is_set(spec, "externalIPs"),
        _ => false,
    }
}

/// Sets the timeout of session affinity to three hours, or removes the configuration if there is no affinity.
fn session_affinity_config(spec: &mut Members) {
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => super::run(STICKY, spec),
        _ => {}
    }
}

const STICKY: &[Row] =
    &[InNew("sessionAffinityConfig", &[InNew("clientIP", &[Set("timeoutSeconds", Int(3 * 60 * 60))])])];

/// Sets the target port to the service's own port, if it is absent, zero or the empty name.
fn target_port(port: &mut Members) {
    let is_given = port.get("targetPort").is_some_and(|target| *target != 0 && *target != "");
    if !is_given {
        let number = port.get("port").cloned().unwrap_or(Value::from(0));
        port.insert("targetPort".into(), number);
    }
}

pub const ENDPOINTS: &[Row] = &[Each("subsets", &[Each("ports", &[Set("protocol", Text("TCP"))])])];

pub const ENDPOINT_SLICE: &[Row] = &[Each(
    "ports",
    &[
        Fix(|port| {
            port.entry("name").or_insert(Value::from(""));
        }),
        Set("protocol", Text("TCP")),
    ],
)];

pub const NETWORK_POLICY: &[Row] = &[In(
    "spec",
    &[
        Each("ingress", &[Each("ports", &[Set("protocol", Text("TCP"))])]),
        Each("egress", &[Each("ports", &[Set("protocol", Text("TCP"))])]),
        Set("policyTypes", Of(policy_types)),
    ],
)];

fn policy_types(spec: &Members) -> Option<Value> {
    let egress = is_set(spec, "egress").then_some("Egress");
    Some(["Ingress"].into_iter().chain(egress).map(Value::from).collect())
}

pub const INGRESS_CLASS: &[Row] = &[In("spec.parameters", &[Set("scope", Text("Cluster"))])];
