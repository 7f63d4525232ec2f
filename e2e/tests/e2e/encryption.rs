//! Tests encryption at rest: `etcdctl get` shows only ciphertext of Secrets, and keys can be rotated.

use crate::{etcd, program};
use component_base_testing::etcd_process::EtcdProcess;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::programs::needs;
use e2e::store::Store;
use e2e::wait;
use orrery::up::data_dir::DataDir;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const IDENTITY: &str = "identity: {}";
const CBC: &str = "aescbc: {keys: [{name: first, secret: AAECAwQFBgcICQoLDA0ODw==}]}";
const GCM: &str = "aesgcm: {keys: [{name: second, secret: AQECAwQFBgcICQoLDA0ODw==}]}";
const BOX: &str = "secretbox: {keys: [{name: third, secret: AAECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}]}";
const TWO_BOXES: &str = "secretbox: {keys: [{name: fourth, secret: CQECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}, \
                         {name: third, secret: AAECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}]}";
const NEW_BOX: &str = "secretbox: {keys: [{name: fourth, secret: CQECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}]}";
/// A wrong key under the name of another one.
const WRONG_BOX: &str = "secretbox: {keys: [{name: fourth, secret: BwECAwQFBgcICQoLDA0ODwABAgMEBQYHCAkKCwwNDg8=}]}";
/// Content of the Secrets.
const WORD: &str = "a-word-that-nobody-reads";

struct Encrypted {
    etcd: EtcdProcess,
    file: PathBuf,
    server: ApiServer,
    kubectl: Kubectl,
}

impl Encrypted {
    /// Starts a server on etcd with these encryption providers. If etcd or `etcdctl` is missing, returns `None` and
    /// records the test as skipped.
    async fn start(directory: &Path, providers: &[&str]) -> Option<Self> {
        if std::env::var_os("ETCDCTL").is_none() && !needs("etcdctl", "etcd-client") {
            return None;
        }
        let etcd = etcd(directory)?;
        let file = directory.join("encryption.yaml");
        write_config(&file, providers);
        let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
        let flag = format!("--encryption-provider-config={}", file.display());
        let flags = [flag.as_str(), "--encryption-provider-config-automatic-reload=true"];
        let server = ApiServer::start_in(program(), data_dir, Store::Etcd(&etcd), &flags).await;
        let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory);
        Some(Self { etcd, file, server, kubectl })
    }

    /// Restarts the server with other providers.
    async fn restart(&mut self, providers: &[&str]) {
        self.server.stop();
        write_config(&self.file, providers);
        self.server.restart().await;
    }

    /// Returns the stored bytes of a Secret.
    fn at_rest(&self, name: &str) -> String {
        let program = std::env::var_os("ETCDCTL").unwrap_or_else(|| "etcdctl".into());
        let endpoints = format!("--endpoints={}", self.etcd.urls().join(","));
        let key = format!("/registry/secrets/default/{name}");
        let output = Command::new(&program).args([&endpoints, "get", "--print-value-only", &key]).output();
        let output = output.unwrap_or_else(|error| panic!("this test runs etcdctl: {program:?}: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Checks the prefix of a stored Secret, and that only the prefix of JSON goes with readable JSON.
    #[track_caller]
    fn is_stored_with(&self, name: &str, prefix: &str) {
        let stored = self.at_rest(name);
        assert!(stored.starts_with(prefix), "{name}: {stored}");
        assert_eq!(stored.contains("\"kind\":\"Secret\""), prefix.starts_with('{'), "{name}: {stored}");
        assert!(!stored.contains(WORD), "{name}: {stored}");
    }

    #[track_caller]
    fn reads(&self, name: &str) {
        let read = self.kubectl.ok(&format!("get secret {name} -o go-template={{{{.data.word|base64decode}}}}"));
        assert_eq!(read, WORD, "{name}");
    }
}

/// Replaces the encryption configuration atomically.
fn write_config(path: &Path, providers: &[&str]) {
    let providers: String = providers.iter().map(|provider| format!("  - {provider}\n")).collect();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
         providers:\n{providers}"
    );
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test]
async fn secrets_are_stored_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut cluster) = Encrypted::start(directory.path(), &[IDENTITY]).await else { return };
    let create = |name: &str| format!("create secret generic {name} --from-literal=word={WORD}");
    cluster.kubectl.ok(&create("old"));
    cluster.is_stored_with("old", "{");
    let mut before = "{";
    for (number, (providers, prefix)) in [
        (&[CBC, IDENTITY][..], "k8s:enc:aescbc:v1:first:"),
        (&[GCM, CBC], "k8s:enc:aesgcm:v1:second:"),
        (&[BOX, GCM], "k8s:enc:secretbox:v1:third:"),
        (&[TWO_BOXES], "k8s:enc:secretbox:v1:fourth:"),
        (&[IDENTITY, NEW_BOX], "{"),
    ]
    .into_iter()
    .enumerate()
    {
        cluster.restart(providers).await;
        // An old Secret can be read and is stored as before. A new one is stored with the first provider.
        cluster.reads("old");
        cluster.is_stored_with("old", before);
        let new = format!("new{number}");
        cluster.kubectl.ok(&create(&new));
        cluster.is_stored_with(&new, prefix);
        let replaced = cluster.kubectl.shell(directory.path(), "kubectl get secrets -A -o json | kubectl replace -f -");
        assert!(replaced.status.success(), "{}", String::from_utf8_lossy(&replaced.stdout));
        cluster.is_stored_with("old", prefix);
        before = prefix;
    }
    cluster.restart(&[IDENTITY]).await;
    (0..5).for_each(|number| cluster.reads(&format!("new{number}")));
}

#[tokio::test]
async fn a_secret_is_readable_only_with_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut cluster) = Encrypted::start(directory.path(), &[NEW_BOX]).await else { return };
    cluster.kubectl.ok(&format!("create secret generic lost --from-literal=word={WORD}"));
    cluster.kubectl.ok("create configmap there --from-literal=a=1");
    for (providers, why) in [
        (&[GCM][..], "no matching prefix found"),
        (&[IDENTITY], "identity transformer tried to read encrypted data"),
        (&[WRONG_BOX], "output array was not large enough for encryption"),
    ] {
        cluster.restart(providers).await;
        let refused = cluster.kubectl.fails("get secret lost");
        assert_eq!(refused, format!("Error from server (InternalError): Internal error occurred: {why}\n"));
        let refused = cluster.kubectl.fails("get secrets");
        let key = r#"unable to transform key "/registry/secrets/default/lost""#;
        assert!(refused.contains(&format!("Internal error occurred: {key}: {why}")), "{refused}");
        // Other objects, and Secrets of other namespaces, are not affected.
        assert_eq!(cluster.kubectl.ok("get configmap there -o jsonpath={.data.a}"), "1");
        cluster.kubectl.ok("-n kube-public get secrets");
        cluster.kubectl.ok("-n kube-public create secret generic other --from-literal=a=1");
        cluster.kubectl.ok("-n kube-public delete secret other");
    }
    // The key is added again while the server runs.
    write_config(&cluster.file, &[WRONG_BOX, NEW_BOX]);
    wait::until("the list is mended", || cluster.kubectl.run("get secrets").success);
    cluster.reads("lost");
}
