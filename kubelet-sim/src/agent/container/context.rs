//! Gathers what a process in a simulated container can see: its variables and its files, as the pod's spec says.
//!
//! Corresponds to makeEnvironmentVariables and makeMounts in pkg/kubelet/kubelet_pods.go and to pkg/volume.

use crate::fleet::Fleet;
use crate::pod::lifecycle::container_named;
use crate::pod::needs::downward::PodFields;
use crate::pod::needs::environment::{self, Environment, environment};
use crate::pod::needs::references::{Objects, references};
use crate::pod::needs::resolver::{ClusterDns, resolv_conf};
use crate::pod::needs::volume_files::{self, VolumeFiles};
use crate::pod::story::ContainerKind;
use crate::shell::session::ContainerContext;
use client::{Client, Error};
use proto::kinds::api::core::v1::{
    Container, ContainerStatus, Pod, PodStatus, ServiceAccountTokenProjection, VolumeMount,
};
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
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

    /// Reads what the container refers to, with the identity of its node. What is missing is left out: the container
    /// was started when it was there.
    pub async fn context(&self, fleet: &Fleet, node: &str) -> ContainerContext {
        let Some(client) = fleet.client_of(node) else { return ContainerContext::default() };
        let spec = self.pod.spec.as_ref();
        let referenced = spec.map(references).unwrap_or_default();
        let objects = fleet.objects_of(&client, self.pod.namespace(), referenced).await;
        let allocatable = fleet.allocatable_of(node);
        let fields = PodFields { pod: &self.pod, status: &self.status, allocatable: allocatable.as_ref() };
        let hostname = spec.and_then(|spec| spec.hostname.as_deref()).unwrap_or(self.pod.name()).to_owned();
        let mut env: Environment = [("PATH", PATH), ("HOSTNAME", &hostname), ("HOME", "/root")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        env.extend(environment(fields, &self.container, &objects).unwrap_or_default());
        let mut files = self.own_files(&hostname, &fleet.cluster_dns());
        for mount in self.container.volume_mounts.iter().flatten() {
            files.extend(self.mounted(&client, fields, mount, &env, &objects).await.unwrap_or_default());
        }
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

    /// Returns the files that the kubelet makes for every container.
    fn own_files(&self, hostname: &str, cluster: &ClusterDns) -> BTreeMap<String, String> {
        let mut hosts = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n".to_owned();
        hosts += "::1\tlocalhost ip6-localhost ip6-loopback\n";
        for address in self.status.pod_ips.iter().flatten() {
            hosts += &format!("{}\t{hostname}\n", address.ip);
        }
        let spec = self.pod.spec.as_ref();
        let resolver = spec.map(|spec| resolv_conf(spec, self.pod.namespace(), cluster)).unwrap_or_default();
        [("/etc/hostname", format!("{hostname}\n")), ("/etc/hosts", hosts), ("/etc/resolv.conf", resolver)]
            .map(|(path, text)| (path.to_owned(), text))
            .into()
    }

    /// Returns the files of a mounted volume by their absolute paths.
    async fn mounted(
        &self,
        node: &Client,
        fields: PodFields<'_>,
        mount: &VolumeMount,
        env: &Environment,
        objects: &Objects,
    ) -> Result<BTreeMap<String, String>, String> {
        let volumes = self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let Some(volume) = { volumes }.find(|volume| volume.name == mount.name) else { return Ok(BTreeMap::new()) };
        let VolumeFiles { mut content, tokens } = volume_files::files(fields, volume, objects)?;
        for token in tokens {
            content.extend(self.token(node, &token).await.map(|text| (token.path.clone(), text.into_bytes())));
        }
        let (at, part) = (mount.mount_path.trim_end_matches('/'), environment::sub_path(mount, env)?);
        let files = content.into_iter().filter_map(|(path, bytes)| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match path.strip_prefix(&*part) {
                _ if part.is_empty() => Some((format!("{at}/{path}"), text)),
                Some("") => Some((at.to_owned(), text)),
                Some(below) if below.starts_with('/') => Some((format!("{at}{below}"), text)),
                _ => None,
            }
        });
        Ok(files.collect())
    }

    /// Requests a token that is bound to the pod. The API server makes a real one.
    async fn token(&self, node: &Client, projection: &ServiceAccountTokenProjection) -> Option<String> {
        let audiences: Vec<&str> = projection.audience.as_deref().filter(|a| !a.is_empty()).into_iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": projection.expiration_seconds.unwrap_or(TOKEN_LIFETIME_S),
                "boundObjectRef": {
                    "apiVersion": "v1", "kind": "Pod", "name": self.pod.name(), "uid": self.pod.uid(),
                },
            },
        });
        let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let accounts = node.dynamic(&Gvr::new("", "v1", "serviceaccounts"), self.pod.namespace());
        let answer: Result<Value, Error> = accounts.create_subresource(account, "token", &request).await;
        answer.ok()?["status"]["token"].as_str().map(str::to_owned)
    }
}
