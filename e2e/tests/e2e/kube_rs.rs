//! Runs kube-rs, an independent client, against the server.

use crate::{cluster, etcd, program};
use component_base::kubeconfig;
use e2e::apiserver::ApiServer;
use e2e::processes::Cluster;
use e2e::store::Store;
use e2e::tcp_proxy::TcpProxy;
use futures::{StreamExt, TryStreamExt, future};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Config, Error, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

/// Number of writes while a reflector runs, and between two cuts of its connection.
const WRITES: usize = 60;
const WRITES_PER_CUT: usize = 20;
/// Number of objects of the reflector's test; some are created repeatedly.
const NAMES: usize = 7;

/// Returns a client of the administrator, through a proxy if there is one.
async fn client(server: &ApiServer, proxy: Option<&TcpProxy>) -> Client {
    let text = kubeconfig::to_yaml(&server.admin, "orrery", "admin");
    let url = proxy.map(|proxy| format!("https://{}", proxy.address()));
    connect(Kubeconfig::from_yaml(&text).unwrap(), url).await
}

async fn connect(file: Kubeconfig, url: Option<String>) -> Client {
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    if let Some(url) = url {
        config.cluster_url = url.parse().unwrap();
    }
    Client::try_from(config).unwrap()
}

async fn client_of(cluster: &Cluster) -> Client {
    connect(Kubeconfig::read_from(cluster.data_dir.join("kubeconfig")).unwrap(), None).await
}

fn config_map(name: &str, word: &str) -> ConfigMap {
    made(json!({"metadata": {"name": name, "labels": {"app": "kube"}}, "data": {"word": word}}))
}

fn made<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn reason(error: Error) -> String {
    let Error::Api(status) = error else { panic!("{error}: no answer of the server") };
    status.reason
}

async fn writes_and_conflicts(api: &Api<ConfigMap>) {
    let post = PostParams::default();
    let first = api.create(&post, &config_map("one", "a")).await.unwrap();
    assert_eq!(reason(api.create(&post, &config_map("one", "a")).await.unwrap_err()), "AlreadyExists");
    let mut next = first.clone();
    next.data = Some(BTreeMap::from([("word".to_owned(), "b".to_owned())]));
    let second = api.replace("one", &post, &next).await.unwrap();
    assert_ne!(first.resource_version(), second.resource_version());
    assert_eq!(reason(api.replace("one", &post, &next).await.unwrap_err()), "Conflict");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry, &config_map("dry", "a")).await.unwrap();
    assert!(api.get_opt("dry").await.unwrap().is_none());
    assert_eq!(reason(api.get("dry").await.unwrap_err()), "NotFound");
    let deleted = api.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(deleted.right().unwrap().is_success(), "a ConfigMap's deletion is answered with a Status");
}

async fn applies(api: &Api<ConfigMap>) {
    let apply = async |manager: &str, force: bool, data: Option<Value>| {
        let mut body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}});
        if let Some(data) = data {
            body["data"] = data;
        }
        let params = PatchParams { force, ..PatchParams::apply(manager) };
        api.patch("shared", &params, &Patch::Apply(body)).await
    };
    let first = apply("alice", false, Some(json!({"a": "1", "b": "1"}))).await.unwrap();
    let again = apply("alice", false, Some(json!({"a": "1", "b": "1"}))).await.unwrap();
    assert_eq!(first.resource_version(), again.resource_version(), "nothing changed, and nothing is written");
    assert_eq!(reason(apply("bob", false, Some(json!({"a": "2"}))).await.unwrap_err()), "Conflict");
    apply("bob", true, Some(json!({"a": "2"}))).await.unwrap();
    apply("alice", false, None).await.unwrap();
    let left = apply("bob", false, Some(json!({"a": "2"}))).await.unwrap();
    assert_eq!(left.data, Some(BTreeMap::from([("a".to_owned(), "2".to_owned())])));
    assert_eq!(left.managed_fields().len(), 1, "{:?}", left.managed_fields());
}

async fn pages(api: &Api<ConfigMap>) {
    for number in 0..7 {
        api.create(&PostParams::default(), &config_map(&format!("page-{number}"), "a")).await.unwrap();
    }
    let mut params = ListParams::default().labels("app=kube").limit(3);
    let (mut names, mut revisions) = (Vec::new(), Vec::new());
    loop {
        let page = api.list(&params).await.unwrap();
        names.extend(page.items.iter().map(ResourceExt::name_any));
        revisions.push(page.metadata.resource_version.clone());
        let late = config_map(&format!("page-0-late-{}", names.len()), "a");
        api.create(&PostParams::default(), &late).await.unwrap();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, (0..7).map(|number| format!("page-{number}")).collect::<Vec<_>>());
    revisions.dedup();
    assert_eq!(revisions.len(), 1, "all pages show one revision");
    let metadata = api.list_metadata(&ListParams::default().labels("app=kube")).await.unwrap();
    assert_eq!(metadata.items.len(), 10);
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=kube")).await.unwrap();
}

async fn watches_from_a_revision(api: &Api<ConfigMap>) {
    let begin = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for name in ["first", "second"] {
        api.create(&PostParams::default(), &config_map(name, "a")).await.unwrap();
    }
    api.patch("first", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"app": null}}})))
        .await
        .unwrap();
    let events = api.watch(&WatchParams::default().labels("app=kube"), &begin).await.unwrap();
    let seen: Vec<String> = events
        .try_filter_map(|event| {
            future::ok(match event {
                WatchEvent::Added(object) => Some(format!("+{}", object.name_any())),
                WatchEvent::Deleted(object) => Some(format!("-{}", object.name_any())),
                _ => None,
            })
        })
        .take(3)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(seen, ["+first", "+second", "-first"], "what no longer matches is gone for this watcher");
}

#[tokio::test]
async fn objects_and_watches() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let client = client(&server, None).await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    writes_and_conflicts(&api).await;
    applies(&api).await;
    pages(&api).await;
    watches_from_a_revision(&api).await;
}

/// Revisions of objects by name.
type Revisions = BTreeMap<String, Option<String>>;

fn revisions<'a>(objects: impl Iterator<Item = &'a ConfigMap>) -> Revisions {
    objects.map(|object| (object.name_any(), object.resource_version())).collect()
}

/// Writes one object. In a series of steps, objects are created, changed and deleted.
async fn write(api: &Api<ConfigMap>, step: usize) {
    let name = format!("object-{}", step % NAMES);
    if step % 3 == 2 {
        let _ = api.delete(&name, &DeleteParams::default()).await; // it may be gone already
        return;
    }
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"step": step.to_string()}
    });
    let params = PatchParams::apply("writer").force();
    api.patch(&name, &params, &Patch::Apply(body)).await.unwrap();
}

/// Cuts the connection of a reflector repeatedly, and checks that it ends equal to the store.
async fn follows(server: &ApiServer, mode: watcher::Config) {
    let address = server.admin.server.strip_prefix("https://").unwrap();
    let proxy = TcpProxy::start(address.parse().unwrap());
    let behind: Api<ConfigMap> = Api::namespaced(client(server, Some(&proxy)).await, "default");
    let api: Api<ConfigMap> = Api::namespaced(client(server, None).await, "default");
    let (reader, writer) = reflector::store();
    let followed =
        reflector::reflector(writer, watcher(behind, mode)).default_backoff().for_each(|_| future::ready(()));
    let works = async {
        for step in 0..WRITES {
            write(&api, step).await;
            if step % WRITES_PER_CUT == WRITES_PER_CUT - 1 {
                proxy.cut();
            }
        }
        let stored = api.list(&ListParams::default()).await.unwrap();
        let stored = revisions(stored.items.iter());
        e2e::wait::until_async("the reflector holds what is stored", async || {
            tokio::task::yield_now().await;
            revisions(reader.state().iter().map(Arc::as_ref)) == stored
        })
        .await;
    };
    let ended = pin!(followed);
    assert!(
        matches!(future::select(ended, pin!(works)).await, future::Either::Right(_)),
        "a watcher never ends by itself"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reflector_follows_through_cuts_by_list_and_by_streamed_list() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    for store in [Store::Embedded, Store::Etcd(&etcd)] {
        let directory = tempfile::tempdir().unwrap();
        let server = ApiServer::start(program(), directory.path(), store).await;
        follows(&server, watcher::Config::default().page_size(2)).await;
        follows(&server, watcher::Config::default().streaming_lists()).await;
    }
}

/// Reconciles a ConfigMap: keeps a Secret with the same name and data.
async fn keep_a_secret(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Error> {
    let owner = kube::Resource::controller_owner_ref(&*map, &()).expect("what the server sent has a name and a uid");
    let body = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": map.name_any(), "ownerReferences": [owner]},
        "stringData": map.data,
    });
    let api: Api<Secret> = Api::namespaced((*client).clone(), &map.namespace().unwrap_or_default());
    api.patch(&map.name_any(), &PatchParams::apply("keeper").force(), &Patch::Apply(body)).await?;
    Ok(Action::await_change())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_and_waits() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let client = client_of(&cluster).await;
    let namespace: Namespace = made(json!({"metadata": {"name": "kept"}}));
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kept");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kept");

    let controller = Controller::new(maps.clone(), watcher::Config::default().labels("app=kube"))
        .owns(secrets.clone(), watcher::Config::default())
        .run(keep_a_secret, |_, _, _| Action::await_change(), Arc::new(client.clone()))
        .for_each(|done| {
            // The Secret's deletion triggers a reconcile of its owner, which is deleted already.
            assert!(matches!(done, Ok(_) | Err(controller::Error::ObjectNotFound(_))), "{done:?}");
            future::ready(())
        });
    let works = async {
        maps.create(&PostParams::default(), &config_map("one", "a")).await.unwrap();
        let first = await_condition(secrets.clone(), "one", conditions::is_created()).await.unwrap().unwrap();
        secrets.delete("one", &DeleteParams::default()).await.unwrap();
        let uid = first.uid().unwrap();
        await_condition(secrets.clone(), "one", conditions::is_deleted(&uid)).await.unwrap();
        await_condition(secrets.clone(), "one", conditions::is_created()).await.unwrap();
        maps.delete("one", &DeleteParams::default()).await.unwrap();
        let is_gone = |secret: Option<&Secret>| secret.is_none();
        await_condition(secrets.clone(), "one", is_gone).await.unwrap(); // the garbage collector's work
    };
    assert!(matches!(future::select(pin!(controller), pin!(works)).await, future::Either::Right(_)));
    rolls_out(&client).await;
}

async fn rolls_out(client: &Client) {
    let web: Deployment = made(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]}
            }
        }
    }));
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kept");
    deployments.create(&PostParams::default(), &web).await.unwrap();
    await_condition(deployments, "web", conditions::is_deployment_completed()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kept");
    let found = pods.list(&ListParams::default().labels("app=web").fields("status.phase=Running")).await.unwrap();
    assert_eq!(found.items.len(), 2);
    let name = found.items[0].name_any();
    await_condition(pods.clone(), &name, conditions::is_pod_running()).await.unwrap();
    assert_eq!(ObjectRef::from_obj(&found.items[0]), ObjectRef::new(&name).within("kept"));
}
