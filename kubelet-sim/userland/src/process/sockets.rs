//! The calls of the system about the network.

use super::kernel::Kernel;
use super::network::{ConnectError, Connection, Ends, LookupAnswer, NetworkRequest, Protocol, RecordType, Reply};
use super::pipe::BrokenPipe;
use super::proc::{CHUNK_BYTES, Proc, Stop};
use super::sleep::Sleep;
use jiff::Timestamp;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

/// What arrives at a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Bytes(Vec<u8>),
    End,
    TimedOut,
}

impl Proc {
    /// Returns the time after a duration; `None` for never.
    pub fn after(&self, time: Option<Duration>) -> Option<Timestamp> {
        time.and_then(|time| self.now().checked_add(time).ok())
    }

    /// Waits for an answer of the network; `None` when it does not come in time.
    async fn reply<T>(&self, reply: Reply<T>, until: Option<Timestamp>) -> Option<T> {
        let mut sleep = Box::pin(Sleep::new(&self.kernel, until));
        poll_fn(|cx| match reply.take(cx.waker()) {
            Some(value) => Poll::Ready(Some(value)),
            None => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// True when requests to the network are answered. Without a network nothing is known about other hosts.
    fn has_network(&self) -> bool {
        let is_attached = self.kernel.network.is_attached();
        if !is_attached {
            self.tree().mark_used_unknown();
        }
        is_attached
    }

    /// Asks a DNS server.
    pub async fn lookup(&self, server: IpAddr, name: &str, record_type: RecordType) -> LookupAnswer {
        if !self.has_network() {
            return LookupAnswer::TimedOut;
        }
        let (name, reply) = (name.trim_end_matches('.').to_ascii_lowercase(), Reply::new());
        self.kernel.network.request(NetworkRequest::Lookup { server, name, record_type, reply: reply.clone() });
        self.reply(reply, None).await.unwrap_or(LookupAnswer::TimedOut)
    }

    /// Connects to a port. A host that stays silent is waited for until the limit, or for ever.
    pub async fn connect(
        &self,
        protocol: Protocol,
        to: SocketAddr,
        until: Option<Timestamp>,
    ) -> Result<Connection, ConnectError> {
        let network = &self.kernel.network;
        if to.ip().is_loopback() || network.addresses().contains(&to.ip()) {
            let client = network.client_address(to.ip());
            if let Some(connection) = network.open(protocol, Ends::direct(client, to)) {
                return Ok(connection);
            }
        }
        let answer = match self.has_network() {
            true => {
                let reply = Reply::new();
                network.request(NetworkRequest::Connect { to, protocol, reply: reply.clone() });
                self.reply(reply, None).await.unwrap_or(Err(ConnectError::TimedOut))
            }
            false => Err(ConnectError::TimedOut),
        };
        if matches!(answer, Err(ConnectError::TimedOut)) {
            let system_limit = self.after(Some(CONNECT_LIMIT));
            Sleep::new(&self.kernel, until.into_iter().chain(system_limit).min()).await;
        }
        answer
    }

    /// Returns whether a host answers a ping.
    pub async fn ping(&self, to: IpAddr) -> bool {
        if to.is_loopback() || self.kernel.network.addresses().contains(&to) {
            return true;
        }
        if !self.has_network() {
            return false;
        }
        let reply = Reply::new();
        self.kernel.network.request(NetworkRequest::Ping { to, reply: reply.clone() });
        self.reply(reply, None).await == Some(true)
    }

    /// Waits for the next connection to one of the ports.
    pub async fn accept(&self, ports: &[(Protocol, u16)]) -> Connection {
        poll_fn(|cx| {
            let next =
                ports.iter().find_map(|(protocol, port)| self.kernel.network.accept(*protocol, *port, cx.waker()));
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for bytes of the peer.
    pub async fn receive(&self, connection: &Connection, until: Option<Timestamp>) -> Received {
        let mut sleep = Box::pin(Sleep::new(&self.kernel, until));
        poll_fn(|cx| {
            if let Poll::Ready(bytes) = connection.poll_receive(cx, &self.kernel) {
                return Poll::Ready(if bytes.is_empty() { Received::End } else { Received::Bytes(bytes) });
            }
            sleep.as_mut().poll(cx).map(|()| Received::TimedOut)
        })
        .await
    }

    /// Sends bytes to the peer.
    pub async fn send(&self, connection: &Connection, bytes: &[u8]) -> Result<(), Stop> {
        let Some(output) = &connection.output else { return Err(Stop::BrokenPipe) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = poll_fn(|cx| {
                let written = output.poll_write(cx, rest);
                if written.is_pending() {
                    self.kernel.network.wait_for_peer();
                }
                written
            })
            .await;
            rest = &rest[written.map_err(|BrokenPipe| Stop::BrokenPipe)?..];
        }
        Ok(())
    }
}

impl Connection {
    /// Takes bytes of the peer; none at the end of its output.
    pub fn poll_receive(&self, cx: &mut Context<'_>, kernel: &Kernel) -> Poll<Vec<u8>> {
        let read = self.input.poll_read(cx, CHUNK_BYTES, None);
        if read.is_pending() {
            kernel.network.wait_for_peer();
        }
        read
    }

    /// Ends the output: the peer reads the end of its input.
    pub fn shut_down(&mut self) {
        self.output = None;
    }
}

/// The time after which the system gives up to connect to a silent host.
const CONNECT_LIMIT: Duration = Duration::from_secs(130);
