//! `Peer`: the client of a connection, whose certificate is verified with every request.
//!
//! Corresponds to k8s.io/apiserver/pkg/authentication/request/x509, which verifies a certificate whenever it is used: one
//! that has expired, or whose authority was removed, no longer authenticates, even on an open connection.

use crate::env::Env;
use crate::network::ConnectionInfo;
use crate::tls::{self, ServerTls, TlsError};
use parking_lot::Mutex;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Verifiers of client certificates, by the two authorities.
pub struct Verifiers {
    client: Option<Arc<dyn ClientCertVerifier>>,
    proxy: Option<Arc<dyn ClientCertVerifier>>,
}

impl Verifiers {
    pub fn new(tls: &ServerTls) -> Result<Self, TlsError> {
        let client = tls.client_ca.as_deref().map(tls::client_verifier).transpose()?;
        let proxy = tls.proxy_ca.as_deref().map(tls::client_verifier).transpose()?;
        Ok(Self { client, proxy })
    }
}

/// The client of one connection.
pub struct Peer {
    address: SocketAddr,
    /// Certificates that the client presented, leaf first; the handshake has proven that it has the key.
    chain: Arc<[CertificateDer<'static>]>,
    last: Mutex<Option<Verification>>,
}

/// The cached result of a verification, since checking signatures takes time. Validity counts in whole seconds, so the
/// result holds within one second and for the same authorities.
struct Verification {
    second: u64,
    verifiers: Arc<Verifiers>,
    info: ConnectionInfo,
}

impl Peer {
    pub fn new(address: SocketAddr, chain: Vec<CertificateDer<'static>>) -> Self {
        Self { address, chain: chain.into(), last: Mutex::new(None) }
    }

    /// Returns the connection's information for a request that comes now.
    pub fn info(&self, env: &Env, verifiers: &Arc<Verifiers>) -> ConnectionInfo {
        let second = env.wall().as_second().unsigned_abs();
        let mut last = self.last.lock();
        if let Some(known) = &*last
            && known.second == second
            && Arc::ptr_eq(&known.verifiers, verifiers)
        {
            return known.info.clone();
        }
        let info = self.verify(second, verifiers);
        *last = Some(Verification { second, verifiers: verifiers.clone(), info: info.clone() });
        info
    }

    /// Verifies the chain. One that the client CA did not sign is marked as rejected, and the client gets 401.
    fn verify(&self, second: u64, verifiers: &Verifiers) -> ConnectionInfo {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(second));
        let is_signed = |verifier: &Option<Arc<dyn ClientCertVerifier>>| match (verifier, self.chain.split_first()) {
            (Some(verifier), Some((leaf, intermediates))) => {
                verifier.verify_client_cert(leaf, intermediates, now).is_ok()
            }
            _ => false,
        };
        let is_client = is_signed(&verifiers.client);
        ConnectionInfo {
            peer_certificates: if is_client { self.chain.clone() } else { Arc::default() },
            rejected_certificate: !self.chain.is_empty() && !is_client,
            proxy_certificate: self.chain.first().filter(|_| is_signed(&verifiers.proxy)).cloned().map(Arc::new),
            remote_address: self.address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::pki::Subject;
    use std::net::Ipv4Addr;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn verifiers(client_ca: Option<String>, proxy_ca: Option<String>) -> Arc<Verifiers> {
        let tls = ServerTls { client_ca, proxy_ca, ..ServerTls::default() };
        Arc::new(Verifiers::new(&tls).unwrap())
    }

    /// On one connection, a certificate does not authenticate once it has expired or its authority is not trusted, and does
    /// again once the authority is trusted again.
    #[tokio::test(start_paused = true)]
    async fn every_request_is_judged_when_it_comes() {
        let env = Env::simulated(1);
        let pair =
            fixtures::authority().issue(&Subject { common_name: "ada", ..Subject::default() }, env.wall()).unwrap();
        let chain = tls::certificates("client certificate", &pair.cert_pem).unwrap();
        let peer = Peer::new((Ipv4Addr::LOCALHOST, 1).into(), chain);
        let authority = Some(fixtures::authority_pem());
        let (both, none) = (verifiers(authority.clone(), authority), verifiers(None, None));
        let judged = |by: &Arc<Verifiers>| {
            let info = peer.info(&env, by);
            (info.peer_certificates.len(), info.rejected_certificate, info.proxy_certificate.is_some())
        };
        assert_eq!(judged(&both), (1, false, true));
        assert_eq!(judged(&none), (0, true, false));
        let [one, other] = [&both, &both].map(|by| peer.info(&env, by).peer_certificates);
        assert!(Arc::ptr_eq(&one, &other), "requests share what was shown");
        env.sleep(300 * DAY).await;
        assert_eq!(judged(&both), (1, false, true));
        env.sleep(100 * DAY).await;
        assert_eq!(judged(&both), (0, true, false));
        assert_eq!(judged(&both), (0, true, false));
    }
}
