//! Sends one HTTP request and reads the answer.

use super::http::{Malformed, Request, Response, parse_response};
use super::resolver::{Family, ResolveError, resolve};
use super::url::Url;
use crate::process::network::{ConnectError, Connection, Protocol};
use crate::process::proc::Proc;
use crate::process::sockets::Received;
use jiff::Timestamp;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchError {
    Resolve(ResolveError),
    Connect(SocketAddr, ConnectError),
    /// The connection is made, but the answer does not come in time.
    TimedOut,
    /// The server has closed the connection without an answer.
    Empty,
    /// The answer is not HTTP.
    NotHttp,
    /// One side speaks TLS, and the other does not.
    NotTls,
}

/// How a request is sent.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    pub family: Family,
    /// Addresses to use instead of those of the host.
    pub addresses: Vec<IpAddr>,
    pub connect_limit: Option<Duration>,
    /// The time at which all must be done.
    pub until: Option<Timestamp>,
}

/// An answer, and the connection over which it came.
#[derive(Debug)]
pub struct Fetched {
    pub response: Response,
    pub local: SocketAddr,
    pub remote: SocketAddr,
}

/// Connects to a host: to the first of its addresses that answers.
pub async fn connect(
    proc: &mut Proc,
    (host, port): (&str, u16),
    protocol: Protocol,
    options: &FetchOptions,
) -> Result<Connection, FetchError> {
    let addresses = match options.addresses.is_empty() {
        true => resolve(proc, host, options.family).await.map_err(FetchError::Resolve)?,
        false => options.addresses.clone(),
    };
    let limit = proc.after(options.connect_limit);
    let until = [limit, options.until].into_iter().flatten().min();
    let mut last = FetchError::Resolve(ResolveError::Unknown);
    for address in addresses {
        let to = SocketAddr::new(address, port);
        match proc.connect(protocol, to, until).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = FetchError::Connect(to, error),
        }
    }
    Err(last)
}

/// Sends a request to the host of an address.
pub async fn fetch(
    proc: &mut Proc,
    url: &Url,
    request: &Request,
    options: &FetchOptions,
) -> Result<Fetched, FetchError> {
    let connection = connect(proc, (&url.host, url.port), Protocol::Tcp, options).await?;
    let (local, remote) = (connection.local, connection.remote);
    if connection.is_tls != url.is_tls() {
        if url.is_tls() {
            return Err(FetchError::NotTls);
        }
        let response = Response::text(400, "Client sent an HTTP request to an HTTPS server.\n");
        return Ok(Fetched { response, local, remote });
    }
    if proc.send(&connection, &request.bytes()).await.is_err() {
        return Err(FetchError::Empty);
    }
    let mut bytes = Vec::new();
    loop {
        let received = proc.receive(&connection, options.until).await;
        let is_over = match received {
            Received::Bytes(part) => {
                bytes.extend(part);
                false
            }
            Received::End => true,
            Received::TimedOut => return Err(FetchError::TimedOut),
        };
        match parse_response(&bytes, &request.method, is_over) {
            Ok(response) => return Ok(Fetched { response, local, remote }),
            Err(_) if is_over && bytes.is_empty() => return Err(FetchError::Empty),
            Err(Malformed::Invalid) => return Err(FetchError::NotHttp),
            Err(Malformed::Incomplete) if is_over => return Err(FetchError::NotHttp),
            Err(Malformed::Incomplete) => {}
        }
    }
}
