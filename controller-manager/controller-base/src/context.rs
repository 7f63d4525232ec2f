//! `Context`, which all controllers share; it makes the `Actor` under whose identity one of them writes.
//!
//! Corresponds to ControllerContext in cmd/kube-controller-manager/app and to
//! k8s.io/controller-manager/pkg/clientbuilder.

use crate::options::Settings;
use client::{Client, Informers, ServiceAccountTokens, WorkQueue};
use component_base::env::Env;
use futures::future::BoxFuture;
use proto::Gvr;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Named here too, because every controller has it from its context.
pub use client::reconcile::Actor;

/// The future of a running controller. It ends when the environment shuts down.
pub type Running = BoxFuture<'static, ()>;

/// Namespace of the controllers' ServiceAccounts.
const NAMESPACE: &str = "kube-system";

#[derive(Clone)]
pub struct Context {
    pub env: Env,
    /// The manager's own identity, under which everything is read.
    pub client: Client,
    pub informers: Informers,
    pub settings: Arc<Settings>,
    /// Resources behind gates that are on, which the API server serves.
    pub served: BTreeSet<Gvr>,
}

impl Context {
    /// The informers run until the client's environment shuts down.
    pub fn new(client: &Client, settings: Settings) -> Self {
        // There may be hundreds of thousands of pods, and nearly all rest.
        let (env, informers) = (client.env().clone(), Informers::new(client).packing_at_rest::<Pod>());
        Self { env, client: client.clone(), informers, settings: Arc::new(settings), served: BTreeSet::new() }
    }

    /// Returns the client and recorder of one controller. `service_account` is its account in `kube-system`; `None` is
    /// the manager's own identity. `component` is the source of its events.
    pub fn act_as(&self, service_account: Option<&str>, component: &str) -> Actor {
        let Some(service_account) = service_account else {
            return Actor::new(&self.client, component);
        };
        let client = if self.settings.use_service_account_credentials {
            let tokens = ServiceAccountTokens::new(&self.client, NAMESPACE, service_account);
            self.client.with_token_source(Arc::new(tokens))
        } else {
            self.client.clone()
        };
        let user_agent = format!("{}/{component}", self.client.user_agent());
        Actor::new(&client.with_user_agent(&user_agent), component)
    }

    pub fn queue(&self, name: &'static str) -> WorkQueue<String> {
        WorkQueue::new(&self.env, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::http::{Body, HttpService};
    use http::{Request, Response};
    use std::convert::Infallible;

    #[tokio::test(start_paused = true)]
    async fn the_user_agent_of_a_controller_begins_with_its_manager() {
        let env = Env::simulated(1);
        let nobody_asks = |_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) };
        let service = HttpService::new(tower::service_fn(nobody_asks));
        let client = Client::from_service(&env, service, "cloud-controller-manager");
        let actor = Context::new(&client, Settings::default()).act_as(Some("service-controller"), "service-controller");
        assert_eq!(actor.client.user_agent(), "cloud-controller-manager/service-controller");
    }
}
