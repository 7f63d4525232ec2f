//! The lab of the refrigerator on a real server: its own manager first, then the same controller in kube-rs.

use crate::program;
use component_base::env::Env;
use component_base::kubeconfig;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use futures::{StreamExt, future};
use kube::api::{ApiResource, GroupVersionKind, NotUsed, Object, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, Error, ResourceExt};
use refrigerator::parts::{DoorSpec, LightingSpec, SwitchStatus};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/refrigerator/manifests");
const OPEN: [&str; 6] = ["patch", "door", "white", "--type=merge", "-p", r#"{"spec":{"open":true}}"#];
const CLOSE: [&str; 6] = ["patch", "door", "white", "--type=merge", "-p", r#"{"spec":{"open":false}}"#];

type Door = Object<DoorSpec, NotUsed>;
type LightingSystem = Object<LightingSpec, SwitchStatus>;

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("kitchen.example.com", "v1", kind), plural)
}

/// Returns a client of the administrator.
async fn kube_rs(server: &ApiServer) -> Client {
    let file = Kubeconfig::from_yaml(&kubeconfig::to_yaml(&server.admin, "orrery", "admin")).unwrap();
    Client::try_from(Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap()).unwrap()
}

/// The lighting controller again: while the door is open, the light is wanted on.
async fn reconcile(light: Arc<LightingSystem>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = light.namespace().unwrap();
    let doors: Api<Door> = Api::namespaced_with((*client).clone(), &namespace, &resource("Door", "doors"));
    let open = doors.get_opt(&light.name_any()).await?.is_some_and(|door| door.spec.open);
    if light.spec.on != open {
        let of_lights = resource("LightingSystem", "lightingsystems");
        let lights: Api<LightingSystem> = Api::namespaced_with((*client).clone(), &namespace, &of_lights);
        let patch = Patch::Merge(json!({"spec": {"on": open}}));
        lights.patch(&light.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(Action::await_change())
}

/// Runs the controller in kube-rs for ever, and calls `seen` after each reconcile.
async fn run_in_kube_rs(client: Client, seen: impl Fn() + Send + 'static) {
    let of_lights = resource("LightingSystem", "lightingsystems");
    let lights: Api<LightingSystem> = Api::default_namespaced_with(client.clone(), &of_lights);
    let of_doors = resource("Door", "doors");
    let doors: Api<Door> = Api::default_namespaced_with(client.clone(), &of_doors);
    let light_of = move |door: Door| {
        let light = ObjectRef::new_with(&door.name_any(), of_lights.clone());
        Some(light.within(&door.namespace().unwrap()))
    };
    Controller::new_with(lights, watcher::Config::default(), resource("LightingSystem", "lightingsystems"))
        .watches_with(doors, of_doors, watcher::Config::default(), light_of)
        .run(reconcile, |_, error, _| panic!("{error}"), Arc::new(client))
        .for_each(|done| {
            done.unwrap();
            seen();
            future::ready(())
        })
        .await;
}

/// Waits until the columns WANTED and ON of a part are these, and returns its resourceVersion.
fn wait_for(kubectl: &Kubectl, part: &str, wanted: &str, on: &str) -> String {
    let mut version = String::new();
    e2e::wait::until(&format!("{part} is wanted {wanted} and on {on}"), || {
        let line = kubectl
            .ok(&format!("get {part} white -o jsonpath={{.metadata.resourceVersion}},{{.spec.on}},{{.status.on}}"));
        let (found, state) = line.split_once(',').unwrap();
        version = found.to_owned();
        state == format!("{wanted},{on}")
    });
    version
}

/// Reads the watch of all doors as `curl` does, until it shows an open one.
fn watch_until_open(kubectl: &Kubectl) -> impl FnOnce() -> Vec<String> {
    let mut raw = kubectl
        .command(&["get", "--raw", "/apis/kitchen.example.com/v1/doors?watch=true"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(raw.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    move || {
        let second = lines.next().unwrap().unwrap();
        raw.kill().unwrap();
        raw.wait().unwrap();
        vec![first, second]
    }
}

fn install(server: &ApiServer, directory: &Path) -> Kubectl {
    let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory);
    kubectl.ok(&format!("apply -f {MANIFESTS}/crds.yaml"));
    kubectl.ok("wait --for=condition=Established crd --all");
    kubectl.ok(&format!("apply -f {MANIFESTS}/refrigerator.yaml -f {MANIFESTS}/household.yaml"));
    kubectl
}

/// What people of the group `household` may write, and what is refused: by their role, or by the schema.
fn household(kubectl: &Kubectl) {
    let may = |verb: &str, part: &str| {
        let line = format!("auth can-i {verb} {part}.kitchen.example.com --as=ada --as-group=household");
        kubectl.run(&line).stdout.trim() == "yes"
    };
    assert!(may("patch", "doors") && may("patch", "thermostats") && may("watch", "lightingsystems"));
    assert!(!may("patch", "lightingsystems") && !may("patch", "coolingsystems") && !may("patch", "refrigerators"));
    let hot = ["patch", "thermostat", "white", "--type=merge", "-p", r#"{"spec":{"targetCelsius":40}}"#];
    let refused = kubectl.run_args(&hot);
    assert!(refused.stderr.contains("spec.targetCelsius"), "{}", refused.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lab_and_its_controller_in_kube_rs() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let kubectl = install(&server, directory.path());
    household(&kubectl);

    let process = Env::system();
    let manager = server.client(&server.admin).in_env(&process);
    process.spawn(refrigerator::manager::run(manager));
    wait_for(&kubectl, "lightingsystem", "false", "false");
    let events = watch_until_open(&kubectl);
    kubectl.ok_args(&OPEN);
    let with_ours = wait_for(&kubectl, "lightingsystem", "true", "true");
    let events = events();
    assert!(events[0].starts_with(r#"{"type":"ADDED","object":{"#), "{events:?}");
    assert!(events[1].starts_with(r#"{"type":"MODIFIED","object":{"#), "{events:?}");
    assert!(events[1].contains(r#""spec":{"open":true}"#), "{events:?}");
    wait_for(&kubectl, "coolingsystem", "true", "true");

    // The same controller in kube-rs finds nothing to do beside ours.
    let (reconciled, mut has_reconciled) = tokio::sync::watch::channel(0);
    let seen = move || reconciled.send_modify(|n| *n += 1);
    let theirs = server.env.spawn(run_in_kube_rs(kube_rs(&server).await, seen));
    has_reconciled.wait_for(|n| *n > 0).await.unwrap();
    assert_eq!(wait_for(&kubectl, "lightingsystem", "true", "true"), with_ours, "both agree, so neither writes");
    // Alone it does what ours did. The lamp itself ran in our process, and reports nothing any more.
    process.drain().await;
    kubectl.ok_args(&CLOSE);
    wait_for(&kubectl, "lightingsystem", "false", "true");
    assert!(!theirs.is_finished(), "it ends only when a reconcile fails");
}
