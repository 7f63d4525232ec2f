//! Rules as data: tables, chains and rules of netfilter, before anybody writes them down.
//!
//! Corresponds to what `iptables-save` prints; `iptables.rs` makes these from the model.

use std::collections::BTreeMap;
use std::fmt;

/// One rule in a chain. Matches stand in the order in which `iptables-save` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub source: Option<Address>,
    pub destination: Option<Address>,
    pub protocol: Option<String>,
    pub comment: Option<String>,
    /// Matches after the comment, in words: `-m tcp --dport 80`.
    pub matches: Vec<String>,
    /// `KUBE-MARK-MASQ`, `DNAT --to-destination 10.244.0.5:80`, …
    pub target: String,
}

/// An address or network, possibly negated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub network: String,
    pub negated: bool,
}

impl Address {
    pub fn is(address: &str) -> Self {
        Self { network: with_prefix(address), negated: false }
    }

    pub fn is_not(address: &str) -> Self {
        Self { network: with_prefix(address), negated: true }
    }
}

/// A host is a network of one: `10.0.0.1` is written `10.0.0.1/32`.
fn with_prefix(address: &str) -> String {
    match address {
        network if network.contains('/') => network.to_owned(),
        v6 if v6.contains(':') => format!("{v6}/128"),
        v4 => format!("{v4}/32"),
    }
}

impl Rule {
    pub fn to(target: impl Into<String>) -> Self {
        Self { target: target.into(), ..Self::default() }
    }

    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    pub fn sourced(mut self, source: Address) -> Self {
        self.source = Some(source);
        self
    }

    pub fn destined(mut self, destination: &str) -> Self {
        self.destination = Some(Address::is(destination));
        self
    }

    pub fn protocol(mut self, protocol: &str) -> Self {
        self.protocol = Some(protocol.to_owned());
        self
    }

    /// Protocol and destination port together.
    pub fn port(mut self, protocol: &str, port: u16) -> Self {
        self.protocol = Some(protocol.to_owned());
        self.matches.push(format!("-m {protocol} --dport {port}"));
        self
    }

    pub fn matching(mut self, words: impl Into<String>) -> Self {
        self.matches.push(words.into());
        self
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (option, address) in [("-s", &self.source), ("-d", &self.destination)] {
            if let Some(address) = address {
                write!(f, "{}{option} {} ", if address.negated { "! " } else { "" }, address.network)?;
            }
        }
        if let Some(protocol) = &self.protocol {
            write!(f, "-p {protocol} ")?;
        }
        if let Some(comment) = &self.comment {
            if comment.contains(' ') {
                write!(f, "-m comment --comment \"{comment}\" ")?;
            } else {
                write!(f, "-m comment --comment {comment} ")?;
            }
        }
        for words in &self.matches {
            write!(f, "{words} ")?;
        }
        write!(f, "-j {}", self.target)
    }
}

/// One table: chains by name. A chain without rules is still declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub chains: BTreeMap<String, Vec<Rule>>,
}

impl Table {
    pub fn declare(&mut self, chain: &str) {
        self.chains.entry(chain.to_owned()).or_default();
    }

    pub fn append(&mut self, chain: &str, rule: Rule) {
        self.chains.entry(chain.to_owned()).or_default().push(rule);
    }
}

/// The rules of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub filter: Table,
    pub nat: Table,
}

/// Chains that the kernel has anyway; they carry a policy.
const BUILT_IN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

impl fmt::Display for RuleSet {
    /// `iptables-save` syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, table) in [("filter", &self.filter), ("nat", &self.nat)] {
            writeln!(f, "*{name}")?;
            let (built_in, own): (Vec<_>, Vec<_>) =
                table.chains.iter().partition(|(c, _)| BUILT_IN.contains(&c.as_str()));
            for (chain, _) in &built_in {
                writeln!(f, ":{chain} ACCEPT [0:0]")?;
            }
            for (chain, _) in &own {
                writeln!(f, ":{chain} - [0:0]")?;
            }
            for (chain, rules) in built_in.iter().chain(&own) {
                for rule in *rules {
                    writeln!(f, "-A {chain} {rule}")?;
                }
            }
            writeln!(f, "COMMIT")?;
        }
        Ok(())
    }
}
