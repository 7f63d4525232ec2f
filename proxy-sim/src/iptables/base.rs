//! Chains, jumps and rules that do not depend on any Service.
//!
//! Corresponds to the tables of jump chains and to the beginning and end of syncProxyRules.

use crate::rules::{Address, Rule, RuleSet, Table};

/// The mark that asks POSTROUTING to masquerade: bit 14, as kube-proxy's default.
const MASQUERADE_MARK: &str = "0x4000/0x4000";
const MASQUERADE_BIT: &str = "0x4000";
/// kube-proxy watches this chain: when another program flushes the tables, the chain is gone.
const CANARY: &str = "KUBE-PROXY-CANARY";
/// Counter of the packets that belong to no connection.
const INVALID_COUNTER: &str = "ct_state_invalid_dropped_pkts";

const NEW_ONLY: &str = "-m conntrack --ctstate NEW";
const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const FIREWALL: &str = "kubernetes load balancer firewall";

/// A jump from a built-in chain to one of kube-proxy's: chain, target, true for new connections only, comment. Each one
/// is inserted before the earlier ones, so the last jump of a chain stands first.
type Jump = (&'static str, &'static str, bool, &'static str);

const FILTER_JUMPS: [Jump; 11] = [
    ("INPUT", "KUBE-EXTERNAL-SERVICES", true, EXTERNAL_PORTALS),
    ("FORWARD", "KUBE-EXTERNAL-SERVICES", true, EXTERNAL_PORTALS),
    ("INPUT", "KUBE-NODEPORTS", false, "kubernetes health check service ports"),
    ("FORWARD", "KUBE-SERVICES", true, PORTALS),
    ("OUTPUT", "KUBE-SERVICES", true, PORTALS),
    ("FORWARD", "KUBE-FORWARD", false, "kubernetes forwarding rules"),
    ("INPUT", "KUBE-PROXY-FIREWALL", true, FIREWALL),
    ("OUTPUT", "KUBE-PROXY-FIREWALL", true, FIREWALL),
    ("FORWARD", "KUBE-PROXY-FIREWALL", true, FIREWALL),
    ("INPUT", "KUBE-FIREWALL", false, ""),
    ("OUTPUT", "KUBE-FIREWALL", false, ""),
];

const NAT_JUMPS: [Jump; 3] = [
    ("OUTPUT", "KUBE-SERVICES", false, PORTALS),
    ("PREROUTING", "KUBE-SERVICES", false, PORTALS),
    ("POSTROUTING", "KUBE-POSTROUTING", false, "kubernetes postrouting rules"),
];

/// Adds the chains and rules that come before those of Services.
pub fn chains(set: &mut RuleSet) {
    for table in [&mut set.mangle, &mut set.filter, &mut set.nat] {
        table.declare(CANARY);
    }
    jumps(&mut set.filter, &FILTER_JUMPS);
    jumps(&mut set.nat, &NAT_JUMPS);
    set.nat.declare("KUBE-NODEPORTS");

    let unmarked = Rule::to("RETURN").matching(format!("-m mark ! --mark {MASQUERADE_MARK}"));
    set.nat.append("KUBE-POSTROUTING", unmarked);
    set.nat.append("KUBE-POSTROUTING", Rule::to(format!("MARK --set-xmark {MASQUERADE_BIT}/0x0")));
    let masquerade = Rule::to("MASQUERADE --random-fully").comment("kubernetes service traffic requiring SNAT");
    set.nat.append("KUBE-POSTROUTING", masquerade);
    set.nat.append("KUBE-MARK-MASQ", Rule::to(format!("MARK --set-xmark {MASQUERADE_MARK}")));

    // Node ports on localhost need a kernel that routes packets to localhost. Such packets from other machines are
    // dropped.
    let spoofed = Rule::to("DROP").sourced(Address::is_not("127.0.0.0/8")).destined("127.0.0.0/8");
    let spoofed = spoofed.comment("block incoming localnet connections");
    let unknown = "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT";
    set.filter.append("KUBE-FIREWALL", spoofed.matching(unknown));
}

fn jumps(table: &mut Table, jumps: &[Jump]) {
    for (chain, target, new_only, comment) in jumps.iter().rev() {
        table.declare(target);
        let mut rule = Rule::to(*target);
        if *new_only {
            rule = rule.matching(NEW_ONLY);
        }
        if !comment.is_empty() {
            rule = rule.comment(*comment);
        }
        table.append(chain, rule);
    }
}

/// Adds the rules that come after those of Services.
pub fn last_rules(set: &mut RuleSet) {
    // Every packet to an address of this machine may be for a node port; this must be the last rule.
    let comment = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
    let node_ports = Rule::to("KUBE-NODEPORTS").comment(comment).matching("-m addrtype --dst-type LOCAL");
    set.nat.append("KUBE-SERVICES", node_ports);

    let invalid = Rule::to("DROP").matching("-m conntrack --ctstate INVALID").matching(counted(INVALID_COUNTER));
    set.filter.append("KUBE-FORWARD", invalid);
    let marked = Rule::to("ACCEPT").comment("kubernetes forwarding rules");
    set.filter.append("KUBE-FORWARD", marked.matching(format!("-m mark --mark {MASQUERADE_MARK}")));
    let known = Rule::to("ACCEPT").comment("kubernetes forwarding conntrack rule");
    set.filter.append("KUBE-FORWARD", known.matching("-m conntrack --ctstate RELATED,ESTABLISHED"));
}

/// Returns a match that counts packets. `iptables-save` prints two spaces here.
pub fn counted(counter: &str) -> String {
    format!("-m nfacct --nfacct-name  {counter}")
}
