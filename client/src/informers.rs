//! `Informers`: shares one informer per collection and selection among all controllers of a process.
//!
//! Corresponds to k8s.io/client-go/informers.SharedInformerFactory.

use crate::cached::{Cached, Codec, DynamicObject, PartialObject};
use crate::client::Client;
use crate::informer::{AnyInformer, Core, Informer};
use crate::options::ListOptions;
use parking_lot::Mutex;
use proto::gvk::Gvr;
use proto::kinds::Kind;
use std::any::TypeId;
use std::sync::Arc;
use std::time::Duration;

/// The informers of a process; clones share them.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    resync: Option<Duration>,
    /// False if nobody lists and watches: the owner of the set puts objects into the informers.
    has_server: bool,
    /// Resources whose informers pack objects at rest.
    packing: Vec<Gvr>,
    /// Informers in the order of the first requests for them, in which they also start.
    entries: Arc<Mutex<Vec<Entry>>>,
}

struct Entry {
    gvr: Gvr,
    selection: ListOptions,
    /// Type of the informer's objects.
    holds: TypeId,
    core: Arc<Core>,
    started: bool,
}

impl Informers {
    /// Makes an empty set, whose informers run in the client's environment and end with it.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), resync: None, has_server: true, packing: Vec::new(), entries: Arc::default() }
    }

    /// Returns the same set without a server: its informers are complete as soon as they start, and hold what
    /// `Informer::put` gives them. For models of an API in the same process.
    #[must_use]
    pub fn without_server(self) -> Self {
        Self { has_server: false, ..self }
    }

    /// Returns the same set with a resync period for the informers that are requested through it.
    pub fn resync_every(&self, period: Duration) -> Self {
        Self { resync: Some(period), ..self.clone() }
    }

    /// Returns the same set, whose informers of this kind pack objects at rest.
    #[must_use]
    pub fn packing_at_rest<K: Kind>(mut self) -> Self {
        self.packing.push(K::gvr());
        self
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the informer of a kind's whole collection.
    pub fn of<K: Kind>(&self) -> Informer<K> {
        self.informer(&K::gvr(), ListOptions::default())
    }

    pub fn of_namespace<K: Kind>(&self, namespace: &str) -> Informer<K> {
        self.informer(&K::gvr(), ListOptions { namespace: namespace.to_owned(), ..ListOptions::default() })
    }

    /// Returns the informer of a namespace, labels and fields; other options of `selection` are ignored.
    pub fn of_selected<K: Kind>(&self, selection: &ListOptions) -> Informer<K> {
        self.informer(&K::gvr(), selection.clone())
    }

    /// Returns the metadata informer of any collection.
    pub fn metadata(&self, gvr: &Gvr) -> Informer<PartialObject> {
        self.informer(gvr, ListOptions::default())
    }

    /// Returns an informer of a whole collection, for somebody who reads only metadata: the one that holds its objects already,
    /// or else the metadata informer, which packs objects at rest. Corresponds to NewInformerFactory of
    /// k8s.io/controller-manager/pkg/informerfactory.
    pub fn of_any_form(&self, gvr: &Gvr) -> AnyInformer {
        let whole = ListOptions::default();
        let is_present = |entry: &&Entry| entry.gvr == *gvr && entry.selection == whole;
        let present = self.entries.lock().iter().find(is_present).map(|entry| entry.core.clone());
        AnyInformer::of(present.unwrap_or_else(|| {
            let informer = self.metadata(gvr);
            informer.pack_at_rest();
            informer.into_core()
        }))
    }

    /// Returns the informer of any collection's untyped objects.
    pub fn dynamic(&self, gvr: &Gvr) -> Informer<DynamicObject> {
        self.informer(gvr, ListOptions::default())
    }

    fn informer<T: Cached>(&self, gvr: &Gvr, selection: ListOptions) -> Informer<T> {
        let selection = ListOptions {
            namespace: selection.namespace,
            label_selector: selection.label_selector,
            field_selector: selection.field_selector,
            ..ListOptions::default()
        };
        let mut entries = self.entries.lock();
        let holds = TypeId::of::<T>();
        let mut same =
            entries.iter().filter(|entry| entry.gvr == *gvr && entry.selection == selection && entry.holds == holds);
        if let Some(entry) = same.next() {
            return Informer::of(entry.core.clone());
        }
        let api = self.client.dynamic(gvr, &selection.namespace);
        let core = Arc::new(Core::new(api, selection.clone(), Codec::of::<T>(), self.resync));
        entries.push(Entry { gvr: gvr.clone(), selection, holds, core: core.clone(), started: false });
        let informer = Informer::of(core);
        if self.packing.contains(gvr) {
            informer.pack_at_rest();
        }
        informer
    }

    /// Starts the informers that do not run yet.
    pub fn start(&self) {
        for entry in self.entries.lock().iter_mut().filter(|entry| !entry.started) {
            entry.started = true;
            match self.has_server {
                true => drop(entry.core.env().spawn(entry.core.clone().run())),
                false => entry.core.complete(),
            }
        }
    }

    /// Waits until every started informer has synced; returns false on shutdown.
    pub async fn synced(&self) -> bool {
        let started: Vec<Arc<Core>> =
            self.entries.lock().iter().filter(|entry| entry.started).map(|entry| entry.core.clone()).collect();
        for informer in started {
            if !informer.synced().await {
                return false;
            }
        }
        true
    }

    /// Stops and drops the metadata informer of a collection that is no longer served. Its informers of whole objects belong
    /// to others and stay.
    pub fn stop(&self, gvr: &Gvr) {
        self.entries.lock().retain(|entry| {
            let ends = entry.gvr == *gvr && entry.holds == TypeId::of::<PartialObject>();
            if ends {
                entry.core.stop();
            }
            !ends
        });
    }
}
