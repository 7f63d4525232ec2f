//! `Renewal`: replaces the certificates of a client while it is in use.
//!
//! Corresponds to the certificate rotation of k8s.io/client-go/transport and pkg/kubelet/certificate/transport.go.

use crate::client::Client;
use crate::error::Error;
use crate::transport::{SharedTransport, Transport};
use component_base::env::Env;
use component_base::file_watch::FileWatch;
use component_base::kubeconfig;
use component_base::kubeconfig::Connection;
use parking_lot::RwLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Replaces the transport of a client and of all clients made from it.
#[derive(Clone)]
pub struct Renewal {
    env: Env,
    current: SharedTransport,
    anonymous: SharedTransport,
}

impl Client {
    /// Returns the client in a form whose certificates can be replaced.
    pub fn renewable(mut self) -> (Self, Renewal) {
        let shared = |transport: &Arc<Transport>| Arc::new(RwLock::new(transport.clone()));
        let renewal =
            Renewal { env: self.env().clone(), current: shared(&self.transport), anonymous: shared(&self.anonymous) };
        self.transport = Arc::new(Transport::Renewable(renewal.current.clone()));
        self.anonymous = Arc::new(Transport::Renewable(renewal.anonymous.clone()));
        (self, renewal)
    }
}

impl Renewal {
    /// Uses this connection's certificates for new requests; running ones are not interrupted.
    pub fn renew(&self, connection: &Connection) -> Result<(), Error> {
        let bare = Connection { client_cert_pem: None, client_key_pem: None, ..connection.clone() };
        let (current, _) = Transport::connect(&self.env, connection)?;
        let (anonymous, _) = Transport::connect(&self.env, &bare)?;
        *self.current.write() = Arc::new(current);
        *self.anonymous.write() = Arc::new(anonymous);
        Ok(())
    }

    /// Renews until shutdown, whenever the kubeconfig or a file that it names changes.
    pub fn follow(self, path: PathBuf) -> impl Future<Output = ()> + Send {
        let mut watch = FileWatch::new(kubeconfig::files(&path));
        async move {
            let env = self.env.clone();
            let follow = async {
                loop {
                    watch.changed(&env).await;
                    self.renew_from(&path);
                }
            };
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => {}
                () = follow => {}
            }
        }
    }

    fn renew_from(&self, path: &Path) {
        let read = kubeconfig::read(path).map_err(|error| error.to_string());
        match read.and_then(|connection| self.renew(&connection).map_err(|error| error.to_string())) {
            Ok(()) => tracing::info!(path = %path.display(), "calling with the certificates that have come"),
            Err(error) => tracing::error!(%error, "the certificates stay as they were"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Call;
    use component_base::http::{Body, HttpService};
    use component_base::network::{ConnectionInfo, Network};
    use component_base::pki;
    use component_base_testing::fixtures;
    use http::{Method, Request, Response};
    use std::convert::Infallible;
    use std::time::Duration;

    const SERVER: &str = "https://apiserver:6443";

    /// Returns a service that answers with the name in the caller's certificate.
    fn whoami() -> HttpService {
        HttpService::new(tower::service_fn(|request: Request<Body>| async move {
            let peer = request.extensions().get::<ConnectionInfo>().unwrap();
            let subject = peer.peer_certificates.first().and_then(|leaf| pki::subject(leaf));
            Ok::<_, Infallible>(Response::new(Body::from(subject.map(|(name, _)| name).unwrap_or_default())))
        }))
    }

    async fn name(client: &Client) -> String {
        let answer = client.call(&Call::new(Method::GET, "/")).await.unwrap();
        String::from_utf8(answer.to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_kubeconfig_says_next_counts_for_all_who_call() {
        let env = Env::simulated(1);
        let Network::InProcess(network) = env.network() else { panic!("simulated") };
        network.register("apiserver:6443", whoami());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let write = |user: &str| kubeconfig::write(&path, &fixtures::connection(SERVER, user), "c", user).unwrap();
        write("system:kube-scheduler");
        let connection = kubeconfig::read(&path).unwrap();
        let (client, renewal) = Client::connect(&env, &connection, "test").unwrap().renewable();
        let another = client.with_user_agent("another");
        env.spawn(renewal.follow(path.clone()));
        let names = async || [name(&client).await, name(&another).await];
        assert_eq!(names().await, ["system:kube-scheduler"; 2]);
        write("system:kube-proxy");
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(names().await, ["system:kube-proxy"; 2]);
        // A file that cannot be read changes nothing.
        std::fs::write(&path, "{").unwrap();
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(names().await, ["system:kube-proxy"; 2]);
    }
}
