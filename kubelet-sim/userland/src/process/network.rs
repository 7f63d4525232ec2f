//! The network of a container as its processes see it: questions to DNS servers, connections, and ports that listen.
//!
//! Corresponds to the sockets of a kernel. Nothing here reaches a real network. A `NetworkRequest` waits until the owner
//! of the container takes it and answers it. A connection is a pair of pipes, which may join two containers.

use super::pipe::{ReadEnd, WriteEnd, pipe};
use super::signal::Pid;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;

/// Connections that may wait until a server accepts them.
const BACKLOG: usize = 128;
/// The first port that clients use.
const FIRST_CLIENT_PORT: u16 = 32_768;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A type of DNS records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordType {
    A,
    Aaaa,
    Cname,
    Ptr,
    Srv,
    Txt,
}

impl RecordType {
    /// Reads a name such as `SRV`, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::A, Self::Aaaa, Self::Cname, Self::Ptr, Self::Srv, Self::Txt];
        all.into_iter().find(|known| known.to_string().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Cname => "CNAME",
            Self::Ptr => "PTR",
            Self::Srv => "SRV",
            Self::Txt => "TXT",
        })
    }
}

/// The content of a DNS record. Names have no dot at their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordData {
    Address(IpAddr),
    Cname(String),
    Pointer(String),
    Service { priority: u16, weight: u16, port: u16, target: String },
    Text(String),
}

impl RecordData {
    pub fn record_type(&self) -> RecordType {
        match self {
            Self::Address(IpAddr::V4(_)) => RecordType::A,
            Self::Address(IpAddr::V6(_)) => RecordType::Aaaa,
            Self::Cname(_) => RecordType::Cname,
            Self::Pointer(_) => RecordType::Ptr,
            Self::Service { .. } => RecordType::Srv,
            Self::Text(_) => RecordType::Txt,
        }
    }
}

impl fmt::Display for RecordData {
    /// Writes the content as zone files have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Cname(name) | Self::Pointer(name) => write!(f, "{name}."),
            Self::Service { priority, weight, port, target } => write!(f, "{priority} {weight} {port} {target}."),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub ttl_s: u32,
    pub data: RecordData,
}

/// The answer of a DNS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupAnswer {
    /// The name exists. It may have no record of the type.
    Records(Vec<Record>),
    /// `NXDOMAIN`, behind the aliases that led to the name that does not exist.
    NoSuchName(Vec<Record>),
    /// `SERVFAIL`.
    ServerFailed,
    /// The server is silent.
    TimedOut,
}

/// The reason why a connection is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    Refused,
    Unreachable,
    TimedOut,
}

/// One side of a connection. Its peer reads the end of the input when this side is dropped.
#[derive(Debug)]
pub struct Connection {
    pub protocol: Protocol,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// True when the server speaks TLS. The bytes of a simulated connection are never encrypted.
    pub is_tls: bool,
    pub(super) input: ReadEnd,
    pub(super) output: Option<WriteEnd>,
}

impl Connection {
    /// Makes both sides of a connection: the client's and the server's. They may see other addresses of each other.
    pub fn pair(protocol: Protocol, ends: Ends, is_tls: bool) -> (Self, Self) {
        let ((server_input, client_output), (client_input, server_output)) = (pipe(), pipe());
        let Ends { client, dialed, client_seen, server } = ends;
        let side = |local, remote, input, output| Self { protocol, local, remote, is_tls, input, output: Some(output) };
        (side(client, dialed, client_input, client_output), side(server, client_seen, server_input, server_output))
    }
}

/// The addresses of a connection, as each side sees them.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub client: SocketAddr,
    /// The address that the client has asked for: of a Service, for example.
    pub dialed: SocketAddr,
    /// The address of the client as the server sees it.
    pub client_seen: SocketAddr,
    pub server: SocketAddr,
}

impl Ends {
    /// Returns the ends of a connection whose addresses are translated by nobody.
    pub fn direct(client: SocketAddr, server: SocketAddr) -> Self {
        Self { client, dialed: server, client_seen: client, server }
    }
}

/// The place of an answer that a process waits for.
#[derive(Debug)]
pub struct Reply<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    waiting: Option<Waker>,
}

impl<T> Clone for Reply<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Reply<T> {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Slot { value: None, waiting: None })))
    }

    /// Gives the answer to the process that waits.
    pub fn send(self, value: T) {
        let waiting = {
            let mut slot = self.0.lock();
            slot.value = Some(value);
            slot.waiting.take()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Takes the answer, or registers the waker.
    pub(super) fn take(&self, waker: &Waker) -> Option<T> {
        let mut slot = self.0.lock();
        slot.waiting = Some(waker.clone());
        slot.value.take()
    }
}

impl<T> Default for Reply<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Something that a process asks of the network.
#[derive(Debug)]
pub enum NetworkRequest {
    /// A question to a DNS server about a whole name, without a dot at its end.
    Lookup {
        server: IpAddr,
        name: String,
        record_type: RecordType,
        reply: Reply<LookupAnswer>,
    },
    Connect {
        to: SocketAddr,
        protocol: Protocol,
        reply: Reply<Result<Connection, ConnectError>>,
    },
    /// True is answered when the host is there.
    Ping {
        to: IpAddr,
        reply: Reply<bool>,
    },
}

#[derive(Debug)]
struct Listener {
    owner: Pid,
    is_tls: bool,
    waiting: VecDeque<Connection>,
    waker: Option<Waker>,
}

/// The sockets of one container.
#[derive(Debug, Default)]
pub struct NetworkStack(Mutex<Sockets>);

#[derive(Debug, Default)]
struct Sockets {
    /// True when somebody answers requests.
    is_attached: bool,
    addresses: Vec<IpAddr>,
    requests: Vec<NetworkRequest>,
    listeners: BTreeMap<(Protocol, u16), Listener>,
    /// True when a process has begun to wait for bytes of another container.
    waits_for_peer: bool,
    last_client_port: u16,
}

impl NetworkStack {
    /// From now on requests are answered. `addresses` are the container's own.
    pub fn attach(&self, addresses: Vec<IpAddr>) {
        let mut sockets = self.0.lock();
        (sockets.is_attached, sockets.addresses) = (true, addresses);
    }

    pub fn is_attached(&self) -> bool {
        self.0.lock().is_attached
    }

    pub fn addresses(&self) -> Vec<IpAddr> {
        self.0.lock().addresses.clone()
    }

    /// Returns the address of a new client that connects to another address.
    pub fn client_address(&self, to: IpAddr) -> SocketAddr {
        let mut sockets = self.0.lock();
        sockets.last_client_port = sockets.last_client_port.wrapping_add(1).max(FIRST_CLIENT_PORT);
        let own = sockets.addresses.iter().find(|own| own.is_ipv4() == to.is_ipv4()).copied();
        let address = if to.is_loopback() { to } else { own.unwrap_or(to) };
        SocketAddr::new(address, sockets.last_client_port)
    }

    pub fn request(&self, request: NetworkRequest) {
        self.0.lock().requests.push(request);
    }

    /// Takes the requests that nobody has answered yet.
    pub fn take_requests(&self) -> Vec<NetworkRequest> {
        std::mem::take(&mut self.0.lock().requests)
    }

    /// Lets a process listen; false when another one does.
    pub fn listen(&self, protocol: Protocol, port: u16, owner: Pid, is_tls: bool) -> bool {
        let mut sockets = self.0.lock();
        let is_free = !sockets.listeners.contains_key(&(protocol, port));
        if is_free {
            let listener = Listener { owner, is_tls, waiting: VecDeque::new(), waker: None };
            sockets.listeners.insert((protocol, port), listener);
        }
        is_free
    }

    /// Returns the ports on which processes listen.
    pub fn listening(&self) -> Vec<(Protocol, u16)> {
        self.0.lock().listeners.keys().copied().collect()
    }

    /// Closes a port.
    pub fn close(&self, protocol: Protocol, port: u16) {
        self.0.lock().listeners.remove(&(protocol, port));
    }

    /// Closes the ports of a process that has ended.
    pub fn close_all_of(&self, owner: Pid) {
        self.0.lock().listeners.retain(|_, listener| listener.owner != owner);
    }

    /// Takes the next connection to a port, or registers the waker.
    pub fn accept(&self, protocol: Protocol, port: u16, waker: &Waker) -> Option<Connection> {
        let mut sockets = self.0.lock();
        let listener = sockets.listeners.get_mut(&(protocol, port))?;
        listener.waker = Some(waker.clone());
        listener.waiting.pop_front()
    }

    /// Connects a client to a port of this container and returns the client's side. `None` when nothing listens.
    pub fn open(&self, protocol: Protocol, ends: Ends) -> Option<Connection> {
        let (client, waker) = {
            let mut sockets = self.0.lock();
            let listener = sockets.listeners.get_mut(&(protocol, ends.server.port()))?;
            if listener.waiting.len() >= BACKLOG {
                return None;
            }
            let (client, server) = Connection::pair(protocol, ends, listener.is_tls);
            listener.waiting.push_back(server);
            (client, listener.waker.take())
        };
        waker.into_iter().for_each(Waker::wake);
        Some(client)
    }

    /// Records that a process waits for its peer.
    pub fn wait_for_peer(&self) {
        let mut sockets = self.0.lock();
        sockets.waits_for_peer = sockets.is_attached;
    }

    /// Records that the peers have said everything that they can say by now.
    pub fn peers_are_silent(&self) {
        self.0.lock().waits_for_peer = false;
    }

    /// True when the clock must wait until requests are answered, or until the peers of connections have gone on.
    pub fn holds_clock(&self) -> bool {
        let sockets = self.0.lock();
        sockets.waits_for_peer || !sockets.requests.is_empty()
    }
}
