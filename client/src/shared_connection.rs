//! `SharedConnection`: the HTTP/2 connection over which all requests of a client go. The next request replaces a lost one.
//!
//! Corresponds to the connection pool of golang.org/x/net/http2.

use crate::connector::TlsConnector;
use component_base::http::Body;
use http::{Request, Response, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Flow-control windows, large enough that one slow stream does not stall the others of its connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Times after which a dead peer is noticed, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct SharedConnection {
    connector: TlsConnector,
    handshake: Builder<TokioExecutor>,
    present: Mutex<Option<SendRequest<Body>>>,
    /// Held while a connection is opened, so that all requests wait for the same one. Contains the last failure.
    opening: tokio::sync::Mutex<String>,
    /// Number of failures to open a connection.
    failures: AtomicU64,
    /// True if the server speaks only HTTP/1.
    is_outdated: AtomicBool,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    /// The server speaks only HTTP/1. The request was not sent.
    Http1(Box<Request<Body>>),
    /// No connection could be opened.
    Connect(String),
    /// The connection was lost. The server may have carried out the request.
    Lost(hyper::Error),
}

impl SharedConnection {
    /// Makes a connection that is opened by its first request. Without TLS only HTTP/1 is spoken.
    pub fn new(connector: TlsConnector, is_secure: bool) -> Self {
        let mut handshake = Builder::new(TokioExecutor::new());
        handshake
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        Self {
            connector,
            handshake,
            present: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            failures: AtomicU64::new(0),
            is_outdated: AtomicBool::new(!is_secure),
        }
    }

    /// Sends a request to the server of its URI. A request that was not sent when the connection was lost goes over the
    /// next one.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        loop {
            let (connection, is_new) = match self.open() {
                Some(open) => (Some(open), false),
                // In a box, so that a request over an open connection does not carry room for it.
                None => (Box::pin(self.connect(request.uri())).await?, true),
            };
            let Some(mut connection) = connection else { return Err(Unanswered::Http1(Box::new(request))) };
            match connection.try_send_request(request).await {
                Ok(answer) => return Ok(answer.map(Body::new)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(Unanswered::Lost(failed.into_error())),
                },
            }
        }
    }

    fn open(&self) -> Option<SendRequest<Body>> {
        self.present.lock().as_ref().filter(|connection| !connection.is_closed()).cloned()
    }

    /// Opens a connection, unless another request has tried so meanwhile: both have the same result. Returns `None` if the
    /// server speaks only HTTP/1.
    async fn connect(&self, uri: &Uri) -> Result<Option<SendRequest<Body>>, Unanswered> {
        let failures = self.failures.load(Ordering::Relaxed);
        let mut last_failure = self.opening.lock().await;
        if self.failures.load(Ordering::Relaxed) > failures {
            return Err(Unanswered::Connect(last_failure.clone()));
        }
        if self.is_outdated.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(open) = self.open() {
            return Ok(Some(open));
        }
        let stream = match self.connector.connect_in_time(uri).await {
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
        let (connection, driver) = self.handshake.handshake(stream).await.map_err(Unanswered::Lost)?;
        TokioExecutor::new().execute(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection has ended");
            }
        });
        *self.present.lock() = Some(connection.clone());
        Ok(Some(connection))
    }
}
