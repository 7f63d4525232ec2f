//! `DomainTally`, sums over the nodes of each topology domain.
//!
//! A node contributes an amount to a group of sums for a topology key, and the amount counts for the node's domain. The
//! tally remembers what each node has contributed, so that one node can be counted again without the others. Invariant: it
//! equals a tally that is counted from all nodes.

use scheduling_framework::cache::{NodeInfo, Snapshot, Topology, node_set};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct DomainTally<G> {
    sums: Vec<DomainSums<G>>,
    /// What nodes of the snapshot have contributed.
    contributions: Vec<Contributions>,
    /// Place of each node's contributions, plus one; zero for a node that has contributed nothing so far. Zeros take no
    /// memory before they are written.
    places: Vec<u32>,
}

/// Most nodes contribute to one sum, and need no memory of their own.
type Contributions = SmallVec<[Contribution; 1]>;

#[derive(Clone, Copy, Debug)]
struct Contribution {
    /// Index of the sums.
    sums: u32,
    domain: u32,
    amount: i64,
}

/// The sums of one group by domain of one topology key.
#[derive(Clone, Debug)]
pub struct DomainSums<G> {
    pub group: G,
    pub topology_key: String,
    topology: Arc<Topology>,
    by_domain: Vec<i64>,
    /// Number of nodes that contribute to each domain, be it zero. A domain without any is not counted.
    nodes: Vec<u32>,
    /// Number of counted domains with each sum, so that the least one is found at once.
    domains_by_sum: BTreeMap<i64, usize>,
    counted_domains: usize,
}

/// Amounts that a simulation adds to a tally: the group, the key, the value of the label, and the amount.
#[derive(Clone, Debug)]
pub struct Simulated<G>(Vec<(G, String, String, i64)>);

impl<G> Default for Simulated<G> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<G: PartialEq + Copy> Simulated<G> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an amount to the domain of the node, if it has one.
    pub fn add(&mut self, group: G, topology_key: &str, node: &NodeInfo, amount: i64) {
        let Some(value) = node.label(topology_key) else { return };
        let same = |(g, key, v, _): &&mut (G, String, String, i64)| *g == group && key == topology_key && v == value;
        match self.0.iter_mut().find(same) {
            Some((.., sum)) => *sum += amount,
            None => self.0.push((group, topology_key.to_owned(), value.to_owned(), amount)),
        }
    }

    /// Returns the values of the label with their amounts.
    fn of<'a>(&'a self, group: G, topology_key: &'a str) -> impl Iterator<Item = (&'a str, i64)> {
        let of_sums = self.0.iter().filter(move |(g, key, ..)| *g == group && key == topology_key);
        of_sums.map(|(_, _, value, amount)| (value.as_str(), *amount))
    }

    /// Returns the keys of a group.
    pub fn keys(&self, group: G) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(g, ..)| *g == group).map(|(_, key, ..)| key.as_str())
    }
}

impl<G: PartialEq + Copy> DomainTally<G> {
    pub fn new(nodes: usize) -> Self {
        Self { sums: Vec::new(), contributions: Vec::new(), places: vec![0; nodes] }
    }

    /// Takes over the domains of a new state of the snapshot.
    pub fn follow(&mut self, snapshot: &Snapshot) {
        for sums in &mut self.sums {
            sums.topology = snapshot.topology(&sums.topology_key);
        }
    }

    /// Replaces what a node contributes, after `follow`. Amounts for one group and key add up.
    pub fn recount<'k>(&mut self, snapshot: &Snapshot, node: usize, amounts: impl Iterator<Item = (G, &'k str, i64)>) {
        let place = (self.places[node] as usize).checked_sub(1);
        for old in place.map(|place| std::mem::take(&mut self.contributions[place])).unwrap_or_default() {
            self.sums[old.sums as usize].subtract(old.domain as usize, old.amount);
        }
        let mut new = Contributions::new();
        for (group, topology_key, amount) in amounts {
            let at = self.find_or_add(group, topology_key, snapshot);
            match new.iter_mut().find(|contribution| contribution.sums == at) {
                Some(contribution) => contribution.amount += amount,
                None => {
                    let domain = self.sums[at as usize].topology.domain_of(node);
                    new.extend(domain.map(|domain| Contribution { sums: at, domain: domain as u32, amount }));
                }
            }
        }
        for contribution in &new {
            self.sums[contribution.sums as usize].add(contribution.domain as usize, contribution.amount);
        }
        match place {
            Some(place) => self.contributions[place] = new,
            None if new.is_empty() => {}
            None => {
                self.contributions.push(new);
                self.places[node] = self.contributions.len() as u32;
            }
        }
    }

    fn find_or_add(&mut self, group: G, topology_key: &str, snapshot: &Snapshot) -> u32 {
        let is_wanted = |sums: &DomainSums<G>| sums.group == group && sums.topology_key == topology_key;
        let at = self.sums.iter().position(is_wanted).unwrap_or_else(|| {
            self.sums.push(DomainSums {
                group,
                topology_key: topology_key.to_owned(),
                topology: snapshot.topology(topology_key),
                by_domain: Vec::new(),
                nodes: Vec::new(),
                domains_by_sum: BTreeMap::new(),
                counted_domains: 0,
            });
            self.sums.len() - 1
        });
        at as u32
    }

    /// Returns the sums of a group by topology key; keys to which no node contributes may be missing.
    pub fn group(&self, group: G) -> impl Iterator<Item = &DomainSums<G>> {
        self.sums.iter().filter(move |sums| sums.group == group)
    }

    pub fn get(&self, group: G, topology_key: &str) -> Option<&DomainSums<G>> {
        self.group(group).find(|sums| sums.topology_key == topology_key)
    }

    /// Returns true if no node contributes anything, not even zero.
    pub fn is_empty(&self) -> bool {
        self.sums.iter().all(|sums| sums.counted_domains == 0)
    }

    /// Returns the sum of the node's domain, with what is simulated.
    pub fn sum_of(&self, group: G, topology_key: &str, node: &NodeInfo, simulated: &Simulated<G>) -> i64 {
        let Some(value) = node.label(topology_key) else { return 0 };
        let added: i64 = simulated.of(group, topology_key).filter(|(v, _)| *v == value).map(|(_, amount)| amount).sum();
        self.get(group, topology_key).map_or(0, |sums| sums.of_value(value)) + added
    }

    /// Returns true if all sums of a group are zero, with what is simulated.
    pub fn is_zero(&self, group: G, simulated: &Simulated<G>) -> bool {
        let remaining = |sums: &DomainSums<G>| {
            let changed = simulated.of(group, &sums.topology_key).filter(|(value, _)| sums.of_value(value) != 0);
            sums.nonzero() - changed.count()
        };
        self.group(group).all(|sums| remaining(sums) == 0)
            && simulated.0.iter().filter(|(g, ..)| *g == group).all(|(_, key, value, amount)| {
                self.get(group, key).map_or(0, |sums| sums.of_value(value)) + amount == 0
            })
    }

    /// Returns the sums of a group, each with its number for `of_others`.
    pub fn numbered(&self, group: G) -> impl Iterator<Item = (usize, &DomainSums<G>)> {
        self.sums.iter().enumerate().filter(move |(_, sums)| sums.group == group)
    }

    /// Returns what a node contributes to sums.
    pub fn of_itself(&self, sums: usize, node: usize) -> i64 {
        let Some(place) = (self.places[node] as usize).checked_sub(1) else { return 0 };
        let of_sums = |one: &&Contribution| one.sums as usize == sums;
        self.contributions[place].iter().find(of_sums).map_or(0, |one| one.amount)
    }

    /// Returns what the other nodes of the node's domain contribute to sums.
    pub fn of_others(&self, sums: usize, node: usize) -> i64 {
        self.sums[sums].of_node(node) - self.of_itself(sums, node)
    }

    /// Returns the number of counted domains and the least of their sums, with what is simulated.
    pub fn least(&self, group: G, topology_key: &str, simulated: &Simulated<G>) -> (usize, Option<i64>) {
        let sums = self.get(group, topology_key);
        let mut least_of_changed: Option<i64> = None;
        let (mut added, mut changed) = (0, Vec::new());
        for (value, amount) in simulated.of(group, topology_key) {
            let counted = sums.and_then(|sums| sums.counted(value));
            match counted {
                Some(sum) => changed.push(sum),
                None => added += 1,
            }
            let sum = counted.unwrap_or(0) + amount;
            least_of_changed = Some(least_of_changed.map_or(sum, |least| least.min(sum)));
        }
        let Some(sums) = sums else { return (added, least_of_changed) };
        let is_left = |(sum, domains): &(&i64, &usize)| **domains > changed.iter().filter(|one| one == sum).count();
        let least = sums.domains_by_sum.iter().find(is_left).map(|(sum, _)| *sum);
        (sums.counted_domains + added, least.into_iter().chain(least_of_changed).min())
    }
}

/// The nodes whose domain has a sum above a limit, as a set of which only the words that are read are made.
pub struct Above<'a, G> {
    topology: Arc<Topology>,
    sums: Option<&'a DomainSums<G>>,
    limit: i64,
    /// The domains with such a sum; `None` if there are many domains.
    domains: Option<Vec<usize>>,
}

impl<'a, G> Above<'a, G> {
    /// Without sums, that of each domain is zero.
    pub fn new(topology: Arc<Topology>, sums: Option<&'a DomainSums<G>>, limit: i64) -> Self {
        let mut above = Self { topology, sums, limit, domains: None };
        let all = above.topology.members().map(|members| 0..members.len());
        above.domains = all.map(|all| all.filter(|domain| above.is_above(*domain)).collect());
        above
    }

    fn is_above(&self, domain: usize) -> bool {
        self.sums.map_or(0, |sums| sums.of_domain(domain)) > self.limit
    }

    /// Returns those of the `nodes` of a word that are in a domain.
    pub fn labelled(&self, word: usize, nodes: u64) -> u64 {
        nodes & self.topology.labelled().word(word)
    }

    /// Returns those of the `nodes` of a word that are in a domain with such a sum.
    pub fn of(&self, word: usize, nodes: u64) -> u64 {
        if let (Some(domains), Some(members)) = (&self.domains, self.topology.members()) {
            return domains.iter().fold(0, |above, domain| above | members[*domain].word(word)) & nodes;
        }
        let is_above = |node: &usize| self.topology.domain_of(*node).is_some_and(|domain| self.is_above(domain));
        let above = node_set::numbers(word, self.labelled(word, nodes)).filter(is_above);
        above.fold(0, |above, node| above | node_set::bit(node))
    }
}

impl<G> DomainSums<G> {
    /// Returns the sum of the domain of a node of the snapshot.
    pub fn of_node(&self, node: usize) -> i64 {
        self.topology.domain_of(node).map_or(0, |domain| self.of_domain(domain))
    }

    /// Adds the sum of the domain of each node to its score.
    pub fn add_to(&self, scores: &mut [i64], nodes: &[usize]) {
        let domains = self.topology.of_nodes();
        for (score, node) in scores.iter_mut().zip(nodes) {
            *score += domains.get(*node).map_or(0, |domain| self.of_domain(*domain as usize));
        }
    }

    pub fn of_domain(&self, domain: usize) -> i64 {
        self.by_domain.get(domain).copied().unwrap_or(0)
    }

    fn of_value(&self, value: &str) -> i64 {
        self.topology.domain(value).map_or(0, |domain| self.of_domain(domain))
    }

    /// Returns the sum of a domain that is counted.
    fn counted(&self, value: &str) -> Option<i64> {
        let domain = self.topology.domain(value)?;
        (*self.nodes.get(domain)? > 0).then(|| self.of_domain(domain))
    }

    pub fn counted_domains(&self) -> usize {
        self.counted_domains
    }

    /// Returns the least sum of the counted domains other than that of the node.
    pub fn least_elsewhere(&self, node: usize) -> Option<i64> {
        let own =
            self.topology.domain_of(node).filter(|domain| self.nodes.get(*domain).is_some_and(|nodes| *nodes > 0));
        let own = own.map(|domain| self.of_domain(domain));
        let is_left = |(sum, domains): &(&i64, &usize)| **domains > usize::from(own == Some(**sum));
        self.domains_by_sum.iter().find(is_left).map(|(sum, _)| *sum)
    }

    /// Returns true if the sum of a domain other than that of the node is not zero.
    pub fn is_nonzero_elsewhere(&self, node: usize) -> bool {
        self.nonzero() > usize::from(self.of_node(node) != 0)
    }

    fn nonzero(&self) -> usize {
        self.counted_domains - self.domains_by_sum.get(&0).copied().unwrap_or(0)
    }

    fn add(&mut self, domain: usize, amount: i64) {
        if self.by_domain.len() <= domain {
            let domains = self.topology.domains().max(domain + 1);
            self.by_domain.resize(domains, 0);
            self.nodes.resize(domains, 0);
        }
        self.uncount(domain);
        self.by_domain[domain] += amount;
        self.nodes[domain] += 1;
        self.count(domain);
    }

    fn subtract(&mut self, domain: usize, amount: i64) {
        self.uncount(domain);
        self.by_domain[domain] -= amount;
        self.nodes[domain] -= 1;
        self.count(domain);
    }

    fn count(&mut self, domain: usize) {
        if self.nodes[domain] > 0 {
            *self.domains_by_sum.entry(self.by_domain[domain]).or_insert(0) += 1;
            self.counted_domains += 1;
        }
    }

    fn uncount(&mut self, domain: usize) {
        if self.nodes[domain] == 0 {
            return;
        }
        let sum = self.by_domain[domain];
        if let Some(domains) = self.domains_by_sum.get_mut(&sum) {
            *domains -= 1;
            if *domains == 0 {
                self.domains_by_sum.remove(&sum);
            }
        }
        self.counted_domains -= 1;
    }
}

#[cfg(test)]
mod tests;
