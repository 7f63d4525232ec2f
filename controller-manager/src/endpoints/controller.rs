//! Starts the Endpoints controller, and connects it with caches and events.
//!
//! Corresponds to pkg/controller/endpoint/endpoints_controller.go.

use super::plan::{Observed, plan};
use super::tracker::Tracker;
use crate::service;
use client::reconcile::{self, Reconciler};
use client::{Action, ApplyError, Client, Event, Lister, Plan, ReconcileError, apply};
use controller_base::actions;
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Endpoints, Pod, Service};
use serde_json::Value;
use std::sync::Arc;

struct Controller {
    services: Lister<Service>,
    endpoints: Lister<Endpoints>,
    pods: Lister<Pod>,
    tracker: Arc<Tracker>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.informer::<Pod>().index_label_sets();
    let tracker: Arc<Tracker> = Arc::default();
    let controller = Controller {
        services: setup.lister(),
        endpoints: setup.lister(),
        pods: setup.lister(),
        tracker: tracker.clone(),
    };
    setup.on_event(&queue, |event: &Event<Service>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, move |event: &Event<Endpoints>, queue| {
        if let Event::Deleted(endpoints) = event {
            tracker.forget(&endpoints.key());
            queue.add(endpoints.key());
        }
    });
    setup.on_event(&queue, {
        let services = controller.services.clone();
        let batch = setup.settings.endpoints.endpoint_updates_batch_period;
        move |event, queue| {
            service::concerned_services(&services, event).into_iter().for_each(|key| queue.add_after(key, batch));
        }
    });
    let (actor, workers) = (setup.actor(), setup.settings.endpoints.concurrent_endpoint_syncs);
    Box::pin(async move {
        // The service of existing Endpoints may have been deleted while no controller ran. New Endpoints add no key:
        // their service may not be in the cache yet.
        controller.endpoints.list().iter().for_each(|endpoints| queue.add(endpoints.key()));
        reconcile::run(actor, queue, workers, controller).await;
    })
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let service = self.services.by_key(key);
        let selector = service.as_deref().and_then(service::selector);
        let pods = selector.map(|selector| {
            let namespace = service.as_ref().map(|service| service.namespace()).unwrap_or_default();
            service::selected_pods(&self.pods, namespace, selector)
        });
        Some(Observed { pods: pods.unwrap_or_default(), endpoints: self.endpoints.by_key(key), service })
    }

    /// Fails while the cache shows Endpoints that this controller has replaced. They could seem correct, and no later
    /// event about Endpoints adds the service's key.
    async fn consult(&self, _client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let stale = observed.endpoints.as_deref().filter(|endpoints| self.tracker.is_stale(endpoints));
        match stale.map(Kind::key) {
            Some(key) => Err(ReconcileError::behind(format!("the cache still shows replaced Endpoints {key}"))),
            None => Ok(Some(observed)),
        }
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }

    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let answers = apply(&actor.client, &actor.recorder, plan).await?;
        // Neither an update that changed nothing nor an event about a failure has replaced anything: the cache would be
        // awaited in vain.
        let version = |answer: &Value| answer["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let written = answers.first().and_then(version);
        let is_replaced = |old: &&Endpoints| written.is_some() && written != old.metadata.resource_version;
        if let Some(replaced) = observed.endpoints.as_deref().filter(is_replaced) {
            self.tracker.record_replaced(replaced);
        }
        Ok(())
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        let key = observed.service.as_deref()?.key();
        if error.cause.is_namespace_terminating() || error.cause.is_conflict() || error.cause.is_already_exists() {
            return None;
        }
        let (object, reason, what) = match &error.failed {
            Action::Create { object, .. } => (object, "FailedToCreateEndpoint", "create endpoint for service"),
            Action::Update { object, .. } => (object, "FailedToUpdateEndpoint", "update endpoint"),
            _ => return None,
        };
        let endpoints = Endpoints::decode_value(object.clone()).ok()?;
        Some(Plan::of([actions::warning(&endpoints, reason, format!("Failed to {what} {key}: {}", error.cause))]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Recorder;
    use client_testing::{FakeServer, Fault};
    use component_base::env::Env;
    use controller_base::fixture;
    use proto::Status;
    use proto::kinds::IntOrString;
    use proto::kinds::api::core::v1::{ServicePort, ServiceSpec};

    fn service() -> Service {
        let spec = ServiceSpec {
            selector: Some(fixture::labels(&[("app", "web")])),
            cluster_ip: Some("10.0.0.5".to_owned()),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ports: Some(vec![ServicePort {
                port: 80,
                target_port: Some(IntOrString::Int(8080)),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        };
        Service { metadata: fixture::meta("web"), spec: Some(spec), ..Service::default() }
    }

    fn pod(is_ready: bool) -> Pod {
        let mut pod = fixture::pod("a");
        pod.metadata.labels = Some(fixture::labels(&[("app", "web")]));
        fixture::set_phase(&mut pod, "Running");
        pod.status.as_mut().unwrap().pod_ip = Some("10.244.0.1".to_owned());
        if is_ready {
            fixture::set_ready(&mut pod, fixture::at(0));
        }
        pod
    }

    fn ready_addresses(endpoints: &Endpoints) -> usize {
        endpoints.subsets.iter().flatten().flat_map(|subset| subset.addresses.iter().flatten()).count()
    }

    /// A pod is ready, then not ready, and ready again before the cache shows the Endpoints without it.
    #[tokio::test(start_paused = true)]
    async fn a_stale_cache_does_not_prevent_an_update() {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let actor = Actor { recorder: Recorder::new(&client, "test", ""), client: client.clone() };
        let on_server = || Endpoints::decode_value(server.get("endpoints", "default/web").unwrap()).unwrap();
        let mut controller = Controller {
            services: Lister::of([service()]),
            endpoints: Lister::of([]),
            pods: Lister::of([pod(true)]),
            tracker: Arc::default(),
        };
        // Runs one round with the present caches.
        let round = async |controller: &Controller| {
            let observed = controller.observe("default/web").unwrap();
            let observed = controller.consult(&client, observed).await?.unwrap();
            let plan = controller.plan(&observed, fixture::at(0));
            controller.apply(&actor, "default/web", &observed, &plan).await?;
            Ok::<(), ReconcileError>(())
        };
        round(&controller).await.unwrap();
        let first = on_server();
        assert_eq!(ready_addresses(&first), 1);
        controller.endpoints = Lister::of([first]);
        controller.pods = Lister::of([pod(false)]);
        round(&controller).await.unwrap();
        assert_eq!(ready_addresses(&on_server()), 0);
        controller.pods = Lister::of([pod(true)]);
        let error = round(&controller).await.unwrap_err();
        assert!(error.is_expected(), "{error}");
        controller.endpoints = Lister::of([on_server()]);
        round(&controller).await.unwrap();
        assert_eq!(ready_addresses(&on_server()), 1);
        env.drain().await;
    }

    /// The update fails and an event says so. The next round updates the same version.
    #[tokio::test(start_paused = true)]
    async fn a_failed_update_is_tried_again() {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let actor = Actor { recorder: Recorder::new(&client, "test", ""), client: client.clone() };
        let mut controller = Controller {
            services: Lister::of([service()]),
            endpoints: Lister::of([]),
            pods: Lister::of([pod(false)]),
            tracker: Arc::default(),
        };
        let observed = controller.observe("default/web").unwrap();
        let plan = controller.plan(&observed, fixture::at(0));
        controller.apply(&actor, "default/web", &observed, &plan).await.unwrap();
        let stored = Endpoints::decode_value(server.get("endpoints", "default/web").unwrap()).unwrap();
        controller.endpoints = Lister::of([stored]);
        controller.pods = Lister::of([pod(true)]);
        let observed = controller.observe("default/web").unwrap();
        let plan = controller.plan(&observed, fixture::at(0));
        let answer = Status::internal("broken");
        server.fault(Fault { path_contains: "PUT", answer, retry_after_s: None });
        let error = controller.apply(&actor, "default/web", &observed, &plan).await.unwrap_err();
        let reported = controller.recover(&observed, &error, fixture::at(0)).unwrap();
        controller.apply(&actor, "default/web", &observed, &reported).await.unwrap();
        let again = controller.observe("default/web").unwrap();
        assert!(controller.consult(&client, again).await.unwrap().is_some(), "nothing was replaced");
        env.drain().await;
    }
}
