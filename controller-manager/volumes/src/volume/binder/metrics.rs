//! How many volumes and claims there are, bound and not, counted from the caches at each scrape; and how long claims wait for
//! a provisioner.
//!
//! Corresponds to pkg/controller/volume/persistentvolume/metrics and pkg/volume/util/metrics.go.

use super::observe::Listers;
use crate::volume::claims;
use component_base::env::Env;
use component_base::metrics::{Gauges, Histograms, Labels};
use component_helpers::volumes::annotations::{STORAGE_PROVISIONER, annotation};
use controller_base::clock;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolumeClaim;
use std::collections::BTreeMap;

/// Bounds of the durations of storage operations.
const SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

type Counts = BTreeMap<Labels, i64>;

/// Registers the families. They are counted for as long as the environment runs.
pub fn register(env: &Env, listers: &Listers) {
    let family = |name, help: &str| env.metrics().gauges(name, help);
    let bound_volumes =
        family("pv_collector_bound_pv_count", "Gauge measuring number of persistent volume currently bound");
    let unbound_volumes =
        family("pv_collector_unbound_pv_count", "Gauge measuring number of persistent volume currently unbound");
    let bound_claims =
        family("pv_collector_bound_pvc_count", "Gauge measuring number of persistent volume claim currently bound");
    let unbound_claims =
        family("pv_collector_unbound_pvc_count", "Gauge measuring number of persistent volume claim currently unbound");
    let (listers, shutdown) = (listers.clone(), env.shutdown().clone());
    env.metrics().before_encoding(move || {
        set(&bound_volumes, count_volumes(&listers, true));
        set(&unbound_volumes, count_volumes(&listers, false));
        set(&bound_claims, count_claims(&listers, true));
        set(&unbound_claims, count_claims(&listers, false));
        !shutdown.is_cancelled()
    });
}

/// Shows these counts, and no label of an earlier scrape.
fn set(family: &Gauges, counts: Counts) {
    family.clear();
    for (labels, count) in counts {
        family.get_or_create(&labels).set(count);
    }
}

fn count_volumes(listers: &Listers, is_bound: bool) -> Counts {
    let mut counts = Counts::new();
    for volume in listers.volumes.list() {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let class = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
        if (phase == Some("Bound")) == is_bound {
            *counts.entry(vec![("storage_class", class.unwrap_or_default())]).or_default() += 1;
        }
    }
    counts
}

fn count_claims(listers: &Listers, is_bound: bool) -> Counts {
    let mut counts = Counts::new();
    for claim in listers.claims.list() {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let spec = claim.spec.as_ref();
        let text = |value: Option<String>| value.unwrap_or_default();
        let labels = vec![
            ("namespace", claim.namespace().to_owned()),
            ("storage_class", text(spec.and_then(|spec| spec.storage_class_name.clone()))),
            ("volume_attributes_class", text(spec.and_then(|spec| spec.volume_attributes_class_name.clone()))),
        ];
        if (phase == Some("Bound")) == is_bound {
            *counts.entry(labels).or_default() += 1;
        }
    }
    counts
}

/// Measures the time from the first request to a provisioner until a claim is bound.
pub struct ProvisionDurations {
    durations: Histograms,
    /// The provisioner that a claim waits for, and since when, by the claim's uid.
    waiting: Mutex<BTreeMap<String, (String, Timestamp)>>,
}

impl ProvisionDurations {
    pub fn new(env: &Env) -> Self {
        let help = "Storage operation end to end duration in seconds";
        let durations = env.metrics().histograms("volume_operation_total_seconds", help, SECONDS);
        Self { durations, waiting: Mutex::default() }
    }

    /// Records how a claim was observed.
    pub fn observe(&self, claim: &PersistentVolumeClaim, now: Timestamp) {
        let mut waiting = self.waiting.lock();
        if claims::volume_name(claim).is_empty() {
            if let Some(provisioner) = annotation(claim, STORAGE_PROVISIONER) {
                waiting.entry(claim.uid().to_owned()).or_insert_with(|| (provisioner.to_owned(), now));
            }
        } else if claims::is_bind_completed(claim)
            && let Some((provisioner, since)) = waiting.remove(claim.uid())
        {
            let labels = vec![("plugin_name", provisioner), ("operation_name", "provision".to_owned())];
            self.durations.get_or_create(&labels).observe(clock::since(since, now).as_secs_f64());
        }
    }

    /// Call it when a claim is gone.
    pub fn forget(&self, claim: &PersistentVolumeClaim) {
        self.waiting.lock().remove(claim.uid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::{claim, completed};
    use controller_base::fixture::{annotate, at};

    #[test]
    fn a_claim_waits_from_the_first_request_until_it_is_bound() {
        let env = Env::simulated(1);
        let durations = ProvisionDurations::new(&env);
        let asking = |name: &str| {
            let mut asking = claim(name, Some("standard"));
            annotate(&mut asking, &[(STORAGE_PROVISIONER, "example.com/disks")]);
            asking
        };
        durations.observe(&claim("a", Some("standard")), at(0));
        durations.observe(&asking("a"), at(1));
        durations.observe(&asking("a"), at(3));
        durations.observe(&completed(asking("a"), "v"), at(5));
        durations.observe(&completed(asking("a"), "v"), at(9));
        durations.observe(&asking("b"), at(9));
        durations.forget(&asking("b"));
        durations.observe(&completed(asking("b"), "w"), at(10));
        let text = env.metrics().encode();
        let labels = "{plugin_name=\"example.com/disks\",operation_name=\"provision\"}";
        for line in [
            format!("volume_operation_total_seconds_sum{labels} 4.0"),
            format!("volume_operation_total_seconds_count{labels} 1"),
        ] {
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        }
    }
}
