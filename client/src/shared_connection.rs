//! `SharedConnection`: the HTTP/2 connection over which all requests of a client go. The next request replaces a lost one.
//!
//! It speaks HTTP/2 through `h2` without hyper's client, which starts two more tasks for each request.
//! Corresponds to the connection pool of golang.org/x/net/http2.

use crate::connector::TlsConnector;
use crate::http2_body::{self, AnswerBody};
use bytes::Bytes;
use component_base::env::Env;
use component_base::http::Body;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body as _;
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Flow-control windows, large enough that one slow stream does not stall the others of its connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Most bytes of the headers of an answer, as in golang.org/x/net/http2.
const MAX_HEADER_BYTES: u32 = 10 << 20;
/// Streams that may be open before the server has said how many, as in golang.org/x/net/http2.
const MAX_STREAMS_AT_FIRST: usize = 100;
/// Times after which a dead peer is noticed, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct SharedConnection {
    env: Env,
    connector: TlsConnector,
    present: Mutex<Option<Open>>,
    /// Held while a connection is opened, so that all requests wait for the same one. Contains the last failure.
    opening: tokio::sync::Mutex<String>,
    /// Number of connections that were opened.
    opened: AtomicU64,
    /// Number of failures to open a connection.
    failures: AtomicU64,
    /// True if the server speaks only HTTP/1.
    is_outdated: AtomicBool,
}

/// A connection that was open when it was last used.
#[derive(Clone)]
struct Open {
    number: u64,
    requests: SendRequest<Bytes>,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// The server speaks only HTTP/1. The request was not sent.
    Http1(Box<Request<Body>>),
    /// No connection could be opened.
    Connect(String),
    /// The connection was lost. The server may have carried out the request.
    Lost(h2::Error),
}

impl SharedConnection {
    /// Makes a connection that is opened by its first request. Without TLS only HTTP/1 is spoken.
    pub fn new(env: &Env, connector: TlsConnector, is_secure: bool) -> Self {
        Self {
            env: env.clone(),
            connector,
            present: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            opened: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_outdated: AtomicBool::new(!is_secure),
        }
    }

    /// Sends a request to the server of its URI.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        let Some(mut requests) = self.ready(request.uri()).await? else {
            return Err(Unanswered::Http1(Box::new(request)));
        };
        let (mut head, body) = request.into_parts();
        if let Some(length @ 1..) = body.size_hint().exact() {
            head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
        }
        let is_empty = body.is_end_stream();
        let sent = requests.send_request(Request::from_parts(head, ()), is_empty);
        let (answer, stream) = sent.map_err(Unanswered::Lost)?;
        if !is_empty {
            http2_body::send(body, stream);
        }
        let answer = answer.await.map_err(Unanswered::Lost)?;
        Ok(answer.map(|body| Body::new(AnswerBody(body))))
    }

    /// Returns a connection that takes a request. One that was lost, or that its server closes, is replaced. Returns `None` if
    /// the server speaks only HTTP/1.
    async fn ready(&self, server: &Uri) -> Result<Option<SendRequest<Bytes>>, Unanswered> {
        loop {
            let (open, is_new) = match self.present() {
                Some(open) => (Some(open), false),
                // In a box, so that a request over an open connection does not carry room for it.
                None => (Box::pin(self.connect(server)).await?, true),
            };
            let Some(Open { number, requests }) = open else { return Ok(None) };
            match requests.ready().await {
                Ok(requests) => return Ok(Some(requests)),
                Err(error) if is_new => return Err(Unanswered::Lost(error)),
                Err(_) => self.forget(number),
            }
        }
    }

    fn present(&self) -> Option<Open> {
        self.present.lock().clone()
    }

    fn forget(&self, number: u64) {
        self.present.lock().take_if(|open| open.number == number);
    }

    /// Opens a connection, unless another request has tried so meanwhile: both have the same result. Returns `None` if the
    /// server speaks only HTTP/1.
    async fn connect(&self, server: &Uri) -> Result<Option<Open>, Unanswered> {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut last_failure = self.opening.lock().await;
        if self.failures.load(Ordering::Relaxed) > failures {
            return Err(Unanswered::Connect(last_failure.clone()));
        }
        if self.is_outdated.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(open) = self.present() {
            return Ok(Some(open));
        }
        let stream = match self.connector.connect_in_time(server).await {
            Ok(stream) => stream,
            Err(error) => {
                *last_failure = error.to_string();
                self.failures.fetch_add(1, Ordering::Relaxed);
                return Err(Unanswered::Connect(last_failure.clone()));
            }
        };
        if !stream.is_http2() {
            self.is_outdated.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let mut handshake = Builder::new();
        handshake
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(MAX_HEADER_BYTES)
            .initial_max_send_streams(MAX_STREAMS_AT_FIRST)
            .enable_push(false);
        let shaken = handshake.handshake(TokioIo::new(stream)).await;
        let (requests, connection) = shaken.map_err(Unanswered::Lost)?;
        TokioExecutor::new().execute(drive(self.env.clone(), connection));
        let open = Open { number: self.opened.fetch_add(1, Ordering::Relaxed), requests };
        *self.present.lock() = Some(open.clone());
        Ok(Some(open))
    }
}

/// Reads and writes the frames of a connection until it ends, or until the server no longer answers pings.
async fn drive<T: AsyncRead + AsyncWrite + Unpin>(env: Env, mut connection: Connection<T, Bytes>) {
    let pings = connection.ping_pong().expect("nobody else has taken them");
    tokio::select! {
        biased;
        ended = connection => match ended {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "a connection has ended"),
        },
        () = is_dead(&env, pings) => tracing::debug!("a connection has ended: no answer to a ping"),
    }
}

/// Waits until a ping has no answer.
async fn is_dead(env: &Env, mut pings: PingPong) {
    let mut answered = true;
    while answered {
        env.sleep(PING_INTERVAL).await;
        answered = matches!(env.timeout(PING_TIMEOUT, pings.ping(Ping::opaque())).await, Ok(Ok(_)));
    }
}
