//! The Endpoints controller at its edge.
//!
//! Corresponds to pkg/controller/endpoint/endpoints_controller.go.

use super::plan::{Observed, plan};
use crate::context::{Context, Running};
use crate::reconcile::{self, Reconciler};
use crate::{actions, service};
use client::{Action, ApplyError, Event, Lister, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Endpoints, Pod, Service};

struct Controller {
    services: Lister<Service>,
    endpoints: Lister<Endpoints>,
    pods: Lister<Pod>,
}

pub fn start(context: &Context) -> Running {
    let queue = context.queue("endpoint");
    let services = context.informers.of::<Service>();
    let endpoints = context.informers.of::<Endpoints>();
    let pods = context.informers.of::<Pod>();
    let controller = Controller { services: services.lister(), endpoints: endpoints.lister(), pods: pods.lister() };
    services.on_event({
        let queue = queue.clone();
        move |event| queue.add(event.object().key())
    });
    endpoints.on_event({
        let queue = queue.clone();
        move |event| {
            if let Event::Deleted(endpoints) = event {
                queue.add(endpoints.key());
            }
        }
    });
    pods.on_event({
        let (queue, services) = (queue.clone(), services.lister());
        move |event| service::concerned(&services, event).into_iter().for_each(|key| queue.add(key))
    });
    let actor = context.act_as("endpoint-controller", "endpoint-controller");
    let workers = context.settings.concurrent_endpoint_syncs;
    Box::pin(async move {
        // They may have lost their service while nobody looked. Endpoints that come later may come before theirs.
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
            self.pods.filter(namespace, |pod| service::selects(selector, pod))
        });
        Some(Observed { pods: pods.unwrap_or_default(), endpoints: self.endpoints.by_key(key), service })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
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
