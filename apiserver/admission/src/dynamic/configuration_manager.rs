//! `ConfigurationManager`: a value compiled from all objects of a resource, once for each state of its cache.
//!
//! Corresponds to the configuration managers of k8s.io/apiserver/pkg/admission/configuration.

use arc_swap::ArcSwapOption;
use cacher::{Cacher, Snapshot};
use component_base::env::Env;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Time for which a request waits until the cache of a starting server is ready.
const READY_LIMIT: Duration = Duration::from_secs(10);

pub struct ConfigurationManager<T> {
    cacher: Cacher,
    compile: fn(&[Arc<Value>]) -> T,
    last: ArcSwapOption<(Snapshot, Arc<T>)>,
}

impl<T> ConfigurationManager<T> {
    /// `compile` receives the objects sorted by name.
    pub fn new(cacher: Cacher, compile: fn(&[Arc<Value>]) -> T) -> Self {
        Self { cacher, compile, last: ArcSwapOption::empty() }
    }

    /// Returns the value for the current objects; `None` if the cache is not ready in time.
    pub async fn get(&self, env: &Env) -> Option<Arc<T>> {
        if !self.cacher.is_ready() {
            env.timeout(READY_LIMIT, self.cacher.ready()).await.ok()?;
        }
        let snapshot = self.cacher.snapshot().ok()?;
        let last = self.last.load();
        if let Some(known) = last.as_ref().filter(|known| known.0.is_same(&snapshot)) {
            return Some(known.1.clone());
        }
        let objects: Vec<Arc<Value>> = snapshot.iter().map(|(_, object)| object.value()).collect();
        let compiled = Arc::new((self.compile)(&objects));
        self.last.store(Some(Arc::new((snapshot, compiled.clone()))));
        Some(compiled)
    }
}
