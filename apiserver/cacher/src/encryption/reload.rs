//! Reads the configuration at the start, and repeatedly if reloading is enabled.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/options/encryptionconfig/controller.

use super::Encryption;
use super::configuration::{Configuration, ConfigurationError};
use component_base::env::Env;
use component_base::options::{OptionsError, read_file};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FLAG: &str = "encryption-provider-config";
/// Interval between two reads of the file.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum EncryptionError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error("--{FLAG}: {}: {source}", path.display())]
    Configuration { path: PathBuf, source: ConfigurationError },
    #[error("--{FLAG}-automatic-reload needs --{FLAG}")]
    NothingToReload,
}

/// Reads the configuration at `path`, if given, and keeps reading it if `reloads`.
pub fn of(env: &Env, path: Option<&Path>, reloads: bool) -> Result<Encryption, EncryptionError> {
    let Some(path) = path else {
        return if reloads {
            Err(EncryptionError::NothingToReload)
        } else {
            Ok(Encryption::new(env, Configuration::default()))
        };
    };
    let text = read_file(FLAG, path)?;
    let parsed = Configuration::parse(&text);
    let parsed = parsed.map_err(|source| EncryptionError::Configuration { path: path.to_owned(), source })?;
    let encryption = Encryption::new(env, parsed);
    if reloads {
        env.spawn(follow(env.clone(), encryption.clone(), path.to_owned(), text));
    }
    Ok(encryption)
}

/// Replaces the configuration whenever the file changes. An invalid file changes nothing.
async fn follow(env: Env, encryption: Encryption, path: PathBuf, mut known: String) {
    let reloads = env.metrics().counters(
        "apiserver_encryption_config_controller_automatic_reloads_total",
        "Changes of the encryption configuration that were taken over, or were not",
    );
    let count = |status: &str| reloads.get_or_create(&vec![("status", status.to_owned())]).inc();
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(PERIOD) => {}
        }
        let file = path.clone();
        let text = match env.blocking(move || std::fs::read_to_string(file)).await {
            Ok(text) if text == known => continue,
            Ok(text) => text,
            Err(error) => {
                count("failure");
                tracing::error!(path = %path.display(), %error, "the encryption configuration cannot be read");
                continue;
            }
        };
        match Configuration::parse(&text) {
            Ok(configuration) => {
                encryption.replace(configuration);
                count("success");
                tracing::info!(path = %path.display(), "the encryption configuration has changed");
            }
            Err(error) => {
                count("failure");
                tracing::error!(path = %path.display(), %error, "the encryption configuration stays as it was");
            }
        }
        known = text;
    }
}
