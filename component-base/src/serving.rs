//! The accept loop of a server: TLS, HTTP/1.1 and 2, and the clients' certificates.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/secure_serving.go.

mod activity;
mod places;
mod peer;
mod connection;

use crate::descriptors;
use crate::env::Env;
use crate::file_watch::FileWatch;
use crate::network::HttpService;
use crate::options::OptionsError;
use crate::tls::{self, ServerTls, TlsError};
use activity::Activity;
use arc_swap::ArcSwap;
use connection::Connection;
use peer::Verifiers;
use places::{Place, Places};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Silence after which a dead client is noticed, also in the middle of a watch.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(3 * 60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Time that connections get to finish after shutdown began.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// A listening port with its certificate. Errors of both are found when it is made, before it serves.
pub struct SecureServer {
    listener: TcpListener,
    material: Arc<ArcSwap<Material>>,
    rotation: Option<Rotation>,
    places: Arc<Places>,
}

/// The present certificates: for handshakes, and for verifying the client of each request.
struct Material {
    acceptor: TlsAcceptor,
    verifiers: Arc<Verifiers>,
}

/// Certificate files that may be replaced while the server runs, and their reader.
struct Rotation {
    files: FileWatch,
    read: Box<dyn Fn() -> Result<ServerTls, OptionsError> + Send + Sync>,
}

impl Material {
    fn new(tls: &ServerTls) -> Result<Self, TlsError> {
        let acceptor = TlsAcceptor::from(Arc::new(tls::server_config(tls)?));
        Ok(Self { acceptor, verifiers: Arc::new(Verifiers::new(tls)?) })
    }
}

impl Rotation {
    /// Reloads changed files until shutdown. If new files are unusable, logs the error and keeps the old certificates.
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
        let material = Arc::new(ArcSwap::from_pointee(Material::new(tls)?));
        Ok(Self { listener, material, rotation: None, places: Places::new(descriptors::connections()) })
    }

    /// Limits the number of connections at once to less than the process may have.
    pub fn with_connections(self, count: usize) -> Self {
        Self { places: Places::new(count), ..self }
    }

    /// Reloads certificates when their files change. Open connections stay open; their clients are verified against the new
    /// authorities.
    pub fn following(
        self,
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<ServerTls, OptionsError> + Send + Sync + 'static,
    ) -> Self {
        Self { rotation: Some(Rotation { files: FileWatch::new(files), read: Box::new(read) }), ..self }
    }

    /// Serves until the environment shuts down, then lets running requests finish.
    pub async fn serve(self, env: &Env, service: HttpService) {
        let Self { listener, material, rotation, places } = self;
        let connections = env.child();
        if let Some(rotation) = rotation {
            connections.spawn(rotation.run(connections.clone(), material.clone()));
        }
        let shutdown = env.shutdown().clone();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accept(env, &listener, &places) => accepted,
            };
            match accepted {
                Ok(Accepted { stream, address, activity, place }) => {
                    let (env, material, service) = (connections.clone(), material.clone(), service.clone());
                    let connection = Connection { env, material, service, address, activity, place };
                    connections.spawn(connection.run(stream));
                }
                Err(error) => {
                    // Mostly "too many open files": evict idle connections, and give them time to close.
                    tracing::warn!(%error, "accept failed");
                    places.evict_idle();
                    env.sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(listener);
        let _ = env.timeout(DRAIN_LIMIT, connections.drain()).await;
    }
}

struct Accepted {
    stream: TcpStream,
    address: SocketAddr,
    activity: Arc<Activity>,
    place: Place,
}

/// Accepts the next connection, once there is a place for it.
async fn accept(env: &Env, listener: &TcpListener, places: &Arc<Places>) -> io::Result<Accepted> {
    let (stream, address) = listener.accept().await?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    // A connection that is already closed fails at its first read.
    let _ = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    let activity = Arc::new(Activity::new(env));
    let place = places.take(&activity).await;
    Ok(Accepted { stream, address, activity, place })
}
