//! Makes the rules of one node from the model: the chains that kube-proxy programs in its iptables mode.
//!
//! Pure. Corresponds to pkg/proxy/iptables/proxier.go (syncProxyRules), with its defaults: IPv4, node ports on every
//! address and on localhost, and netfilter's accounting counters present.

mod base;

use crate::chain_names;
use crate::model::{Categorized, Endpoint, Entry, Model, ServicePort, ServicePortName, categorize};
use crate::rules::{Address, Rule, RuleSet};
use ipnet::Ipv4Net;
use std::net::Ipv4Addr;

/// With more endpoints than this in the cluster, the rules of endpoints get no comments.
const LARGE_CLUSTER_ENDPOINTS: usize = 1000;
/// Counter of the packets from this machine to one of its own node ports.
const LOCALHOST_COUNTER: &str = "localhost_nps_accepted_pkts";

/// The properties of a node that its rules depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    pub name: String,
    /// Empty when the node has no zone label.
    pub zone: String,
    pub ip: Option<Ipv4Addr>,
    /// Traffic from this range to cluster IPs is not masqueraded; when it is empty, none is.
    pub cluster_cidr: String,
}

/// Returns all rules of one node.
pub fn rules(model: &Model, node: &NodeSettings) -> RuleSet {
    let mut set = RuleSet::default();
    base::chains(&mut set);
    let comments = model.endpoint_count() <= LARGE_CLUSTER_ENDPOINTS;
    for (name, Entry { port, endpoints }) in model.services() {
        let endpoints = categorize(endpoints, port, &node.name, &node.zone);
        RuleWriter { set: &mut set, name, port, endpoints, node, comments }.write();
    }
    base::last_rules(&mut set);
    set
}

/// Writes the rules of one service port.
struct RuleWriter<'a> {
    set: &'a mut RuleSet,
    name: &'a ServicePortName,
    port: &'a ServicePort,
    endpoints: Categorized<'a>,
    node: &'a NodeSettings,
    /// False in a large cluster.
    comments: bool,
}

impl RuleWriter<'_> {
    fn write(mut self) {
        self.capture_cluster_ip();
        self.capture_external_ips();
        self.capture_load_balancer();
        self.capture_node_port();
        self.accept_health_checks();

        self.masquerade_from_outside();
        if self.endpoints.has_usable && self.port.is_external() {
            self.external_chain();
        }
        if self.has_firewall() {
            self.firewall_chain();
        }
        let (cluster, local) = (self.endpoints.cluster.clone(), self.endpoints.local.clone());
        self.balance(&chain_names::service(self.name), &cluster);
        self.balance(&chain_names::service_local(self.name), &local);
        for endpoint in self.endpoints.reachable.clone() {
            self.endpoint_chain(endpoint);
        }
    }

    /// Returns the chain for traffic with a policy, and whether it leads to an endpoint.
    fn policy(&self, is_local: bool) -> (String, bool) {
        match is_local {
            true => (chain_names::service_local(self.name), !self.endpoints.local.is_empty()),
            false => (chain_names::service(self.name), self.endpoints.has_usable),
        }
    }

    /// True when source ranges of the load balancer are enforced.
    fn has_firewall(&self) -> bool {
        let ServicePort { load_balancer_ips, load_balancer_source_ranges, .. } = self.port;
        self.endpoints.has_usable && !load_balancer_ips.is_empty() && !load_balancer_source_ranges.is_empty()
    }

    /// Returns a rule for packets to the service's port at this address.
    fn rule_for(&self, target: &str, ip: &str, comment: impl Into<String>) -> Rule {
        Rule::to(target).destined(ip).comment(comment).port(&self.name.protocol, self.port.port)
    }

    /// Returns target and comment for traffic without a local endpoint. Without endpoints on any node, connections are
    /// refused; with endpoints on other nodes only, packets are dropped.
    fn refusal(&self) -> (&'static str, String) {
        match self.endpoints.has_usable {
            true => ("DROP", format!("{} has no local endpoints", self.name)),
            false => ("REJECT --reject-with icmp-port-unreachable", format!("{} has no endpoints", self.name)),
        }
    }

    fn capture_cluster_ip(&mut self) {
        let (chain, is_served) = self.policy(self.port.internal_local);
        if is_served {
            let rule = self.rule_for(&chain, &self.port.cluster_ip, format!("{} cluster IP", self.name));
            self.set.nat.append("KUBE-SERVICES", rule);
        } else {
            let (target, comment) = self.refusal();
            let rule = self.rule_for(target, &self.port.cluster_ip, comment);
            self.set.filter.append("KUBE-SERVICES", rule);
        }
    }

    fn capture_external_ips(&mut self) {
        let chain = chain_names::external(self.name);
        for ip in &self.port.external_ips {
            if self.endpoints.has_usable {
                let rule = self.rule_for(&chain, ip, format!("{} external IP", self.name));
                self.set.nat.append("KUBE-SERVICES", rule);
            }
            self.refuse_external(ip);
        }
    }

    fn capture_load_balancer(&mut self) {
        let firewall = chain_names::firewall(self.name);
        let chain = if self.has_firewall() { firewall.clone() } else { chain_names::external(self.name) };
        for ip in &self.port.load_balancer_ips {
            if self.endpoints.has_usable {
                let rule = self.rule_for(&chain, ip, format!("{} loadbalancer IP", self.name));
                self.set.nat.append("KUBE-SERVICES", rule);
            }
            if self.has_firewall() {
                let rule = self.rule_for("DROP", ip, format!("{} traffic not accepted by {firewall}", self.name));
                self.set.filter.append("KUBE-PROXY-FIREWALL", rule);
            }
            self.refuse_external(ip);
        }
    }

    /// Drops or rejects external traffic to this address, when no endpoint may serve it.
    fn refuse_external(&mut self, ip: &str) {
        let (_, is_served) = self.policy(self.port.external_local);
        if !is_served {
            let (target, comment) = self.refusal();
            let rule = self.rule_for(target, ip, comment);
            self.set.filter.append("KUBE-EXTERNAL-SERVICES", rule);
        }
    }

    fn capture_node_port(&mut self) {
        let (protocol, number) = (&self.name.protocol, self.port.node_port);
        if number == 0 {
            return;
        }
        if self.endpoints.has_usable {
            let rule = || Rule::to(chain_names::external(self.name)).comment(self.name.to_string());
            let from_here = rule().destined("127.0.0.0/8").port(protocol, number);
            self.set.nat.append("KUBE-NODEPORTS", from_here.matching(base::counted(LOCALHOST_COUNTER)));
            self.set.nat.append("KUBE-NODEPORTS", rule().port(protocol, number));
        }
        let (_, is_served) = self.policy(self.port.external_local);
        if !is_served {
            let (target, comment) = self.refusal();
            let rule = Rule::to(target).comment(comment).matching("-m addrtype --dst-type LOCAL");
            self.set.filter.append("KUBE-EXTERNAL-SERVICES", rule.port(protocol, number));
        }
    }

    fn accept_health_checks(&mut self) {
        if self.port.health_check_node_port != 0 {
            let rule = Rule::to("ACCEPT").comment(format!("{} health check node port", self.name));
            self.set.filter.append("KUBE-NODEPORTS", rule.port("tcp", self.port.health_check_node_port));
        }
    }

    /// Masquerades traffic to the cluster IP that does not come from a pod, so that replies return through this node.
    fn masquerade_from_outside(&mut self) {
        let (chain, is_served) = self.policy(self.port.internal_local);
        if is_served && !self.node.cluster_cidr.is_empty() {
            let rule = self.rule_for("KUBE-MARK-MASQ", &self.port.cluster_ip, format!("{} cluster IP", self.name));
            self.set.nat.append(&chain, rule.sourced(Address::is_not(&self.node.cluster_cidr)));
        }
    }

    /// Writes the chain of external traffic: masqueraded to any endpoint, or with its source unchanged to a local one.
    fn external_chain(&mut self) {
        let (chain, cluster) = (chain_names::external(self.name), chain_names::service(self.name));
        let comment = |what: &str| format!("{what} for {} external destinations", self.name);
        if self.port.external_local {
            if !self.node.cluster_cidr.is_empty() {
                let inside = Rule::to(&cluster).sourced(Address::is(&self.node.cluster_cidr));
                self.set.nat.append(&chain, inside.comment(comment("pod traffic")));
            }
            let local = "-m addrtype --src-type LOCAL";
            let masquerade = Rule::to("KUBE-MARK-MASQ").comment(comment("masquerade LOCAL traffic"));
            self.set.nat.append(&chain, masquerade.matching(local));
            let route = Rule::to(&cluster).comment(comment("route LOCAL traffic"));
            self.set.nat.append(&chain, route.matching(local));
        } else {
            let masquerade = Rule::to("KUBE-MARK-MASQ").comment(comment("masquerade traffic"));
            self.set.nat.append(&chain, masquerade);
        }
        let (policy, is_served) = self.policy(self.port.external_local);
        if is_served {
            self.set.nat.append(&chain, Rule::to(policy));
        }
    }

    /// Writes the chain that admits the source ranges. Packets that reach its end keep their destination and are
    /// dropped later.
    fn firewall_chain(&mut self) {
        let (chain, external) = (chain_names::firewall(self.name), chain_names::external(self.name));
        let admit = |source: &str| {
            Rule::to(&external).sourced(Address::is(source)).comment(format!("{} loadbalancer IP", self.name))
        };
        let mut admits_node = false;
        for range in &self.port.load_balancer_source_ranges {
            self.set.nat.append(&chain, admit(range));
            let network = range.parse::<Ipv4Net>();
            admits_node |= self.node.ip.is_some_and(|ip| network.is_ok_and(|network| network.contains(&ip)));
        }
        // The node may have the load balancer's address itself; then its own traffic comes from that address.
        for ip in self.port.load_balancer_ips.iter().filter(|_| admits_node) {
            self.set.nat.append(&chain, admit(ip));
        }
        let comment = format!("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL", self.name);
        self.set.nat.append(&chain, Rule::default().comment(comment));
    }

    /// Adds a comment to the rule of an endpoint, except in a large cluster.
    fn with_comment(&self, rule: Rule, text: String) -> Rule {
        if self.comments { rule.comment(text) } else { rule }
    }

    /// Spreads connections over endpoints: the first rule takes 1/n of them, the next 1/(n-1) of the rest, the last one
    /// all.
    fn balance(&mut self, chain: &str, endpoints: &[&Endpoint]) {
        let jump = |endpoint: &Endpoint| {
            let rule = Rule::to(chain_names::endpoint(self.name, endpoint));
            self.with_comment(rule, format!("{} -> {endpoint}", self.name))
        };
        let mut rules = Vec::new();
        for endpoint in endpoints.iter().filter(|_| self.port.affinity_s.is_some()) {
            let (seconds, list) = (self.port.affinity_s.unwrap_or(0), chain_names::endpoint(self.name, endpoint));
            let recent = format!("--rcheck --seconds {seconds} --reap {}", recent_list(&list));
            rules.push(jump(endpoint).matching(format!("-m recent {recent}")));
        }
        for (i, endpoint) in endpoints.iter().enumerate() {
            let rule = jump(endpoint);
            rules.push(match endpoints.len() - i {
                1 => rule,
                left => rule.matching(format!("-m statistic --mode random --probability {}", probability(left))),
            });
        }
        rules.into_iter().for_each(|rule| self.set.nat.append(chain, rule));
    }

    /// Writes the chain of an endpoint: traffic from itself is masqueraded, and all traffic is rewritten to its
    /// address.
    fn endpoint_chain(&mut self, endpoint: &Endpoint) {
        let chain = chain_names::endpoint(self.name, endpoint);
        let hairpin = Rule::to("KUBE-MARK-MASQ").sourced(Address::is(&endpoint.ip));
        let hairpin = self.with_comment(hairpin, self.name.to_string());
        self.set.nat.append(&chain, hairpin);
        let rewrite = Rule::to(format!("DNAT --to-destination {endpoint}"));
        let mut rewrite = self.with_comment(rewrite, self.name.to_string());
        if self.port.affinity_s.is_some() {
            rewrite = rewrite.matching(format!("-m recent --set {}", recent_list(&chain)));
        }
        self.set.nat.append(&chain, rewrite.protocol(&self.name.protocol));
    }
}

/// Returns the options of the list of clients that an endpoint remembers.
fn recent_list(name: &str) -> String {
    format!("--name {name} --mask 255.255.255.255 --rsource")
}

/// Returns `1/n` as `iptables-save` prints it. kube-proxy writes ten digits, and the kernel keeps units of 2^-31.
fn probability(n: usize) -> String {
    let n = u32::try_from(n).map_or(f64::MAX, f64::from);
    let written: f64 = format!("{:.10}", 1.0 / n).parse().expect("what was printed as a number");
    let unit = f64::from(1_u32 << 31);
    format!("{:.11}", (unit * written).round() / unit)
}

#[cfg(test)]
mod tests;
