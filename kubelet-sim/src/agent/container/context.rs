//! Gathers what a process in a simulated container can see: its variables and its files, as the pod's spec says.
//!
//! Corresponds to makeEnvironmentVariables and makeMounts in pkg/kubelet/kubelet_pods.go and to pkg/volume.

use super::file_modes::{FileModes, holds_payload};
use super::output::Run;
use crate::fleet::Fleet;
use crate::pod::entrypoint::{PATH, argv, image_of, is_simulated, working_dir};
use crate::pod::lifecycle::container_named;
use crate::pod::needs::downward::PodFields;
use crate::pod::needs::environment::{self, Environment, environment, expand};
use crate::pod::needs::references::{Objects, references};
use crate::pod::needs::resolver::{ClusterDns, resolv_conf};
use crate::pod::needs::volume_files::{self, VolumeFiles};
use crate::pod::story::ContainerKind;
use crate::runtime::{RunKey, SharedProcesses};
use client::{Client, Error};
use proto::kinds::api::core::v1 as k8s;
use proto::kinds::api::core::v1::{
    Container, ContainerStatus, Pod, PodStatus, ServiceAccountTokenProjection, VolumeMount,
};
use proto::kinds::jiff::Timestamp;
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use userland::launch::launch;
use userland::process::processes::{ContainerSetup, Processes};
use userland::process::streams::Streams;
use userland::tree::mounts::{FileTree, Mount};
use userland::tree::node::Owner;
use userland::tree::payload::PayloadFile;
use userland::tree::volume::{DEFAULT_LIMIT_BYTES, Volume};

/// The default of `terminationMessagePath`.
const TERMINATION_LOG: &str = "/dev/termination-log";
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

    /// Returns the processes of a run of the container; starts them when nobody has looked at it before. The files of
    /// ConfigMaps, Secrets and tokens are read again each time. What is missing is left out: the container was started
    /// when it was there.
    pub async fn processes(&self, fleet: &Fleet, node: &str, run: &Run) -> SharedProcesses {
        let now = fleet.env().wall();
        let client = fleet.client_of(node);
        let spec = self.pod.spec.as_ref();
        let objects = match &client {
            Some(client) => {
                let referenced = spec.map(references).unwrap_or_default();
                fleet.objects_of(client, self.pod.namespace(), referenced).await
            }
            None => Objects::default(),
        };
        let allocatable = fleet.allocatable_of(node);
        let fields = PodFields { pod: &self.pod, status: &self.status, allocatable: allocatable.as_ref() };
        let hostname = spec.and_then(|spec| spec.hostname.as_deref()).unwrap_or(self.pod.name()).to_owned();
        let mut env: Environment = [("PATH", PATH), ("HOSTNAME", &hostname), ("HOME", "/root")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        env.extend(environment(fields, &self.container, &objects).unwrap_or_default());
        let mut mounts = Vec::new();
        for mount in self.container.volume_mounts.iter().flatten() {
            let volume = self.volume(fleet, client.as_ref(), fields, mount, &objects, now).await;
            let part = environment::sub_path(mount, &env).unwrap_or_default();
            let owner = self.group_owner();
            let part_of_payload = if part.is_empty() { None } else { volume.payload_part(&part) };
            let volume = match part_of_payload.or_else(|| volume.sub_path(&part)) {
                Some(part) => part,
                None => volume.sub_folder(&part, 0o755, owner, now),
            };
            let fs_type = self.fs_type(&mount.name);
            let is_read_only = mount.read_only == Some(true);
            mounts.push((mount.mount_path.clone(), Mount { volume, is_read_only, fs_type, is_known: true }));
        }
        let key = RunKey {
            pod_uid: self.pod.uid().to_owned(),
            container: self.container.name.clone(),
            number: run.number,
            started_at: run.started_at,
        };
        fleet.runtime().processes(key, || self.start(hostname, &fleet.cluster_dns(), env, mounts, run))
    }

    /// Starts the container's own process in its files.
    fn start(
        &self,
        hostname: String,
        dns: &ClusterDns,
        env: Environment,
        mounts: Vec<(String, Mount)>,
        run: &Run,
    ) -> Processes {
        let started_at = run.started_at;
        let files = image_of(&self.container).files(started_at);
        for (path, text) in self.own_files(&hostname, dns) {
            files.put_file(&path, text, 0o644, Owner::default(), started_at);
        }
        let security = self.container.security_context.as_ref();
        let is_read_only = security.and_then(|security| security.read_only_root_filesystem) == Some(true);
        let mut tree = FileTree::new(files, is_read_only);
        let log = self.container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG);
        let file = Volume::of_file(Vec::new(), 0o666, Owner::default(), started_at);
        let file = Mount { volume: file, is_read_only: false, fs_type: "ext4".to_owned(), is_known: true };
        tree.mount(log, file, started_at);
        for (path, mount) in mounts {
            tree.mount(&path, mount, started_at);
        }
        let user = self.container_status().and_then(|status| status.user.as_ref()?.linux.clone()).unwrap_or_default();
        let number = |id: i64| u32::try_from(id).unwrap_or_default();
        let argv = expanded(&argv(&self.container), &env);
        let setup = ContainerSetup {
            hostname,
            tree,
            env,
            uid: number(user.uid),
            gid: number(user.gid),
            groups: user.supplemental_groups.unwrap_or_default().into_iter().map(number).collect(),
            working_dir: working_dir(&self.container),
            started_at,
        };
        let mut processes = Processes::new(setup, launch);
        match is_simulated(&self.container) {
            true => {
                let has_terminal = self.container.tty == Some(true);
                processes.start(argv, Streams::of_log(self.container.stdin == Some(true), has_terminal));
            }
            false => drop(processes.start_idle(&argv)),
        }
        processes
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

    fn volume_named(&self, name: &str) -> Option<&k8s::Volume> {
        self.pod.spec.as_ref()?.volumes.iter().flatten().find(|volume| volume.name == name)
    }

    fn fs_group(&self) -> Option<u32> {
        let security = self.pod.spec.as_ref()?.security_context.as_ref()?;
        security.fs_group.and_then(|group| u32::try_from(group).ok())
    }

    fn group_owner(&self) -> Owner {
        Owner { uid: 0, gid: self.fs_group().unwrap_or(0) }
    }

    /// Returns the type of the file system of a volume: those in memory are tmpfs.
    fn fs_type(&self, volume: &str) -> String {
        let Some(volume) = self.volume_named(volume) else { return "ext4".to_owned() };
        let in_memory = volume.empty_dir.as_ref().is_some_and(|dir| dir.medium.as_deref() == Some("Memory"));
        let is_tmpfs = in_memory || volume.secret.is_some() || volume.projected.is_some();
        if is_tmpfs { "tmpfs" } else { "ext4" }.to_owned()
    }

    /// Returns a volume of the pod with its present files.
    async fn volume(
        &self,
        fleet: &Fleet,
        client: Option<&Client>,
        fields: PodFields<'_>,
        mount: &VolumeMount,
        objects: &Objects,
        now: Timestamp,
    ) -> Volume {
        let owner = self.group_owner();
        let is_written = self.volume_named(&mount.name).is_some_and(holds_payload);
        let mode = match (is_written, self.fs_group()) {
            (true, None) => 0o755,
            (true, Some(_)) => 0o2755,
            (false, None) => 0o777,
            (false, Some(_)) => 0o2777,
        };
        let make = || Volume::new(mode, owner, DEFAULT_LIMIT_BYTES, now);
        let volume = fleet.runtime().volume(self.pod.uid(), &mount.name, make);
        let Some(spec) = self.volume_named(&mount.name).filter(|_| is_written) else { return volume };
        let Ok(VolumeFiles { mut content, tokens }) = volume_files::files(fields, spec, objects) else { return volume };
        for token in tokens {
            let text = match client {
                Some(client) => self.token(client, &token).await,
                None => None,
            };
            content.extend(text.map(|text| (token.path.clone(), text.into_bytes())));
        }
        let group_bits = if self.fs_group().is_some() { 0o440 } else { 0 };
        let modes = FileModes::of(spec);
        let file = |(path, content): (String, Vec<u8>)| {
            let mode = modes.of_path(&path) | group_bits;
            (path, PayloadFile { content, mode, owner })
        };
        volume.write_payload(&content.into_iter().map(file).collect(), now);
        volume
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

/// Replaces `$(NAME)` in the words of a command.
fn expanded(argv: &[String], env: &Environment) -> Vec<String> {
    argv.iter().map(|word| expand(word, env)).collect()
}
