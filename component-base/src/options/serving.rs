//! Where and as whom a component serves.
//!
//! Corresponds to SecureServingOptions of k8s.io/apiserver/pkg/server/options.

use super::{OptionsError, read_file};
use crate::tls::ServerTls;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub struct ServingOptions {
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0", value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port to serve TLS on; 0 does not serve
    #[arg(long, value_name = "PORT")]
    pub secure_port: Option<u16>,
    /// Certificate (chain) to serve with, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Clients that show a certificate of this authority (PEM) are known by it
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
}

impl ServingOptions {
    /// Where to listen; `None` where serving is switched off.
    pub fn address(&self, default_port: u16) -> Option<SocketAddr> {
        let port = self.secure_port.unwrap_or(default_port);
        (port != 0).then(|| SocketAddr::new(self.bind_address, port))
    }

    pub fn tls(&self) -> Result<ServerTls, OptionsError> {
        let (Some(cert), Some(key)) = (&self.tls_cert_file, &self.tls_private_key_file) else {
            return Err(OptionsError::NoCertificate);
        };
        let client_ca = self.client_ca_file.as_ref().map(|path| read_file("client-ca-file", path)).transpose()?;
        Ok(ServerTls {
            cert: read_file("tls-cert-file", cert)?,
            key: read_file("tls-private-key-file", key)?,
            client_ca,
            proxy_ca: None,
        })
    }

    /// Takes the port.
    pub async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, OptionsError> {
        tokio::net::TcpListener::bind(address).await.map_err(|source| OptionsError::Listen { address, source })
    }
}
