//! `ServedDocuments`: the documents that describe what this server serves. They are large and change rarely, so each is
//! built once for the catalogue that it describes.
//!
//! Corresponds to the caches of k8s.io/kube-openapi/pkg/handler and of k8s.io/apiserver/pkg/endpoints/discovery/aggregated.

use crate::answer;
use crate::discovery;
use crate::media::Form;
use arc_swap::{ArcSwap, ArcSwapOption};
use component_base::version;
use extension::aggregation::table::Table;
use openapi::{Document, Documents};
use proto::resources::Catalogue;
use proto::wire::field_order::{API_GROUP_DISCOVERY_LIST, InOrder};
use std::sync::{Arc, OnceLock};

/// The documents of the catalogue for which they were last requested.
pub(crate) struct ServedDocuments {
    openapi: ArcSwap<(Arc<Catalogue>, Arc<Documents>)>,
    discovery: ArcSwapOption<AggregatedDiscovery>,
}

impl ServedDocuments {
    pub fn new(catalogue: Arc<Catalogue>) -> Self {
        let documents = Arc::new(Documents::new(catalogue.clone(), version::GIT_VERSION));
        Self { openapi: ArcSwap::from_pointee((catalogue, documents)), discovery: ArcSwapOption::default() }
    }

    /// Returns the OpenAPI documents of a catalogue. Builds them if the catalogue has changed.
    pub fn openapi(&self, catalogue: Arc<Catalogue>) -> Arc<Documents> {
        let known = self.openapi.load();
        if Arc::ptr_eq(&known.0, &catalogue) {
            return known.1.clone();
        }
        let documents = Arc::new(Documents::new(catalogue.clone(), version::GIT_VERSION));
        self.openapi.store(Arc::new((catalogue, documents.clone())));
        documents
    }

    /// Returns the aggregated discovery of a catalogue and of the versions that other servers serve.
    pub fn discovery(&self, catalogue: Arc<Catalogue>, table: Arc<Table>) -> Arc<AggregatedDiscovery> {
        let known = self.discovery.load_full();
        let is_same = |known: &Arc<AggregatedDiscovery>| {
            Arc::ptr_eq(&known.catalogue, &catalogue) && Arc::ptr_eq(&known.table, &table)
        };
        known.filter(is_same).unwrap_or_else(|| {
            let (core, groups) = Default::default();
            let built = Arc::new(AggregatedDiscovery { catalogue, table, core, groups });
            self.discovery.store(Some(built.clone()));
            built
        })
    }
}

/// The aggregated discovery documents (v2). Each is written at its first use.
pub(crate) struct AggregatedDiscovery {
    catalogue: Arc<Catalogue>,
    table: Arc<Table>,
    core: OnceLock<Document>,
    groups: OnceLock<Document>,
}

impl AggregatedDiscovery {
    /// Returns the document of `/api` (the core group) or of `/apis` (all other groups).
    pub fn document(&self, core: bool) -> &Document {
        let place = if core { &self.core } else { &self.groups };
        place.get_or_init(|| {
            let body = discovery::aggregated(&self.catalogue, &self.table, core);
            Document::of(answer::encode(&Form::default(), &InOrder(&body, &API_GROUP_DISCOVERY_LIST)))
        })
    }
}
