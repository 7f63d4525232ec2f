//! Gathers what a process in a simulated container can see: its variables and its files, as the pod's spec says.
//!
//! Corresponds to makeEnvironmentVariables and makeMounts in pkg/kubelet/kubelet_pods.go and to pkg/volume.

use crate::pod::lifecycle::container_named;
use crate::pod::story::ContainerKind;
use crate::shell::session::ContainerContext;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::{Client, Error};
use proto::kinds::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Address of the DNS service in a cluster that kubeadm made.
const DNS_ADDRESS: &str = "10.96.0.10";
const CLUSTER_DOMAIN: &str = "cluster.local";
const TOKEN_LIFETIME_S: i64 = 3_607;

/// A container of a pod on one of the fleet's nodes.
#[derive(Clone, Debug)]
pub struct PodContainer {
    pub pod: Arc<Pod>,
    pub status: PodStatus,
    pub container: Container,
    pub kind: ContainerKind,
}

impl PodContainer {
    pub fn new(pod: Arc<Pod>, status: PodStatus, name: &str) -> Option<Self> {
        let (container, kind) = container_named(&pod, name)?;
        Some(Self { pod, status, container, kind })
    }

    pub fn container_status(&self) -> Option<&ContainerStatus> {
        let PodStatus { container_statuses, init_container_statuses, ephemeral_container_statuses, .. } = &self.status;
        let lists = [container_statuses, init_container_statuses, ephemeral_container_statuses];
        lists.into_iter().flatten().flatten().find(|status| status.name == self.container.name)
    }

    pub fn is_running(&self) -> bool {
        self.container_status().and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
    }

    /// Reads the ConfigMaps, Secrets and tokens that the container refers to, with the identity of its node. Missing
    /// ones are left out: the simulated pod runs without them.
    pub async fn context(&self, node: &Client) -> ContainerContext {
        let pod = serde_json::to_value(&*self.pod).unwrap_or_default();
        let container = serde_json::to_value(&self.container).unwrap_or_default();
        let status = serde_json::to_value(&self.status).unwrap_or_default();
        let reader = ObjectReader { node, pod: &pod, status: &status, namespace: self.pod.namespace() };
        let hostname = pod["spec"]["hostname"].as_str().unwrap_or(self.pod.name()).to_owned();
        let mut env: BTreeMap<String, String> = [("PATH", PATH), ("HOSTNAME", &hostname), ("HOME", "/root")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        env.extend(reader.environment(&container).await);
        let mut files = reader.own_files(&hostname);
        files.extend(reader.mounted(&container).await);
        let user = self.container_status().and_then(|status| status.user.as_ref()?.linux.clone()).unwrap_or_default();
        ContainerContext {
            hostname,
            files,
            env,
            uid: user.uid,
            gid: user.gid,
            groups: user.supplemental_groups.unwrap_or_default(),
            working_dir: self.container.working_dir.clone().unwrap_or_default(),
        }
    }
}

/// Reads the objects that a container refers to, with the identity of its node.
struct ObjectReader<'a> {
    node: &'a Client,
    pod: &'a Value,
    status: &'a Value,
    namespace: &'a str,
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

impl ObjectReader<'_> {
    async fn environment(&self, container: &Value) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for source in list(container, "envFrom") {
            let prefix = text(source, "prefix");
            for (kind, field) in [("configmaps", "configMapRef"), ("secrets", "secretRef")] {
                let data = self.data(kind, text(&source[field], "name")).await;
                env.extend(data.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value)));
            }
        }
        for variable in list(container, "env") {
            let from = &variable["valueFrom"];
            let value = if let Some(value) = variable["value"].as_str() {
                Some(value.to_owned())
            } else if from["fieldRef"].is_object() {
                self.field(text(&from["fieldRef"], "fieldPath"))
            } else if from["configMapKeyRef"].is_object() {
                self.key("configmaps", &from["configMapKeyRef"]).await
            } else if from["secretKeyRef"].is_object() {
                self.key("secrets", &from["secretKeyRef"]).await
            } else {
                from.is_null().then(String::new)
            };
            if let Some(value) = value {
                env.insert(text(variable, "name").to_owned(), value);
            }
        }
        env
    }

    /// Returns the files that the kubelet makes for every container.
    fn own_files(&self, hostname: &str) -> BTreeMap<String, String> {
        let mut hosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n".to_owned();
        hosts += "::1\tlocalhost ip6-localhost ip6-loopback\n";
        for address in list(self.status, "podIPs") {
            hosts += &format!("{}\t{hostname}\n", text(address, "ip"));
        }
        let search =
            [&format!("{}.svc.{CLUSTER_DOMAIN}", self.namespace), "svc.cluster.local", CLUSTER_DOMAIN].join(" ");
        let resolver = format!("search {search}\nnameserver {DNS_ADDRESS}\noptions ndots:5\n");
        [("/etc/hostname", format!("{hostname}\n")), ("/etc/hosts", hosts), ("/etc/resolv.conf", resolver)]
            .map(|(path, text)| (path.to_owned(), text))
            .into()
    }

    async fn mounted(&self, container: &Value) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for mount in list(container, "volumeMounts") {
            let volume = list(&self.pod["spec"], "volumes").find(|volume| volume["name"] == mount["name"]);
            let Some(volume) = volume else { continue };
            let (at, part) = (text(mount, "mountPath").trim_end_matches('/'), text(mount, "subPath"));
            for (path, content) in self.volume(volume).await {
                match part {
                    "" => drop(files.insert(format!("{at}/{path}"), content)),
                    part if part == path => drop(files.insert(at.to_owned(), content)),
                    _ => {}
                }
            }
        }
        files
    }

    async fn volume(&self, volume: &Value) -> BTreeMap<String, String> {
        let sources: Vec<&Value> = list(&volume["projected"], "sources").chain([volume]).collect();
        let mut files = BTreeMap::new();
        for source in sources {
            let (map, secret) = (&source["configMap"], &source["secret"]);
            if map.is_object() {
                files.extend(selected(self.data("configmaps", text(map, "name")).await, map));
            }
            if secret.is_object() {
                let name = secret["secretName"].as_str().unwrap_or(text(secret, "name"));
                files.extend(selected(self.data("secrets", name).await, secret));
            }
            for item in list(&source["downwardAPI"], "items") {
                let value = self.field(text(&item["fieldRef"], "fieldPath"));
                files.extend(value.map(|value| (text(item, "path").to_owned(), value)));
            }
            let token = &source["serviceAccountToken"];
            if token.is_object() {
                files.extend(self.token(token).await.map(|value| (text(token, "path").to_owned(), value)));
            }
        }
        files
    }

    async fn key(&self, kind: &str, reference: &Value) -> Option<String> {
        self.data(kind, text(reference, "name")).await.remove(text(reference, "key"))
    }

    /// Returns the entries of a ConfigMap or Secret; none when it does not exist.
    async fn data(&self, kind: &str, name: &str) -> BTreeMap<String, String> {
        if name.is_empty() {
            return BTreeMap::new();
        }
        let object = self.node.dynamic(&Gvr::new("", "v1", kind), self.namespace).get(name).await.unwrap_or_default();
        let entries = |field: &str| object[field].as_object().cloned().unwrap_or_default();
        let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let decoded = |value: &Value| {
            let bytes = BASE64.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if kind == "secrets" {
            return entries("data").iter().map(|(key, value)| (key.clone(), decoded(value))).collect();
        }
        let binary = entries("binaryData");
        let binary = binary.iter().map(|(key, value)| (key.clone(), decoded(value)));
        entries("data").iter().map(|(key, value)| (key.clone(), plain(value))).chain(binary).collect()
    }

    /// Requests a token that is bound to the pod. The API server makes a real one.
    async fn token(&self, wanted: &Value) -> Option<String> {
        let audience = wanted["audience"].as_str().map(|audience| vec![audience]).unwrap_or_default();
        let metadata = &self.pod["metadata"];
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": {
                "audiences": audience,
                "expirationSeconds": wanted["expirationSeconds"].as_i64().unwrap_or(TOKEN_LIFETIME_S),
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"],
                },
            },
        });
        let account = self.pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let accounts = self.node.dynamic(&Gvr::new("", "v1", "serviceaccounts"), self.namespace);
        let answer: Result<Value, Error> = accounts.create_subresource(account, "token", &request).await;
        answer.ok()?["status"]["token"].as_str().map(str::to_owned)
    }

    /// Returns the field at a path of the downward API: `metadata.labels['app']`, `status.podIP`.
    fn field(&self, path: &str) -> Option<String> {
        if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
            return Some(text(&self.pod["metadata"][map.strip_prefix("metadata.")?], key).to_owned());
        }
        let of_map = |field: &str| {
            let entries = self.pod["metadata"][field].as_object().into_iter().flatten();
            entries.map(|(key, value)| format!("{key}={value}\n")).collect::<String>()
        };
        match path {
            "metadata.labels" | "metadata.annotations" => Some(of_map(&path["metadata.".len()..])),
            path => {
                let (head, rest) = path.split_once('.')?;
                let from = if head == "status" { self.status } else { &self.pod[head] };
                let all = || list(from, rest).map(|address| text(address, "ip")).collect::<Vec<_>>().join(",");
                from[rest].as_str().map(str::to_owned).or_else(|| from[rest].is_array().then(all))
            }
        }
    }
}

/// Returns all entries by key, or those that `items` lists, by the paths given there.
fn selected(data: BTreeMap<String, String>, source: &Value) -> BTreeMap<String, String> {
    if source["items"].as_array().is_none_or(Vec::is_empty) {
        return data;
    }
    let entry = |item: &Value| Some((text(item, "path").to_owned(), data.get(text(item, "key"))?.clone()));
    list(source, "items").filter_map(entry).collect()
}
