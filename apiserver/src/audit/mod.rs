//! Audit: records requests as events, so that it can be found out later which user did what.
//!
//! A policy selects the requests, their stages and the level of detail. Backends write the events to a file or send
//! them to a webhook. Corresponds to k8s.io/apiserver/pkg/audit and plugin/pkg/audit.

pub mod policy;
pub mod event;
pub mod observed_body;
pub mod trail;
mod truncation;
pub mod backend;
pub mod log;
pub mod webhook;
pub mod options;
#[cfg(test)]
mod tests;

use backend::{Backend, Sink};
use component_base::env::Env;
use component_base::kubeconfig::{self, KubeconfigError};
use component_base::metrics::Counters;
use component_base::options::{OptionsError, read_file};
use event::Event;
use log::LogFile;
use options::AuditOptions;
use policy::{Decision, Policy, PolicyError};
use prometheus_client::metrics::counter::Counter;
use request::UserInfo;
use request::info::RequestInfo;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use webhook::Webhook;

/// A wrong setting of audit. The text is one line, and names the flag.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error("--audit-policy-file: {}: {source}", path.display())]
    Policy { path: PathBuf, source: PolicyError },
    #[error("--audit-log-path: {}: {source}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("--audit-webhook-config-file: {0}")]
    WebhookFile(#[from] KubeconfigError),
    #[error("--audit-webhook-config-file: {0}")]
    Webhook(String),
}

/// A policy, and the backends that take its events.
pub struct Audit {
    /// Detached from the server, so that it ends last: the other parts still record events while they end.
    env: Env,
    policy: Policy,
    backends: Vec<Backend>,
    events: Counter,
    rejected: Counter,
    levels: Counters,
}

impl Audit {
    /// Opens the backends that flags name. Returns `None` without a policy or without a backend.
    pub fn new(env: &Env, options: &AuditOptions) -> Result<Option<Arc<Self>>, AuditError> {
        let policy = match &options.audit_policy_file {
            Some(path) => {
                let parsed = Policy::parse(&read_file("audit-policy-file", path)?);
                Some(parsed.map_err(|source| AuditError::Policy { path: path.clone(), source })?)
            }
            None => None,
        };
        let env = env.detached();
        let webhook = match &options.audit_webhook_config_file {
            Some(path) => {
                let webhook = Webhook::new(&env, &kubeconfig::read(path)?, options.audit_webhook_initial_backoff);
                Some(webhook.map_err(AuditError::Webhook)?)
            }
            None => None,
        };
        let mut backends = Vec::new();
        if let Some(path) = &options.audit_log_path {
            let opened = LogFile::open(&env, path, options.rotation());
            let log = opened.map_err(|source| AuditError::Log { path: path.clone(), source })?;
            let (sink, mode): (Arc<dyn Sink>, _) = (Arc::new(log), options.audit_log_mode);
            backends.push(Backend::new(&env, "log", sink, mode, options.log_batching(), options.log_truncation()));
        }
        if let Some(webhook) = webhook {
            let sink: Arc<dyn Sink> = Arc::new(webhook);
            let (mode, batching) = (options.audit_webhook_mode, options.webhook_batching());
            backends.push(Backend::new(&env, "webhook", sink, mode, batching, options.webhook_truncation()));
        }
        match policy {
            None if !backends.is_empty() => {
                tracing::warn!("no --audit-policy-file is given: no audit events will be recorded");
                Ok(None)
            }
            Some(policy) if !backends.is_empty() => Ok(Some(Arc::new(Self::of(env, policy, backends)))),
            _ => Ok(None),
        }
    }

    fn of(env: Env, policy: Policy, backends: Vec<Backend>) -> Self {
        let metrics = env.metrics();
        let one = |name, help| metrics.counters(name, help).get_or_create_owned(&vec![]);
        Self {
            events: one("apiserver_audit_event_total", "Audit events that were given to the backends"),
            rejected: one(
                "apiserver_audit_requests_rejected_total",
                "Requests that were refused because their audit event could not be stored",
            ),
            levels: metrics.counters("apiserver_audit_level_total", "Requests by the level of their audit"),
            env,
            policy,
            backends,
        }
    }

    /// Decides what is recorded of a request.
    fn decide(&self, info: &RequestInfo, user: Option<&UserInfo>) -> Decision {
        let decision = self.policy.decide(info, user);
        self.levels.get_or_create(&vec![("level", decision.level.to_string())]).inc();
        decision
    }

    /// Passes an event to every backend. Returns false if the request must fail because the event could not be stored.
    async fn process(&self, event: Event) -> bool {
        self.events.inc();
        let event = Arc::new(event);
        let mut stored = true;
        for backend in &self.backends {
            stored &= backend.process(&event).await;
        }
        stored
    }

    /// Counts a request that is refused because its event could not be stored.
    fn reject(&self) {
        self.rejected.inc();
    }

    /// Passes an event to every backend without waiting.
    fn process_soon(&self, event: Event) {
        self.events.inc();
        let event = Arc::new(event);
        self.backends.iter().for_each(|backend| backend.process_soon(&self.env, &event));
    }

    /// Writes the events that are still buffered. No event may follow.
    pub async fn close(&self) {
        self.env.drain().await;
    }
}
