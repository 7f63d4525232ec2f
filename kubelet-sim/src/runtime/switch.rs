//! The switch: answers what the processes of containers ask of the network, and lets their peers go on.
//!
//! Corresponds to the dataplane of a cluster: CoreDNS, the rules of kube-proxy, and the network of pods. A connection
//! joins the processes of two containers. Nothing is sent over a real network.
//!
//! Deviation: containers see the network as it is when somebody looks at them, which may be later than in their own time.
//! Pods that another process simulates, and hosts outside of the cluster, are silent.

use super::container::{NodeContext, PodContainer};
use super::gateway::{self, Gateway};
use super::run::Run;
use super::{Peer, RunKey, SharedProcesses};
use crate::network::dns;
use crate::network::routes::{Caller, Route, route};
use crate::network::variables::MASTER;
use futures::future::BoxFuture;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use userland::process::kernel::FIRST;
use userland::process::network::{ConnectError, Connection, Ends, LookupAnswer, NetworkRequest, Protocol, RecordType};

/// Rounds of questions and answers of one look at a container. What is not done then is done at the next look.
const MAX_ROUNDS: u32 = 2_000;
/// Containers that ask each other in turn for one answer.
const MAX_DEPTH: u32 = 6;

/// Runs the processes of a container up to the present time. What they ask of the network is answered.
pub async fn advance(node: &NodeContext<'_>, container: &PodContainer, key: &RunKey, processes: &SharedProcesses) {
    Look { node, container, key, processes, depth: 0 }.advance().await;
}

/// Returns the next time at which the processes of a run, or those to which they are connected, go on by themselves.
pub fn next_wake(node: &NodeContext<'_>, key: &RunKey, processes: &SharedProcesses) -> Option<Timestamp> {
    let peers = node.runtime.peers(key);
    let of_peers = peers.iter().filter_map(|peer| peer.processes.lock().next_wake());
    of_peers.chain(processes.lock().next_wake()).min()
}

/// Connects a client from outside of the cluster to a port of a pod; `None` when nothing listens there.
pub async fn connect_from_outside(
    node: &NodeContext<'_>,
    (pod, status): (&Arc<Pod>, &PodStatus),
    port: u16,
    client: SocketAddr,
) -> Option<OutsideConnection> {
    let address = status.pod_ip.as_deref().and_then(|ip| ip.parse().ok())?;
    let server = SocketAddr::new(address, port);
    let ends = Ends::direct(client, server);
    let (connection, server) = open(node, (pod, status), Protocol::Tcp, ends).await?;
    Some(OutsideConnection { connection, server })
}

/// A connection of a client that is no container.
pub struct OutsideConnection {
    pub connection: Connection,
    server: Server,
}

impl OutsideConnection {
    /// Lets the server go on up to the present time.
    pub async fn advance(&self, node: &NodeContext<'_>) {
        let Server { container, peer } = &self.server;
        let look = Look { node, container, key: &peer.key, processes: &peer.processes, depth: 1 };
        look.advance().await;
        look.wake_if_ended();
    }
}

/// A container whose process listens.
struct Server {
    container: PodContainer,
    peer: Peer,
}

/// The processes of a container that are looked at.
struct Look<'a> {
    node: &'a NodeContext<'a>,
    container: &'a PodContainer,
    key: &'a RunKey,
    processes: &'a SharedProcesses,
    depth: u32,
}

impl Look<'_> {
    /// Boxed, because the processes of one container may wait for those of another one.
    fn advance(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for _ in 0..MAX_ROUNDS {
                let requests = {
                    let mut processes = self.processes.lock();
                    processes.advance_to(self.node.env.wall());
                    processes.network().take_requests()
                };
                for request in requests {
                    self.answer(request).await;
                }
                if self.processes.lock().is_ready() {
                    continue;
                }
                if let Some(api_server) = self.node.cluster.api_server()
                    && gateway::serve(self.node.runtime, self.key, api_server, self.node.env).await
                {
                    continue;
                }
                if self.depth < MAX_DEPTH {
                    self.advance_peers().await;
                }
                let processes = self.processes.lock();
                if processes.is_ready() {
                    continue;
                }
                if !processes.network().holds_clock() {
                    return;
                }
                processes.network().peers_are_silent();
            }
        })
    }

    async fn advance_peers(&self) {
        for peer in self.node.runtime.peers(self.key) {
            let Some(container) = self.container_of(&peer) else { continue };
            let node = self.node.cluster.context_of(&peer.node);
            let look = Look {
                node: &node,
                container: &container,
                key: &peer.key,
                processes: &peer.processes,
                depth: self.depth + 1,
            };
            look.advance().await;
            look.wake_if_ended();
        }
    }

    /// Lets the node notice that the container's own process has ended.
    fn wake_if_ended(&self) {
        if self.processes.lock().end_of(FIRST).is_some() {
            self.node.cluster.wake(&self.container.pod);
        }
    }

    /// Finds the container of a peer; `None` when its pod has gone.
    fn container_of(&self, peer: &Peer) -> Option<PodContainer> {
        let pods = self.node.cluster.pods_with_status(&peer.node);
        let (pod, status) = pods.into_iter().find(|(pod, _)| pod.uid() == peer.key.pod_uid)?;
        PodContainer::new(pod, status, &peer.key.container)
    }

    async fn answer(&self, request: NetworkRequest) {
        match request {
            NetworkRequest::Lookup { server, name, record_type, reply } => {
                reply.send(self.lookup(server, &name, record_type).await);
            }
            NetworkRequest::Connect { to, protocol, reply } => reply.send(self.connect(to, protocol).await),
            NetworkRequest::Ping { to, reply } => {
                let cluster = self.node.cluster;
                reply.send(cluster.pod_at(to).is_some() || cluster.node_at(to).is_some());
            }
        }
    }

    async fn lookup(&self, server: IpAddr, name: &str, record_type: RecordType) -> LookupAnswer {
        let dns = &self.node.dns;
        if !dns.servers.contains(&server.to_string()) {
            // Other servers know nothing of the cluster, and of nothing outside of it.
            return if server.is_loopback() { LookupAnswer::TimedOut } else { LookupAnswer::NoSuchName(Vec::new()) };
        }
        match self.node.cluster.services().view(self.node.env).await {
            Some(view) => dns::answer(&view, &dns.domain, name, record_type),
            None => LookupAnswer::TimedOut,
        }
    }

    async fn connect(&self, to: SocketAddr, protocol: Protocol) -> Result<Connection, ConnectError> {
        let client = self.processes.lock().network().client_address(to.ip());
        let cluster = self.node.cluster;
        if to.ip().is_loopback() || self.container.addresses().contains(&to.ip()) {
            let own = (&self.container.pod, &self.container.status);
            return self.dial(self.node, own, protocol, Ends::direct(client, to)).await;
        }
        if let Some((node, pod, status)) = cluster.pod_at(to.ip()) {
            let ends = Ends::direct(client, to);
            return self.dial(&cluster.context_of(&node), (&pod, &status), protocol, ends).await;
        }
        if protocol == Protocol::Tcp && cluster.api_server().is_some() && self.is_api_server(to).await {
            let (connection, server) = Connection::pair(protocol, Ends::direct(client, to), true);
            self.node.runtime.open_gateway(self.key, Gateway::new(server));
            return Ok(connection);
        }
        let at_node = cluster.node_at(to.ip());
        let server = match self.route(to, protocol, at_node.as_deref(), client).await? {
            Route::Endpoint(server) => server,
            Route::Rejected => return Err(ConnectError::Refused),
            Route::Dropped => return Err(ConnectError::TimedOut),
            Route::Elsewhere => match at_node {
                Some(node) => return self.dial_node(&node, protocol, client, to).await,
                None => return Err(ConnectError::TimedOut),
            },
        };
        // A pod that reaches itself through its Service is seen as its node.
        let is_own = self.container.addresses().contains(&server.ip());
        let client_seen = if is_own { self.node_end(client) } else { client };
        let ends = Ends { client, dialed: to, client_seen, server };
        match cluster.pod_at(server.ip()) {
            Some((node, pod, status)) => self.dial(&cluster.context_of(&node), (&pod, &status), protocol, ends).await,
            None => match cluster.node_at(server.ip()) {
                Some(node) => self.dial_node(&node, protocol, client, server).await,
                None => Err(ConnectError::TimedOut),
            },
        }
    }

    /// True for the port of the Service by which containers reach the API server.
    async fn is_api_server(&self, to: SocketAddr) -> bool {
        let Some(services) = self.node.cluster.services().services(self.node.env).await else { return false };
        let Some(spec) = services.get(MASTER.0, MASTER.1).and_then(|service| service.spec.clone()) else {
            return false;
        };
        let ip = to.ip().to_string();
        let has_ip = spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten()).any(|known| *known == ip);
        has_ip && spec.ports.iter().flatten().any(|port| port.port == i32::from(to.port()))
    }

    /// Returns the client's address as the node translates it.
    fn node_end(&self, client: SocketAddr) -> SocketAddr {
        let node = self.container.status.host_ip.as_deref().and_then(|ip| ip.parse().ok());
        SocketAddr::new(node.unwrap_or(client.ip()), client.port())
    }

    async fn route(
        &self,
        to: SocketAddr,
        protocol: Protocol,
        at_node: Option<&str>,
        client: SocketAddr,
    ) -> Result<Route, ConnectError> {
        let cluster = self.node.cluster;
        let view = cluster.services().view(self.node.env).await.ok_or(ConnectError::TimedOut)?;
        let zone = cluster.zone_of(&self.node.name);
        let caller = Caller { address: client.ip(), node: &self.node.name, zone: &zone };
        Ok(route(&view, (protocol, to), at_node, caller, &|below| cluster.draw(below)))
    }

    /// Connects to a pod.
    async fn dial(
        &self,
        node: &NodeContext<'_>,
        pod: (&Arc<Pod>, &PodStatus),
        protocol: Protocol,
        ends: Ends,
    ) -> Result<Connection, ConnectError> {
        match open(node, pod, protocol, ends).await {
            Some((connection, server)) => {
                if server.peer.key != *self.key {
                    self.node.runtime.connect(self.key, server.peer);
                }
                Ok(connection)
            }
            None => Err(ConnectError::Refused),
        }
    }

    /// Connects to a port of a node: to a pod in the node's own network, or to one that has a port of the node.
    async fn dial_node(
        &self,
        name: &str,
        protocol: Protocol,
        client: SocketAddr,
        to: SocketAddr,
    ) -> Result<Connection, ConnectError> {
        let node = self.node.cluster.context_of(name);
        for (pod, status) in self.node.cluster.pods_with_status(name) {
            let Some(spec) = &pod.spec else { continue };
            let is_on_host = spec.host_network == Some(true);
            let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
            let mapped = ports.filter(|port| port.host_port == Some(i32::from(to.port()))).find_map(|port| {
                let is_same = port.protocol.as_deref().unwrap_or("TCP") == protocol_name(protocol);
                let is_at = port
                    .host_ip
                    .as_deref()
                    .is_none_or(|ip| ip.is_empty() || ip == "0.0.0.0" || ip == "::" || ip == to.ip().to_string());
                u16::try_from(port.container_port).ok().filter(|_| is_same && is_at)
            });
            let port = match (is_on_host, mapped) {
                (true, _) => to.port(),
                (false, Some(port)) => port,
                (false, None) => continue,
            };
            let address = status.pod_ip.as_deref().and_then(|ip| ip.parse().ok()).unwrap_or(to.ip());
            let ends = Ends { client, dialed: to, client_seen: client, server: SocketAddr::new(address, port) };
            if let Ok(connection) = self.dial(&node, (&pod, &status), protocol, ends).await {
                return Ok(connection);
            }
        }
        Err(ConnectError::Refused)
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    }
}

/// Opens a connection to the container of a pod that listens on a port.
async fn open(
    node: &NodeContext<'_>,
    (pod, status): (&Arc<Pod>, &PodStatus),
    protocol: Protocol,
    ends: Ends,
) -> Option<(Connection, Server)> {
    let spec = pod.spec.as_ref()?;
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.as_str());
    for name in containers.map(|container| container.name.as_str()).chain(ephemeral) {
        let Some(container) = PodContainer::new(pod.clone(), status.clone(), name) else { continue };
        if !container.is_running() {
            continue;
        }
        let Some(Ok(run)) = container.container_status().map(|status| Run::of(status, pod.name(), false)) else {
            continue;
        };
        let (key, processes) = match container.pages().filter(|_| protocol == Protocol::Tcp) {
            Some(pages) if container.declared_ports().contains(&ends.server.port()) => {
                container.page_server(node, &run, pages)
            }
            _ => (container.key(&run), container.processes(node, &run).await),
        };
        let opened = {
            let mut processes = processes.lock();
            // The server must have come as far as its client, so that it listens.
            processes.advance_to(node.env.wall());
            processes.network().open(protocol, ends)
        };
        if let Some(connection) = opened {
            // A request may end the server.
            node.runtime.touch(&key);
            node.runtime.traffic.count(&key, node.env.wall());
            let peer = Peer { node: node.name.clone(), key, processes };
            return Some((connection, Server { container, peer }));
        }
    }
    None
}
