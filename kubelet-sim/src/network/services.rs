//! `Services`: the Services and EndpointSlices of the cluster, which are watched from their first use on.
//!
//! Most fleets never need them: no container looks a name up. Then nothing is watched.

use client::{Client, Informers, Lister};
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::EndpointSlice;
use proto::kinds::jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The label by which a slice names its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The time for which the caches are waited for: the time after which a resolver gives up.
const SYNC_LIMIT: Duration = Duration::from_secs(5);
/// The time after which caches that did not sync are waited for again.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// The caches, as far as they are there.
#[derive(Clone, Debug)]
pub struct ServiceView {
    pub services: Lister<Service>,
    pub slices: Lister<EndpointSlice>,
}

impl ServiceView {
    /// Returns the slices of a Service, in the order of their names.
    pub fn slices_of(&self, namespace: &str, service: &str) -> Vec<Arc<EndpointSlice>> {
        let is_of = |slice: &EndpointSlice| label(slice.metadata.labels.as_ref()) == Some(service);
        let mut found = self.slices.filter(namespace, is_of);
        found.sort_by(|one, other| one.name().cmp(other.name()));
        found
    }
}

fn label(labels: Option<&BTreeMap<String, String>>) -> Option<&str> {
    labels?.get(SERVICE_NAME_LABEL).map(String::as_str)
}

pub struct Services {
    client: Client,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    informers: Option<Informers>,
    /// Until then, caches that have not synced are not waited for again.
    silent_until: Option<Timestamp>,
}

impl Services {
    /// Reads with the identity of the fleet, which has to be allowed to list and watch both.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), state: Mutex::default() }
    }

    /// Returns the Services; `None` when they cannot be read.
    pub async fn services(&self, env: &Env) -> Option<Lister<Service>> {
        let informers = self.informers();
        let services = informers.of::<Service>();
        informers.start();
        self.wait(env, services.has_synced(), async { services.synced().await }).await.then(|| services.lister())
    }

    /// Returns the Services and their endpoints; `None` when one of them cannot be read.
    pub async fn view(&self, env: &Env) -> Option<ServiceView> {
        let informers = self.informers();
        let (services, slices) = (informers.of::<Service>(), informers.of::<EndpointSlice>());
        informers.start();
        let has_synced = services.has_synced() && slices.has_synced();
        let synced = async { services.synced().await && slices.synced().await };
        let view = ServiceView { services: services.lister(), slices: slices.lister() };
        self.wait(env, has_synced, synced).await.then_some(view)
    }

    fn informers(&self) -> Informers {
        self.state.lock().informers.get_or_insert_with(|| Informers::new(&self.client)).clone()
    }

    async fn wait(&self, env: &Env, has_synced: bool, synced: impl Future<Output = bool>) -> bool {
        if has_synced {
            return true;
        }
        if self.state.lock().silent_until.is_some_and(|until| env.wall() < until) {
            return false;
        }
        let is_there = tokio::select! {
            biased;
            synced = synced => synced,
            () = env.sleep(SYNC_LIMIT) => false,
        };
        self.state.lock().silent_until = (!is_there).then(|| env.wall() + RETRY_AFTER);
        is_there
    }
}
