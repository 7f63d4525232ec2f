//! The root CA publisher writes the API server's certificate authority, which pods trust, into every namespace.
//!
//! Corresponds to pkg/controller/certificates/rootcacertpublisher.

use crate::serviceaccount::is_terminating;
use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Namespace};
use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Controller {
    root_ca_pem: String,
    namespaces: Lister<Namespace>,
    config_maps: Lister<ConfigMap>,
}

#[derive(Debug)]
pub struct Observed {
    pub namespace: Arc<Namespace>,
    pub config_map: Option<Arc<ConfigMap>>,
    pub root_ca_pem: String,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let Some(root_ca_pem) = setup.settings.root_ca_pem.clone() else {
        tracing::warn!("no root CA to publish: --root-ca-file is not given, and the kubeconfig names none");
        return Box::pin(async {});
    };
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Namespace>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, |event: &Event<ConfigMap>, queue| {
        let config_map = event.object();
        if config_map.name() == NAME && !matches!(event, Event::Added(_)) {
            queue.add(config_map.namespace().to_owned());
        }
    });
    let controller = Controller { root_ca_pem, namespaces: setup.lister(), config_maps: setup.lister() };
    setup.run(queue, 1, controller)
}

pub fn plan(observed: &Observed) -> Plan {
    if is_terminating(&observed.namespace) {
        return Plan::default();
    }
    let data = BTreeMap::from([(KEY.to_owned(), observed.root_ca_pem.clone())]);
    let describe = |metadata: &mut ObjectMeta| {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(DESCRIPTION_ANNOTATION.to_owned(), DESCRIPTION.to_owned());
    };
    let action = match observed.config_map.as_deref() {
        None => {
            let mut metadata = ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(observed.namespace.name().to_owned()),
                ..ObjectMeta::default()
            };
            describe(&mut metadata);
            Action::create(&ConfigMap { metadata, data: Some(data), ..ConfigMap::default() })
        }
        Some(present) if present.data.as_ref() == Some(&data) && is_described(present) => return Plan::default(),
        Some(present) => {
            let mut updated = ConfigMap { data: Some(data), ..present.clone() };
            describe(&mut updated.metadata);
            Action::update(&updated)
        }
    };
    Plan::of([action])
}

fn is_described(config_map: &ConfigMap) -> bool {
    let annotations = config_map.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(DESCRIPTION_ANNOTATION)).is_some_and(|text| !text.is_empty())
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let namespace = self.namespaces.by_key(key)?;
        Some(Observed { namespace, config_map: self.config_maps.get(key, NAME), root_ca_pem: self.root_ca_pem.clone() })
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
    fn the_certificate_is_there_and_stays_right() {
        let mut observed = Observed {
            namespace: Arc::new(Namespace { metadata: fixture::meta("shop"), ..Namespace::default() }),
            config_map: None,
            root_ca_pem: "PEM".to_owned(),
        };
        let created = plan(&observed);
        assert_eq!(created.to_string(), "create configmaps shop/kube-root-ca.crt\n");
        let [Action::Create { object, .. }] = created.actions.as_slice() else { panic!("{created}") };
        let published = ConfigMap::decode_value(object.clone()).unwrap();
        observed.config_map = Some(Arc::new(published.clone()));
        assert_eq!(plan(&observed).to_string(), "");
        let spoilt = ConfigMap { data: Some(fixture::labels(&[("ca.crt", "another")])), ..published };
        observed.config_map = Some(Arc::new(spoilt));
        assert_eq!(plan(&observed).to_string(), "update configmaps shop/kube-root-ca.crt\n");
    }
}
