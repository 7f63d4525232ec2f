//! `Renewal`: the other end of a client whose certificates are exchanged while it is in use.
//!
//! Corresponds to the certificate rotation of k8s.io/client-go/transport and pkg/kubelet/certificate/transport.go.

use crate::client::Client;
use crate::error::Error;
use crate::transport::{Transport, Way};
use component_base::env::Env;
use component_base::file_watch::FileWatch;
use component_base::kubeconfig;
use component_base::kubeconfig::Connection;
use parking_lot::RwLock;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Exchanges the ways of a client and of all that are made of it.
#[derive(Clone)]
pub struct Renewal {
    env: Env,
    way: Way,
    anonymous: Way,
}

impl Client {
    /// The same client, whose certificates can be exchanged.
    pub fn renewable(mut self) -> (Self, Renewal) {
        let way = |transport: &Arc<Transport>| Arc::new(RwLock::new(transport.clone()));
        let renewal = Renewal { env: self.env().clone(), way: way(&self.transport), anonymous: way(&self.anonymous) };
        self.transport = Arc::new(Transport::Renewable(renewal.way.clone()));
        self.anonymous = Arc::new(Transport::Renewable(renewal.anonymous.clone()));
        (self, renewal)
    }
}

impl Renewal {
    /// Requests go out under this connection's certificates from now on; those that are on their way are not cut.
    pub fn renew(&self, connection: &Connection) -> Result<(), Error> {
        let bare = Connection { client_cert_pem: None, client_key_pem: None, ..connection.clone() };
        let (way, _) = Transport::connect(&self.env, connection)?;
        let (anonymous, _) = Transport::connect(&self.env, &bare)?;
        *self.way.write() = Arc::new(way);
        *self.anonymous.write() = Arc::new(anonymous);
        Ok(())
    }

    /// Until shutdown: what a kubeconfig file and the files that it names say next is what counts. What they say now is
    /// known.
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

    /// Answers with the name in the caller's certificate.
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
        // What cannot be read changes nothing.
        std::fs::write(&path, "{").unwrap();
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(names().await, ["system:kube-proxy"; 2]);
    }
}
