//! `orrery snapshot save` and `restore`: saves the whole state of a cluster to one file, for every engine.
//!
//! `save` asks the running API server. `restore` fills an empty store with the API server's own code.

use crate::place::Place;
use crate::up::data_dir::{DataDir, DataDirError};
use apiserver::config::{Config, StoreKind};
use apiserver::snapshot::{self, Snapshot, SnapshotError};
use bytes::Bytes;
use clap::{Args, Subcommand};
use client::Client;
use component_base::env::Env;
use component_base::http::Body;
use component_base::kubeconfig::{self, KubeconfigError};
use component_base::private_file;
use http_body_util::BodyExt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use storage::etcd::options::EtcdOptions;

/// Options of `orrery snapshot`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Save the state of a running cluster
    Save {
        #[command(flatten)]
        place: Place,
        /// Kubeconfig of an administrator [default: the cluster's own]
        #[arg(long, value_name = "PATH")]
        kubeconfig: Option<PathBuf>,
        /// Where to; replaced whole, or not at all
        file: PathBuf,
    },
    /// Fill the empty store of a cluster that does not run; for one in memory, see `up --restore`
    Restore {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        etcd: EtcdOptions,
        file: PathBuf,
    },
}

/// The reason why saving or restoring failed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Snapshot { path: PathBuf, source: SnapshotError },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("the API server's answer: {0}")]
    Answer(SnapshotError),
    #[error("the API server's answer was cut off: {0}")]
    CutOff(String),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Restore(#[from] apiserver::Error),
}

pub async fn run(options: Options, env: Env) -> Result<(), Error> {
    match options.command {
        Command::Save { place, kubeconfig, file } => {
            save(&kubeconfig.unwrap_or_else(|| place.kubeconfig()), &file, &env).await
        }
        Command::Restore { place, etcd, file } => restore(&place, etcd, &file, &env).await,
    }
}

async fn save(kubeconfig: &Path, file: &Path, env: &Env) -> Result<(), Error> {
    let client = Client::connect(env, &kubeconfig::read(kubeconfig)?, "orrery-snapshot")?;
    let request = http::Request::get(snapshot::PATH).body(Body::empty()).expect("a constant path makes a request");
    let answer = client.send(request).await?;
    let whole: Bytes = answer.into_body().collect().await.map_err(|error| Error::CutOff(error.to_string()))?.to_bytes();
    let snapshot = Snapshot::parse(&whole).map_err(Error::Answer)?;
    private_file::write(file, &whole).map_err(|source| Error::File { path: file.to_owned(), source })?;
    println!("{} objects at revision {} are in {}", snapshot.len(), snapshot.revision, file.display());
    Ok(())
}

async fn restore(place: &Place, etcd: EtcdOptions, file: &Path, env: &Env) -> Result<(), Error> {
    // Read before a directory is created.
    let whole = fs::read(file).map_err(|source| Error::File { path: file.to_owned(), source })?;
    let snapshot = Snapshot::parse(&whole.into());
    let snapshot = snapshot.map_err(|source| Error::Snapshot { path: file.to_owned(), source })?;
    // Held until the end, so that no cluster starts on a half-filled store.
    let data_dir = DataDir::open(&place.root())?;
    let in_etcd = !etcd.etcd_servers.is_empty();
    let store = Some(if in_etcd { StoreKind::Etcd } else { StoreKind::Embedded });
    let config = Config { store, etcd, data_dir: data_dir.store(), ..Config::default() };
    apiserver::restore(&config, env, &snapshot).await?;
    println!("{} objects are restored", snapshot.len());
    Ok(())
}
