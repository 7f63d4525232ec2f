//! Tests that reflectors behind a faulty proxy end equal to the store, and never report an older version again.

use crate::{etcd, program};
use client::{Api, Cached, Client, DeleteOptions, DynamicApi, Informer, Informers, ListOptions, Patch, PatchOptions};
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::rng::Random;
use e2e::apiserver::ApiServer;
use e2e::http_proxy::{Fault, HttpProxy};
use e2e::processes::free_ports;
use e2e::store::Store;
use futures::{StreamExt, future};
use k8s_openapi::api::core::v1 as kube_rs;
use kube::ResourceExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use parking_lot::Mutex;
use proto::Gvr;
use proto::kinds::api::core::v1::ConfigMap;
use serde_json::json;
use simulator::Simulation;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: [u64; 3] = [1, 2, 3];
/// Number of objects, which are created, changed, deleted and created again.
const NAMES: usize = 7;
/// Number of faults for this project's reflectors behind a port. It is small, since the pause after each fault doubles.
const FAULTS_IN_REAL_TIME: usize = 3;
/// Number of writes between two checks of a waiting test.
const WRITES_PER_CHECK: usize = 4;
/// Number of writes in virtual time, more than enough for every fault.
const WRITES: usize = 20_000;
const NAMESPACE: &str = "default";

/// Revisions of objects by key (`namespace/name`).
type Revisions = BTreeMap<String, u64>;

/// A running reflector behind its own proxy.
struct Follower {
    about: String,
    proxy: HttpProxy,
    /// Returns the content of the reflector's store.
    revisions: Box<dyn Fn() -> Revisions>,
    reported: Arc<Mutex<Reported>>,
}

/// The changes that a reflector has reported to its handlers.
#[derive(Default)]
struct Reported {
    newest: Revisions,
    /// Reports of an older version than before.
    regressions: Vec<String>,
}

impl Reported {
    fn record(&mut self, name: &str, revision: u64) {
        let newest = self.newest.entry(name.to_owned()).or_default();
        if revision < *newest {
            self.regressions.push(format!("{name} was at {newest} and goes back to {revision}"));
        }
        *newest = revision.max(*newest);
    }
}

fn revision(text: Option<&String>) -> u64 {
    text.expect("what is stored has a revision").parse().unwrap()
}

fn config_maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn entry<T: Cached>(object: &T) -> (String, u64) {
    (object.cache_key(), revision(object.metadata().resource_version.as_ref()))
}

fn kube_rs_entry(object: &kube_rs::ConfigMap) -> (String, u64) {
    let key = format!("{}/{}", object.namespace().unwrap(), object.name_any());
    (key, revision(object.resource_version().as_ref()))
}

impl Follower {
    /// Makes a follower of this project's informer, which is not started yet.
    fn ours<T: Cached>(about: String, informer: &Informer<T>, proxy: HttpProxy) -> Self {
        let reported = Arc::new(Mutex::new(Reported::default()));
        let recorder = reported.clone();
        informer.on_event(move |event| {
            let (key, revision) = entry(event.object().as_ref());
            recorder.lock().record(&key, revision);
        });
        let lister = informer.lister();
        let revisions = move || lister.list().iter().map(|object| entry(object.as_ref())).collect();
        Self { about, proxy, revisions: Box::new(revisions), reported }
    }

    /// Makes a follower of a kube-rs reflector, and starts it.
    fn kube_rs(
        env: &Env,
        about: &str,
        api: kube::Api<kube_rs::ConfigMap>,
        proxy: HttpProxy,
        mode: watcher::Config,
    ) -> Self {
        let (reader, writer) = reflector::store();
        let reported = Arc::new(Mutex::new(Reported::default()));
        let recorder = reported.clone();
        let run = reflector::reflector(writer, watcher(api, mode)).backoff(ShortBackoff).for_each(move |event| {
            if let Ok(Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = event {
                let (key, revision) = kube_rs_entry(&object);
                recorder.lock().record(&key, revision);
            }
            future::ready(())
        });
        env.spawn(run);
        let revisions = move || reader.state().iter().map(|object| kube_rs_entry(object.as_ref())).collect();
        Self { about: format!("kube-rs, {about}"), proxy, revisions: Box::new(revisions), reported }
    }

    /// Returns true if the reflector has met every fault, or all faults of a limited number.
    fn has_met_its_faults(&self) -> bool {
        self.proxy.has_no_faults_left() || self.proxy.injected().len() == Fault::ALL.len()
    }
}

/// Configures a proxy so that this project's reflectors list, or stream the list. Returns a description.
fn configure(proxy: &HttpProxy, lists: bool, about: &str) -> String {
    if lists {
        proxy.refuse_initial_events();
    }
    format!("{about}, {}", if lists { "list and watch" } else { "streamed list" })
}

/// A short and constant pause of kube-rs' reflectors after a failure.
#[derive(Clone, Copy)]
struct ShortBackoff;

impl Iterator for ShortBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }
}

impl Backoff for ShortBackoff {
    fn reset(&mut self) {}
}

/// Writes an object directly to the server, without a proxy.
async fn write(api: &DynamicApi, random: &Random) {
    let name = format!("object-{}", random.below(NAMES));
    if random.below(3) == 0 {
        let _ = api.delete(&name, &DeleteOptions::default()).await; // it may be gone already
        return;
    }
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"word": random.uid()}
    });
    let patch = Patch::Apply { value, manager: "writer".into(), force: true };
    api.patch(&name, &patch, &PatchOptions::default()).await.unwrap();
}

async fn stored(client: &Client) -> Revisions {
    let api: Api<ConfigMap> = client.api("");
    let list = api.list(&ListOptions::default()).await.unwrap();
    list.items.iter().map(entry).collect()
}

fn are_equal(followers: &[Follower], stored: &Revisions) -> bool {
    followers.iter().all(|follower| (follower.revisions)() == *stored)
}

/// Checks the final state of each reflector.
fn check(seed: u64, followers: &[Follower], stored: &Revisions) {
    for Follower { about, proxy, revisions, reported } in followers {
        assert_eq!(revisions(), *stored, "seed {seed}: {about}, after {:?}", proxy.injected());
        assert_eq!(reported.lock().regressions, [""; 0], "seed {seed}: {about}, after {:?}", proxy.injected());
        assert!(!proxy.injected().is_empty(), "seed {seed}: {about} has met no fault");
    }
}

#[test]
fn our_reflectors_meet_every_fault_in_virtual_time() {
    for seed in SEEDS {
        Simulation::apiserver_alone(seed, async |simulation| {
            let (env, admin) = (simulation.env(), simulation.admin());
            let mut followers = Vec::new();
            for lists in [false, true] {
                for about in ["whole", "metadata"] {
                    let random = env.random(&format!("proxy of {about} {lists}"));
                    let proxy = HttpProxy::new(env, admin.clone(), random, None);
                    let informers = Informers::new(&Client::from_service(env, proxy.service(), about));
                    let name = configure(&proxy, lists, about);
                    followers.push(match about {
                        "whole" => Follower::ours(name, &informers.of::<ConfigMap>(), proxy),
                        _ => Follower::ours(name, &informers.metadata(&config_maps()), proxy),
                    });
                    informers.start();
                }
            }
            let (api, random) = (admin.dynamic(&config_maps(), NAMESPACE), env.random("writer"));
            let mut writes = 0;
            while !followers.iter().all(Follower::has_met_its_faults) {
                assert!(writes < WRITES, "seed {seed}: after {writes} writes a fault has not come");
                write(&api, &random).await;
                writes += 1;
                env.sleep(Duration::from_secs(1).mul_f64(4.0 * random.unit())).await;
            }
            followers.iter().for_each(|follower| follower.proxy.stop_faults());
            write(&api, &random).await;
            let stored = stored(&admin).await;
            simulation.until("the reflectors hold what is stored", async |_| are_equal(&followers, &stored)).await;
            check(seed, &followers, &stored);
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflectors_behind_a_port_stay_equal_to_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let server = ApiServer::start(program(), directory.path(), Store::Etcd(&etcd)).await;
    let (env, admin) = (Env::system(), server.client(&server.admin));
    let seed = SEEDS[0];
    let behind = async |name: &str, faults: Option<usize>| {
        let proxy = HttpProxy::new(&env, admin.clone(), Random::from_seed(seed, name), faults);
        let url = format!("http://{}", proxy.listen(free_ports()).await);
        (proxy, url)
    };
    let mut followers = Vec::new();
    for lists in [false, true] {
        let (proxy, url) = behind(&format!("ours {lists}"), Some(FAULTS_IN_REAL_TIME)).await;
        let client = Client::connect(&env, &Connection { server: url, ..Connection::default() }, "e2e").unwrap();
        let (name, informers) = (configure(&proxy, lists, "ours"), Informers::new(&client));
        followers.push(Follower::ours(name, &informers.of::<ConfigMap>(), proxy));
        informers.start();
    }
    let modes = [
        ("list and watch", watcher::Config::default().page_size(3)),
        ("streamed list", watcher::Config::default().streaming_lists()),
    ];
    for (about, mode) in modes {
        let (proxy, url) = behind(about, None).await;
        let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let api = kube::Api::all(client);
        followers.push(Follower::kube_rs(&env, about, api, proxy, mode));
    }
    let (api, random) = (admin.dynamic(&config_maps(), NAMESPACE), Random::from_seed(seed, "writer"));
    e2e::wait::until_async("every reflector has met its faults", async || {
        for _ in 0..WRITES_PER_CHECK {
            write(&api, &random).await;
        }
        followers.iter().all(Follower::has_met_its_faults)
    })
    .await;
    followers.iter().for_each(|follower| follower.proxy.stop_faults());
    write(&api, &random).await;
    let stored = stored(&admin).await;
    e2e::wait::until_async("the reflectors hold what is stored", async || {
        tokio::task::yield_now().await;
        are_equal(&followers, &stored)
    })
    .await;
    check(seed, &followers, &stored);
    for follower in &followers {
        follower.proxy.stop().await;
    }
}
