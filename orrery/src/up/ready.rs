//! When a component counts as ready: what the API server and the objects that the component writes say of it.

use client::{Client, ListOptions};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::Node;
use std::future::Future;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// A component that is not ready by then will not be.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    #[error("administrator's connection: {0}")]
    Connect(client::Error),
    #[error("{what} after {} s", LIMIT.as_secs())]
    NotReady { what: String },
}

/// Looks at the cluster as its administrator.
#[derive(Clone)]
pub struct Waiting {
    env: Env,
    client: Client,
}

impl Waiting {
    pub fn new(env: &Env, admin: &Connection) -> Result<Self, ReadyError> {
        let client = Client::connect(env, admin, "orrery-up").map_err(ReadyError::Connect)?;
        Ok(Self { env: env.clone(), client })
    }

    /// Until the API server says that it is ready.
    pub async fn apiserver(&self) -> Result<String, ReadyError> {
        self.until("the API server is not ready", || async {
            let request = http::Request::get("/readyz").body(component_base::http::Body::empty());
            let request = request.expect("a constant path makes a request");
            let ready = self.client.send(request).await.is_ok_and(|answer| answer.status().is_success());
            ready.then(String::new)
        })
        .await
    }

    /// Until the component's work shows: a lease that it holds, nodes that are ready.
    pub async fn component(&self, name: &str, nodes: u32) -> Result<String, ReadyError> {
        match name {
            "controller-manager" => self.lease("kube-controller-manager").await,
            "scheduler" => self.lease("kube-scheduler").await,
            "kubelet-sim" => self.nodes(nodes).await,
            _ => Ok("rules of every node".to_owned()),
        }
    }

    async fn lease(&self, name: &str) -> Result<String, ReadyError> {
        self.until(&format!("nobody leads {name}"), || async {
            let lease = self.client.api::<Lease>("kube-system").get(name).await.ok()?;
            let holder = lease.spec?.holder_identity.filter(|holder| !holder.is_empty())?;
            Some(format!("leads as {holder}"))
        })
        .await
    }

    async fn nodes(&self, wanted: u32) -> Result<String, ReadyError> {
        self.until(&format!("fewer than {wanted} nodes are ready"), || async {
            let nodes = self.client.api::<Node>("").list(&ListOptions::default()).await.ok()?;
            let ready = nodes.items.iter().filter(|node| is_ready(node)).count();
            (ready >= usize::try_from(wanted).unwrap_or(usize::MAX)).then(|| format!("{ready} nodes ready"))
        })
        .await
    }

    async fn until<F>(&self, what: &str, look: impl Fn() -> F) -> Result<String, ReadyError>
    where
        F: Future<Output = Option<String>>,
    {
        let looking = async {
            loop {
                if let Some(seen) = look().await {
                    return seen;
                }
                self.env.sleep(PAUSE).await;
            }
        };
        let what = what.to_owned();
        self.env.timeout(LIMIT, looking).await.map_err(|_| ReadyError::NotReady { what })
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
