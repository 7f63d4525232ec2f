//! Flags for a component's connection to the API server.
//!
//! Corresponds to ClientConnectionConfiguration of k8s.io/component-base/config.

use crate::kubeconfig::{self, Connection, KubeconfigError};
use clap::Args;
use std::path::PathBuf;

/// client-go's default, for components whose originals set no other.
const DEFAULT_BURST: u32 = 10;

#[derive(Args, Clone, Debug, Default)]
pub struct ClientOptions {
    /// Path to a kubeconfig file with the address of the API server and the component's identity
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second to the API server, on average; not limited where it is not given
    // Deviation: the originals limit themselves by default, to 20 to 50 requests a second; here the API server's own
    // limits are all there is unless somebody asks.
    #[arg(long, value_name = "QPS")]
    pub kube_api_qps: Option<f64>,
    /// Requests at once that the limit lets pass
    #[arg(long, value_name = "N", requires = "kube_api_qps")]
    pub kube_api_burst: Option<u32>,
}

impl ClientOptions {
    pub fn burst(&self) -> u32 {
        self.kube_api_burst.unwrap_or(DEFAULT_BURST)
    }

    pub fn connection(&self) -> Result<Connection, KubeconfigError> {
        kubeconfig::read(&self.path()?)
    }

    /// Returns the path of the file that `connection` reads.
    pub fn path(&self) -> Result<PathBuf, KubeconfigError> {
        kubeconfig::locate(self.kubeconfig.as_deref())
    }
}
