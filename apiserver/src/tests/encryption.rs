//! Encryption at rest: a server whose encryption keys are added, rotated and removed.

use crate::config::{Config, StoreKind};
use crate::testing::Api;
use bytes::Bytes;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use storage::embedded::Embedded;
use storage::memory::Memory;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const KEY: &str = "/registry/secrets/default/s";
const OLD: &str = "{aescbc: {keys: [{name: old, secret: AAECAwQFBgcICQoLDA0ODw==}]}}";
const NEW: &str = "{aesgcm: {keys: [{name: new, secret: AQECAwQFBgcICQoLDA0ODw==}]}}";
const OTHER_OLD: &str = "{aescbc: {keys: [{name: old, secret: CQECAwQFBgcICQoLDA0ODw==}]}}";
const BOX: &str = "{secretbox: {keys: [{name: box, secret: AAECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}]}}";
const IDENTITY: &str = "{identity: {}}";

fn write_config(path: &Path, providers: &[&str]) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{{resources: [secrets], providers: [{}]}}]\n",
        providers.join(", ")
    );
    std::fs::write(path, text).unwrap();
}

/// Starts a server on a store, with these encryption providers for secrets.
async fn start(env: &Env, storage: &Arc<dyn Storage>, providers: &[&str]) -> (Api, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().unwrap();
    write_config(file.path(), providers);
    let config = Config {
        store: Some(StoreKind::Memory),
        encryption_provider_config: Some(file.path().to_owned()),
        encryption_provider_config_automatic_reload: true,
        ..Config::default()
    };
    (Api::on(env, storage.clone(), config).await, file)
}

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": "aHVzaA=="}})
}

async fn stored_secret(storage: &Arc<dyn Storage>) -> Bytes {
    storage.get(KEY).await.unwrap().entry.unwrap().value
}

/// Asserts that a stored value starts with the prefix, and that only a plain one can be read.
fn assert_prefix(value: &Bytes, prefix: &str) {
    let start = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
    assert!(value.starts_with(prefix.as_bytes()), "{start}");
    let is_plain = prefix.starts_with('{');
    assert_eq!(value.windows(5).any(|bytes| bytes == b"aHVza"), is_plain, "{start}");
}

async fn keys_come_and_go(env: &Env, storage: Arc<dyn Storage>) {
    let (api, file) = start(env, &storage, &[OLD, IDENTITY]).await;
    let created = api.create(SECRETS, secret()).await;
    assert_prefix(&stored_secret(&storage).await, "k8s:enc:aescbc:v1:old:");
    assert_eq!(created["data"]["p"], "aHVzaA==");
    let path = format!("{SECRETS}/s");
    // An update without a change writes nothing, while the stored secret is encrypted with the first key.
    let read = api.get(&path).await.body;
    let again = api.ask(Method::PUT, &path, &read, &[]).await.body;
    assert_eq!(again["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    // A new key before the old one: both decrypt, and the new one encrypts.
    for (providers, prefix) in [
        (&[NEW, OLD][..], "k8s:enc:aesgcm:v1:new:"),
        (&[BOX, NEW], "k8s:enc:secretbox:v1:box:"),
        (&[IDENTITY, BOX], "{\"apiVersion\""),
    ] {
        let before = stored_secret(&storage).await;
        write_config(file.path(), providers);
        env.sleep(Duration::from_secs(11)).await;
        let read = api.get(&path).await.body;
        assert_eq!((&read["data"]["p"], stored_secret(&storage).await), (&json!("aHVzaA=="), before));
        let written = api.ask(Method::PUT, &path, &read, &[]).await;
        assert_eq!(written.code, 200, "{}", written.text);
        assert_ne!(written.body["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
        assert_prefix(&stored_secret(&storage).await, prefix);
    }
    let listed = api.get(SECRETS).await.body;
    assert_eq!(listed["items"][0]["data"]["p"], "aHVzaA==");
}

#[tokio::test(start_paused = true)]
async fn keys_come_and_go_in_memory() {
    let env = Env::simulated(1);
    keys_come_and_go(&env, Memory::new(&env)).await;
}

#[tokio::test(start_paused = true)]
async fn keys_come_and_go_on_disk() {
    let env = Env::simulated(1);
    let folder = tempfile::tempdir().unwrap();
    let storage = Embedded::open(&env, folder.path()).await.unwrap();
    keys_come_and_go(&env, storage).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_no_key_decrypts_is_an_error_that_names_it() {
    let env = Env::simulated(1);
    let storage: Arc<dyn Storage> = Memory::new(&env);
    let (api, _file) = start(&env, &storage, &[OLD]).await;
    api.create(SECRETS, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})).await;
    for (providers, why) in [
        (&[NEW][..], "no matching prefix found"),
        (&[IDENTITY], "identity transformer tried to read encrypted data"),
        (&[OTHER_OLD, NEW], "invalid padding on input"),
    ] {
        let (other, _file) = start(&env.process(why), &storage, providers).await;
        let one = other.get(&format!("{SECRETS}/s")).await;
        assert_eq!((one.code, one.message()), (500, format!("Internal error occurred: {why}").as_str()));
        let all = other.get(SECRETS).await;
        let message = format!("Internal error occurred: unable to transform key {KEY:?}: {why}");
        assert_eq!((all.code, all.message()), (500, message.as_str()));
        // Other namespaces and other resources are not affected.
        assert_eq!(other.get("/api/v1/namespaces/kube-public/secrets").await.code, 200);
        assert_eq!(other.get("/api/v1/namespaces/default/configmaps").await.code, 200);
    }
    // A client that confirms the risk can still delete it.
    let (other, _file) = start(&env.process("deleting"), &storage, &[NEW]).await;
    let path = format!("{SECRETS}/s?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    let deleted = other.ask(Method::DELETE, &path, "", &[]).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    assert!(storage.get(KEY).await.unwrap().entry.is_none());
}

/// When a missing key is added again, its secrets are listed, and a watch that started without it ends with 410.
#[tokio::test(start_paused = true)]
async fn a_key_that_comes_back_mends_lists_and_watches() {
    let env = Env::simulated(1);
    let storage: Arc<dyn Storage> = Memory::new(&env);
    let (api, _file) = start(&env, &storage, &[OLD]).await;
    let created = api.create(SECRETS, secret()).await;
    let (other, file) = start(&env.process("other"), &storage, &[NEW]).await;
    assert_eq!(other.get(SECRETS).await.code, 500);
    let revision = created["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = async |timeout_s: u32| {
        let query = format!("watch=1&resourceVersion={revision}&timeoutSeconds={timeout_s}");
        other.get(&format!("{SECRETS}?{query}")).await.text
    };
    let add_key = async {
        env.sleep(Duration::from_secs(1)).await;
        write_config(file.path(), &[NEW, OLD]);
    };
    let (watched, ()) = tokio::join!(watch(60), add_key);
    assert!(watched.contains(r#""code":410"#), "{watched}");
    let listed = other.get(SECRETS).await;
    assert_eq!((listed.code, &listed.body["items"][0]["data"]["p"]), (200, &json!("aHVzaA==")), "{}", listed.text);
    assert_eq!(watch(1).await, "", "nothing is wrong any more");
}

/// A page of an old list fails when the key of that revision is gone. Lists of the newest revision are not affected.
#[tokio::test(start_paused = true)]
async fn a_page_at_an_undecryptable_revision_does_not_affect_new_lists() {
    let env = Env::simulated(1);
    let storage: Arc<dyn Storage> = Memory::new(&env);
    let (api, _file) = start(&env, &storage, &[OLD]).await;
    for name in ["a", "s"] {
        let mut secret = secret();
        secret["metadata"]["name"] = json!(name);
        api.create(SECRETS, secret).await;
    }
    let page = api.get(&format!("{SECRETS}?limit=1")).await.body;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (rotated, file) = start(&env.process("rotated"), &storage, &[NEW, OLD]).await;
    for name in ["a", "s"] {
        let path = format!("{SECRETS}/{name}");
        let read = rotated.get(&path).await.body;
        assert_eq!(rotated.ask(Method::PUT, &path, &read, &[]).await.code, 200);
    }
    drop(file);
    let (late, _file) = start(&env.process("late"), &storage, &[NEW]).await;
    let past = late.get(&format!("{SECRETS}?limit=1&continue={token}")).await;
    assert_eq!((past.code, past.message().contains("no matching prefix found")), (500, true), "{}", past.text);
    assert_eq!(late.get(SECRETS).await.code, 200);
}
