//! Encryption at rest: what lies in the store of some resources is readable only with a key from a file.
//!
//! Between the registry and the engine every value is sealed by the first provider of its resource, and opened by whichever
//! wrote it. Caches hold objects in the clear. Corresponds to k8s.io/apiserver/pkg/storage/value.

pub mod cipher;
pub mod configuration;
pub mod reload;

use arc_swap::ArcSwap;
use bytes::Bytes;
use component_base::env::Env;
use component_base::rng::Random;
use configuration::{Configuration, Provider};
use std::sync::Arc;
use tokio::sync::Notify;

/// What every encrypted value begins with.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The configuration of a server, which may be replaced while it runs.
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

    /// Waits until there has been another configuration since the last time; for one who waits.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    pub fn of(&self, group: &str, resource: &str) -> Transformer {
        Transformer { encryption: self.clone(), group: group.to_owned(), resource: resource.to_owned() }
    }
}

/// What happens to the values of one resource on their way into the store, and out of it.
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

    /// What is to lie under the key.
    pub fn seal(&self, key: &str, plain: Bytes) -> Bytes {
        self.with(|providers| match providers.first() {
            Some(Provider::Key { prefix, cipher }) => {
                [prefix.as_slice(), &cipher.seal(key, &plain, &self.encryption.random)].concat().into()
            }
            Some(Provider::Identity) | None => plain,
        })
    }

    /// What was sealed. The error says why nobody can tell.
    pub fn open(&self, key: &str, stored: &Bytes) -> Result<Bytes, String> {
        let fail = |why: &str| Err(format!("{}{key:?}: {why}", Unreadable::HEAD));
        if !stored.starts_with(ENCRYPTED) {
            // What was there before encryption was, and is not allowed for any more.
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

    /// Whether it would be written otherwise today.
    pub fn is_stale(&self, stored: &[u8]) -> bool {
        self.with(|providers| match providers.first() {
            Some(Provider::Key { prefix, .. }) => !stored.starts_with(prefix),
            Some(Provider::Identity) | None => stored.starts_with(ENCRYPTED),
        })
    }

    /// Whether anything can be stale at all.
    pub fn is_configured(&self) -> bool {
        self.with(|providers| !providers.is_empty())
    }
}

/// A reason for which a value is not readable that has to do with keys.
#[derive(Debug)]
pub struct Unreadable;

impl Unreadable {
    const HEAD: &str = "unable to transform key ";

    /// Whether a reason is one of these; others leave an object out of lists, and these fail them.
    pub fn is(reason: &str) -> bool {
        reason.starts_with(Self::HEAD)
    }

    /// Without the key, for whoever has asked for that.
    pub fn bare(reason: &str) -> Option<&str> {
        let rest = reason.strip_prefix(Self::HEAD)?;
        rest.split_once("\": ").map(|(_, why)| why)
    }
}
