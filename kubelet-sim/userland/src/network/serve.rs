//! Serves connections: every connection has its own thread of the server's process.

use super::http::{Malformed, Request, Response, parse_request};
use crate::process::network::{Connection, Protocol};
use crate::process::proc::{Outcome, Proc, Stop};
use crate::process::sockets::Received;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The end of a connection's thread. An error ends the whole server.
pub type Thread = Pin<Box<dyn Future<Output = Result<(), Stop>> + Send>>;
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response, Stop>> + Send + 'a>>;

/// Connections that are served at one time.
const MAX_CONNECTIONS: usize = 256;
/// The time for which a silent client is waited for.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// A port on which a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub protocol: Protocol,
    pub number: u16,
    pub is_tls: bool,
}

impl Port {
    pub fn tcp(number: u16) -> Self {
        Self { protocol: Protocol::Tcp, number, is_tls: false }
    }

    pub fn udp(number: u16) -> Self {
        Self { protocol: Protocol::Udp, number, is_tls: false }
    }
}

/// Pages that a server has.
pub trait Site: Send + Sync {
    fn answer<'a>(&'a self, proc: &'a mut Proc, request: &'a Request, connection: &'a Connection) -> Answering<'a>;
}

/// Listens on ports; the error is the first port that another process has.
pub fn listen(proc: &Proc, ports: &[Port]) -> Result<(), u16> {
    for port in ports {
        if !proc.kernel.network.listen(port.protocol, port.number, proc.pid, port.is_tls) {
            return Err(port.number);
        }
    }
    Ok(())
}

/// Serves ports on which the process listens, until a thread ends the server.
pub async fn serve(proc: &mut Proc, ports: &[Port], mut start: impl FnMut(Proc, Connection) -> Thread) -> Outcome {
    let ports: Vec<(Protocol, u16)> = ports.iter().map(|port| (port.protocol, port.number)).collect();
    let mut threads: Vec<Thread> = Vec::new();
    loop {
        let accepted = {
            let mut accepting = Box::pin(proc.accept(&ports));
            poll_fn(|cx| {
                let mut stop = None;
                threads.retain_mut(|thread| match thread.as_mut().poll(cx) {
                    Poll::Ready(ended) => {
                        stop = stop.or(ended.err());
                        false
                    }
                    Poll::Pending => true,
                });
                if let Some(stop) = stop {
                    return Poll::Ready(Err(stop));
                }
                if threads.len() >= MAX_CONNECTIONS {
                    return Poll::Pending;
                }
                accepting.as_mut().poll(cx).map(Ok)
            })
            .await
        };
        let connection = accepted?;
        threads.push(start(proc.thread(), connection));
    }
}

/// Serves pages on TCP ports.
pub async fn serve_site(proc: &mut Proc, ports: &[Port], site: Arc<dyn Site>) -> Outcome {
    serve(proc, ports, |proc, connection| Box::pin(http_thread(proc, connection, site.clone()))).await
}

/// Answers the requests of one connection.
pub async fn http_thread(mut proc: Proc, connection: Connection, site: Arc<dyn Site>) -> Result<(), Stop> {
    let mut unread = Vec::new();
    loop {
        let (request, length) = match parse_request(&unread) {
            Ok(parsed) => parsed,
            Err(Malformed::Invalid) => {
                let bad = Response::text(400, "400 Bad Request").with_header("Connection", "close");
                let _ = proc.send(&connection, &bad.bytes("GET")).await;
                return Ok(());
            }
            Err(Malformed::Incomplete) => {
                match proc.receive(&connection, proc.after(Some(IDLE_LIMIT))).await {
                    Received::Bytes(bytes) => unread.extend(bytes),
                    Received::End | Received::TimedOut => return Ok(()),
                }
                continue;
            }
        };
        unread.drain(..length);
        let mut response = site.answer(&mut proc, &request, &connection).await?;
        response.headers.set_default("Date", proc.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
        response.headers.set_default("Content-Length", response.body.len().to_string());
        let keeps = request.keeps_connection();
        if !keeps {
            response.headers.set_default("Connection", "close");
        }
        // A client that has gone does not end the server.
        if proc.send(&connection, &response.bytes(&request.method)).await.is_err() || !keeps {
            return Ok(());
        }
    }
}
