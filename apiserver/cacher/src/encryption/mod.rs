//! Encryption at rest: the values of some resources can be read from the store only with a key from a file.
//!
//! Every value passes here between the registry and the engine. The first provider of its resource encrypts it, and the
//! provider that encrypted it decrypts it. Caches hold decrypted objects. Corresponds to
//! k8s.io/apiserver/pkg/storage/value.

pub mod cipher;
pub mod configuration;
pub mod reload;

use crate::DecodeError;
use arc_swap::ArcSwap;
use bytes::Bytes;
use component_base::env::Env;
use component_base::rng::Random;
use configuration::{Configuration, Provider};
use std::sync::Arc;
use tokio::sync::Notify;

/// Prefix of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// A server's configuration, which may be replaced while it runs.
#[derive(Clone, Debug)]
pub struct Encryption {
    configuration: Arc<ArcSwap<Configuration>>,
    replaced: Arc<Notify>,
    random: Random,
}

impl Encryption {
    pub fn new(env: &Env, configuration: Configuration) -> Self {
        let configuration = Arc::new(ArcSwap::from_pointee(configuration));
        Self { configuration, replaced: Arc::default(), random: env.random("apiserver/encryption") }
    }

    pub fn replace(&self, configuration: Configuration) {
        self.configuration.store(Arc::new(configuration));
        self.replaced.notify_one();
    }

    /// Waits until the configuration has been replaced since the last call. Only one task may wait.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    pub fn of(&self, group: &str, resource: &str) -> Transformer {
        Transformer { encryption: self.clone(), group: group.to_owned(), resource: resource.to_owned() }
    }
}

/// Encrypts and decrypts the values of one resource.
#[derive(Clone, Debug)]
pub struct Transformer {
    encryption: Encryption,
    group: String,
    resource: String,
}

impl Transformer {
    fn with<R>(&self, look: impl FnOnce(&[Provider]) -> R) -> R {
        look(self.encryption.configuration.load().providers(&self.group, &self.resource))
    }

    /// Returns the value to store under the key.
    pub fn seal(&self, key: &str, plain: Bytes) -> Bytes {
        self.with(|providers| match providers.first() {
            Some(Provider::Key { prefix, cipher }) => {
                [prefix.as_slice(), &cipher.seal(key, &plain, &self.encryption.random)].concat().into()
            }
            Some(Provider::Identity) | None => plain,
        })
    }

    /// Returns the decrypted value, or the reason why it cannot be decrypted.
    pub fn open(&self, key: &str, stored: &Bytes) -> Result<Bytes, DecodeError> {
        let fail = |why: &str| Err(DecodeError::Encrypted { key: key.to_owned(), why: why.to_owned() });
        if !stored.starts_with(ENCRYPTED) {
            // The value was stored before encryption was configured, and `identity` does not permit it any more.
            let is_plain = self.with(|providers| providers.is_empty() || providers.contains(&Provider::Identity));
            return if is_plain { Ok(stored.clone()) } else { fail("no matching prefix found") };
        }
        self.with(|providers| {
            let mut last = None;
            for provider in providers {
                let Provider::Key { prefix, cipher } = provider else { continue };
                let Some(sealed) = stored.strip_prefix(prefix.as_slice()) else { continue };
                match cipher.open(key, sealed) {
                    Ok(plain) => return Ok(plain.into()),
                    Err(why) => last = Some(why),
                }
            }
            let only_identity = providers.iter().all(|provider| *provider == Provider::Identity);
            let otherwise = if only_identity {
                "identity transformer tried to read encrypted data"
            } else {
                "no matching prefix found"
            };
            fail(last.unwrap_or(otherwise))
        })
    }

    /// Returns whether a new write of the value would be encrypted differently.
    pub fn is_stale(&self, stored: &[u8]) -> bool {
        self.with(|providers| match providers.first() {
            Some(Provider::Key { prefix, .. }) => !stored.starts_with(prefix),
            Some(Provider::Identity) | None => stored.starts_with(ENCRYPTED),
        })
    }

    /// Returns whether any provider is configured; otherwise no value is stale.
    pub fn is_configured(&self) -> bool {
        self.with(|providers| !providers.is_empty())
    }
}
