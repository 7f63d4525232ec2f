//! `EvictionManager`: the pressure that a node is under, and the pod that goes next.
//!
//! Corresponds to managerImpl.synchronize in pkg/kubelet/eviction/eviction_manager.go.

use crate::config::Settings;
use crate::eviction::load::PodLoad;
use crate::eviction::local_storage::limit_exceeded;
use crate::eviction::message;
use crate::eviction::rank::rank;
use crate::eviction::signal::{Observations, Pressure, Resource};
use crate::eviction::threshold::{Flags, Threshold};
use component_base::options::OptionsError;
use component_helpers::scheduling::tolerations::untolerated;
use pod_life::admission::Rejection;
use pod_life::critical::is_critical;
use pod_life::qos::{QosClass, qos_class};
use proto::kinds::api::core::v1::{Pod, Taint};
use proto::meta::node_taints;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The reason of an evicted pod.
pub const EVICTED: &str = "Evicted";
/// The grace period of a pod that a hard threshold evicts.
const IMMEDIATE_GRACE: Duration = Duration::from_secs(1);

/// The settings of a node's evictions.
#[derive(Clone, Debug)]
pub struct EvictionSettings {
    pub thresholds: Vec<Threshold>,
    /// How long a pressure is reported after it was last observed.
    pub transition_period: Duration,
    /// The longest grace period of pods that a soft threshold evicts.
    pub max_pod_grace: Duration,
}

/// What a node remembers of its pressures.
#[derive(Clone, Debug, Default)]
pub struct EvictionManager {
    /// By the threshold's place in the settings: since when it has been met.
    first_met: BTreeMap<usize, Instant>,
    last_observed: BTreeMap<Pressure, Instant>,
    /// The thresholds that have been met for their grace period, and are not resolved.
    met: BTreeSet<usize>,
    pressures: BTreeSet<Pressure>,
}

/// A pod that is evicted.
#[derive(Clone, Debug)]
pub struct Eviction {
    pub pod: Arc<Pod>,
    pub message: String,
    pub grace: Duration,
    /// True when the node lacks a resource; false when the pod exceeds its own limit.
    pub is_disruption: bool,
}

/// What a node does about its pressures.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The resource that the node begins to reclaim.
    pub reclaims: Option<Resource>,
    pub evictions: Vec<Eviction>,
}

impl EvictionSettings {
    /// Reads the flags. The error names what contradicts.
    pub fn of(settings: &Settings) -> Result<Self, OptionsError> {
        let flags = Flags {
            hard: &settings.eviction_hard,
            soft: &settings.eviction_soft,
            soft_grace_period: &settings.eviction_soft_grace_period,
            minimum_reclaim: &settings.eviction_minimum_reclaim,
        };
        let invalid = |message| OptionsError::Invalid { flag: "eviction-soft", message };
        Ok(Self {
            thresholds: flags.thresholds().map_err(invalid)?,
            transition_period: settings.eviction_pressure_transition_period,
            max_pod_grace: Duration::from_secs(settings.eviction_max_pod_grace_period.into()),
        })
    }
}

impl EvictionManager {
    pub fn pressures(&self) -> &BTreeSet<Pressure> {
        &self.pressures
    }

    /// Refuses pods that would make a pressure worse: best-effort pods while memory is low, and all while disk or
    /// processes are.
    pub fn admit(&self, pod: &Pod) -> Result<(), Rejection> {
        if self.pressures.is_empty() || is_critical(pod) {
            return Ok(());
        }
        let spec = pod.spec.as_ref();
        if self.pressures == BTreeSet::from([Pressure::Memory]) {
            let is_best_effort = qos_class(pod) == QosClass::BestEffort;
            let taint = Taint {
                key: node_taints::MEMORY_PRESSURE.to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
            if !is_best_effort || untolerated(tolerations, [&taint]).is_none() {
                return Ok(());
            }
        }
        let pressures: Vec<String> = self.pressures.iter().map(ToString::to_string).collect();
        let message = format!("The node had condition: [{}]. ", pressures.join(" "));
        Err(Rejection { reason: EVICTED.to_owned(), message })
    }

    /// True while nothing was observed that later rounds depend on.
    pub fn is_idle(&self) -> bool {
        self.first_met.is_empty() && self.pressures.is_empty()
    }

    /// Takes a round. `pods` are those that run; while one of them still ends (`is_ending`), no other one is evicted.
    /// `reclaim` frees what the node can do without, and returns what it observes afterwards.
    pub fn synchronize(
        &mut self,
        settings: &EvictionSettings,
        observations: &Observations,
        mut pods: Vec<PodLoad>,
        is_ending: bool,
        now: Instant,
        reclaim: &mut dyn FnMut(Resource) -> Observations,
    ) -> Decision {
        let met = self.update(settings, observations, now);
        let evict_at_once = |load: &PodLoad| {
            let message = limit_exceeded(load).filter(|_| !is_critical(&load.pod))?;
            Some(Eviction { pod: load.pod.clone(), message, grace: IMMEDIATE_GRACE, is_disruption: false })
        };
        let beyond_limits: Vec<Eviction> = pods.iter().filter_map(evict_at_once).collect();
        if !beyond_limits.is_empty() {
            return Decision { reclaims: None, evictions: beyond_limits };
        }
        let Some(first) = met.first().filter(|_| !is_ending) else { return Decision::default() };
        let resource = first.signal.resource();
        let mut decision = Decision { reclaims: Some(resource), evictions: Vec::new() };
        let grace_of = |pod: &Pod| match first.grace.is_zero() {
            true => IMMEDIATE_GRACE,
            false => own_grace(pod).min(settings.max_pod_grace),
        };
        if resource == Resource::Disk {
            let observations = reclaim(resource);
            let is_met = |threshold: &&Threshold| {
                observations.get(&threshold.signal).is_some_and(|&observed| threshold.is_met(observed, true))
            };
            if !settings.thresholds.iter().any(|threshold| is_met(&threshold)) {
                return decision;
            }
        }
        rank(&mut pods, resource);
        decision.evictions.extend(pods.into_iter().find(|load| !is_critical(&load.pod)).map(|load| Eviction {
            message: message::of_pressure(resource, &load, &met, observations),
            grace: grace_of(&load.pod),
            pod: load.pod,
            is_disruption: true,
        }));
        decision
    }

    /// Updates the pressures; returns the thresholds that have been met for their grace period, memory first.
    fn update(&mut self, settings: &EvictionSettings, observations: &Observations, now: Instant) -> Vec<Threshold> {
        let is_met = |(at, threshold): &(usize, &Threshold)| {
            let with_reclaim = self.met.contains(at);
            observations.get(&threshold.signal).is_some_and(|&observed| threshold.is_met(observed, with_reclaim))
        };
        let met: Vec<(usize, &Threshold)> = settings.thresholds.iter().enumerate().filter(is_met).collect();
        self.first_met = met.iter().map(|(at, _)| (*at, self.first_met.get(at).copied().unwrap_or(now))).collect();
        for (_, threshold) in &met {
            self.last_observed.insert(threshold.signal.pressure(), now);
        }
        self.last_observed.retain(|_, at| now.duration_since(*at) < settings.transition_period);
        self.pressures = self.last_observed.keys().copied().collect();
        self.pressures.extend(met.iter().map(|(_, threshold)| threshold.signal.pressure()));
        let lasted = |(at, threshold): &(usize, &Threshold)| now.duration_since(self.first_met[at]) >= threshold.grace;
        let in_force: Vec<(usize, &Threshold)> = met.into_iter().filter(lasted).collect();
        self.met = in_force.iter().map(|(at, _)| *at).collect();
        in_force.into_iter().map(|(_, threshold)| threshold.clone()).collect()
    }
}

fn own_grace(pod: &Pod) -> Duration {
    let grace_s = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(grace_s.and_then(|s| u64::try_from(s).ok()).unwrap_or(0))
}
