//! The ServiceAccount controller creates the account `default` in every namespace that is not terminating.
//!
//! Corresponds to pkg/controller/serviceaccount/serviceaccounts_controller.go.

use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, ServiceAccount};
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

const NAME: &str = "default";

struct Controller {
    namespaces: Lister<Namespace>,
    accounts: Lister<ServiceAccount>,
}

#[derive(Debug)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    pub exists: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Namespace>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, |event: &Event<ServiceAccount>, queue| {
        if let Event::Deleted(account) = event {
            queue.add(account.namespace().to_owned());
        }
    });
    setup.run(queue, 1, Controller { namespaces: setup.lister(), accounts: setup.lister() })
}

pub fn plan(observed: &Observed) -> Plan {
    if observed.exists || is_terminating(&observed.namespace) {
        return Plan::default();
    }
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(observed.namespace.name().to_owned()),
        ..ObjectMeta::default()
    };
    let account = ServiceAccount { metadata, ..ServiceAccount::default() };
    Plan::of([Action::create(&account)])
}

/// Returns true if the namespace is being deleted, and so admits no new objects.
pub fn is_terminating(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.is_deleting() || phase == Some("Terminating")
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let namespace = self.namespaces.by_key(key)?;
        Some(Observed { exists: self.accounts.get(key, NAME).is_some(), namespace })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn the_account_is_created_where_it_is_missing() {
        let cases = [(false, false, "create serviceaccounts shop/default\n"), (true, false, ""), (false, true, "")];
        for (exists, deleting, expected) in cases {
            let mut namespace = Namespace { metadata: fixture::meta("shop"), ..Namespace::default() };
            namespace.metadata.deletion_timestamp = deleting.then(|| fixture::time(0));
            let observed = Observed { namespace: Arc::new(namespace), exists };
            assert_eq!(plan(&observed).to_string(), expected, "exists {exists}, deleting {deleting}");
        }
    }
}
