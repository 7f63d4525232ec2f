//! `Informer`: keeps a store equal to a collection, and calls handlers for every change.
//!
//! Corresponds to SharedIndexInformer of k8s.io/client-go/tools/cache.

use crate::cached::{AnyCached, Cached, Codec, typed, typed_ref};
use crate::dynamic::DynamicApi;
use crate::label_sets;
use crate::lister::Lister;
use crate::options::ListOptions;
use crate::packed::Whole;
use crate::reflector::{Reflector, Sink};
use crate::staging::Staging;
use crate::store::{Store, is_same_version};
use crate::work_queue::WorkQueue;
use component_base::env::Env;
use parking_lot::Mutex;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A store of no more objects packs none of those at rest: a small cluster. A larger store keeps none whole, because some whole
/// ones would lie scattered over the memory that all have left, and the allocator would keep most of it.
const WHOLE_AT_LEAST: usize = 1_000;
/// Changes whose objects may be whole: a few hundred megabytes of pods.
const WHOLE_AT_MOST: usize = 50_000;
/// How often objects at rest are packed.
const SWEEP_PERIOD: Duration = Duration::from_secs(15);
/// Objects that are packed before other tasks have their turn.
const SWEPT_AT_ONCE: usize = 100;

/// A change of one object, which the store has already.
#[derive(Debug)]
pub enum Event<T: ?Sized> {
    Added(Arc<T>),
    /// An update; in a resync both are the same object.
    Updated {
        old: Arc<T>,
        new: Arc<T>,
    },
    /// A deletion, with the last known state of the object: its final one if the server sent it.
    Deleted(Arc<T>),
}

impl<T: ?Sized> Clone for Event<T> {
    fn clone(&self) -> Self {
        match self {
            Event::Added(object) => Event::Added(object.clone()),
            Event::Updated { old, new } => Event::Updated { old: old.clone(), new: new.clone() },
            Event::Deleted(object) => Event::Deleted(object.clone()),
        }
    }
}

impl<T: ?Sized> Event<T> {
    /// Returns the newest state in the event.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Event::Added(object) | Event::Deleted(object) => object,
            Event::Updated { new, .. } => new,
        }
    }
}

impl Event<dyn AnyCached> {
    fn typed<T: Cached>(&self) -> Event<T> {
        match self {
            Event::Added(object) => Event::Added(typed(object.clone())),
            Event::Updated { old, new } => Event::Updated { old: typed(old.clone()), new: typed(new.clone()) },
            Event::Deleted(object) => Event::Deleted(typed(object.clone())),
        }
    }
}

/// Returns the values of an object in one index.
pub type IndexFn<T> = fn(&T) -> Vec<String>;

/// A shared informer; clones are the same informer.
pub struct Informer<T> {
    core: Arc<Core>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), kind: PhantomData }
    }
}

impl<T: Cached> Informer<T> {
    /// Wraps a core whose objects have this type.
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core, kind: PhantomData }
    }

    pub(crate) fn into_core(self) -> Arc<Core> {
        self.core
    }

    pub fn lister(&self) -> Lister<T> {
        Lister::new(self.core.store.clone())
    }

    /// Adds an index by the values that `values` returns, for `Lister::by_index`. Two callers may add the same index; one name
    /// must have one meaning.
    pub fn index(&self, name: &'static str, values: IndexFn<T>) {
        self.core.store.index(name, Box::new(move |object| values(typed_ref(object))));
    }

    /// Adds the index of label sets, which makes `Lister::select` look only at objects that it returns.
    pub fn index_label_sets(&self) {
        self.index(label_sets::INDEX, label_sets::values::<T>);
    }

    /// Lets the store hold only the objects of the last changes whole, so many as `changes` says. All others are compressed, and
    /// each read of one returns a new copy. This saves memory where very many objects rest. Call it before the informer starts.
    pub fn pack_beyond(&self, changes: usize) {
        self.core.store.pack(Whole::at_most(changes), Codec::of::<T>());
    }

    /// Lets the store compress the objects that nobody changes or reads for half a minute, where there are more than a thousand. A
    /// read by the key or by an index makes an object whole again. This saves memory where very many objects rest, and
    /// costs little where controllers read the same objects again and again. Call it before the informer starts.
    pub fn pack_at_rest(&self) {
        let whole = Whole { least: WHOLE_AT_LEAST, most: WHOLE_AT_MOST, sweep_every: Some(SWEEP_PERIOD) };
        self.core.store.pack(whole, Codec::of::<T>());
    }

    /// Adds a handler. Handlers run one after another in the informer's task, and must only note what to do, for example add
    /// to a work queue. A late handler gets the objects in the store as added.
    pub fn on_event(&self, handler: impl Fn(&Event<T>) + Send + Sync + 'static) {
        self.core.add_handler(Box::new(move |event| handler(&event.typed())));
    }

    /// Adds to a queue the key of every object that changes.
    pub fn enqueue_changes(&self, queue: &WorkQueue<String>) {
        let queue = queue.clone();
        self.on_event(move |event| queue.add(event.object().cache_key()));
    }

    /// Adds or replaces an object, as an event of a watch does. For informers without a server, whose owner is the only one
    /// to change them.
    pub fn put(&self, object: Arc<T>) {
        let version = object.metadata().resource_version.clone().unwrap_or_default();
        self.core.upsert(object, &version);
    }

    /// Removes an object, of which `last` is the final state. For informers without a server.
    pub fn take_away(&self, last: Arc<T>) {
        let version = last.metadata().resource_version.clone().unwrap_or_default();
        self.core.remove(&last.cache_key(), Some(last), &version);
    }

    /// Returns true once the whole collection is in the store and every handler has been called for it.
    pub fn has_synced(&self) -> bool {
        *self.core.synced.borrow()
    }

    /// Waits until the informer has synced; returns false if it stops first.
    pub async fn synced(&self) -> bool {
        self.core.synced().await
    }
}

/// An informer whose objects may have any form.
pub struct AnyInformer {
    core: Arc<Core>,
}

impl AnyInformer {
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Adds a handler, as `Informer::on_event` does.
    pub fn on_event(&self, handler: impl Fn(&Event<dyn AnyCached>) + Send + Sync + 'static) {
        self.core.add_handler(Box::new(handler));
    }
}

type Handler = Box<dyn Fn(&Event<dyn AnyCached>) + Send + Sync>;

/// The untyped part of an informer.
pub(crate) struct Core {
    api: DynamicApi,
    selection: ListOptions,
    codec: Codec,
    resync: Option<Duration>,
    store: Arc<Store>,
    /// Locked while an event is delivered and while a handler is added, so that a handler gets each event exactly once.
    /// Lock order: before the store's lock, never after.
    handlers: Mutex<Vec<Handler>>,
    synced: watch::Sender<bool>,
    stop: CancellationToken,
}

impl Core {
    pub(crate) fn new(api: DynamicApi, selection: ListOptions, codec: Codec, resync: Option<Duration>) -> Self {
        let stop = api.client().env().shutdown().child_token();
        Self {
            api,
            selection,
            codec,
            resync,
            store: Arc::default(),
            handlers: Mutex::default(),
            synced: watch::Sender::new(false),
            stop,
        }
    }

    fn add_handler(&self, handler: Handler) {
        let mut handlers = self.handlers.lock();
        self.store.each(|object| handler(&Event::Added(object)));
        handlers.push(handler);
    }

    pub(crate) async fn synced(&self) -> bool {
        let mut synced = self.synced.subscribe();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            result = synced.wait_for(|synced| *synced) => result.is_ok(),
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Declares the store complete as it is.
    pub(crate) fn complete(&self) {
        self.synced.send_replace(true);
    }

    pub(crate) fn env(&self) -> &Env {
        self.api.client().env()
    }

    /// Follows the collection until the informer or its environment stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let reflector = Reflector::new(self.api.clone(), self.selection.clone(), self.codec, self.clone());
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = reflector.run() => {}
            () = self.resync_forever() => {}
            () = self.pack_forever() => {}
        }
    }

    /// Packs objects at rest, in a store that does so.
    async fn pack_forever(&self) {
        let period = self.store.packing().and_then(|packing| packing.whole.sweep_every);
        let Some(period) = period else { return std::future::pending().await };
        loop {
            self.env().sleep(period).await;
            let mut left = self.store.begin_sweep();
            while left > 0 {
                let now = left.min(SWEPT_AT_ONCE);
                self.store.sweep(now);
                left -= now;
                tokio::task::yield_now().await;
            }
            self.store.compact();
        }
    }

    /// Calls the handlers for every object again, so that they can retry what failed.
    async fn resync_forever(&self) {
        let Some(period) = self.resync else { return std::future::pending().await };
        loop {
            self.env().sleep(period).await;
            let handlers = self.handlers.lock();
            self.store.each(|object| deliver(&handlers, &Event::Updated { old: object.clone(), new: object }));
        }
    }

    fn remove_and_notify(
        &self,
        handlers: &[Handler],
        key: &str,
        last: Option<Arc<dyn AnyCached>>,
        version: Option<u64>,
    ) {
        if let Some(old) = self.store.remove_as_of(key, version) {
            deliver(handlers, &Event::Deleted(last.unwrap_or(old)));
        }
    }
}

fn notify_of(handlers: &[Handler], object: Arc<dyn AnyCached>, old: Option<Arc<dyn AnyCached>>) {
    match old {
        None => deliver(handlers, &Event::Added(object)),
        // A list after a lost watch repeats known objects.
        Some(old) if is_same_version(&*old, &*object) => {}
        Some(old) => deliver(handlers, &Event::Updated { old, new: object }),
    }
}

fn deliver(handlers: &[Handler], event: &Event<dyn AnyCached>) {
    for handler in handlers {
        handler(event);
    }
}

impl Sink for Arc<Core> {
    fn stage(&self, list: &mut Staging, object: Arc<dyn AnyCached>) {
        self.store.stage(list, object);
    }

    fn replace(&self, list: Staging, version: &str) {
        let handlers = self.handlers.lock();
        let gone: Vec<String> = self.store.keys().into_iter().filter(|key| !list.contains(key)).collect();
        for (key, staged) in list.into_objects() {
            if let Some(inserted) = self.store.insert_staged(&key, staged) {
                notify_of(&handlers, inserted.object, inserted.replaced);
            }
        }
        for key in gone {
            self.remove_and_notify(&handlers, &key, None, None);
        }
        // Only now do all objects have that version.
        self.store.advance(parse(version));
        drop(handlers);
        self.synced.send_replace(true);
    }

    fn upsert(&self, object: Arc<dyn AnyCached>, version: &str) {
        let handlers = self.handlers.lock();
        let old = self.store.insert_as_of(object.clone(), parse(version));
        notify_of(&handlers, object, old);
    }

    fn remove(&self, key: &str, last: Option<Arc<dyn AnyCached>>, version: &str) {
        self.remove_and_notify(&self.handlers.lock(), key, last, parse(version));
    }

    fn advance(&self, version: &str) {
        self.store.advance(parse(version));
    }
}

/// Parses a version; `None` if it is no number and cannot be compared.
fn parse(version: &str) -> Option<u64> {
    version.parse().ok()
}
