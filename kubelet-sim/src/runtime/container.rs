//! Gathers what a process in a simulated container can see: its variables and its files, as the pod's spec says.
//!
//! Corresponds to makeEnvironmentVariables and makeMounts in pkg/kubelet/kubelet_pods.go and to pkg/volume.

use crate::network::services::Services;
use crate::network::variables::variables;
use crate::objects::ObjectCache;
use crate::runtime::control_group;
use crate::runtime::file_modes::{FileModes, holds_payload};
use crate::runtime::identity::PodIdentity;
use crate::runtime::run::Run;
use crate::runtime::{RunKey, Runtime, SharedProcesses};
use crate::volumes::claim_reader::read_claim;
use client::{Client, Error};
use component_base::env::Env;
use component_helpers::scheduling::requests::Resources;
use component_helpers::volumes::pod_volumes::with_claims;
use file_tree::error::FileError;
use file_tree::mounts::{FileTree, Mount};
use file_tree::node::Owner;
use file_tree::payload::PayloadFile;
use file_tree::volume::{DEFAULT_LIMIT_BYTES, Volume};
use pod_life::entrypoint::{Ending, PATH, argv, ending, image_of, is_simulated, own_server, working_dir};
use pod_life::lifecycle::container_named;
use pod_life::live::TERMINATION_LOG;
use pod_life::needs::downward::{Allocatable, PodFields};
use pod_life::needs::environment::{self, Environment, environment_over, expand};
use pod_life::needs::references::{Objects, references};
use pod_life::needs::resolver::{ClusterDns, resolv_conf};
use pod_life::needs::volume_files::{self, VolumeFiles};
use pod_life::story::{ContainerKind, Words};
use proto::kinds::api::core::v1 as k8s;
use proto::kinds::api::core::v1::{
    Container, ContainerStatus, Pod, PodSpec, PodStatus, SecurityContext, ServiceAccountTokenProjection, VolumeMount,
};
use proto::kinds::jiff::Timestamp;
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use userland::launch::launch;
use userland::network::pages::{Pages, serve_pages};
use userland::process::kernel::Task;
use userland::process::machine::Machine;
use userland::process::privileges::{Capabilities, Privileges};
use userland::process::processes::{ContainerSetup, Processes};
use userland::process::streams::Streams;

const TOKEN_LIFETIME_S: i64 = 3_607;

/// What a node has for the processes of its containers.
pub struct NodeContext<'a> {
    pub name: String,
    /// Reads as the node; `None` when the node is not of this fleet.
    pub client: Option<Client>,
    /// What pods on the node may use; it stands in for limits that a container does not have.
    pub allocatable: Option<Allocatable>,
    pub dns: ClusterDns,
    pub objects: &'a ObjectCache,
    pub runtime: &'a Runtime,
    /// The rest of the cluster, as far as this process simulates it.
    pub cluster: &'a dyn Cluster,
    pub env: &'a Env,
}

/// The nodes and pods that containers reach over the network.
pub trait Cluster: Send + Sync {
    fn services(&self) -> &Services;

    fn context_of(&self, node: &str) -> NodeContext<'_>;

    /// Returns a client of the API server that has no identity; `None` when containers cannot reach it.
    fn api_server(&self) -> Option<&Client>;

    /// Returns the node that has an address, and that simulates the pods behind it.
    fn node_at(&self, address: IpAddr) -> Option<String>;

    /// Returns the pod with an address of the pod network, and its node.
    fn pod_at(&self, address: IpAddr) -> Option<(String, Arc<Pod>, PodStatus)>;

    fn pods_with_status(&self, node: &str) -> Vec<(Arc<Pod>, PodStatus)>;

    /// Returns the zone of a node; empty when it has none.
    fn zone_of(&self, node: &str) -> String;

    /// Lets the node look at a pod whose processes have changed.
    fn wake(&self, pod: &Pod);

    /// Returns a number below another one.
    fn draw(&self, below: usize) -> usize;
}

impl NodeContext<'_> {
    async fn objects_of(&self, pod: &Pod) -> Objects {
        let referenced = pod.spec.as_ref().map(references).unwrap_or_default();
        match &self.client {
            Some(client) => {
                self.objects.read(client, self.env, pod.namespace(), referenced, Timestamp::UNIX_EPOCH).await
            }
            None => Objects::default(),
        }
    }
}

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
    pub async fn processes(&self, node: &NodeContext<'_>, run: &Run) -> SharedProcesses {
        let now = node.env.wall();
        let objects = node.objects_of(&self.pod).await;
        let fields = PodFields { pod: &self.pod, status: &self.status, allocatable: node.allocatable.as_ref() };
        let identity = self.identity(node);
        let hostname = identity.hostname.clone();
        let links = self.service_variables(node).await;
        let mut env: Environment = [("PATH", PATH), ("HOSTNAME", &hostname), ("HOME", "/root")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let own = environment_over(links.clone(), fields, &self.container, &objects);
        env.extend(own.unwrap_or(links));
        let mut mounts = Vec::new();
        let (claims, replayed_until) =
            (with_claims(&self.pod).collect::<Vec<_>>(), node.runtime.replayed_until(&self.key(run)));
        for mount in self.container.volume_mounts.iter().flatten() {
            let volume = match claims.iter().find(|claim| claim.volume.name == mount.name) {
                Some(claim) => self.volume_of(node, &claim.claim, now, replayed_until).await,
                None => self.volume(node, fields, mount, &objects, now).await,
            };
            let part = environment::sub_path(mount, &env).unwrap_or_default();
            let owner = self.group_owner();
            let part_of_payload = if part.is_empty() { None } else { volume.payload_part(&part) };
            let volume = match part_of_payload.or_else(|| volume.sub_path(&part)) {
                Some(part) => part,
                None => volume.sub_folder(&part, 0o755, owner, now).unwrap_or_else(|_| no_room(0o755, owner, now)),
            };
            let fs_type = self.fs_type(&mount.name);
            let is_read_only = mount.read_only == Some(true);
            mounts.push((mount.mount_path.clone(), Mount { volume, is_read_only, fs_type, is_known: true }));
        }
        mounts.push((control_group::ROOT.to_owned(), self.control_group(node, now)));
        node.runtime.processes(self.key(run), now, || self.start(&identity, node, env, mounts, run))
    }

    /// Returns what names a run of the container.
    pub fn key(&self, run: &Run) -> RunKey {
        RunKey {
            pod_uid: self.pod.uid().to_owned(),
            container: self.container.name.clone(),
            number: run.number,
            started_at: run.started_at,
        }
    }

    /// Starts the container's own process in its files.
    fn start(
        &self,
        identity: &PodIdentity,
        node: &NodeContext<'_>,
        env: Environment,
        mounts: Vec<(String, Mount)>,
        run: &Run,
    ) -> Processes {
        let started_at = run.started_at;
        let files = image_of(&self.container).files(started_at);
        for (path, text) in self.own_files(identity, &node.dns) {
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
            hostname: identity.hostname.clone(),
            tree,
            env,
            uid: number(user.uid),
            gid: number(user.gid),
            groups: user.supplemental_groups.unwrap_or_default().into_iter().map(number).collect(),
            working_dir: working_dir(&self.container),
            started_at,
        };
        let mut processes = Processes::new(setup, launch);
        processes.network().attach(self.addresses());
        let of_node = Resources::of(node.allocatable.as_ref());
        processes.set_machine(Machine {
            cpus: u32::try_from(of_node.milli_cpu / 1_000).unwrap_or_default().max(1),
            memory_bytes: u64::try_from(of_node.memory).unwrap_or_default(),
            ..Machine::default()
        });
        processes.set_privileges(self.privileges());
        match is_simulated(&self.container) {
            true => {
                let has_terminal = self.container.tty == Some(true);
                processes.start(argv, Streams::of_log(self.container.stdin == Some(true), has_terminal));
            }
            // The server of a known image answers, though its log is not shown.
            false => match own_server(&self.container) {
                Some(argv) => drop(processes.start(argv, Streams::of_log(false, false))),
                None => drop(processes.start_idle(&argv)),
            },
        }
        processes
    }

    fn privileges(&self) -> Privileges {
        let security = self.container.security_context.as_ref();
        let has = |of: fn(&SecurityContext) -> Option<bool>| security.and_then(of);
        let of_pod = self.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let sysctls = of_pod.and_then(|security| security.sysctls.as_ref()).into_iter().flatten();
        let is_privileged = has(|security| security.privileged) == Some(true);
        let changes = security.and_then(|security| security.capabilities.clone()).unwrap_or_default();
        let of_container = security.and_then(|security| security.seccomp_profile.as_ref());
        let profile = of_container.or(of_pod.and_then(|security| security.seccomp_profile.as_ref()));
        Privileges {
            capabilities: match is_privileged {
                true => Capabilities::ALL,
                false => Capabilities::changed(&changes.add.unwrap_or_default(), &changes.drop.unwrap_or_default()),
            },
            has_seccomp: !is_privileged && profile.is_some_and(|profile| profile.type_ != "Unconfined"),
            host_root: self.host_root(),
            no_new_privileges: has(|security| security.allow_privilege_escalation) == Some(false),
            sysctls: sysctls.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect(),
        }
    }

    /// Returns the user of the node that root of the pod is: 0, or the first of one of 110 ranges for a pod with a user
    /// namespace.
    fn host_root(&self) -> u32 {
        let has_namespace = self.pod.spec.as_ref().and_then(|spec| spec.host_users) == Some(false);
        let range =
            self.pod.uid().bytes().fold(0_u32, |range, byte| range.wrapping_mul(31).wrapping_add(byte.into())) % 110;
        if has_namespace { (range + 1) << 16 } else { 0 }
    }

    /// Returns a word of the container's story.
    pub fn word(&self, word: &str) -> Option<&str> {
        let annotations = self.pod.metadata.annotations.as_ref()?;
        Words { annotations, container: &self.container.name, is_app: self.kind == ContainerKind::App }.get(word)
    }

    /// Returns what the ports of the container answer that no simulated program serves: as its story says, or a greeting.
    pub fn pages(&self) -> Option<Pages> {
        if let Some(text) = self.word("answer") {
            return Some(Pages::answer(text));
        }
        let (namespace, name) = (self.pod.namespace(), self.pod.name());
        let node = self.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let (container, image) = (&self.container.name, self.container.image.as_deref().unwrap_or_default());
        let greeting = format!("Hello from pod {namespace}/{name} on {node}: container {container} of image {image}");
        (!self.serves_by_itself()).then_some(Pages::Greeting(greeting))
    }

    /// True when the container's own program is simulated: what it does not serve is not served.
    fn serves_by_itself(&self) -> bool {
        ending(&self.container) != Ending::NotSimulated || own_server(&self.container).is_some()
    }

    /// Returns the TCP ports that the container declares.
    pub fn declared_ports(&self) -> Vec<u16> {
        let ports = self.container.ports.iter().flatten();
        let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|is| is == "TCP"));
        tcp.filter_map(|port| u16::try_from(port.container_port).ok()).collect()
    }

    /// Returns processes that serve the pages of a run of the container. They are beside its own.
    pub fn page_server(&self, node: &NodeContext<'_>, run: &Run, pages: Pages) -> (RunKey, SharedProcesses) {
        let key = RunKey { number: -1 - run.number, ..self.key(run) };
        let start = || {
            let tree = FileTree::new(image_of(&self.container).files(run.started_at), false);
            let mut processes = Processes::new(ContainerSetup::bare(self.pod.name(), tree, run.started_at), launch);
            processes.network().attach(self.addresses());
            let ports = self.declared_ports();
            let serve = |proc| -> Task { Box::pin(serve_pages(proc, ports, pages)) };
            processes.start_task(argv(&self.container), Streams::of_log(false, false), serve);
            processes
        };
        (key.clone(), node.runtime.processes(key, node.env.wall(), start))
    }

    fn identity(&self, node: &NodeContext<'_>) -> PodIdentity {
        static EMPTY: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);
        let spec = self.pod.spec.as_ref().unwrap_or(&EMPTY);
        PodIdentity::of(spec, self.pod.name(), self.pod.namespace(), &node.dns.domain)
    }

    /// Returns the variables of Services; none when Services cannot be read.
    async fn service_variables(&self, node: &NodeContext<'_>) -> Environment {
        let wants_links = self.pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
        match node.cluster.services().services(node.env).await {
            Some(services) => variables(&services.list(), self.pod.namespace(), wants_links),
            None => Environment::new(),
        }
    }

    /// Returns the files of the container's control group, for the resources that it has now.
    fn control_group(&self, node: &NodeContext<'_>, now: Timestamp) -> Mount {
        let root = Owner::default();
        let name = format!("control group of {}", self.container.name);
        let make = || Volume::new(0o555, root, DEFAULT_LIMIT_BYTES, now);
        let volume = node.runtime.volume(self.pod.uid(), &name, make);
        let actual = self.container_status().and_then(|status| status.resources.clone());
        let resources = actual.or_else(|| self.container.resources.clone()).unwrap_or_default();
        for (file, text) in control_group::files(&resources) {
            volume.put_file(file, text, 0o644, root, now);
        }
        Mount { volume, is_read_only: true, fs_type: "cgroup2".to_owned(), is_known: true }
    }

    /// Returns the addresses of the pod.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let several: Vec<IpAddr> = self.status.pod_ips.iter().flatten().filter_map(|ip| ip.ip.parse().ok()).collect();
        match several.is_empty() {
            true => self.status.pod_ip.iter().filter_map(|ip| ip.parse().ok()).collect(),
            false => several,
        }
    }

    /// Returns the files that the kubelet makes for every container.
    fn own_files(&self, identity: &PodIdentity, cluster: &ClusterDns) -> BTreeMap<String, String> {
        let spec = self.pod.spec.as_ref();
        let hosts = spec.map(|spec| identity.hosts(spec, &self.addresses())).unwrap_or_default();
        let hostname = &identity.hostname;
        let resolver = spec.map(|spec| resolv_conf(spec, self.pod.namespace(), cluster)).unwrap_or_default();
        [("/etc/hostname", format!("{hostname}\n")), ("/etc/hosts", hosts), ("/etc/resolv.conf", resolver)]
            .map(|(path, text)| (path.to_owned(), text))
            .into()
    }

    fn volume_named(&self, name: &str) -> Option<&k8s::Volume> {
        self.pod.spec.as_ref()?.volumes.iter().flatten().find(|volume| volume.name == name)
    }

    /// Returns what a volume's files belong to, and its name there: to the pod, or to a machine, whose files outlast the
    /// pod.
    fn place_of(&self, node: &NodeContext<'_>, volume: &str) -> (String, String) {
        match self.volume_named(volume).and_then(|volume| volume.host_path.as_ref()) {
            Some(source) => (format!("machine {}", node.name), source.path.clone()),
            None => (self.pod.uid().to_owned(), volume.to_owned()),
        }
    }

    /// Returns the name of the files behind a claim of the pod. A process that has just started asks the API server to which
    /// volume the claim is bound. `None` if that cannot be read.
    async fn files_of(&self, node: &NodeContext<'_>, claim: &str) -> Option<String> {
        let namespace = self.pod.namespace();
        if let Some(files) = node.runtime.files_of_claim(namespace, claim) {
            return Some(files);
        }
        let volume = read_claim(node.client.as_ref()?, namespace, claim).await.volume?;
        node.runtime.record_claim(namespace, claim, &volume);
        node.runtime.files_of_claim(namespace, claim)
    }

    /// Returns the volume behind a claim. One that cannot be opened has no room.
    async fn volume_of(
        &self,
        node: &NodeContext<'_>,
        claim: &str,
        now: Timestamp,
        replayed_until: Timestamp,
    ) -> Volume {
        let (mode, owner) = (if self.fs_group().is_some() { 0o2777 } else { 0o777 }, self.group_owner());
        let opened = match self.files_of(node, claim).await {
            Some(files) => node.runtime.persistent.open(&files, (mode, owner), now, replayed_until),
            None => Err(FileError::Io),
        };
        opened.unwrap_or_else(|_| no_room(mode, owner, now))
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
        node: &NodeContext<'_>,
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
        let (owner_of, name) = self.place_of(node, &mount.name);
        let volume = node.runtime.volume(&owner_of, &name, make);
        let Some(spec) = self.volume_named(&mount.name).filter(|_| is_written) else { return volume };
        let Ok(VolumeFiles { mut content, tokens }) = volume_files::files(fields, spec, objects) else { return volume };
        for token in tokens {
            let text = match &node.client {
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

/// Returns a volume that nothing fits into: it stands for one that cannot be opened.
fn no_room(mode: u32, owner: Owner, now: Timestamp) -> Volume {
    Volume::new(mode, owner, 0, now)
}

/// Replaces `$(NAME)` in the words of a command.
fn expanded(argv: &[String], env: &Environment) -> Vec<String> {
    argv.iter().map(|word| expand(word, env)).collect()
}
