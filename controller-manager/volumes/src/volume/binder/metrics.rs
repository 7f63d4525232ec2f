//! How many volumes and claims there are, bound and not, counted from the caches at each scrape.
//!
//! Corresponds to pkg/controller/volume/persistentvolume/metrics.

use super::observe::Listers;
use component_base::env::Env;
use component_base::metrics::{Gauges, Labels};
use proto::Kind;
use std::collections::BTreeMap;

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
        set(&bound_volumes, volumes(&listers, true));
        set(&unbound_volumes, volumes(&listers, false));
        set(&bound_claims, claims(&listers, true));
        set(&unbound_claims, claims(&listers, false));
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

fn volumes(listers: &Listers, is_bound: bool) -> Counts {
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

fn claims(listers: &Listers, is_bound: bool) -> Counts {
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
