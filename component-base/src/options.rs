//! Flags that several components share, under the names that Kubernetes gives them.

use crate::kubeconfig::{self, Connection, KubeconfigError};
use crate::tls::ServerTls;
use clap::Args;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// How a component reaches the API server.
#[derive(Args, Clone, Debug, Default)]
pub struct ClientOptions {
    /// Path to a kubeconfig file with the address of the API server and the component's identity
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second to the API server, on average; not limited where it is not given
    #[arg(long, value_name = "QPS")]
    pub kube_api_qps: Option<f64>,
    /// Requests at once that the limit lets pass
    #[arg(long, value_name = "N", requires = "kube_api_qps", default_value_t = DEFAULT_BURST)]
    pub kube_api_burst: u32,
}

/// As kube-controller-manager's.
const DEFAULT_BURST: u32 = 30;

impl ClientOptions {
    pub fn connection(&self) -> Result<Connection, KubeconfigError> {
        kubeconfig::read(&kubeconfig::locate(self.kubeconfig.as_deref())?)
    }
}

/// Where and as whom a component serves.
#[derive(Args, Clone, Debug)]
pub struct ServingOptions {
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to serve TLS on; 0 does not serve
    #[arg(long)]
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

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    #[error("--{flag}: {}: {source}", path.display())]
    Unreadable { flag: &'static str, path: PathBuf, source: std::io::Error },
    #[error("--tls-cert-file and --tls-private-key-file are both needed to serve TLS")]
    NoCertificate,
    #[error("--bind-address, --secure-port: cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// Reads the file that a flag names.
pub fn read_file(flag: &'static str, path: &Path) -> Result<String, OptionsError> {
    fs::read_to_string(path).map_err(|source| OptionsError::Unreadable { flag, path: path.to_owned(), source })
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
        })
    }

    /// Takes the port.
    pub async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, OptionsError> {
        tokio::net::TcpListener::bind(address).await.map_err(|source| OptionsError::Listen { address, source })
    }
}
