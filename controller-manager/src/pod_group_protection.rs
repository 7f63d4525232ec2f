//! Keeps a deleted PodGroup while pods of the group run.
//!
//! The API server gives each PodGroup a finalizer when it is created; this controller removes it. Corresponds to
//! pkg/controller/scheduling/podgroupprotection.

use client::reconcile::Reconciler;
use client::{Event, Informer, Lister, Plan, WorkQueue};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::finalizer::{self, is_candidate};
use controller_base::pod;
use jiff::Timestamp;
use proto::Kind;
use proto::finalizers::POD_GROUP_PROTECTION;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use std::sync::Arc;

pub const GATE: &str = "GenericWorkload";
/// Pods that have not ended by the keys of their PodGroups.
const ACTIVE_PODS: &str = "activePodSchedulingGroup";
const WORKERS: usize = 1;

struct Controller {
    groups: Lister<PodGroup>,
    pods: Lister<Pod>,
}

struct Observed {
    group: Arc<PodGroup>,
    is_used: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) || !setup.serves::<PodGroup>() {
        return Box::pin(async {});
    }
    let queue = setup.queue();
    let pods: Informer<Pod> = setup.informer();
    pods.index(ACTIVE_PODS, active_in);
    setup.on_event(&queue, |event: &Event<PodGroup>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, on_pod);
    setup.run(queue, WORKERS, Controller { groups: setup.lister(), pods: setup.lister() })
}

/// Returns the key of the group that a pod names.
fn group_of(pod: &Pod) -> Option<String> {
    let group = pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_ref()?;
    Some(format!("{}/{group}", pod.namespace()))
}

fn active_in(pod: &Pod) -> Vec<String> {
    group_of(pod).filter(|_| !pod::is_terminal(pod)).into_iter().collect()
}

/// Adds the group of a pod that has ended or is gone. An update may hide that another pod took the name of a deleted one.
fn on_pod(event: &Event<Pod>, queue: &WorkQueue<String>) {
    let left = match event {
        Event::Updated { old, new } if old.uid() != new.uid() => group_of(old),
        Event::Deleted(pod) => group_of(pod),
        Event::Added(_) | Event::Updated { .. } => None,
    };
    let pod = event.object();
    let ended = group_of(pod).filter(|_| pod::is_terminal(pod));
    left.into_iter().chain(ended).for_each(|group| queue.add(group));
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let group = self.groups.by_key(key).filter(|group| is_candidate(&**group, POD_GROUP_PROTECTION))?;
        let is_used = !self.pods.by_index(ACTIVE_PODS, key).is_empty();
        Some(Observed { group, is_used })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        finalizer::plan(&*observed.group, POD_GROUP_PROTECTION, observed.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::time;
    use serde_json::{Value, json};

    fn group(is_deleted: bool, finalizers: Value) -> PodGroup {
        let metadata = json!({"namespace": "shop", "name": "workers", "finalizers": finalizers});
        let mut group = PodGroup::decode_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        group.metadata.deletion_timestamp = is_deleted.then(|| time(1));
        group
    }

    fn pod(namespace: &str, group: &str, phase: &str) -> Pod {
        let object = json!({
            "metadata": {"namespace": namespace, "name": "p"},
            "spec": {"containers": [], "schedulingGroup": {"podGroupName": group}}, "status": {"phase": phase},
        });
        Pod::decode_value(object).unwrap()
    }

    #[test]
    fn a_group_stays_until_its_pods_have_ended() {
        let held = || json!(["a/b", POD_GROUP_PROTECTION]);
        for (group, pod, is_removed) in [
            (group(true, held()), None, true),
            (group(true, held()), Some(pod("shop", "workers", "Running")), false),
            (group(true, held()), Some(pod("shop", "workers", "Pending")), false),
            (group(true, held()), Some(pod("shop", "workers", "Succeeded")), true),
            (group(true, held()), Some(pod("shop", "workers", "Failed")), true),
            (group(true, held()), Some(pod("shop", "other", "Running")), true),
            (group(true, held()), Some(pod("other", "workers", "Running")), true),
            (group(true, json!(["a/b"])), None, false),
            (group(false, held()), None, false),
            (group(false, json!([])), None, false),
        ] {
            let what = format!("{:?} {pod:?}", group.metadata);
            let pods = Lister::of(pod).indexed(ACTIVE_PODS, active_in);
            let controller = Controller { groups: Lister::of([group]), pods };
            let observed = controller.observe("shop/workers");
            let plan = observed.map(|observed| controller.plan(&observed, Timestamp::UNIX_EPOCH)).unwrap_or_default();
            let finalizers = plan.actions.first().map(|action| match action {
                client::Action::Update { object, .. } => object["metadata"]["finalizers"].clone(),
                other => panic!("{other}"),
            });
            assert_eq!(finalizers, is_removed.then(|| json!(["a/b"])), "{what}");
        }
    }
}
