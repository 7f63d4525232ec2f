//! The status of DeviceTaintRules: whether pods wait for their eviction, and how many were evicted.
//!
//! Corresponds to maybeUpdateRuleStatus in pkg/controller/devicetainteviction/device_taint_eviction.go.

use super::caches::{Caches, users};
use super::eviction::{NO_EXECUTE, evicting_rules, selects};
use crate::pod_claims::devices;
use client::reconcile::Reconciler;
use client::{Action, Event, Patch, Plan, WorkQueue};
use controller_base::clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::resource::v1::ResourceSlice;
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use proto::kinds::metav1::Condition;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const EVICTION_IN_PROGRESS: &str = "EvictionInProgress";
/// Shortest time between two changes of one rule's condition.
const PERIOD: Duration = Duration::from_secs(10);
const MANAGER: &str = "device-taint-eviction-controller";

/// What is known about the status of rules.
pub struct RuleStatus {
    caches: Arc<Caches>,
    queue: WorkQueue<String>,
    /// Pods that were evicted since the start, by the uid of the rule.
    evicted: Mutex<BTreeMap<String, usize>>,
}

/// Reconciles the status of rules.
pub struct RuleReconciler(pub Arc<RuleStatus>);

#[derive(Debug)]
pub struct Observed {
    rule: Arc<DeviceTaintRule>,
    counts: Counts,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    published_devices: usize,
    allocated_devices: usize,
    /// Pods that have to leave, or would if the effect were NoExecute.
    pending_pods: usize,
    pending_namespaces: usize,
    evicted_pods: usize,
}

impl RuleStatus {
    pub fn new(caches: Arc<Caches>, queue: WorkQueue<String>) -> Self {
        Self { caches, queue, evicted: Mutex::default() }
    }

    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Notes that a rule is new, has changed or is gone.
    pub fn changed(&self, event: &Event<DeviceTaintRule>) {
        match event {
            Event::Deleted(rule) => {
                self.evicted.lock().remove(rule.uid());
            }
            Event::Added(rule) | Event::Updated { new: rule, .. } => self.queue.add(rule.key()),
        }
    }

    /// Notes that a pod has to leave because of the rule.
    pub fn pending(&self, rule: &DeviceTaintRule) {
        self.queue.add(rule.key());
    }

    /// Counts a pod that was evicted because of the rule. The caches show it a little later.
    pub fn evicted(&self, rule: &DeviceTaintRule) {
        *self.evicted.lock().entry(rule.uid().to_owned()).or_default() += 1;
        self.queue.add_after(rule.key(), PERIOD);
    }

    fn counts(&self, rule: &DeviceTaintRule) -> Counts {
        let evicted_pods = self.evicted.lock().get(rule.uid()).copied().unwrap_or_default();
        if ![NO_EXECUTE, "None"].contains(&rule.spec.taint.effect.as_str()) {
            return Counts { evicted_pods, ..Counts::default() };
        }
        let mut evicting = rule.clone();
        evicting.spec.taint.effect = NO_EXECUTE.to_owned();
        let evicting = Arc::new(evicting);
        let claims = self.caches.claims_of(rule);
        let keys: BTreeSet<String> = claims.iter().flat_map(|claim| users(claim)).collect();
        let pods = keys.iter().filter_map(|key| self.caches.pods.by_key(key)).filter(|pod| !pod.is_deleting());
        let pending: Vec<String> = pods
            .filter(|pod| {
                let observed = self.caches.observe(pod.clone(), vec![evicting.clone()]);
                evicting_rules(&observed).next().is_some()
            })
            .map(|pod| pod.namespace().to_owned())
            .collect();
        let allocated = claims.iter().flat_map(|claim| devices(claim));
        Counts {
            published_devices: published(&self.caches.slices.list(), rule),
            allocated_devices: allocated.filter(|it| selects(rule, &it.driver, &it.pool, &it.device)).count(),
            pending_pods: pending.len(),
            pending_namespaces: pending.iter().collect::<BTreeSet<_>>().len(),
            evicted_pods,
        }
    }
}

/// Returns the number of devices that a rule selects in the newest generation of each pool.
fn published(slices: &[Arc<ResourceSlice>], rule: &DeviceTaintRule) -> usize {
    let mut newest: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for slice in slices {
        let pool = &slice.spec.pool;
        let known = newest.entry((slice.spec.driver.as_str(), pool.name.as_str())).or_insert(pool.generation);
        *known = pool.generation.max(*known);
    }
    let present = slices.iter().filter(|slice| {
        newest.get(&(slice.spec.driver.as_str(), slice.spec.pool.name.as_str())) == Some(&slice.spec.pool.generation)
    });
    let devices = present.flat_map(|slice| slice.spec.devices.iter().flatten().map(move |device| (slice, device)));
    devices.filter(|(slice, device)| selects(rule, &slice.spec.driver, &slice.spec.pool.name, &device.name)).count()
}

impl Reconciler for RuleReconciler {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let rule = self.0.caches.rules.as_ref()?.by_key(key)?;
        Some(Observed { counts: self.0.counts(&rule), rule })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(&observed.rule, observed.counts, now)
    }
}

/// Plans the condition of a rule. A change of the spec is told at once, and everything else a while after the last change.
fn plan(rule: &DeviceTaintRule, counts: Counts, now: Timestamp) -> Plan {
    let status = rule.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let before = conditions.find(|condition| condition.type_ == EVICTION_IN_PROGRESS);
    if let Some(before) = before.filter(|before| before.observed_generation == rule.metadata.generation) {
        let age = clock::since(before.last_transition_time.0, now);
        if age < PERIOD {
            return Plan { requeue_after: Some((PERIOD - age).max(clock::TICK)), ..Plan::default() };
        }
    }
    let mut wanted = condition(rule, counts, now);
    if let Some(before) = before {
        wanted.last_transition_time = before.last_transition_time.clone();
        if *before == wanted {
            return Plan::default();
        }
        wanted.last_transition_time = clock::stamp(now);
    }
    let value = json!({
        "apiVersion": DeviceTaintRule::gvk().api_version(), "kind": DeviceTaintRule::KIND,
        "metadata": {"name": rule.name(), "uid": rule.uid()}, "status": {"conditions": [wanted]},
    });
    let patch = Patch::Apply { value, manager: MANAGER.to_owned(), force: true };
    Plan::of([Action::patch_status::<DeviceTaintRule>("", rule.name(), patch)])
}

fn condition(rule: &DeviceTaintRule, counts: Counts, now: Timestamp) -> Condition {
    let Counts { published_devices, allocated_devices, pending_pods, pending_namespaces, evicted_pods } = counts;
    let namespaces = counted(pending_namespaces, "namespace", "different namespaces");
    let (status, reason, mut message) = match rule.spec.taint.effect.as_str() {
        NO_EXECUTE if pending_pods > 0 => {
            let pods = counted(pending_pods, "pod needs", "pods need");
            ("True", "PodsPendingEviction", format!("{pods} to be evicted in {namespaces}."))
        }
        NO_EXECUTE if evicted_pods > 0 => ("False", "Completed", String::new()),
        NO_EXECUTE => ("False", "NotStarted", String::new()),
        "None" => {
            let published = counted(published_devices, "published device", "published devices");
            let allocated = counted(allocated_devices, "allocated device", "allocated devices");
            let pods = counted(pending_pods, "pod", "pods");
            let message = format!(
                "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} if the effect was \
                 NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
            );
            ("False", "NoEffect", message)
        }
        _ => ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.".to_owned()),
    };
    if evicted_pods > 0 {
        let separator = if message.is_empty() { "" } else { " " };
        let pods = counted(evicted_pods, "pod", "pods");
        message.push_str(&format!("{separator}{pods} evicted since starting the controller."));
    }
    Condition {
        type_: EVICTION_IN_PROGRESS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: rule.metadata.generation,
        last_transition_time: clock::stamp(now),
    }
}

/// Returns `1 pod` or `2 pods`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::{at, meta, time};

    fn rule(effect: &str) -> DeviceTaintRule {
        let mut rule = DeviceTaintRule { metadata: meta("r"), ..DeviceTaintRule::default() };
        rule.spec.taint.effect = effect.to_owned();
        rule
    }

    /// Returns status, reason and message of the condition.
    fn told(effect: &str, counts: Counts) -> String {
        let Condition { status, reason, message, .. } = condition(&rule(effect), counts, at(0));
        format!("{status} {reason} {message}")
    }

    #[test]
    fn the_condition_counts_pods_and_devices() {
        let none = Counts::default();
        let pending =
            Counts { pending_pods: 1, pending_namespaces: 1, published_devices: 4, allocated_devices: 1, ..none };
        let both = Counts { pending_pods: 3, pending_namespaces: 2, evicted_pods: 1, ..none };
        for (effect, counts, expected) in [
            ("NoExecute", none, "False NotStarted "),
            ("NoExecute", pending, "True PodsPendingEviction 1 pod needs to be evicted in 1 namespace."),
            (
                "NoExecute",
                both,
                "True PodsPendingEviction 3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting \
                 the controller.",
            ),
            (
                "NoExecute",
                Counts { evicted_pods: 2, ..none },
                "False Completed 2 pods evicted since starting the controller.",
            ),
            (
                "None",
                pending,
                "False NoEffect 4 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 \
                 namespace if the effect was NoExecute. This information will not be updated again. Recreate the \
                 DeviceTaintRule to trigger an update.",
            ),
            ("NoSchedule", none, "False OtherEffect Eviction only happens for the NoExecute effect."),
        ] {
            assert_eq!(told(effect, counts), expected, "{effect} {counts:?}");
        }
    }

    #[test]
    fn what_is_told_already_is_not_written_again() {
        let counts = Counts::default();
        let mut known = rule("NoSchedule");
        assert!(
            plan(&known, counts, at(0))
                .to_string()
                .starts_with("apply patch devicetaintrules.resource.k8s.io/status r")
        );
        let mut told = condition(&known, counts, at(0));
        told.last_transition_time = time(0);
        known.status.get_or_insert_default().conditions = Some(vec![told]);
        assert_eq!(plan(&known, counts, at(4)).to_string(), "look again after 6s\n");
        assert_eq!(plan(&known, counts, at(10)).to_string(), "");
        known.spec.taint.effect = "NoExecute".to_owned();
        assert_eq!(plan(&known, counts, at(4)).to_string(), "look again after 6s\n");
        known.metadata.generation = Some(2);
        assert!(plan(&known, counts, at(4)).to_string().contains("NotStarted"));
    }
}
