//! Compares a tally that is counted node by node with a plain count after random changes.

use super::*;
use crate::fixture::node;
use component_base::rng::Random;
use scheduling_framework::cache::Cache;
use serde_json::json;

const NODES: usize = 8;
const KEYS: [&str; 2] = ["zone", "rack"];
const GROUPS: [u8; 2] = [0, 1];

/// What one node contributes: the group, the place of the key, and the amount.
type Amounts = Vec<(u8, usize, i64)>;

struct World {
    random: Random,
    cache: Cache,
    snapshot: Snapshot,
    amounts: Vec<Amounts>,
    tally: DomainTally<u8>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (random, tally) = (Random::from_seed(seed, "tally"), DomainTally::new(NODES));
        let (cache, snapshot) = (Cache::default(), Snapshot::default());
        let mut world = Self { random, cache, snapshot, amounts: vec![Vec::new(); NODES], tally };
        (0..NODES).for_each(|number| world.set_node(number));
        world.cache.update(&mut world.snapshot);
        world
    }

    /// Gives a node other racks, or none. Its zone stays, because the order of nodes depends on it.
    fn set_node(&mut self, number: usize) {
        let rack = [json!("r1"), json!("r2"), json!(null)][self.random.below(3)].clone();
        let zone = ["a", "b"][number % 2];
        self.cache.set_node(node(&format!("n{number}"), zone, json!({"metadata": {"labels": {"rack": rack}}})));
    }

    fn change(&mut self) {
        let number = self.random.below(NODES);
        if self.random.below(3) == 0 {
            self.set_node(number);
            self.cache.update(&mut self.snapshot);
            self.tally.follow(&self.snapshot);
        }
        let at = self.snapshot.index_of(&format!("n{number}")).unwrap();
        let one = |random: &Random| (GROUPS[random.below(2)], random.below(2), random.below(4) as i64 - 1);
        self.amounts[at] = (0..self.random.below(4)).map(|_| one(&self.random)).collect();
        let amounts: Vec<(u8, &str, i64)> = self.amounts[at].iter().map(|(g, key, n)| (*g, KEYS[*key], *n)).collect();
        self.tally.recount(&self.snapshot, at, amounts.into_iter());
    }

    /// Returns the sum of every domain of a group and key to which a node contributes.
    fn counted(&self, group: u8, key: usize) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        for (info, amounts) in self.snapshot.nodes().iter().zip(&self.amounts) {
            for (.., amount) in amounts.iter().filter(|(g, k, _)| (*g, *k) == (group, key)) {
                if let Some(value) = info.label(KEYS[key]) {
                    *sums.entry(value.to_owned()).or_insert(0) += amount;
                }
            }
        }
        sums
    }

    fn check(&self) {
        for (group, key) in GROUPS.into_iter().flat_map(|group| [(group, 0), (group, 1)]) {
            let mut simulated = Simulated::default();
            let mut sums = self.counted(group, key);
            self.check_sums(group, key, &sums, &simulated);
            let info = &self.snapshot.nodes()[self.random.below(NODES)];
            simulated.add(group, KEYS[key], info, -1);
            if let Some(value) = info.label(KEYS[key]) {
                *sums.entry(value.to_owned()).or_insert(0) -= 1;
            }
            self.check_sums(group, key, &sums, &simulated);
        }
        for group in GROUPS {
            let all_zero = (0..2).all(|key| self.counted(group, key).values().all(|sum| *sum == 0));
            assert_eq!(self.tally.is_zero(group, &Simulated::default()), all_zero);
        }
        let is_empty = GROUPS.into_iter().all(|g| (0..2).all(|key| self.counted(g, key).is_empty()));
        assert_eq!(self.tally.is_empty(), is_empty);
    }

    fn check_sums(&self, group: u8, key: usize, sums: &BTreeMap<String, i64>, simulated: &Simulated<u8>) {
        let least = (sums.len(), sums.values().copied().min());
        assert_eq!(self.tally.least(group, KEYS[key], simulated), least);
        for (at, info) in self.snapshot.nodes().iter().enumerate() {
            let expected = info.label(KEYS[key]).and_then(|value| sums.get(value)).copied().unwrap_or(0);
            assert_eq!(self.tally.sum_of(group, KEYS[key], info, simulated), expected);
            if simulated.is_empty() {
                for limit in -1..2 {
                    let sums = self.tally.get(group, KEYS[key]);
                    let above = Above::new(self.snapshot.topology(KEYS[key]), sums, limit);
                    let is_above = info.label(KEYS[key]).is_some() && expected > limit;
                    assert_eq!(above.of(0, node_set::bit(at)) != 0, is_above);
                }
                assert_eq!(self.tally.get(group, KEYS[key]).map_or(0, |sums| sums.of_node(at)), expected);
            }
        }
    }
}

#[test]
fn a_tally_equals_a_count_of_all_nodes() {
    for seed in 0..20 {
        let mut world = World::new(seed);
        for _ in 0..30 {
            world.change();
            world.check();
        }
    }
}
