//! Tables, chains and rules of netfilter as data, and their text.
//!
//! The text is that of `iptables-save`. `iptables.rs` makes the rules from the model.

use std::collections::BTreeMap;
use std::fmt;

/// One rule in a chain. Matches keep the order in which they were added, as in `iptables-save`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub source: Option<Address>,
    pub destination: Option<Address>,
    pub protocol: Option<String>,
    pub matches: Vec<Match>,
    /// `KUBE-MARK-MASQ`, `DNAT --to-destination 10.244.0.5:80`, …; a rule without a target only carries a comment.
    pub target: Option<String>,
}

/// A match of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    Comment(String),
    /// Options in iptables' syntax: `-m tcp --dport 80`.
    Options(String),
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

    /// True when every address matches, so that the rule needs no option for it.
    fn is_anything(&self) -> bool {
        self.network.ends_with("/0") && !self.negated
    }
}

/// Writes a host as a network: `10.0.0.1` as `10.0.0.1/32`.
fn with_prefix(address: &str) -> String {
    match address {
        network if network.contains('/') => network.to_owned(),
        v6 if v6.contains(':') => format!("{v6}/128"),
        v4 => format!("{v4}/32"),
    }
}

impl Rule {
    pub fn to(target: impl Into<String>) -> Self {
        Self { target: Some(target.into()), ..Self::default() }
    }

    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.matches.push(Match::Comment(comment.into()));
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

    /// Matches the protocol and loads the protocol's own match without options.
    pub fn protocol(mut self, protocol: &str) -> Self {
        self.protocol = Some(protocol.to_owned());
        self.matching(format!("-m {protocol}"))
    }

    /// Matches protocol and destination port.
    pub fn port(mut self, protocol: &str, port: u16) -> Self {
        self.protocol = Some(protocol.to_owned());
        self.matching(format!("-m {protocol} --dport {port}"))
    }

    pub fn matching(mut self, options: impl Into<String>) -> Self {
        self.matches.push(Match::Options(options.into()));
        self
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        for (option, address) in [("-s", &self.source), ("-d", &self.destination)] {
            if let Some(address) = address.as_ref().filter(|address| !address.is_anything()) {
                options.push(format!("{}{option} {}", if address.negated { "! " } else { "" }, address.network));
            }
        }
        options.extend(self.protocol.iter().map(|protocol| format!("-p {protocol}")));
        options.extend(self.matches.iter().map(ToString::to_string));
        options.extend(self.target.iter().map(|target| format!("-j {target}")));
        f.write_str(&options.join(" "))
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Match::Options(options) => f.write_str(options),
            Match::Comment(text) => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                match !text.is_empty() && text.chars().all(is_plain) {
                    true => write!(f, "-m comment --comment {text}"),
                    false => write!(f, "-m comment --comment \"{text}\""),
                }
            }
        }
    }
}

/// One table: chains by name. A chain without rules is still declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    /// The kernel's own chains, in the order in which a packet meets them; they have a policy.
    built_in: &'static [&'static str],
    pub chains: BTreeMap<String, Vec<Rule>>,
}

impl Table {
    fn new(name: &'static str, built_in: &'static [&'static str]) -> Self {
        Self { name, built_in, chains: BTreeMap::new() }
    }

    pub fn declare(&mut self, chain: &str) {
        self.chains.entry(chain.to_owned()).or_default();
    }

    pub fn append(&mut self, chain: &str, rule: Rule) {
        self.chains.entry(chain.to_owned()).or_default().push(rule);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "*{}", self.name)?;
        let own = || self.chains.keys().map(String::as_str).filter(|chain| !self.built_in.contains(chain));
        for chain in self.built_in {
            writeln!(f, ":{chain} ACCEPT [0:0]")?;
        }
        for chain in own() {
            writeln!(f, ":{chain} - [0:0]")?;
        }
        for chain in self.built_in.iter().copied().chain(own()) {
            for rule in self.chains.get(chain).into_iter().flatten() {
                writeln!(f, "-A {chain} {rule}")?;
            }
        }
        writeln!(f, "COMMIT")
    }
}

/// The rules of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    pub mangle: Table,
    pub filter: Table,
    pub nat: Table,
}

impl Default for RuleSet {
    fn default() -> Self {
        Self {
            mangle: Table::new("mangle", &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"]),
            filter: Table::new("filter", &["INPUT", "FORWARD", "OUTPUT"]),
            nat: Table::new("nat", &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"]),
        }
    }
}

/// Writes `iptables-save` syntax.
impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.mangle, self.filter, self.nat)
    }
}
