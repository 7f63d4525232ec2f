//! The accept loop: TLS, HTTP/1.1 and 2, and who is at the other end.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/secure_serving.go.

use crate::env::Env;
use crate::file_watch::FileWatch;
use crate::network::{ConnectionInfo, HttpService};
use crate::options::OptionsError;
use crate::tls::{self, ServerTls, TlsError};
use arc_swap::ArcSwap;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

/// A handshake that takes longer is given up: nobody holds a socket without speaking.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// A connection's headers have to arrive in this time.
const HEADER_LIMIT: Duration = Duration::from_secs(32);
/// Windows large enough that one slow stream does not stall the others of its connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Streams of one connection; kube-apiserver allows 100 to unauthenticated and 1,000 to others.
const MAX_STREAMS: u32 = 1_000;
/// Streams that a client may take back before they were looked at, and that it may spoil: then the connection ends. Each
/// costs more to open than to reset.
const MAX_RESET_STREAMS: usize = 20;
const MAX_ERROR_STREAMS: usize = 1024;
/// Of all headers of a request; Go's server takes as much.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Connections at once: fewer than the files that a process may open. Others wait to be accepted.
const MAX_CONNECTIONS: usize = 20_000;
/// How long connections may take to finish after shutdown began.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Every HTTP method begins with an upper-case letter, and no TLS record does.
const NOT_TLS: &str = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// A port that has been taken, with the certificate to show there: whatever can be wrong with either is known by now.
pub struct SecureServer {
    listener: TcpListener,
    material: Arc<ArcSwap<Material>>,
    rotation: Option<Rotation>,
}

/// What a handshake needs.
struct Material {
    acceptor: TlsAcceptor,
    verifiers: Verifiers,
}

/// Files that may be replaced while the server runs, and how they are read.
struct Rotation {
    files: FileWatch,
    read: Box<dyn Fn() -> Result<ServerTls, OptionsError> + Send + Sync>,
}

/// Who may have signed a client's certificate.
#[derive(Clone)]
struct Verifiers {
    client: Option<Arc<dyn ClientCertVerifier>>,
    proxy: Option<Arc<dyn ClientCertVerifier>>,
}

impl Material {
    fn new(tls: &ServerTls) -> Result<Self, TlsError> {
        let acceptor = TlsAcceptor::from(Arc::new(tls::server_config(tls)?));
        let client = tls.client_ca.as_deref().map(tls::client_verifier).transpose()?;
        let proxy = tls.proxy_ca.as_deref().map(tls::client_verifier).transpose()?;
        Ok(Self { acceptor, verifiers: Verifiers { client, proxy } })
    }
}

impl Rotation {
    /// Until shutdown. What cannot be used is said, and what was there before stays.
    async fn run(mut self, env: Env, material: Arc<ArcSwap<Material>>) {
        let follow = async {
            loop {
                self.files.changed(&env).await;
                match self.read() {
                    Ok(new) => {
                        material.store(Arc::new(new));
                        tracing::info!("serving with the certificates that have come");
                    }
                    Err(error) => tracing::error!(%error, "the certificates stay as they were"),
                }
            }
        };
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => {}
            () = follow => {}
        }
    }

    fn read(&self) -> Result<Material, String> {
        let tls = (self.read)().map_err(|error| error.to_string())?;
        Material::new(&tls).map_err(|error| error.to_string())
    }
}

impl SecureServer {
    pub fn new(listener: TcpListener, tls: &ServerTls) -> Result<Self, TlsError> {
        Ok(Self { listener, material: Arc::new(ArcSwap::from_pointee(Material::new(tls)?)), rotation: None })
    }

    /// Shows and believes what the files say, also when they are replaced. Connections that are open stay as they are.
    pub fn following(
        self,
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<ServerTls, OptionsError> + Send + Sync + 'static,
    ) -> Self {
        Self { rotation: Some(Rotation { files: FileWatch::new(files), read: Box::new(read) }), ..self }
    }
    /// Serves until the environment shuts down, then lets running requests finish.
    pub async fn serve(self, env: &Env, service: HttpService) {
        let Self { listener, material, rotation } = self;
        let connections = env.child();
        if let Some(rotation) = rotation {
            connections.spawn(rotation.run(connections.clone(), material.clone()));
        }
        let shutdown = env.shutdown().clone();
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(&listener, &places) => accepted,
            };
            match accepted {
                Ok((place, stream, peer)) => {
                    let connection = Connection {
                        env: connections.clone(),
                        material: material.load_full(),
                        service: service.clone(),
                        peer,
                    };
                    connections.spawn(async move {
                        connection.run(stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Mostly "too many open files": give those that are open time to close.
                    tracing::warn!(%error, "accept failed");
                    env.sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let _ = env.timeout(DRAIN_LIMIT, connections.drain()).await;
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = places.clone().acquire_owned().await.expect("nobody closes the semaphore");
    let (stream, peer) = listener.accept().await?;
    Ok((place, stream, peer))
}

/// One accepted connection.
struct Connection {
    env: Env,
    material: Arc<Material>,
    service: HttpService,
    peer: SocketAddr,
}

impl Connection {
    async fn run(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let handshake = match self.env.timeout(HANDSHAKE_LIMIT, self.handshake(stream)).await {
            Ok(handshake) => handshake,
            Err(elapsed) => Err(std::io::Error::other(elapsed)),
        };
        let stream = match handshake {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(peer = %self.peer, %error, "TLS handshake failed");
                return;
            }
        };
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let info = self.identify(shown.iter().map(|c| c.clone().into_owned()).collect());
        let service = self.service.clone();
        let handler = service_fn(move |request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(info.clone());
            service.clone().oneshot(request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_LIMIT)
            .max_buf_size(MAX_HEADER_BYTES as usize);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(MAX_ERROR_STREAMS)
            .max_header_list_size(MAX_HEADER_BYTES);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), handler);
        tokio::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = self.env.shutdown().cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::trace!(peer = %self.peer, %error, "connection ended");
        }
    }

    /// Who speaks HTTP instead is told so in HTTP, as by Go's server.
    async fn handshake(&self, mut stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
            stream.write_all(NOT_TLS.as_bytes()).await?;
            stream.shutdown().await?;
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "the client does not speak TLS"));
        }
        self.material.acceptor.accept(stream).await
    }

    /// A chain that the client CA did not sign is not an identity, but the caller learns that by a 401.
    fn identify(&self, chain: Vec<CertificateDer<'static>>) -> ConnectionInfo {
        let now = Duration::from_secs(self.env.wall().as_second().unsigned_abs());
        let is_signed = |verifier: &Option<Arc<dyn ClientCertVerifier>>| match (verifier, chain.split_first()) {
            (Some(verifier), Some((leaf, intermediates))) => {
                verifier.verify_client_cert(leaf, intermediates, UnixTime::since_unix_epoch(now)).is_ok()
            }
            _ => false,
        };
        let is_client = is_signed(&self.material.verifiers.client);
        let proxy_certificate = chain.first().filter(|_| is_signed(&self.material.verifiers.proxy)).cloned();
        let rejected_certificate = !chain.is_empty() && !is_client;
        let peer_certificates = if is_client { chain } else { Vec::new() };
        ConnectionInfo { peer_certificates, rejected_certificate, proxy_certificate, remote_address: self.peer }
    }
}
