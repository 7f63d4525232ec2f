//! Fixed keys and certificates for tests. Everybody knows them: never use them for a real cluster.
//!
//! New keys cannot be derived from a seed, so tests that repeat byte for byte use these. They are valid from 2025 to 2125.

use component_base::kubeconfig::Connection;
use component_base::pki::{Authority, CertKey};

/// The authority's certificate and key.
const AUTHORITY: &str = include_str!("../fixtures/ca.pem");
const SERVING: &str = include_str!("../fixtures/serving.pem");
/// An ES256 key (PKCS#8 PEM) that signs service account tokens, for `--service-account-signing-key-file`.
pub const SERVICE_ACCOUNT_KEY_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/service-account.pem");
/// The text of [`SERVICE_ACCOUNT_KEY_FILE`].
pub const SERVICE_ACCOUNT_KEY: &str = include_str!("../fixtures/service-account.pem");

/// One RSA key, in PKCS #8 and in PKCS #1.
pub const RSA_KEYS: [&str; 2] = [include_str!("../fixtures/rsa-pkcs8.pem"), include_str!("../fixtures/rsa-pkcs1.pem")];
/// One P-256 key, in PKCS #8 and in SEC 1. The latter is as openssl writes it, with the curve's parameters first.
pub const EC_KEYS: [&str; 2] = [include_str!("../fixtures/ec-pkcs8.pem"), include_str!("../fixtures/ec-sec1.pem")];

/// Users and their certificates. Only the administrator is in `system:masters`.
const CLIENTS: [(&str, &str); 4] = [
    ("kubernetes-admin", include_str!("../fixtures/admin.pem")),
    ("system:kube-controller-manager", include_str!("../fixtures/controller-manager.pem")),
    ("system:kube-scheduler", include_str!("../fixtures/scheduler.pem")),
    ("system:kube-proxy", include_str!("../fixtures/proxy.pem")),
];

const KEY_BEGINS: &str = "-----BEGIN PRIVATE KEY-----";

/// Splits a file into its certificate and the key after it.
fn pair(pem: &str) -> CertKey {
    let at = pem.find(KEY_BEGINS).expect("fixtures hold a key");
    CertKey { cert_pem: pem[..at].to_owned(), key_pem: pem[at..].to_owned() }
}

pub fn authority_pair() -> CertKey {
    pair(AUTHORITY)
}

pub fn authority() -> Authority {
    let CertKey { cert_pem, key_pem } = authority_pair();
    Authority::from_pem(&cert_pem, &key_pem).expect("fixtures are well-formed")
}

/// Returns the authority's certificate, PEM.
pub fn authority_pem() -> String {
    pair(AUTHORITY).cert_pem
}

/// Returns the API server's certificate, for `localhost`, `apiserver` and the names of the `kubernetes` Service.
pub fn serving() -> CertKey {
    pair(SERVING)
}

/// Returns the certificate of a user, if it has one.
pub fn client(user: &str) -> Option<CertKey> {
    CLIENTS.iter().find(|(name, _)| *name == user).map(|(_, pem)| pair(pem))
}

/// Returns a connection to `server` (`https://apiserver:6443`) as that user; anonymous if it has no certificate.
pub fn connection(server: &str, user: &str) -> Connection {
    let certificate = client(user);
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
    use component_base::tls::{self, Protocols, ServerTls};
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
        let CertKey { cert_pem, key_pem } = serving();
        tls::server_config(&ServerTls {
            cert: cert_pem,
            key: key_pem,
            client_ca: Some(authority_pem()),
            ..ServerTls::default()
        })
        .unwrap();
        assert_eq!(authority().cert_pem, authority_pem());
    }
}
