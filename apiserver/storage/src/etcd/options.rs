//! The flags about etcd, with the names of kube-apiserver.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options/etcd.go.

use super::grpc::EtcdTls;
use clap::Args;
use component_base::duration::parse_duration;
use component_base::kubeconfig::Connection;
use component_base::options::{OptionsError, read_file};
use component_base::tls::{self, Protocols};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct EtcdOptions {
    /// Members of the etcd cluster to keep the state in, as client URLs
    #[arg(long, value_delimiter = ',', value_name = "URLS")]
    pub etcd_servers: Vec<String>,
    /// What all keys in etcd begin with
    #[arg(long, default_value = "/registry", value_name = "PATH")]
    pub etcd_prefix: String,
    /// Authority (PEM) that signed etcd's certificates
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// Certificate (PEM) to show to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key (PEM) of the certificate to show to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// How often etcd's history is compacted; 0 leaves that to others
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = parse_duration)]
    pub etcd_compaction_interval: Duration,
    /// How much longer than its time to live a key may stay, to share a lease with others, at most
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub lease_reuse_duration_seconds: u64,
}

impl EtcdOptions {
    /// Reads the files that the flags name.
    pub fn tls(&self) -> Result<EtcdTls, OptionsError> {
        let ca = self.etcd_cafile.as_ref().map(|path| read_file("etcd-cafile", path)).transpose()?;
        let identity = match (&self.etcd_certfile, &self.etcd_keyfile) {
            (Some(cert), Some(key)) => Some((read_file("etcd-certfile", cert)?, read_file("etcd-keyfile", key)?)),
            _ => None,
        };
        let usable = |flag, connection| match tls::client_config(&connection, Protocols::Http2AndHttp1) {
            Ok(_) => Ok(()),
            Err(error) => Err(OptionsError::Invalid { flag, message: error.to_string() }),
        };
        usable("etcd-cafile", Connection { ca_pem: ca.clone(), ..Connection::default() })?;
        let (client_cert_pem, client_key_pem) = identity.clone().unzip();
        usable("etcd-certfile", Connection { client_cert_pem, client_key_pem, ..Connection::default() })?;
        Ok(EtcdTls { ca, identity })
    }
}
