//! Flags that several components share, under the names that Kubernetes gives them.
//!
//! Each group is a struct that a component flattens into its own command line. Corresponds to
//! k8s.io/component-base/config/options and k8s.io/apiserver/pkg/server/options.

pub mod original;
pub mod config_file;
pub mod feature_gates;
mod client;
mod leader_election;
mod own_certificate;
mod serving;

pub use client::ClientOptions;
pub use config_file::{ConfigFile, ConfigFileError};
pub use leader_election::{LEADER_JITTER, LeaderElectionOptions};
pub use original::{Original, OriginalFlags};
pub use own_certificate::{CertDirOptions, InMemory, OwnCertificate};
pub use serving::ServingOptions;

use clap::{Args, Command};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Returns a group of flags with its defaults. Every flag of the group must have a default or be optional.
pub fn defaults<Group: Args>() -> Group {
    let matches = Group::augment_args(Command::new("defaults")).get_matches_from(["defaults"]);
    Group::from_arg_matches(&matches).expect("every flag has a default")
}

/// An invalid flag; the text is one line.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    #[error("--{flag}: {}: {source}", path.display())]
    Unreadable { flag: &'static str, path: PathBuf, source: std::io::Error },
    #[error("--{flag}: {message}")]
    Invalid { flag: &'static str, message: String },
    #[error("--tls-cert-file and --tls-private-key-file are both needed to serve TLS")]
    NoCertificate,
    #[error("--bind-address, --secure-port: cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
}

/// Reads the file that a flag names.
pub fn read_file(flag: &'static str, path: &Path) -> Result<String, OptionsError> {
    fs::read_to_string(path).map_err(|source| OptionsError::Unreadable { flag, path: path.to_owned(), source })
}
