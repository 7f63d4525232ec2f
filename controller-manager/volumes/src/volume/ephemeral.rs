//! The ephemeral volume controller makes the claims of pods' generic ephemeral volumes.
//!
//! A pod controls the claims that are made for it, so the garbage collector deletes them after it. Corresponds to
//! pkg/controller/volume/ephemeral.

use client::reconcile::Reconciler;
use client::{Action, ApplyError, Event, Lister, Plan, apply};
use component_base::metrics::{Counters, Labels};
use component_helpers::volumes::pod_volumes;
use controller_base::actions;
use controller_base::context::{Actor, Running};
use controller_base::controller_ref::{controller_queue_key, controller_ref};
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, PODS_BY_CLAIM};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

struct Controller {
    pods: Lister<Pod>,
    claims: Lister<PersistentVolumeClaim>,
    attempts: Counters,
    failures: Counters,
}

struct Observed {
    pod: Arc<Pod>,
    /// The ephemeral volumes of the pod, each with the claim of its name.
    claims: Vec<(Volume, Option<Arc<PersistentVolumeClaim>>)>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::pods_by_claim(&setup.informer());
    let help = "Number of PersistenVolumeClaims creation requests"; // spelt as there
    let counters = |name| setup.env.metrics().counters(name, help);
    let controller = Controller {
        pods: setup.lister(),
        claims: setup.lister(),
        attempts: counters("ephemeral_volume_controller_create_total"),
        failures: counters("ephemeral_volume_controller_create_failures_total"),
    };
    setup.on_event(&queue, |event: &Event<Pod>, queue| {
        let pod = event.object();
        if !matches!(event, Event::Deleted(_)) && is_concerned(pod) {
            queue.add(pod.key());
        }
    });
    setup.on_event(&queue, {
        let pods = setup.lister::<Pod>();
        move |event: &Event<PersistentVolumeClaim>, queue| {
            let Event::Deleted(claim) = event else { return };
            controller_queue_key::<Pod>(&**claim).into_iter().for_each(|key| queue.add(key));
            // Another claim had the name that a pod needs.
            pods.by_index(PODS_BY_CLAIM, &claim.key()).iter().for_each(|pod| queue.add(pod.key()));
        }
    });
    setup.run(queue, setup.settings.concurrent_ephemeralvolume_syncs, controller)
}

fn is_concerned(pod: &Pod) -> bool {
    !pod.is_deleting() && pod_volumes::volumes(pod).any(|volume| volume.ephemeral.is_some())
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let pod = self.pods.by_key(key).filter(|pod| is_concerned(pod))?;
        let ephemeral = pod_volumes::volumes(&pod).filter(|volume| volume.ephemeral.is_some());
        let found = |volume: &Volume| self.claims.get(pod.namespace(), &pod_volumes::ephemeral_claim(&pod, volume));
        let claims = ephemeral.map(|volume| (volume.clone(), found(volume))).collect();
        Some(Observed { pod, claims })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }

    /// Carries the plan out, and counts the claims that it makes.
    async fn apply(&self, actor: &Actor, _: &str, _: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        for action in &plan.actions {
            let applied = apply(&actor.client, &actor.recorder, &Plan::of([action.clone()])).await;
            if matches!(action, Action::Create { .. }) {
                self.attempts.get_or_create(&Labels::new()).inc();
                self.failures.get_or_create(&Labels::new()).inc_by(u64::from(applied.is_err()));
            }
            applied?;
        }
        Ok(())
    }

    /// Says on the pod why a claim cannot be made; the loop tries again.
    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        let Action::Create { object, .. } = &error.failed else { return None };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let of_claim = |volume: &&Volume| pod_volumes::ephemeral_claim(&observed.pod, volume) == name;
        let volume = observed.claims.iter().map(|(volume, _)| volume).find(of_claim)?;
        let message = format!("ephemeral volume {}: create PVC {name}: {}", volume.name, error.cause);
        Some(Plan::of([actions::warning(&*observed.pod, "FailedBinding", message)]))
    }
}

/// Plans the claims that are missing, and says which belong to somebody else.
fn plan(observed: &Observed) -> Plan {
    let pod = &*observed.pod;
    Plan::of(observed.claims.iter().filter_map(|(volume, claim)| match claim {
        None => made(pod, volume).map(|claim| Action::create(&claim)),
        Some(claim) if pod_volumes::is_made_for(claim, pod) => None,
        Some(claim) => {
            let message = format!(
                "ephemeral volume {}: PVC {} was not created for pod {} (pod is not owner)",
                volume.name,
                claim.key(),
                pod.key()
            );
            Some(actions::warning(pod, "FailedBinding", message))
        }
    }))
}

fn made(pod: &Pod, volume: &Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.as_ref()?;
    let described = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(pod_volumes::ephemeral_claim(pod, volume)),
        namespace: Some(pod.namespace().to_owned()),
        annotations: described.annotations,
        labels: described.labels,
        owner_references: Some(vec![controller_ref(pod)]),
        ..ObjectMeta::default()
    };
    Some(PersistentVolumeClaim { metadata, spec: Some(template.spec.clone()), status: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::claim;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaimTemplate};

    #[test]
    fn a_missing_claim_is_made_from_the_template() {
        let mut pod = fixture::pod("web");
        let template = PersistentVolumeClaimTemplate {
            metadata: Some(ObjectMeta { labels: Some(fixture::labels(&[("a", "b")])), ..ObjectMeta::default() }),
            spec: claim("c", Some("standard")).spec.unwrap(),
        };
        let source = EphemeralVolumeSource { volume_claim_template: Some(template) };
        let volume = Volume { name: "tmp".to_owned(), ephemeral: Some(source), ..Volume::default() };
        pod.spec.get_or_insert_default().volumes = Some(vec![volume.clone()]);
        let round = |claim: Option<PersistentVolumeClaim>| {
            plan(&Observed { pod: Arc::new(pod.clone()), claims: vec![(volume.clone(), claim.map(Arc::new))] })
        };
        let created = round(None);
        assert_eq!(created.to_string(), "create persistentvolumeclaims default/web-tmp\n");
        let Action::Create { object, .. } = &created.actions[0] else { panic!("{created}") };
        let made = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
        assert_eq!(made.metadata.labels, Some(fixture::labels(&[("a", "b")])));
        assert_eq!(made.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("standard"));
        assert_eq!(round(Some(made)).to_string(), "");
        assert_eq!(
            round(Some(claim("web-tmp", None))).to_string(),
            "event Warning FailedBinding Pod default/web: ephemeral volume tmp: PVC default/web-tmp was not created for pod \
             default/web (pod is not owner)\n"
        );
    }
}
