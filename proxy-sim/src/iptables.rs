//! The iptables form: the chains that kube-proxy's iptables mode programs on one node, from the model.
//!
//! Pure. Corresponds to pkg/proxy/iptables/proxier.go (syncProxyRules).

use crate::chain_names;
use crate::model::{Categorized, Endpoint, Model, ServicePort, ServicePortName, categorize};
use crate::rules::{Address, Rule, RuleSet, Table};

/// The mark that asks POSTROUTING to masquerade: bit 14, as kube-proxy's default.
const MASQUERADE_MARK: &str = "0x4000/0x4000";
const MASQUERADE_BIT: &str = "0x4000";

/// What the rules of a node depend on besides the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    pub name: String,
    /// Traffic from inside is not masqueraded; empty: nothing counts as inside.
    pub cluster_cidr: String,
}

/// All rules of one node.
pub fn rules(model: &Model, node: &NodeSettings) -> RuleSet {
    let mut set = RuleSet::default();
    base_chains(&mut set);
    for (name, port) in &model.services {
        let endpoints = model.endpoints.get(name).map(Vec::as_slice).unwrap_or_default();
        service_rules(&mut set, name, port, &categorize(endpoints, &node.name), node);
    }
    // Whatever is addressed to this machine may be for a node port; this has to come last.
    let comment = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
    let node_ports = Rule::to("KUBE-NODEPORTS").comment(comment).matching("-m addrtype --dst-type LOCAL");
    set.nat.append("KUBE-SERVICES", node_ports);
    set
}

/// Chains and jumps that exist whatever the services.
fn base_chains(set: &mut RuleSet) {
    let portals = "kubernetes service portals";
    let new_only = "-m conntrack --ctstate NEW";
    for chain in ["KUBE-NODEPORTS", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"] {
        set.filter.declare(chain);
    }
    for chain in ["INPUT", "FORWARD", "OUTPUT"] {
        let firewall = Rule::to("KUBE-PROXY-FIREWALL").matching(new_only).comment("kubernetes load balancer firewall");
        set.filter.append(chain, firewall);
    }
    set.filter.append("INPUT", Rule::to("KUBE-NODEPORTS").comment("kubernetes health check service ports"));
    for chain in ["INPUT", "FORWARD"] {
        let comment = "kubernetes externally-visible service portals";
        set.filter.append(chain, Rule::to("KUBE-EXTERNAL-SERVICES").matching(new_only).comment(comment));
    }
    set.filter.append("FORWARD", Rule::to("KUBE-FORWARD").comment("kubernetes forwarding rules"));
    for chain in ["FORWARD", "OUTPUT"] {
        set.filter.append(chain, Rule::to("KUBE-SERVICES").matching(new_only).comment(portals));
    }
    set.filter.append("KUBE-FORWARD", Rule::to("DROP").matching("-m conntrack --ctstate INVALID"));
    let marked = Rule::to("ACCEPT").comment("kubernetes forwarding rules");
    set.filter.append("KUBE-FORWARD", marked.matching(format!("-m mark --mark {MASQUERADE_MARK}")));
    let known = Rule::to("ACCEPT").comment("kubernetes forwarding conntrack rule");
    set.filter.append("KUBE-FORWARD", known.matching("-m conntrack --ctstate RELATED,ESTABLISHED"));

    set.nat.declare("KUBE-NODEPORTS");
    for chain in ["PREROUTING", "OUTPUT"] {
        set.nat.append(chain, Rule::to("KUBE-SERVICES").comment(portals));
    }
    set.nat.append("POSTROUTING", Rule::to("KUBE-POSTROUTING").comment("kubernetes postrouting rules"));
    set.nat.append("KUBE-MARK-MASQ", Rule::to(format!("MARK --set-xmark {MASQUERADE_MARK}")));
    let unmarked = Rule::to("RETURN").matching(format!("-m mark ! --mark {MASQUERADE_MARK}"));
    set.nat.append("KUBE-POSTROUTING", unmarked);
    set.nat.append("KUBE-POSTROUTING", Rule::to(format!("MARK --set-xmark {MASQUERADE_BIT}/0x0")));
    let masquerade = Rule::to("MASQUERADE --random-fully").comment("kubernetes service traffic requiring SNAT");
    set.nat.append("KUBE-POSTROUTING", masquerade);
}

/// The rules of one service port.
fn service_rules(
    set: &mut RuleSet,
    name: &ServicePortName,
    port: &ServicePort,
    endpoints: &Categorized,
    node: &NodeSettings,
) {
    let cluster = chain_names::service(name);
    let local = chain_names::service_local(name);
    let internal = if port.internal_local { (&local, &endpoints.local) } else { (&cluster, &endpoints.cluster) };
    let external = if port.external_local { &endpoints.local } else { &endpoints.cluster };

    internal_entry(set, name, port, internal.0, internal.1, endpoints.any, node);
    if port.is_external() {
        external_entries(set, name, port, external, endpoints.any);
        if !external.is_empty() || (port.external_local && !endpoints.cluster.is_empty()) {
            external_chain(&mut set.nat, name, port, endpoints, node);
        }
    }

    let uses_local = port.internal_local || (port.external_local && port.is_external());
    let uses_cluster = !port.internal_local || port.is_external();
    if uses_cluster && !endpoints.cluster.is_empty() {
        balance(&mut set.nat, name, port, &cluster, &endpoints.cluster);
    }
    if uses_local && !endpoints.local.is_empty() {
        balance(&mut set.nat, name, port, &local, &endpoints.local);
    }
    let mut targets = if uses_cluster { endpoints.cluster.clone() } else { Vec::new() };
    if uses_local {
        targets.extend(endpoints.local.iter().cloned());
    }
    targets.sort();
    targets.dedup();
    for endpoint in &targets {
        endpoint_chain(&mut set.nat, name, port, endpoint);
    }
}

/// The cluster IP: to the balancing chain, or refused.
fn internal_entry(
    set: &mut RuleSet,
    name: &ServicePortName,
    port: &ServicePort,
    chain: &str,
    endpoints: &[Endpoint],
    any: bool,
    node: &NodeSettings,
) {
    let entry = |target: &str| Rule::to(target).destined(&port.cluster_ip);
    if endpoints.is_empty() {
        refuse(set, "KUBE-SERVICES", name, any, |target| entry(target).port(&name.protocol, port.port));
        return;
    }
    let comment = format!("{name} cluster IP");
    let rule = entry(chain).comment(&comment).port(&name.protocol, port.port);
    set.nat.append("KUBE-SERVICES", rule);
    if !node.cluster_cidr.is_empty() {
        let outside = entry("KUBE-MARK-MASQ").sourced(Address::is_not(&node.cluster_cidr));
        set.nat.append(chain, outside.comment(comment).port(&name.protocol, port.port));
    }
}

/// External IPs, load balancer addresses and the node port: to the external chain, or refused.
fn external_entries(set: &mut RuleSet, name: &ServicePortName, port: &ServicePort, endpoints: &[Endpoint], any: bool) {
    let chain = chain_names::external(name);
    let reachable = !endpoints.is_empty() || (port.external_local && any);
    for ip in &port.external_ips {
        if endpoints.is_empty() {
            refuse(set, "KUBE-EXTERNAL-SERVICES", name, any, |t| {
                Rule::to(t).destined(ip).port(&name.protocol, port.port)
            });
        }
        if reachable {
            let rule = Rule::to(&chain).destined(ip).comment(format!("{name} external IP"));
            set.nat.append("KUBE-SERVICES", rule.port(&name.protocol, port.port));
        }
    }
    for ip in &port.load_balancer_ips {
        if endpoints.is_empty() {
            refuse(set, "KUBE-EXTERNAL-SERVICES", name, any, |t| {
                Rule::to(t).destined(ip).port(&name.protocol, port.port)
            });
        }
        if reachable {
            let target =
                if port.load_balancer_source_ranges.is_empty() { chain.clone() } else { chain_names::firewall(name) };
            let rule = Rule::to(target).destined(ip).comment(format!("{name} loadbalancer IP"));
            set.nat.append("KUBE-SERVICES", rule.port(&name.protocol, port.port));
        }
        if !port.load_balancer_source_ranges.is_empty() {
            let comment = format!("{name} traffic not accepted by {}", chain_names::firewall(name));
            let rule = Rule::to("DROP").destined(ip).comment(comment).port(&name.protocol, port.port);
            set.filter.append("KUBE-PROXY-FIREWALL", rule);
        }
    }
    if reachable && !port.load_balancer_ips.is_empty() {
        for range in &port.load_balancer_source_ranges {
            let rule = Rule::to(&chain).sourced(Address::is(range)).comment(format!("{name} loadbalancer IP"));
            set.nat.append(&chain_names::firewall(name), rule);
        }
    }
    if port.node_port != 0 {
        if endpoints.is_empty() {
            refuse(set, "KUBE-EXTERNAL-SERVICES", name, any, |target| {
                Rule::to(target).port(&name.protocol, port.node_port).matching("-m addrtype --dst-type LOCAL")
            });
        }
        if reachable {
            let rule = Rule::to(&chain).comment(name.to_string()).port(&name.protocol, port.node_port);
            set.nat.append("KUBE-NODEPORTS", rule);
        }
    }
    if port.health_check_node_port != 0 {
        let rule = Rule::to("ACCEPT").comment(format!("{name} health check node port"));
        set.filter.append("KUBE-NODEPORTS", rule.port("tcp", port.health_check_node_port));
    }
}

/// Without endpoints anywhere a connection is refused; with endpoints on other nodes only it is dropped.
fn refuse(set: &mut RuleSet, chain: &str, name: &ServicePortName, any: bool, entry: impl Fn(&str) -> Rule) {
    let (target, why) = if any {
        ("DROP", "has no local endpoints")
    } else {
        ("REJECT --reject-with icmp-port-unreachable", "has no endpoints")
    };
    set.filter.append(chain, entry(target).comment(format!("{name} {why}")));
}

/// Where external traffic goes: masqueraded to any endpoint, or unchanged to a local one.
fn external_chain(
    nat: &mut Table,
    name: &ServicePortName,
    port: &ServicePort,
    endpoints: &Categorized,
    node: &NodeSettings,
) {
    let chain = chain_names::external(name);
    if !port.external_local {
        let comment = format!("masquerade traffic for {name} external destinations");
        nat.append(&chain, Rule::to("KUBE-MARK-MASQ").comment(comment));
        nat.append(&chain, Rule::to(chain_names::service(name)));
        return;
    }
    if !node.cluster_cidr.is_empty() {
        let comment = format!("pod traffic for {name} external destinations");
        let inside = Rule::to(chain_names::service(name)).sourced(Address::is(&node.cluster_cidr));
        nat.append(&chain, inside.comment(comment));
    }
    let local = "-m addrtype --src-type LOCAL";
    let masquerade = format!("masquerade LOCAL traffic for {name} external destinations");
    nat.append(&chain, Rule::to("KUBE-MARK-MASQ").comment(masquerade).matching(local));
    let route = format!("route LOCAL traffic for {name} external destinations");
    nat.append(&chain, Rule::to(chain_names::service(name)).comment(route).matching(local));
    if !endpoints.local.is_empty() {
        nat.append(&chain, Rule::to(chain_names::service_local(name)));
    }
}

/// Spreads connections over endpoints: the first rule takes 1/n, the next 1/(n-1) of the rest, the last all.
fn balance(nat: &mut Table, name: &ServicePortName, port: &ServicePort, chain: &str, endpoints: &[Endpoint]) {
    let comment = |e: &Endpoint| format!("{name} -> {}:{}", e.ip, e.port);
    if let Some(seconds) = port.affinity_s {
        for endpoint in endpoints {
            let target = chain_names::endpoint(name, endpoint);
            let recent = format!(
                "-m recent --rcheck --seconds {seconds} --reap --name {target} --mask 255.255.255.255 --rsource"
            );
            nat.append(chain, Rule::to(&target).comment(comment(endpoint)).matching(recent));
        }
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let rule = Rule::to(chain_names::endpoint(name, endpoint)).comment(comment(endpoint));
        let left = endpoints.len() - i;
        let rule = if left == 1 {
            rule
        } else {
            rule.matching(format!("-m statistic --mode random --probability {}", probability(left)))
        };
        nat.append(chain, rule);
    }
}

/// `1/n` as the kernel keeps it, in units of 2^-31, and as `iptables-save` prints it.
fn probability(n: usize) -> String {
    let unit = f64::from(1_u32 << 31);
    let n = u32::try_from(n).map_or(f64::MAX, f64::from);
    format!("{:.11}", (unit / n).round() / unit)
}

/// One endpoint: its own traffic back to itself is masqueraded, everything is rewritten to its address.
fn endpoint_chain(nat: &mut Table, name: &ServicePortName, port: &ServicePort, endpoint: &Endpoint) {
    let chain = chain_names::endpoint(name, endpoint);
    let hairpin = Rule::to("KUBE-MARK-MASQ").sourced(Address::is(&endpoint.ip)).comment(name.to_string());
    nat.append(&chain, hairpin);
    let target = format!("DNAT --to-destination {}:{}", endpoint.ip, endpoint.port);
    let mut rule = Rule::to(target).comment(name.to_string()).protocol(&name.protocol);
    if port.affinity_s.is_some() {
        rule = rule.matching(format!("-m recent --set --name {chain} --mask 255.255.255.255 --rsource"));
    }
    nat.append(&chain, rule.matching(format!("-m {}", name.protocol)));
}

#[cfg(test)]
mod tests;
