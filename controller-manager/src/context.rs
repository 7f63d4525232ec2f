//! What every controller is given: the cluster as the manager sees it, and an identity of its own to write under.
//!
//! Corresponds to ControllerContext in cmd/kube-controller-manager/app and to k8s.io/controller-manager/pkg/clientbuilder.

use crate::options::Settings;
use client::{Client, Informers, Recorder, ServiceAccountTokens, WorkQueue};
use component_base::env::Env;
use futures::future::BoxFuture;
use std::sync::Arc;

/// A controller at work; it ends when its environment shuts down.
pub type Running = BoxFuture<'static, ()>;

const NAMESPACE: &str = "kube-system";

#[derive(Clone)]
pub struct Context {
    pub env: Env,
    /// The manager's own identity, under which everything is read.
    pub client: Client,
    pub informers: Informers,
    pub settings: Arc<Settings>,
}

/// A controller's hands: what it writes, and the events that it records.
#[derive(Clone)]
pub struct Actor {
    pub client: Client,
    pub recorder: Recorder,
}

impl Context {
    /// For as long as the client's environment lasts.
    pub fn new(client: &Client, settings: Settings) -> Self {
        let (env, informers) = (client.env().clone(), Informers::new(client));
        Self { env, client: client.clone(), informers, settings: Arc::new(settings) }
    }

    /// The client and the recorder of one controller. `service_account` is its account in `kube-system`; `None` is the
    /// manager's own identity. Events name `component`.
    pub fn act_as(&self, service_account: Option<&str>, component: &str) -> Actor {
        let Some(service_account) = service_account else {
            return Actor { recorder: Recorder::new(&self.client, component, ""), client: self.client.clone() };
        };
        let client = if self.settings.use_service_account_credentials {
            let tokens = ServiceAccountTokens::new(&self.client, NAMESPACE, service_account);
            self.client.with_token_source(Arc::new(tokens))
        } else {
            self.client.clone()
        };
        let client = client.with_user_agent(&format!("controller-manager/{component}"));
        Actor { recorder: Recorder::new(&client, component, ""), client }
    }

    pub fn queue(&self, name: &'static str) -> WorkQueue<String> {
        WorkQueue::new(&self.env, name)
    }
}
