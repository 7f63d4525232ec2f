//! `Informer`: a store kept equal to a collection, and handlers that hear of every change.
//!
//! Corresponds to SharedIndexInformer of k8s.io/client-go/tools/cache.

use crate::cached::Cached;
use crate::dynamic::DynamicApi;
use crate::lister::Lister;
use crate::options::ListOptions;
use crate::reflector::{Reflector, Sink};
use crate::store::{IndexFn, Store};
use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A change of one object, after the store has it.
#[derive(Debug)]
pub enum Event<T> {
    Added(Arc<T>),
    /// Also a resync, where both are the same object.
    Updated {
        old: Arc<T>,
        new: Arc<T>,
    },
    /// The last state known; the final one where the server told it.
    Deleted(Arc<T>),
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Event::Added(object) => Event::Added(object.clone()),
            Event::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Event::Deleted(object) => Event::Deleted(object.clone()),
        }
    }
}

impl<T> Event<T> {
    /// The newest state that the event speaks of.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Event::Added(object) | Event::Deleted(object) => object,
            Event::Updated { new, .. } => new,
        }
    }
}

type Handler<T> = Box<dyn Fn(&Event<T>) + Send + Sync>;

/// Shared by all who follow the same collection; clones are the same informer.
pub struct Informer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

struct Shared<T> {
    api: DynamicApi,
    selection: ListOptions,
    resync: Option<Duration>,
    store: Arc<Store<T>>,
    /// Held while an event is delivered and while a handler joins, so that a handler misses nothing and hears
    /// nothing twice. Taken before the store's lock, never after.
    handlers: Mutex<Vec<Handler<T>>>,
    synced: watch::Sender<bool>,
    stop: CancellationToken,
}

impl<T: Cached> Informer<T> {
    pub(crate) fn new(api: DynamicApi, selection: ListOptions, resync: Option<Duration>) -> Self {
        let stop = api.client().env().shutdown().child_token();
        Self {
            shared: Arc::new(Shared {
                api,
                selection,
                resync,
                store: Arc::default(),
                handlers: Mutex::default(),
                synced: watch::Sender::new(false),
                stop,
            }),
        }
    }

    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.shared.store.clone())
    }

    /// Files every object under the values that `values` finds; read by `Lister::by_index`. Two parties may ask for
    /// the same index: one name, one meaning.
    pub fn index(&self, name: &'static str, values: IndexFn<T>) {
        self.shared.store.index(name, values);
    }

    /// Handlers run one after another inside the informer's task and must only note what to do (add to a work
    /// queue). One that comes late hears of the objects already there as added.
    pub fn on_event(&self, handler: impl Fn(&Event<T>) + Send + Sync + 'static) {
        let mut handlers = self.shared.handlers.lock();
        for object in self.shared.store.list() {
            handler(&Event::Added(object));
        }
        handlers.push(Box::new(handler));
    }

    /// The whole collection has been seen once, and every handler has heard of it.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits for that; false when the informer stops first.
    pub async fn synced(&self) -> bool {
        let mut synced = self.shared.synced.subscribe();
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => false,
            result = synced.wait_for(|synced| *synced) => result.is_ok(),
        }
    }

    pub(crate) fn stop(&self) {
        self.shared.stop.cancel();
    }

    pub(crate) fn env(&self) -> &Env {
        self.shared.api.client().env()
    }

    /// Follows the collection until the informer or its environment stops.
    pub(crate) async fn run(self) {
        let shared = &self.shared;
        let reflector = Reflector::<T, _>::new(shared.api.clone(), shared.selection.clone(), shared.clone());
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => {}
            () = reflector.run() => {}
            () = shared.resync_forever() => {}
        }
    }
}

impl<T: Cached> Shared<T> {
    /// Tells handlers of everything again, so that what they could not do then is tried now.
    async fn resync_forever(&self) {
        let Some(period) = self.resync else { return std::future::pending().await };
        loop {
            self.api.client().env().sleep(period).await;
            let handlers = self.handlers.lock();
            for object in self.store.list() {
                deliver(&handlers, &Event::Updated { old: object.clone(), new: object });
            }
        }
    }

    fn upsert_and_tell(&self, handlers: &[Handler<T>], object: Arc<T>, version: Option<u64>) {
        match self.store.insert_as_of(object.clone(), version) {
            None => deliver(handlers, &Event::Added(object)),
            // A list after a lost watch repeats what is known.
            Some(old) if is_same_version::<T>(&old, &object) => {}
            Some(old) => deliver(handlers, &Event::Updated { old, new: object }),
        }
    }

    fn remove_and_tell(&self, handlers: &[Handler<T>], key: &str, last: Option<Arc<T>>, version: Option<u64>) {
        if let Some(old) = self.store.remove_as_of(key, version) {
            deliver(handlers, &Event::Deleted(last.unwrap_or(old)));
        }
    }
}

fn deliver<T>(handlers: &[Handler<T>], event: &Event<T>) {
    for handler in handlers {
        handler(event);
    }
}

fn is_same_version<T: Cached>(old: &T, new: &T) -> bool {
    let (old, new) = (old.metadata(), new.metadata());
    old.resource_version.is_some() && old.resource_version == new.resource_version && old.uid == new.uid
}

impl<T: Cached> Sink<T> for Arc<Shared<T>> {
    fn replace(&self, objects: Vec<Arc<T>>, version: &str) {
        let handlers = self.handlers.lock();
        let present: BTreeSet<String> = objects.iter().map(|object| object.cache_key()).collect();
        for object in objects {
            self.upsert_and_tell(&handlers, object, None);
        }
        for key in self.store.keys() {
            if !present.contains(&key) {
                self.remove_and_tell(&handlers, &key, None, None);
            }
        }
        // Only now is all of it as of that version.
        self.store.advance(parse(version));
        drop(handlers);
        self.synced.send_replace(true);
    }

    fn upsert(&self, object: Arc<T>, version: &str) {
        self.upsert_and_tell(&self.handlers.lock(), object, parse(version));
    }

    fn remove(&self, key: &str, last: Option<Arc<T>>, version: &str) {
        self.remove_and_tell(&self.handlers.lock(), key, last, parse(version));
    }

    fn advance(&self, version: &str) {
        self.store.advance(parse(version));
    }
}

/// `None` for what is no number: a version that cannot be compared.
fn parse(version: &str) -> Option<u64> {
    version.parse().ok()
}
