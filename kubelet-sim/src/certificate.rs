//! The client certificate of a node: requested with a bootstrap token at first, and by the node itself before it
//! expires.
//!
//! Corresponds to pkg/kubelet/certificate/bootstrap and k8s.io/client-go/util/certificate. Deviation: many nodes live
//! in one process, which reads for all of them under an identity of its own; only what a node writes, it writes under
//! its own certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Client, Renewal};
use component_base::certificate_request::node_request;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::pki;
use component_base::private_file;
use component_base::rng::Random;
use jiff::Timestamp;
use proto::Gvr;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// How long a request waits to be approved and signed, as with a kubelet; then another one is made.
const ISSUE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// First and longest pause between two reads of a request.
const POLL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// First and longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A certificate is exchanged after 70 to 90 percent of its life, at random, so that not all nodes ask at once.
const ROTATE_FROM: f64 = 0.7;
const ROTATE_WITHIN: f64 = 0.2;

/// How the nodes of a fleet get their certificates.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The connection with the bootstrap token.
    pub connection: Connection,
    /// True when a certificate is exchanged before it expires.
    pub rotates: bool,
    /// The folder that keeps certificates across restarts; `None` keeps none.
    pub cert_dir: Option<PathBuf>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    pub cert_pem: String,
    pub key_pem: String,
}

impl Identity {
    /// Returns the times from which and until which the certificate is valid.
    fn validity(&self) -> Option<(Timestamp, Timestamp)> {
        pki::life(&self.cert_pem).ok()
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.validity().is_some_and(|(_, end)| end > now)
    }
}

/// Returns when a certificate is exchanged; `fraction`, between 0 and 1, spreads the nodes.
pub fn rotation_deadline((begin, end): (Timestamp, Timestamp), fraction: f64) -> Timestamp {
    let life_s = (end.as_second() - begin.as_second()) as f64;
    let at_s = begin.as_second() + (life_s * (ROTATE_FROM + ROTATE_WITHIN * fraction)).round() as i64;
    Timestamp::from_second(at_s).unwrap_or(end)
}

/// Requests, stores and rotates the client certificate of one node.
pub struct CertificateManager {
    pub env: Env,
    pub bootstrap: Bootstrap,
    pub node: String,
    pub renewal: Renewal,
    pub random: Random,
}

impl CertificateManager {
    /// Calls `ready` as soon as the node has a certificate; then keeps it valid until shutdown.
    pub async fn run(self, ready: impl FnOnce()) {
        let shutdown = self.env.shutdown().clone();
        let keep = async {
            let mut identity = self.initial().await;
            ready();
            while let Some(life) = identity.validity().filter(|_| self.bootstrap.rotates) {
                let deadline = rotation_deadline(life, self.random.unit());
                let now = self.env.wall();
                if deadline > now {
                    let wait_s = u64::try_from(deadline.as_second() - now.as_second()).unwrap_or_default();
                    self.env.sleep(Duration::from_secs(wait_s)).await;
                }
                identity = self.request_until_issued(Some(&identity)).await;
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = keep => {}
        }
    }

    /// Returns the certificate of an earlier run while it is valid; otherwise requests one with the bootstrap token.
    async fn initial(&self) -> Identity {
        if let Some(identity) = self.load().await.filter(|kept| kept.is_valid(self.env.wall()))
            && self.renewal.renew(&self.connection(&identity)).is_ok()
        {
            return identity;
        }
        self.request_until_issued(None).await
    }

    /// Requests a certificate until one is issued; then uses and stores it. A node authenticates by its valid
    /// certificate, or without one by the bootstrap token.
    async fn request_until_issued(&self, held: Option<&Identity>) -> Identity {
        let mut pause = RETRY.0;
        loop {
            let held = held.filter(|held| held.is_valid(self.env.wall()));
            let connection = held.map_or_else(|| self.bootstrap.connection.clone(), |held| self.connection(held));
            match self.request(&connection).await {
                Ok(identity) => {
                    tracing::info!(node = self.node, "a new client certificate");
                    return identity;
                }
                Err(error) => tracing::warn!(node = self.node, error, "no client certificate yet"),
            }
            self.env.sleep(self.random.jitter(pause, 0.1)).await;
            pause = (pause * 2).min(RETRY.1);
        }
    }

    fn connection(&self, identity: &Identity) -> Connection {
        Connection {
            client_cert_pem: Some(identity.cert_pem.clone()),
            client_key_pem: Some(identity.key_pem.clone()),
            token: None,
            token_file: None,
            ..self.bootstrap.connection.clone()
        }
    }

    async fn request(&self, connection: &Connection) -> Result<Identity, String> {
        let (key_pem, request_pem) = node_request(&self.node).map_err(|error| error.to_string())?;
        let client = Client::connect(&self.env, connection, "kubelet").map_err(|error| error.to_string())?;
        let requests = client.dynamic(&Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests"), "");
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": STANDARD.encode(request_pem),
                "signerName": SIGNER,
                "usages": ["digital signature", "client auth"],
            },
        });
        let created = requests.create(&request).await.map_err(|error| error.to_string())?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let issued = async {
            let mut pause = POLL.0;
            loop {
                let seen = requests.get(&name).await.map_err(|error| error.to_string())?;
                if let Some(cert_pem) = issued_certificate(&seen)? {
                    return Ok(cert_pem);
                }
                self.env.sleep(pause).await;
                pause = (pause * 2).min(POLL.1);
            }
        };
        let issued = self.env.timeout(ISSUE_LIMIT, issued).await;
        let cert_pem = issued.unwrap_or_else(|_| Err(format!("{name} was not signed in time")))?;
        let identity = Identity { cert_pem, key_pem };
        self.renewal.renew(&self.connection(&identity)).map_err(|error| error.to_string())?;
        self.store(&identity).await;
        Ok(identity)
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.bootstrap.cert_dir.as_ref()?.join(format!("{}-client-current.pem", self.node)))
    }

    /// Loads the stored certificate and key. As with a kubelet, both are in one file.
    async fn load(&self) -> Option<Identity> {
        let path = self.path()?;
        let text = self.env.blocking(move || std::fs::read_to_string(path)).await.ok()?;
        let at = text.find("-----BEGIN PRIVATE KEY-----")?;
        Some(Identity { cert_pem: text[..at].to_owned(), key_pem: text[at..].to_owned() })
    }

    async fn store(&self, identity: &Identity) {
        let Some(path) = self.path() else { return };
        let (text, at) = (format!("{}{}", identity.cert_pem, identity.key_pem), path.clone());
        let written = self.env.blocking(move || {
            at.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            private_file::write(&at, text.as_bytes())
        });
        if let Err(error) = written.await {
            tracing::warn!(path = %path.display(), %error, "the certificate is not kept");
        }
    }
}

/// Returns the certificate of a request, `None` while it is pending. The error says that it was denied or failed.
fn issued_certificate(request: &Value) -> Result<Option<String>, String> {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    for condition in conditions {
        if matches!(condition["type"].as_str(), Some("Denied" | "Failed")) {
            let field = |key: &str| condition[key].as_str().unwrap_or_default();
            return Err(format!("{}: {}: {}", field("type"), field("reason"), field("message")));
        }
    }
    let Some(encoded) = request["status"]["certificate"].as_str().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let pem = STANDARD.decode(encoded).ok().and_then(|pem| String::from_utf8(pem).ok());
    pem.map(Some).ok_or_else(|| "the certificate is not PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_exchanged_in_good_time() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let life = (at("2026-01-01T00:00:00Z"), at("2026-01-01T10:00:00Z"));
        for (fraction, expected) in [(0.0, "07:00:00"), (0.5, "08:00:00"), (1.0, "09:00:00")] {
            assert_eq!(rotation_deadline(life, fraction), at(&format!("2026-01-01T{expected}Z")));
        }
    }

    #[test]
    fn a_request_is_open_issued_or_refused() {
        let issued = json!({"status": {"certificate": STANDARD.encode("PEM"), "conditions": [{"type": "Approved"}]}});
        let denied = json!({"status": {"conditions": [{"type": "Denied", "reason": "No", "message": "not you"}]}});
        assert_eq!(issued_certificate(&json!({})), Ok(None));
        assert_eq!(issued_certificate(&json!({"status": {"conditions": [{"type": "Approved"}]}})), Ok(None));
        assert_eq!(issued_certificate(&issued), Ok(Some("PEM".to_owned())));
        assert_eq!(issued_certificate(&denied), Err("Denied: No: not you".to_owned()));
    }
}
