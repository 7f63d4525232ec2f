//! A model of the binder: random claims, volumes and deletions, rounds in any order over caches that lag.
//!
//! Whatever happens, a volume that was retained keeps its reference, no two claims are bound to one volume, and in the end
//! no claim is left that a free volume fits.

use super::{claim_plan, volume_plan};
use crate::volume::fixture::{claim, in_phase, volume};
use crate::volume::{claims, volumes};
use client::{Action, Plan};
use component_base::rng::Random;
use component_helpers::volumes::matching;
use controller_base::fixture::annotate;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const SEEDS: u64 = 80;
const STEPS: usize = 250;
const NAMES: usize = 5;

#[derive(Clone, Default)]
struct Objects {
    claims: BTreeMap<String, PersistentVolumeClaim>,
    volumes: BTreeMap<String, PersistentVolume>,
}

struct Model {
    random: Random,
    server: Objects,
    /// What the binder sees: an earlier state of the server, kind by kind.
    cache: Objects,
    version: u64,
    /// The first claim of each retained volume.
    owners: BTreeMap<String, String>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let random = Random::from_seed(seed, "binder");
        Self { random, server: Objects::default(), cache: Objects::default(), version: 0, owners: BTreeMap::new() }
    }

    fn stamp<K: Kind>(&mut self, object: &mut K) {
        self.version += 1;
        object.metadata_mut().resource_version = Some(self.version.to_string());
    }

    /// A user creates and deletes claims and volumes.
    fn user(&mut self) {
        let name = format!("{}", self.random.below(NAMES));
        match self.random.below(6) {
            0 | 1 => {
                let mut new = claim(&format!("c{name}"), Some(["", "gold"][self.random.below(2)]));
                new.metadata.uid = Some(format!("uid-{}", self.version));
                if self.random.below(4) == 0 {
                    new.spec.get_or_insert_default().volume_name = Some(format!("v{}", self.random.below(NAMES)));
                }
                self.stamp(&mut new);
                self.server.claims.entry(new.key()).or_insert(new);
            }
            2 | 3 => {
                let sizes = ["512Mi", "1Gi", "5Gi"];
                let class = ["", "gold"][self.random.below(2)];
                let mut new = in_phase(volume(&format!("v{name}"), sizes[self.random.below(3)], class), "Pending");
                new.metadata.uid = Some(format!("uid-{}", self.version));
                if self.random.below(4) == 0 {
                    new = crate::volume::fixture::refer(new, &format!("c{}", self.random.below(NAMES)), "");
                }
                self.stamp(&mut new);
                self.server.volumes.entry(new.key()).or_insert(new);
            }
            4 => drop(self.server.claims.remove(&format!("default/c{name}"))),
            _ => {
                let volume = format!("v{name}");
                self.server.volumes.remove(&volume);
                self.owners.remove(&volume);
            }
        }
    }

    /// Brings one object, or one kind, of the cache up to date.
    fn deliver(&mut self) {
        if self.random.below(2) == 0 {
            self.cache.claims.clone_from(&self.server.claims);
        } else {
            self.cache.volumes.clone_from(&self.server.volumes);
        }
    }

    fn claim_round(&self, key: &str) -> Option<Plan> {
        let claim = Arc::new(self.cache.claims.get(key)?.clone());
        let name = claims::volume_name(&claim);
        // The server is asked for a volume that the cache lacks.
        let named = self.cache.volumes.get(name).or_else(|| self.server.volumes.get(name));
        let observed = claim_plan::Observed {
            named: named.cloned().map(Arc::new),
            candidates: self.cache.volumes.values().cloned().map(Arc::new).collect(),
            class: None,
            default_class: None,
            unscheduled_pods: Vec::new(),
            enable_dynamic_provisioning: false,
            claim,
        };
        Some(claim_plan::plan(&observed))
    }

    fn volume_round(&self, key: &str) -> Option<Plan> {
        let volume = Arc::new(self.cache.volumes.get(key)?.clone());
        let of = |objects: &Objects| {
            let claim = volumes::claim_key(&volume).and_then(|key| objects.claims.get(&key).cloned());
            claim.filter(|claim| claim.uid() == volumes::claim_uid(&volume)).map(Arc::new)
        };
        let mut observed = volume_plan::Observed { claim: of(&self.cache), volume: volume.clone() };
        if observed.is_about_to_be_released() {
            observed.claim = of(&self.server);
        }
        Some(volume_plan::plan(&observed))
    }

    /// Carries a plan out until an action is refused, because its object is gone or has changed. The plan may also be cut off.
    fn apply(&mut self, plan: &Plan) -> bool {
        let mut has_written = false;
        for action in &plan.actions {
            if self.random.below(20) == 0 {
                return has_written;
            }
            let written = match action {
                Action::Update { gvr, object, .. } if *gvr == PersistentVolume::gvr() => self.put_volume(object, false),
                Action::UpdateStatus { gvr, object, .. } if *gvr == PersistentVolume::gvr() => {
                    self.put_volume(object, true)
                }
                Action::Update { object, .. } => self.put_claim(object, false),
                Action::UpdateStatus { object, .. } => self.put_claim(object, true),
                _ => continue,
            };
            if !written {
                return has_written;
            }
            has_written = true;
        }
        has_written
    }

    fn put_volume(&mut self, object: &Value, is_status: bool) -> bool {
        let new = PersistentVolume::decode_value(object.clone()).unwrap();
        let Some(old) = self.server.volumes.get(new.name()) else { return false };
        if old.resource_version() != new.resource_version() || old.uid() != new.uid() {
            return false;
        }
        let (status, rest) = if is_status { (&new, old) } else { (old, &new) };
        let mut merged = PersistentVolume { status: status.status.clone(), ..rest.clone() };
        self.stamp(&mut merged);
        let (name, uid) = (merged.name().to_owned(), volumes::claim_uid(&merged).to_owned());
        match self.owners.get(&name) {
            // A reference may be taken back only from a claim that has another volume.
            Some(owner) if *owner != uid => {
                let claim = self.server.claims.values().find(|claim| claim.uid() == owner);
                let claim = claim.unwrap_or_else(|| panic!("{name} of the former {owner} was given to {uid:?}"));
                assert_ne!(claims::volume_name(claim), name, "{name} was taken from {owner}");
                self.owners.remove(&name);
            }
            _ => {}
        }
        if !uid.is_empty() {
            self.owners.insert(name.clone(), uid);
        }
        self.server.volumes.insert(name, merged);
        true
    }

    fn put_claim(&mut self, object: &Value, is_status: bool) -> bool {
        let new = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
        let Some(old) = self.server.claims.get(&new.key()) else { return false };
        if old.resource_version() != new.resource_version() || old.uid() != new.uid() {
            return false;
        }
        let (status, rest) = if is_status { (&new, old) } else { (old, &new) };
        let mut merged = PersistentVolumeClaim { status: status.status.clone(), ..rest.clone() };
        self.stamp(&mut merged);
        self.server.claims.insert(merged.key(), merged);
        self.check();
        true
    }

    /// Every claim in phase Bound has a volume that refers to it, and no two claims have one volume.
    fn check(&self) {
        let mut bound: BTreeMap<&str, &str> = BTreeMap::new();
        for claim in self.server.claims.values().filter(|claim| claims::phase(claim) == "Bound") {
            let name = claims::volume_name(claim);
            if let Some(volume) = self.server.volumes.get(name)
                && volumes::claim_uid(volume) == claim.uid()
            {
                assert_eq!(bound.insert(name, claim.name()), None, "{name} has two claims");
            }
        }
    }

    /// Runs a round of every claim and volume with a fresh cache; returns true if one wrote.
    fn rounds(&mut self) -> bool {
        let mut has_written = false;
        for key in self.server.claims.keys().cloned().collect::<Vec<_>>() {
            self.cache = self.server.clone();
            has_written |= self.claim_round(&key).is_some_and(|plan| self.apply(&plan));
        }
        for key in self.server.volumes.keys().cloned().collect::<Vec<_>>() {
            self.cache = self.server.clone();
            has_written |= self.volume_round(&key).is_some_and(|plan| self.apply(&plan));
        }
        has_written
    }
}

#[test]
fn claims_and_volumes_stay_one_to_one_and_nothing_that_fits_is_left() {
    for seed in 0..SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            match model.random.below(8) {
                0 => model.user(),
                1 => model.deliver(),
                number => {
                    let key = model.random.below(NAMES);
                    let plan = match number % 2 {
                        0 => model.claim_round(&format!("default/c{key}")),
                        _ => model.volume_round(&format!("v{key}")),
                    };
                    plan.map(|plan| model.apply(&plan));
                }
            }
        }
        let mut rounds = 0;
        let mut quiet = 0;
        // A plan that is cut off leaves the rest to a later round, so several quiet rounds have to follow each other.
        while quiet < 20 {
            quiet = if model.rounds() { 0 } else { quiet + 1 };
            rounds += 1;
            assert!(rounds < 500, "seed {seed} does not come to rest");
        }
        let left = model.server.claims.values().filter(|claim| claims::phase(claim) == "Pending");
        for claim in left.filter(|claim| claims::volume_name(claim).is_empty()) {
            let fitting = model.server.volumes.values().find(|volume| matching::is_free_for(volume, claim));
            assert_eq!(fitting.map(|volume| volume.name()), None, "seed {seed}: {} is pending", claim.key());
        }
    }
}

/// The model notices a binder that gives a retained volume away.
#[test]
#[should_panic(expected = "was given to")]
fn the_model_notices_a_retained_volume_that_is_given_away() {
    let mut model = Model::new(0);
    let mut first = volume("v0", "1Gi", "");
    model.stamp(&mut first);
    model.server.volumes.insert("v0".to_owned(), first.clone());
    for uid in ["uid-first", "uid-second"] {
        let mut owner = claim("c0", Some(""));
        owner.metadata.uid = Some(uid.to_owned());
        annotate(&mut owner, &[]);
        model.server.claims = BTreeMap::from([(owner.key(), owner.clone())]);
        let mut bound = model.server.volumes["v0"].clone();
        bound.spec.get_or_insert_default().claim_ref = Some(component_helpers::volumes::binding::reference(&owner));
        model.put_volume(&bound.encode(), false);
    }
}
