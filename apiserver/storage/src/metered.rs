//! `Metered`: wraps any engine, and counts and times its calls by resource.
//!
//! Corresponds to k8s.io/apiserver/pkg/storage/etcd3/metrics. The metrics have the names of kube-apiserver, whichever
//! engine is used, so that a dashboard for a real cluster works.

use super::{Change, Error, Outcome, Range, RangeRequest, Read, Storage, Watch, Write};
use async_trait::async_trait;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Upper bounds in seconds, as in kube-apiserver.
const BUCKETS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Interval between two reads of the size.
const SIZE_PERIOD: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    List,
    Create,
    Update,
    Delete,
}

impl Operation {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Get, "get"),
        (Self::List, "list"),
        (Self::Create, "create"),
        (Self::Update, "update"),
        (Self::Delete, "delete"),
    ];

    fn of(write: &Write) -> Self {
        match write.change {
            Change::Delete => Self::Delete,
            Change::Put { .. } if write.expected == 0 => Self::Create,
            Change::Put { .. } => Self::Update,
        }
    }
}

/// The metrics of one operation on one resource.
#[derive(Debug)]
struct Meter {
    requests: Counter,
    errors: Counter,
    duration: Histogram,
}

#[derive(Debug)]
struct Families {
    requests: Counters,
    errors: Counters,
    durations: Histograms,
}

impl Families {
    fn meter(&self, (group, resource): &(String, String), operation: &str) -> Meter {
        let labels: Labels =
            vec![("group", group.clone()), ("operation", operation.to_owned()), ("resource", resource.clone())];
        Meter {
            requests: self.requests.get_or_create_owned(&labels),
            errors: self.errors.get_or_create_owned(&labels),
            duration: self.durations.get_or_create_owned(&labels),
        }
    }
}

/// The meters of one row. Each is created at its first use, so that operations that never happened are not exported.
#[derive(Debug)]
struct Meters {
    name: (String, String),
    by_operation: [OnceLock<Meter>; Operation::ALL.len()],
}

#[derive(Debug)]
pub struct Metered {
    env: Env,
    inner: Arc<dyn Storage>,
    families: Families,
    by_prefix: BTreeMap<String, Meters>,
    /// The meters of keys that belong to no row.
    others: Meters,
}

impl Metered {
    /// Wraps an engine. `rows` are key prefixes, none of which contains another, with their groups and resources.
    pub fn new(
        env: &Env,
        inner: Arc<dyn Storage>,
        rows: impl Iterator<Item = (String, (String, String))>,
    ) -> Arc<Self> {
        let metrics = env.metrics();
        let meters = |name| Meters { name, by_operation: Default::default() };
        let families = Families {
            requests: metrics.counters("etcd_requests_total", "Calls of the store by operation and resource"),
            errors: metrics.counters("etcd_request_errors_total", "Calls of the store that failed"),
            durations: metrics.histograms(
                "etcd_request_duration_seconds",
                "Time that a call of the store took",
                BUCKETS,
            ),
        };
        let metered = Arc::new(Self {
            env: env.clone(),
            families,
            by_prefix: rows.map(|(prefix, name)| (prefix, meters(name))).collect(),
            others: meters((String::new(), "other".to_owned())),
            inner,
        });
        env.spawn(export_size(env.clone(), metered.inner.clone()));
        metered
    }

    fn meter(&self, key: &str, operation: Operation) -> &Meter {
        let last = self.by_prefix.range::<str, _>((Bound::Unbounded, Bound::Included(key))).next_back();
        let meters = last.filter(|(prefix, _)| key.starts_with(*prefix)).map_or(&self.others, |(_, meters)| meters);
        let (_, name) = Operation::ALL[operation as usize];
        meters.by_operation[operation as usize].get_or_init(|| self.families.meter(&meters.name, name))
    }

    async fn call<T>(
        &self,
        key: &str,
        operation: Operation,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let meter = self.meter(key, operation);
        let began = self.env.now();
        let answer = call.await;
        meter.duration.observe(began.elapsed().as_secs_f64());
        meter.requests.inc();
        if answer.is_err() {
            meter.errors.inc();
        }
        answer
    }
}

/// Keeps the gauge of the store's size up to date, where the engine knows it.
async fn export_size(env: Env, storage: Arc<dyn Storage>) {
    let cluster = if storage.is_shared() { "etcd-0" } else { "local" };
    let gauge = env.metrics().gauges("apiserver_storage_size_bytes", "Size of the store on its disk");
    loop {
        if let Some(bytes) = storage.size_bytes().await {
            let gauge = gauge.get_or_create_owned(&vec![("storage_cluster_id", cluster.to_owned())]);
            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(SIZE_PERIOD) => {}
        }
    }
}

#[async_trait]
impl Storage for Metered {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        self.call(key, Operation::Get, self.inner.get(key)).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        let key = request.start.clone();
        self.call(&key, Operation::List, self.inner.range(request)).await
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        let (key, operation) = (write.key.clone(), Operation::of(&write));
        self.call(&key, operation, self.inner.write(write)).await
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        self.inner.watch(prefix, after).await
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        self.inner.current_revision().await
    }

    fn reports_progress(&self) -> bool {
        self.inner.reports_progress()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }

    async fn size_bytes(&self) -> Option<u64> {
        self.inner.size_bytes().await
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.inner.request_progress(prefix).await
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn stopped(&self) -> Error {
        self.inner.stopped().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Faults};
    use crate::memory::Memory;

    #[tokio::test(start_paused = true)]
    async fn calls_are_counted_by_resource_and_operation() {
        let env = Env::simulated(1);
        let fault = Fault::new(&env, Memory::new(&env));
        let row =
            |prefix: &str, group: &str, resource: &str| (prefix.to_owned(), (group.to_owned(), resource.to_owned()));
        let rows = [row("/registry/pods/", "", "pods"), row("/registry/leases/", "coordination.k8s.io", "leases")];
        let storage = Metered::new(&env, fault.clone(), rows.into_iter());
        let revision = match storage.create("/registry/pods/a/b", "1".into(), None).await.unwrap() {
            Outcome::Written { revision, .. } => revision,
            refused => panic!("{refused:?}"),
        };
        storage.update("/registry/pods/a/b", revision, "2".into(), None).await.unwrap();
        storage.delete("/registry/pods/a/b", revision + 1).await.unwrap();
        storage.range(RangeRequest::prefix("/registry/leases/")).await.unwrap();
        fault.set(Faults { lost_request: 1.0, ..Faults::default() });
        storage.get("/registry/podsecurity/x").await.unwrap_err();
        let text = env.metrics().encode();
        let shown =
            |name: &str| text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>();
        let mut requests = shown("etcd_requests_total{");
        requests.sort();
        assert_eq!(
            requests,
            [
                r#"etcd_requests_total{group="",operation="create",resource="pods"} 1"#,
                r#"etcd_requests_total{group="",operation="delete",resource="pods"} 1"#,
                r#"etcd_requests_total{group="",operation="get",resource="other"} 1"#,
                r#"etcd_requests_total{group="",operation="update",resource="pods"} 1"#,
                r#"etcd_requests_total{group="coordination.k8s.io",operation="list",resource="leases"} 1"#,
            ]
        );
        let errors = shown(r#"etcd_request_errors_total{group="",operation="get""#);
        assert_eq!(errors, [r#"etcd_request_errors_total{group="",operation="get",resource="other"} 1"#]);
        assert_eq!(shown("etcd_request_duration_seconds_count{").len(), 5);
    }
}
