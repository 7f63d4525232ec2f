//! The root CA publisher writes the API server's certificate authority, which pods trust, into every namespace.
//!
//! Corresponds to pkg/controller/certificates/rootcacertpublisher.

use crate::serviceaccount::is_terminating;
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Event, Lister, Plan, apply};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, exponential};
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{ConfigMap, Namespace};
use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECONDS: &[f64] = &exponential::<15>(0.001, 2.0);
const NAME: &str = "kube-root-ca.crt";
const KEY: &str = "ca.crt";
const DESCRIPTION_ANNOTATION: &str = "kubernetes.io/description";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

struct Controller {
    root_ca_pem: String,
    namespaces: Lister<Namespace>,
    config_maps: Lister<ConfigMap>,
    metrics: SyncMetrics,
}

/// Rounds about namespaces by the code of the server's answer, and how long they take.
struct SyncMetrics {
    rounds: Counters,
    durations: Histograms,
}

impl SyncMetrics {
    fn new(env: &Env) -> Self {
        let help = "Number of namespace syncs happened in root ca cert publisher.";
        Self {
            rounds: env.metrics().counters("root_ca_cert_publisher_sync_total", help),
            durations: env.metrics().histograms("root_ca_cert_publisher_sync_duration_seconds", help, SECONDS),
        }
    }

    fn count(&self, result: &Result<(), ApplyError>, duration: Duration) {
        let code = match result {
            Ok(()) => 200,
            // No answer counts as one that says that the server failed.
            Err(error) => Some(error.cause.code()).filter(|code| *code != 0).unwrap_or(500),
        };
        let labels = vec![("code", code.to_string())];
        self.rounds.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(duration.as_secs_f64());
    }
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
    let (namespaces, config_maps) = (setup.lister(), setup.lister());
    let controller = Controller { root_ca_pem, namespaces, config_maps, metrics: SyncMetrics::new(setup.env) };
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

    async fn apply(&self, actor: &Actor, _: &str, _: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let begun = actor.client.env().now();
        let applied = apply(&actor.client, &actor.recorder, plan).await.map(drop);
        self.metrics.count(&applied, actor.client.env().now() - begun);
        applied
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
