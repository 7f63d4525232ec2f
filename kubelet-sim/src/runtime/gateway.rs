//! The gateway: containers reach the real API server at the address of the Service `kubernetes`.
//!
//! Corresponds to the endpoint of that Service. A request goes on with the headers that the container gives it, and with no
//! identity of this process: the API server sees the token of a service account, or nobody.
//!
//! Deviation: an answer that never ends, as that of a watch, is cut after ten seconds.

use super::{RunKey, Runtime};
use client::Client;
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::Connection as ServerConnection;
use futures::StreamExt;
use parking_lot::Mutex;
use std::time::Duration;
use userland::network::http::{Headers, Malformed, Request, Response, parse_request};
use userland::process::network::Connection;

/// The time for which an answer may go on, and the length of its body.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 4 << 20;
/// Headers that belong to one connection.
const OF_CONNECTION: [&str; 5] = ["connection", "content-length", "host", "transfer-encoding", "upgrade"];

/// Returns a client without any identity for the server of a connection.
pub fn anonymous(env: &Env, connection: &ServerConnection) -> Option<Client> {
    let anonymous = ServerConnection {
        client_cert_pem: None,
        client_key_pem: None,
        token: None,
        token_file: None,
        impersonate_user: String::new(),
        impersonate_groups: Vec::new(),
        ..connection.clone()
    };
    Client::connect(env, &anonymous, "container").ok()
}

/// The API server's side of a connection.
pub struct Gateway {
    connection: Connection,
    unread: Mutex<Vec<u8>>,
}

impl Gateway {
    pub fn new(connection: Connection) -> Self {
        Self { connection, unread: Mutex::default() }
    }

    /// Takes the next whole request; the error is the end of the connection.
    fn request(&self) -> Result<Option<Request>, ()> {
        let arrived = self.connection.pull();
        let is_over = arrived.as_ref().is_some_and(Vec::is_empty);
        let mut unread = self.unread.lock();
        unread.extend(arrived.unwrap_or_default());
        match parse_request(&unread) {
            Ok((request, length)) => {
                unread.drain(..length);
                Ok(Some(request))
            }
            Err(Malformed::Incomplete) if !is_over => Ok(None),
            Err(_) => Err(()),
        }
    }

    fn answer(&self, response: &Response, method: &str) {
        let bytes = response.bytes(method);
        let mut rest = bytes.as_slice();
        // What the container does not read in time is lost with the connection.
        while let Ok(taken @ 1..) = self.connection.push(rest) {
            rest = &rest[taken..];
        }
    }
}

/// Sends the requests of a container to the API server; false when there was none.
pub async fn serve(runtime: &Runtime, key: &RunKey, api_server: &Client, env: &Env) -> bool {
    let mut has_served = false;
    for gateway in runtime.gateways(key) {
        match gateway.request() {
            Ok(Some(request)) => {
                has_served = true;
                let response = send(api_server, env, &request).await;
                gateway.answer(&response, &request.method);
            }
            Ok(None) => {}
            Err(()) => runtime.close_gateway(key, &gateway),
        }
    }
    has_served
}

async fn send(api_server: &Client, env: &Env, request: &Request) -> Response {
    let failed = |why: String| Response::text(502, format!("{why}\n"));
    let mut builder = http::Request::builder().method(request.method.as_str()).uri(&request.target);
    let of_connection = |name: &str| OF_CONNECTION.iter().any(|known| known.eq_ignore_ascii_case(name));
    for (name, value) in request.headers.0.iter().filter(|(name, _)| !of_connection(name)) {
        builder = builder.header(name, value);
    }
    let sent = match builder.body(Body::from(request.body.clone())) {
        Ok(sent) => sent,
        Err(error) => return failed(error.to_string()),
    };
    let answer = match api_server.send(sent).await {
        Ok(answer) => answer,
        Err(error) => return failed(error.to_string()),
    };
    let (parts, body) = answer.into_parts();
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (!of_connection(name.as_str())).then(|| (name.to_string(), text))
    };
    let mut headers = Headers(parts.headers.iter().filter_map(field).collect());
    let body = read(body, env).await;
    headers.0.push(("Content-Length".to_owned(), body.len().to_string()));
    Response { status: parts.status.as_u16(), headers, body }
}

/// Reads a body to its end, or for as long as it may take.
async fn read(body: Body, env: &Env) -> Vec<u8> {
    let mut stream = body.into_data_stream();
    let mut whole = Vec::new();
    let until = env.wall() + ANSWER_LIMIT;
    while whole.len() < MAX_BODY_BYTES {
        let left = Duration::try_from(until.duration_since(env.wall())).unwrap_or_default();
        let part = tokio::select! {
            biased;
            part = stream.next() => part,
            () = env.sleep(left) => None,
        };
        match part {
            Some(Ok(part)) => whole.extend_from_slice(&part),
            Some(Err(_)) | None => break,
        }
    }
    whole
}
