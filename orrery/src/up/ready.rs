//! Waits until a component is ready: by its `/readyz`, and by the objects that it writes.

use super::Options;
use super::components::{Component, server_url};
use client::{Client, ListOptions};
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::Connection;
use jiff::Timestamp;
use proto::kinds::api::coordination::v1::Lease;
use proto::kinds::api::core::v1::Node;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

/// Time between two checks.
const PAUSE: Duration = Duration::from_millis(20);
/// Time that a component gets to become ready.
const LIMIT: Duration = Duration::from_secs(60);
/// Additional time for each node.
const LIMIT_PER_NODE: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    #[error("administrator's connection: {0}")]
    Connect(client::Error),
    #[error("{what} after {} s", limit.as_secs())]
    NotReady { what: String, limit: Duration },
}

/// Observes the cluster as its administrator.
#[derive(Clone)]
pub struct Waiting {
    env: Env,
    client: Client,
    admin: Connection,
    bind_address: IpAddr,
    nodes: u32,
    /// Start of this run; objects that are older are from an earlier one.
    since: Timestamp,
}

impl Waiting {
    pub fn new(env: &Env, admin: &Connection, options: &Options) -> Result<Self, ReadyError> {
        Ok(Self {
            env: env.clone(),
            client: Client::connect(env, admin, "orrery-up").map_err(ReadyError::Connect)?,
            admin: admin.clone(),
            bind_address: options.bind_address,
            nodes: options.nodes,
            since: env.wall(),
        })
    }

    /// Returns the administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until the component reports ready and its objects show its work. Returns a description for people.
    pub async fn component(&self, component: &Component) -> Result<String, ReadyError> {
        let server = server_url(self.bind_address, component.port);
        self.reports_ready(component.name, &server).await?;
        match component.name {
            "apiserver" => Ok(server),
            "controller-manager" => self.leads("kube-controller-manager").await,
            "scheduler" => self.leads("kube-scheduler").await,
            "cloud-controller-manager" => self.leads("cloud-controller-manager").await,
            "kubelet-sim" => self.nodes().await,
            "cloud-sim" => Ok("machines of every node".to_owned()),
            _ => Ok("rules of every node".to_owned()),
        }
    }

    async fn reports_ready(&self, name: &str, server: &str) -> Result<(), ReadyError> {
        let connection = Connection { server: server.to_owned(), ..self.admin.clone() };
        let client = Client::connect(&self.env, &connection, "orrery-up").map_err(ReadyError::Connect)?;
        self.until(&format!("{name} is not ready"), LIMIT, || async {
            let request = http::Request::get("/readyz").body(Body::empty());
            let request = request.expect("a constant path makes a request");
            let is_ready = client.send(request).await.is_ok_and(|answer| answer.status().is_success());
            is_ready.then_some(())
        })
        .await
    }

    async fn leads(&self, name: &str) -> Result<String, ReadyError> {
        self.until(&format!("nobody leads {name}"), LIMIT, || async {
            let lease = self.client.api::<Lease>("kube-system").get(name).await.ok()?.spec?;
            let holder = lease.holder_identity.filter(|holder| !holder.is_empty())?;
            let is_ours = lease.renew_time.is_some_and(|renewed| renewed.0 >= self.since);
            is_ours.then(|| format!("leads as {holder}"))
        })
        .await
    }

    async fn nodes(&self) -> Result<String, ReadyError> {
        let wanted = usize::try_from(self.nodes).unwrap_or(usize::MAX);
        let limit = LIMIT + LIMIT_PER_NODE * self.nodes;
        self.until(&format!("fewer than {wanted} nodes are ready"), limit, || async {
            let nodes = self.client.api::<Node>("").list(&ListOptions::default()).await.ok()?;
            let ready = nodes.items.iter().filter(|node| is_ready(node)).count();
            (ready >= wanted).then(|| format!("{ready} nodes ready"))
        })
        .await
    }

    async fn until<T, F>(&self, what: &str, limit: Duration, look: impl Fn() -> F) -> Result<T, ReadyError>
    where
        F: Future<Output = Option<T>>,
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
        self.env.timeout(limit, looking).await.map_err(|_| ReadyError::NotReady { what, limit })
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
