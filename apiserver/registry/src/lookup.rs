//! Look-ups of other objects by admission plugins and strategies, and the addresses and ports that a write reserves.
//!
//! Corresponds to the informers and clients that kube-apiserver hands to its admission plugins and allocators.

use super::{Error, Registry};
use admission::QuotaStore;
use async_trait::async_trait;
use cacher::lookup::{Lookup, ObjectKey};
use proto::resources::Target;
use proto::wire::json::to_canonical;
use proto::{Gvk, Object, Status};
use request::query::parse_unsigned;
use serde_json::Value;
use std::sync::Arc;
use storage::Outcome;
use strategy::Reservations;
use strategy::allocation;
use strategy::allocation::{Holder, Reserved, ServiceNetwork};
use strategy::object_meta;

#[async_trait]
impl Lookup for Registry {
    fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        let row = self.stored_row_of(key.group, key.resource)?;
        Ok(row.cacher.get(key.namespace, key.name).map_err(Error::from)?)
    }

    async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        let row = self.stored_row_of(key.group, key.resource)?;
        Ok(self.current(&row, key.namespace, key.name).await?)
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
        let row = self.stored_row_of(group, resource)?;
        let snapshot = row.cacher.snapshot().map_err(Error::from)?;
        Ok(match namespace {
            "" => snapshot.iter().map(|(_, object)| object.clone()).collect(),
            namespace => snapshot.in_namespace(namespace).map(|(_, object)| object.clone()).collect(),
        })
    }

    fn kind(&self, gvk: &Gvk) -> Option<Target> {
        self.catalogue.load().by_gvk(gvk)
    }

    async fn as_kind(&self, target: &Target, object: &Object) -> Result<Value, Status> {
        let row = self.row(&target.row)?;
        Ok(self.as_served(&row, target.served(), object.to_value()).await?)
    }
}

#[async_trait]
impl QuotaStore for Registry {
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status> {
        let row = self.stored_row_of("", "resourcequotas")?;
        let text = |key: &str| object_meta::text(quota, key);
        let revision = parse_unsigned(text("resourceVersion")).map_err(Status::internal)?;
        let key = row.key(text("namespace"), text("name"));
        let bytes = row.transformer.seal(&key, row.object(quota.clone(), revision).bytes().clone());
        let outcome = self.storage.update(&key, revision, bytes, row.ttl()).await.map_err(Error::from)?;
        Ok(matches!(outcome, Outcome::Written { .. }))
    }
}

#[async_trait]
impl Reservations for Registry {
    fn service_network(&self) -> ServiceNetwork {
        // Without the resource the ranges of the flags count.
        let service_cidrs = self.list("networking.k8s.io", "servicecidrs", "").unwrap_or_default();
        self.service_network.with_service_cidrs(&service_cidrs)
    }

    async fn reserve(&self, what: &Reserved, holder: Holder<'_>, dry_run: bool) -> Result<bool, Status> {
        let (key, bytes) = match what {
            Reserved::Address(address) => {
                let row = self.stored_row_of("networking.k8s.io", "ipaddresses")?;
                let mut object = allocation::ip_address(*address, holder);
                object_meta::begin_create(&mut object, self.random.uid(), self.env.wall(), String::new);
                (row.key("", &address.to_string()), row.object(object, 0).bytes().clone())
            }
            Reserved::NodePort(port) => {
                (allocation::node_port_key(*port), to_canonical(&allocation::node_port_claim(holder)).into())
            }
        };
        if dry_run {
            return Ok(self.storage.get(&key).await.map_err(Error::from)?.entry.is_none());
        }
        let outcome = self.storage.create(&key, bytes, None).await.map_err(Error::from)?;
        Ok(matches!(outcome, Outcome::Written { .. }))
    }

    async fn release(&self, what: &Reserved) -> Result<(), Status> {
        let key = self.reservation_key(what)?;
        while let Some(entry) = self.storage.get(&key).await.map_err(Error::from)?.entry {
            let outcome = self.storage.delete(&key, entry.mod_revision).await.map_err(Error::from)?;
            if matches!(outcome, Outcome::Written { .. }) {
                break;
            }
        }
        Ok(())
    }
}

impl Registry {
    /// Returns the ranges that Services may have addresses of, also those that give out none any more.
    pub(crate) fn whole_service_network(&self) -> ServiceNetwork {
        let service_cidrs = self.list("networking.k8s.io", "servicecidrs", "").unwrap_or_default();
        self.service_network.with_all_service_cidrs(&service_cidrs)
    }

    /// Returns the key in the store that records a reservation.
    pub fn reservation_key(&self, what: &Reserved) -> Result<String, Status> {
        Ok(match what {
            Reserved::Address(address) => {
                self.stored_row_of("networking.k8s.io", "ipaddresses")?.key("", &address.to_string())
            }
            Reserved::NodePort(port) => allocation::node_port_key(*port),
        })
    }
}
