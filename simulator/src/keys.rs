//! The keys and certificates of simulated clusters. Everybody knows them: never use them for a real cluster.
//!
//! New keys cannot be derived from a seed, so runs that repeat byte for byte use these. They are valid from 2025 to 2125.

use component_base::kubeconfig::Connection;
use component_base::pki::CertKey;

/// The authority's certificate and key.
const AUTHORITY: &str = include_str!("../keys/ca.pem");
/// An ES256 key (PKCS#8 PEM) that signs service account tokens.
pub const SERVICE_ACCOUNT_KEY: &str = include_str!("../keys/service-account.pem");

/// Users and their certificates. Only the administrator is in `system:masters`.
const CLIENTS: [(&str, &str); 6] = [
    ("kubernetes-admin", include_str!("../keys/admin.pem")),
    ("system:kube-controller-manager", include_str!("../keys/controller-manager.pem")),
    ("system:kube-scheduler", include_str!("../keys/scheduler.pem")),
    ("system:orrery:node-fleet", include_str!("../keys/node-fleet.pem")),
    ("system:kube-proxy", include_str!("../keys/proxy.pem")),
    ("system:cloud-controller-manager", include_str!("../keys/cloud-controller-manager.pem")),
];

const KEY_BEGINS: &str = "-----BEGIN PRIVATE KEY-----";

/// Splits a file into its certificate and the key after it.
fn pair(pem: &str) -> CertKey {
    let at = pem.find(KEY_BEGINS).expect("each file has a key");
    CertKey { cert_pem: pem[..at].to_owned(), key_pem: pem[at..].to_owned() }
}

pub fn authority_pair() -> CertKey {
    pair(AUTHORITY)
}

/// Returns the authority's certificate, PEM.
pub fn authority_pem() -> String {
    pair(AUTHORITY).cert_pem
}

/// Returns a connection to `server` (`https://apiserver:6443`) as that user; anonymous if it has no certificate.
pub fn connection(server: &str, user: &str) -> Connection {
    let certificate = CLIENTS.iter().find(|(name, _)| *name == user).map(|(_, pem)| pair(pem));
    Connection {
        server: server.to_owned(),
        ca_pem: Some(authority_pem()),
        client_cert_pem: certificate.as_ref().map(|pair| pair.cert_pem.clone()),
        client_key_pem: certificate.map(|pair| pair.key_pem),
        ..Connection::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use component_base::pki;
    use component_base::tls::{self, Protocols};
    use rustls_pki_types::UnixTime;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn every_client_is_known_when_simulations_begin() {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(Env::simulated(1).wall().as_second().unsigned_abs()));
        let verifier = tls::client_verifier(&authority_pem()).unwrap();
        for (user, pem) in CLIENTS {
            let chain = tls::certificates("client", &pair(pem).cert_pem).unwrap();
            verifier.verify_client_cert(&chain[0], &[], now).unwrap();
            let (name, groups) = pki::subject(&chain[0]).unwrap();
            assert_eq!(name, user);
            assert_eq!(groups.contains(&"system:masters".to_owned()), user == "kubernetes-admin", "{user}");
            tls::client_config(&connection("https://apiserver:6443", user), Protocols::Http2AndHttp1).unwrap();
        }
    }
}
