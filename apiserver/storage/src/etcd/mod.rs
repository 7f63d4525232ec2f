//! `Etcd`: the engine that stores in an etcd cluster, which several API servers can share.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/etcd3. Keys and their meaning are those of Kubernetes; a value is the
//! object's stored JSON, readable with `etcdctl get`.
//!
//! Reading order: [`member`] (the calls of one etcd server), `cluster` (which member to call, and when to call again),
//! then this file (reads and writes), `lease` (times to live), `watch`, `compactor`.

pub mod member;
pub mod grpc;
pub mod options;
pub mod version;
pub mod keys;
pub mod cluster;
pub mod lease;
pub mod watch;
pub mod compactor;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

use super::{Change, Entry, Error, Outcome, Range, RangeRequest, Read, Storage, Watch, Write};
use async_trait::async_trait;
use bytes::Bytes;
use cluster::{Cluster, OpenError, Repeat};
use component_base::env::Env;
use grpc::{EtcdTls, GrpcMember};
use keys::Keys;
use lease::Leases;
use member::{Connection, Expected, Failure, KeyChange, KeyValue, Member, RangeQuery, Ranged, Swap};
use options::EtcdOptions;
use std::sync::Arc;
use std::time::Duration;
use watch::{Watches, compacted_revision};

/// Attempts of a write with a lease. A lease can end between being chosen and being used; a fresh one will not.
const LEASE_ATTEMPTS: usize = 2;

/// Time limit for reading the size. Only a metric waits for it.
const SIZE_LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct Etcd {
    env: Env,
    cluster: Arc<Cluster>,
    keys: Arc<Keys>,
    leases: Leases,
    watches: Watches,
}

impl Etcd {
    /// Connects to a cluster. Its tasks end with `env`.
    pub async fn open(env: &Env, options: &EtcdOptions, tls: &EtcdTls) -> Result<Arc<Self>, OpenError> {
        let mut members: Vec<Arc<dyn Member>> = Vec::new();
        for url in &options.etcd_servers {
            let member = GrpcMember::new(url, tls).map_err(|why| OpenError::Server(url.clone(), why))?;
            members.push(Arc::new(member));
        }
        Self::over(env, members, options).await
    }

    /// Opens the engine over any members: tests pass modelled ones.
    async fn over(env: &Env, members: Vec<Arc<dyn Member>>, options: &EtcdOptions) -> Result<Arc<Self>, OpenError> {
        let keys = Arc::new(Keys::new(&options.etcd_prefix));
        let cluster = Cluster::open(env, members, keys.in_etcd("/registry/")).await?;
        env.spawn(compactor::run(env.clone(), cluster.clone(), options.etcd_compaction_interval));
        Ok(Arc::new(Self {
            env: env.clone(),
            leases: Leases::new(env, cluster.clone(), options.lease_reuse_duration_seconds),
            watches: Watches::new(env, cluster.clone(), keys.clone()),
            cluster,
            keys,
        }))
    }

    async fn ask(&self, query: RangeQuery) -> Result<Ranged, Failure> {
        let ask = |connection: Arc<dyn Connection>| {
            let query = query.clone();
            async move { connection.range(query).await }
        };
        self.cluster.call(Repeat::Always, ask).await
    }

    /// Reads a range, without keys that are not text, and fills it up to its limit.
    async fn texts(&self, mut query: RangeQuery) -> Result<Range, Failure> {
        let mut range = Range { entries: Vec::new(), more: false, count: 0, revision: 0 };
        let limit = query.limit;
        loop {
            let Ranged { header, kvs, more, count } = self.ask(query.clone()).await?;
            if range.revision == 0 {
                (range.count, range.revision) = (count, header.revision);
            }
            if let Some(last) = kvs.last() {
                query.start = [&*last.key, &[0]].concat();
            }
            let full = range.entries.len() + kvs.len();
            range.entries.extend(kvs.into_iter().filter_map(|key_value| self.entry(key_value)));
            range.more = more;
            let foreign = full - range.entries.len();
            range.count = range.count.saturating_sub(foreign as u64);
            if foreign == 0 || !more {
                return Ok(range);
            }
            query.limit = limit - range.entries.len();
            query.revision = if query.revision == 0 { range.revision } else { query.revision };
        }
    }

    fn entry(&self, key_value: KeyValue) -> Option<Entry> {
        Some(Entry {
            key: self.keys.of_etcd(&key_value.key)?,
            value: key_value.value,
            create_revision: key_value.create_revision,
            mod_revision: key_value.mod_revision,
        })
    }

    async fn put(&self, write: &Write, value: &Bytes, ttl: Option<Duration>) -> Result<Outcome, Failure> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let lease = match ttl {
                Some(ttl) => self.leases.lease_for(ttl).await?,
                None => 0,
            };
            let outcome = self.swap(write, KeyChange::Put { value: value.clone(), lease }).await;
            if outcome == Err(Failure::NoLease) && attempts < LEASE_ATTEMPTS {
                self.leases.forget(lease).await;
                continue;
            }
            if outcome.is_ok() {
                self.cluster.record_space();
            }
            return outcome;
        }
    }

    async fn swap(&self, write: &Write, change: KeyChange) -> Result<Outcome, Failure> {
        let swap = Swap { key: self.keys.in_etcd(&write.key), expected: Expected::ModRevision(write.expected), change };
        let ask = |connection: Arc<dyn Connection>| {
            let swap = swap.clone();
            async move { connection.swap(swap).await }
        };
        let swapped = self.cluster.call(Repeat::Never, ask).await?;
        let entry = swapped.key_value.and_then(|key_value| self.entry(key_value));
        Ok(match swapped.succeeded {
            true => Outcome::Written { revision: swapped.header.revision, previous: entry },
            false => Outcome::Refused(entry),
        })
    }
}

#[async_trait]
impl Storage for Etcd {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        let ranged = self.ask(RangeQuery::key(self.keys.in_etcd(key))).await;
        let mut ranged = ranged.map_err(|failure| self.cluster.error(failure))?;
        let entry = ranged.kvs.pop().and_then(|key_value| self.entry(key_value));
        Ok(Read { entry, revision: ranged.header.revision })
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        if request.start >= request.end {
            let revision = self.current_revision().await?;
            return Ok(Range { entries: Vec::new(), more: false, count: 0, revision });
        }
        let query = RangeQuery {
            start: self.keys.in_etcd(&request.start),
            end: self.keys.in_etcd(&request.end),
            revision: request.revision,
            limit: request.limit,
            count_only: request.count_only,
        };
        match self.texts(query).await {
            Ok(range) => Ok(range),
            Err(Failure::Compacted) => {
                let compacted = compacted_revision(&self.env, &self.cluster, request.revision).await;
                Err(Error::Compacted { requested: request.revision, compacted })
            }
            Err(Failure::Future) => {
                let current = self.current_revision().await?;
                Err(Error::FutureRevision { requested: request.revision, current })
            }
            Err(failure) => Err(self.cluster.error(failure)),
        }
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        let outcome = match &write.change {
            Change::Put { value, ttl } => self.put(&write, value, *ttl).await,
            // etcd would report a success that changes nothing.
            Change::Delete if write.expected == 0 => return Ok(Outcome::Refused(self.get(&write.key).await?.entry)),
            Change::Delete => self.swap(&write, KeyChange::Delete).await,
        };
        outcome.map_err(|failure| self.cluster.error(failure))
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        self.watches.start(prefix, after).await
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        let query = RangeQuery { count_only: true, ..RangeQuery::key(self.keys.in_etcd("/registry/")) };
        let ranged = self.ask(query).await.map_err(|failure| self.cluster.error(failure))?;
        Ok(ranged.header.revision)
    }

    fn reports_progress(&self) -> bool {
        self.cluster.answers_progress_in_order()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn trouble(&self) -> Option<String> {
        self.cluster.trouble()
    }

    /// Returns the size of the database of the member that answered last.
    async fn size_bytes(&self) -> Option<u64> {
        let status = async { self.cluster.preferred().await?.1.status().await };
        Some(self.env.timeout(SIZE_LIMIT, status).await.ok()?.ok()?.size_bytes)
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.watches.request_progress(prefix);
        Ok(())
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        let compact = |connection: Arc<dyn Connection>| async move { connection.compact(revision).await };
        match self.cluster.call(Repeat::Always, compact).await {
            Ok(_) | Err(Failure::Compacted) => Ok(()),
            Err(Failure::Future) => {
                let current = self.current_revision().await?;
                Err(Error::FutureRevision { requested: revision, current })
            }
            Err(failure) => Err(self.cluster.error(failure)),
        }
    }

    async fn stopped(&self) -> Error {
        self.cluster.ended().cancelled().await;
        self.cluster.stopped().unwrap_or_else(|| Error::Stopped("it was closed".to_owned()))
    }

    async fn close(&self) {
        self.cluster.stop("it was closed".to_owned());
    }
}
