//! `AllowedClients`: who may call the cloud: clients whose certificate has one of a few names.
//!
//! A cloud has users of its own. Here they are certificates of the cluster's authority, so that no further secret is needed.

use component_base::health_server::AccessCheck;
use component_base::network::ConnectionInfo;
use component_base::pki;
use futures::future::BoxFuture;
use http::request::Parts;
use proto::Status;

#[derive(Clone, Debug)]
pub struct AllowedClients {
    /// Common names of certificates; empty to admit everybody.
    pub names: Vec<String>,
}

impl AllowedClients {
    fn check(&self, connection: Option<&ConnectionInfo>) -> Result<(), Status> {
        if self.names.is_empty() {
            return Ok(());
        }
        let certificate = connection.and_then(|connection| connection.peer_certificates.first());
        let Some((name, _)) = certificate.and_then(|certificate| pki::subject(certificate)) else {
            return Err(Status::unauthorized());
        };
        if self.names.contains(&name) {
            return Ok(());
        }
        Err(Status::forbidden("", "", "", format!("{name:?} may not use this cloud")))
    }
}

impl AccessCheck for AllowedClients {
    fn admit<'a>(&'a self, request: &'a Parts) -> BoxFuture<'a, Result<(), Status>> {
        let checked = self.check(request.extensions.get::<ConnectionInfo>());
        Box::pin(async move { checked })
    }
}
