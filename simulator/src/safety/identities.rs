//! The rule that a StatefulSet's pods come in order, and that no two run with one identity.
//!
//! A controller decides from its cache, which is a past state of the store. In that state the pod that it creates did not
//! exist, and in an ordered set all pods of lower ordinals were ready. So there was such a moment since a pod of this
//! name last ended.
//!
//! A pod's name is its identity, so two cannot be stored at once. But the next one must not begin while containers of the
//! former one still run: a pod is deleted only when its status says that none does.

use super::fields::StatefulSet;
use super::lives::containers;
use super::{Rule, RuleViolation, WriteContext, read};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";
const STATEFUL_SETS: &str = "/registry/statefulsets/";

#[derive(Default)]
pub struct Identities {
    /// StatefulSets by UID.
    sets: BTreeMap<String, Set>,
    /// The stored pods of StatefulSets, by key.
    pods: BTreeMap<String, Member>,
}

#[derive(Default)]
struct Set {
    key: String,
    is_ordered: bool,
    start: u64,
    /// A revision with the number of pods from the lowest ordinal up that were ready from then on, for each change.
    ready: Vec<(u64, u64)>,
    /// The revision at which the pod of each ordinal was last deleted.
    ended: BTreeMap<u64, u64>,
}

struct Member {
    set: String,
    ordinal: u64,
    is_ready: bool,
    /// Name of a container that runs, by the pod's status.
    running: Option<String>,
}

impl Set {
    /// Returns true if all pods below an ordinal were ready at one moment since its pod ended.
    fn were_ready_below(&self, ordinal: u64) -> bool {
        let since = self.ended.get(&ordinal).copied().unwrap_or(0);
        let first = self.ready.partition_point(|(at, _)| *at <= since).saturating_sub(1);
        ordinal <= self.start || self.ready[first..].iter().any(|(_, ready)| *ready >= ordinal - self.start)
    }
}

impl Member {
    fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "StatefulSet")?;
        let ordinal = pod.name().rsplit_once('-')?.1.parse().ok()?;
        let status = pod.status.clone().unwrap_or_default();
        let has_ready = |condition: &proto::kinds::api::core::v1::PodCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        };
        let is_ready = status.phase.as_deref() == Some("Running")
            && !pod.is_deleting()
            && status.conditions.iter().flatten().any(has_ready);
        let runs = containers(&status).find(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()));
        Some(Self { set: owner.uid.clone(), ordinal, is_ready, running: runs.map(|it| it.name.clone()) })
    }
}

impl Identities {
    fn check_set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let Some(StatefulSet { metadata, spec }) = read(key, value)? else { return Ok(()) };
        let set = self.sets.entry(metadata.uid).or_default();
        set.key = key.to_owned();
        set.is_ordered = spec.pod_management_policy == "OrderedReady";
        set.start = spec.ordinals.start;
        Ok(())
    }

    fn check_pod(&mut self, key: &str, value: Option<&[u8]>, revision: u64) -> Result<(), RuleViolation> {
        let member = read::<Pod>(key, value)?.as_ref().and_then(Member::of);
        let before = self.pods.remove(key);
        let checked = match (&before, &member) {
            (None, Some(created)) => self.check_creation(key, created),
            (Some(deleted), None) => self.check_deletion(key, deleted, revision),
            _ => Ok(()),
        };
        let uid = before.as_ref().or(member.as_ref()).map(|member| member.set.clone());
        if let Some(member) = member {
            self.pods.insert(key.to_owned(), member);
        }
        uid.iter().for_each(|uid| self.record_ready(uid, revision));
        checked
    }

    fn check_creation(&self, key: &str, created: &Member) -> Result<(), RuleViolation> {
        let Some(set) = self.sets.get(&created.set) else { return Ok(()) };
        if !set.is_ordered || set.were_ready_below(created.ordinal) {
            return Ok(());
        }
        let what = format!("{key} was created, and the pods below it were never ready at once");
        let siblings = self.pods.iter().filter(|(_, pod)| pod.set == created.set).map(|(key, _)| key.clone());
        Err(RuleViolation::about(what, siblings.chain([set.key.clone()])))
    }

    fn check_deletion(&mut self, key: &str, deleted: &Member, revision: u64) -> Result<(), RuleViolation> {
        if let Some(set) = self.sets.get_mut(&deleted.set) {
            set.ended.insert(deleted.ordinal, revision);
        }
        match &deleted.running {
            Some(container) => {
                Err(RuleViolation::new(format!("{key} is gone, and its container {container} still runs")))
            }
            None => Ok(()),
        }
    }

    fn record_ready(&mut self, uid: &str, revision: u64) {
        let Some(set) = self.sets.get_mut(uid) else { return };
        let ready: Vec<u64> =
            self.pods.values().filter(|pod| pod.set == uid && pod.is_ready).map(|pod| pod.ordinal).collect();
        let count = (set.start..).take_while(|ordinal| ready.contains(ordinal)).count() as u64;
        if set.ready.last().is_none_or(|(_, last)| *last != count) {
            set.ready.push((revision, count));
        }
    }
}

impl Rule for Identities {
    fn prefixes(&self) -> &'static [&'static str] {
        &[STATEFUL_SETS, PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(STATEFUL_SETS) {
            self.check_set(key, value)
        } else {
            self.check_pod(key, value, context.revision)
        }
    }
}
