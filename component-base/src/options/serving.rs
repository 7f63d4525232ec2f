//! Flags for a component's HTTPS port.
//!
//! Corresponds to SecureServingOptions of k8s.io/apiserver/pkg/server/options.

use super::own_certificate::{InMemory, OwnCertificate};
use super::{OptionsError, read_file};
use crate::env::Env;
use crate::tls::{NamedCertificate, ServerTls};
use crate::tls_policy::TlsPolicy;
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
    /// Oldest version of TLS that is spoken: VersionTLS12 or VersionTLS13
    #[arg(long, value_name = "VERSION")]
    pub tls_min_version: Option<String>,
    /// Cipher suites of TLS 1.2 that are agreed to, by Go's names; all that are known where none is given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub tls_cipher_suites: Vec<String>,
    /// Certificate and key for clients that ask for these names, or for those in the certificate: CERT,KEY[:NAMES]
    #[arg(long, value_name = "CERT,KEY")]
    pub tls_sni_cert_key: Vec<String>,
    /// Authority (request-header CA) of the authenticating proxies' certificates, PEM.
    #[arg(skip)]
    pub proxy_ca_file: Option<PathBuf>,
    /// Certificate that is served if no file is given.
    #[arg(skip)]
    pub in_memory: Option<InMemory>,
}

impl ServingOptions {
    /// Returns the address to listen on; `None` if serving is switched off.
    pub fn address(&self, default_port: u16) -> Option<SocketAddr> {
        let port = self.secure_port.unwrap_or(default_port);
        (port != 0).then(|| SocketAddr::new(self.bind_address, port))
    }

    /// Adds a self-made certificate if the component serves and is given none. Reuses one from an earlier start.
    pub fn with_own_certificate(mut self, env: &Env, own: &OwnCertificate<'_>) -> Result<Self, OptionsError> {
        if self.secure_port == Some(0) || self.tls_cert_file.is_some() || self.tls_private_key_file.is_some() {
            return Ok(self);
        }
        match own.folder {
            Some(folder) => {
                let (cert, key) = own.keep(folder, env)?;
                (self.tls_cert_file, self.tls_private_key_file) = (Some(cert), Some(key));
            }
            None => self.in_memory = Some(own.in_memory(env)?),
        }
        Ok(self)
    }

    pub fn tls(&self) -> Result<ServerTls, OptionsError> {
        let client_ca = self.client_ca_file.as_ref().map(|path| read_file("client-ca-file", path)).transpose()?;
        self.tls_with(client_ca)
    }

    /// Reads the certificates, with an authority of clients that was read before.
    pub fn tls_with(&self, client_ca: Option<String>) -> Result<ServerTls, OptionsError> {
        let (cert, key) = match (&self.tls_cert_file, &self.tls_private_key_file, &self.in_memory) {
            (Some(cert), Some(key), _) => (read_file("tls-cert-file", cert)?, read_file("tls-private-key-file", key)?),
            (None, None, Some(own)) => (own.0.cert_pem.clone(), own.0.key_pem.clone()),
            _ => return Err(OptionsError::NoCertificate),
        };
        let invalid = |flag| move |message| OptionsError::Invalid { flag, message };
        let policy = TlsPolicy::default();
        let policy = policy.with_min_version(self.tls_min_version.as_deref().unwrap_or_default());
        let policy = policy.map_err(invalid("tls-min-version"))?.with_cipher_suites(&self.tls_cipher_suites);
        Ok(ServerTls {
            cert,
            key,
            client_ca,
            proxy_ca: self
                .proxy_ca_file
                .as_ref()
                .map(|path| read_file("requestheader-client-ca-file", path))
                .transpose()?,
            named: self.named()?.iter().map(SniFiles::read).collect::<Result<_, _>>()?,
            policy: policy.map_err(invalid("tls-cipher-suites"))?,
        })
    }

    /// Returns the files that `tls` reads.
    pub fn files(&self) -> Vec<PathBuf> {
        let own = [&self.tls_cert_file, &self.tls_private_key_file, &self.client_ca_file, &self.proxy_ca_file];
        let named = self.named().unwrap_or_default();
        let named = named.into_iter().flat_map(|files| [files.cert, files.key]);
        own.into_iter().flatten().cloned().chain(named).collect()
    }

    fn named(&self) -> Result<Vec<SniFiles>, OptionsError> {
        self.tls_sni_cert_key.iter().map(|text| SniFiles::parse(text)).collect()
    }

    /// Opens the port.
    pub async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, OptionsError> {
        tokio::net::TcpListener::bind(address).await.map_err(|source| OptionsError::Listen { address, source })
    }
}

const SNI: &str = "tls-sni-cert-key";

/// `CERT,KEY` or `CERT,KEY:NAME,NAME`.
struct SniFiles {
    cert: PathBuf,
    key: PathBuf,
    names: Vec<String>,
}

impl SniFiles {
    fn parse(text: &str) -> Result<Self, OptionsError> {
        let message = "expected comma separated certificate and key file paths".to_owned();
        let (files, names) = text.split_once(':').unwrap_or((text, ""));
        match files.split(',').collect::<Vec<_>>().as_slice() {
            [cert, key] if !cert.is_empty() && !key.is_empty() => {
                let names =
                    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                Ok(Self { cert: cert.into(), key: key.into(), names })
            }
            _ => Err(OptionsError::Invalid { flag: SNI, message }),
        }
    }

    fn read(&self) -> Result<NamedCertificate, OptionsError> {
        let (cert, key) = (read_file(SNI, &self.cert)?, read_file(SNI, &self.key)?);
        Ok(NamedCertificate { names: self.names.clone(), cert, key })
    }
}
