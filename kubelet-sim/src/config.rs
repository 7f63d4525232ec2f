//! The command line of kubelet-sim: how many nodes there are, what they have, and how long things take on them.
//!
//! Corresponds to the kubelet's flags and KubeletConfiguration.

use crate::certificate::Bootstrap;
use crate::config_file::KUBELET_CONFIGURATION;
use crate::flags::Kubelet;
use clap::Args;
use component_base::duration::parse_duration;
use component_base::options::{
    self, ClientOptions, ConfigFile, ConfigFileError, OptionsError, OriginalFlags, ServingOptions,
};
use component_base::version;
use ipnet::Ipv4Net;
use proto::kinds::api::core::v1::Taint;
use proto::meta::quantity::Quantity;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The command line of `kubelet-sim`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<Kubelet>,
    /// Configuration file, a KubeletConfiguration; flags of the command line override its fields
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Address at which the API server reaches this process for logs, commands and ports, written on every node; by
    /// default its own port on this machine
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise_endpoint: Option<String>,
    #[command(flatten)]
    pub bootstrapping: BootstrapOptions,
    #[command(flatten)]
    pub settings: Settings,
}

/// How nodes get certificates of their own.
#[derive(Args, Clone, Debug)]
pub struct BootstrapOptions {
    /// Kubeconfig with a bootstrap token: each node requests a client certificate with it, and writes under that
    /// certificate; without it, nodes are impersonated
    #[arg(long, value_name = "FILE")]
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Request another certificate before the present one expires
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub rotate_certificates: bool,
    /// Folder for the nodes' certificates, and for the serving certificate that is made when --tls-cert-file gives none
    #[arg(long, default_value = "/var/lib/kubelet/pki", value_name = "DIR")]
    pub cert_dir: PathBuf,
}

impl Config {
    /// Adds the values of the configuration file, if one is given.
    pub fn with_file(mut self) -> Result<Self, ConfigFileError> {
        let Some(path) = &self.config_file else { return Ok(self) };
        let file = ConfigFile::read(path, &KUBELET_CONFIGURATION)?;
        file.warnings().for_each(|warning| tracing::warn!("{warning}"));
        file.complete(&self.original, &mut self.client, &mut self.serving, &mut self.settings)?;
        file.apply(&mut self.bootstrapping, |id| self.original.has(id))?;
        Ok(self)
    }
}

/// The settings of a fleet, which do not depend on its connections.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// How many nodes this process simulates
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub nodes: u32,
    /// Number of the first node; processes that simulate different nodes of one cluster begin at different numbers
    #[arg(long, default_value_t = 0, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub first_node: u32,
    /// Prefix of the nodes' names, before the number: node-0, node-1, …
    #[arg(long, default_value = "node-", value_name = "PREFIX")]
    pub node_name_prefix: String,
    /// Write as each node by impersonation, which the kubeconfig's identity must be allowed for all of them; with
    /// false, that identity is the node's own, as with a kubelet, and --nodes must be 1
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub impersonate_nodes: bool,
    /// Range of the nodes' own addresses; they are simulated, and nothing connects to them
    #[arg(long, default_value = "172.18.0.0/16")]
    pub node_cidr: Ipv4Net,
    /// Range for the pods of nodes without a podCIDR: node N uses the Nth /24 of it. Two processes whose nodes have the
    /// same numbers but other names need different ranges
    #[arg(long, default_value = "100.64.0.0/10")]
    pub fallback_pod_cidr: Ipv4Net,
    /// CPU capacity of a node
    #[arg(long, default_value = "8", value_name = "QUANTITY", value_parser = parse_quantity)]
    pub cpu: String,
    /// Memory capacity of a node
    #[arg(long, default_value = "32Gi", value_name = "QUANTITY", value_parser = parse_quantity)]
    pub memory: String,
    /// Local disk capacity of a node
    #[arg(long, default_value = "100Gi", value_name = "QUANTITY", value_parser = parse_quantity)]
    pub ephemeral_storage: String,
    /// How many pods a node takes
    #[arg(long, default_value = "110")]
    pub max_pods: u32,
    /// How many pods a node takes for each of its cores, if that is less than --max-pods; 0 sets no such limit
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub pods_per_core: u32,
    /// Further capacity, for example nvidia.com/gpu=2
    #[arg(long = "extended-resource", value_name = "NAME=QUANTITY", value_parser = parse_resource)]
    pub extended_resources: Vec<(String, String)>,
    /// Resources that a node reserves for Kubernetes' own daemons, for example cpu=100m,memory=512Mi
    #[arg(long, value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = parse_resource)]
    pub kube_reserved: Vec<(String, String)>,
    /// Resources that a node reserves for the rest of the system
    #[arg(long, value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = parse_resource)]
    pub system_reserved: Vec<(String, String)>,
    /// Memory and disk that a node keeps free, as quantities or percentages
    #[arg(
        long,
        value_name = "SIGNAL<AMOUNT",
        value_delimiter = ',',
        value_parser = parse_threshold,
        default_value = "memory.available<100Mi,nodefs.available<10%"
    )]
    pub eviction_hard: Vec<(String, String)>,
    /// With `external`, nodes have a taint until a cloud-controller-manager has initialized them
    #[arg(long, default_value = "", value_name = "external", hide_default_value = true, value_parser = parse_cloud_provider)]
    pub cloud_provider: CloudProvider,
    /// Labels of every node, for example disktype=ssd
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_pair)]
    pub node_labels: Vec<(String, String)>,
    /// Taints of every node when it is registered, for example dedicated=gpu:NoSchedule
    #[arg(long, value_name = "KEY=VALUE:EFFECT", value_delimiter = ',', value_parser = parse_taint)]
    pub register_with_taints: Vec<Taint>,
    /// Kernel parameters that pods may set although they could disturb others; a pattern may end in *
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Addresses of the cluster's DNS servers, as containers see them
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', default_value = "10.96.0.10")]
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster, as containers see it
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Value of the label node.kubernetes.io/instance-type
    #[arg(long, default_value = "orrery.simulated")]
    pub instance_type: String,
    /// Value of the label topology.kubernetes.io/region, set when there are zones
    #[arg(long, default_value = "orrery")]
    pub region: String,
    /// Zones that the nodes are spread over in turn, for example a,b,c
    #[arg(long, value_delimiter = ',')]
    pub zones: Vec<String>,
    /// How often a node's status is computed
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub node_status_update_frequency: Duration,
    /// How often a status is reported although nothing has changed
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub node_status_report_frequency: Duration,
    /// How long a node's lease is valid; it is renewed after a quarter of this time
    #[arg(long, default_value = "40s", value_parser = parse_duration)]
    pub node_lease_duration: Duration,
    /// How many pods are synced at the same time
    #[arg(long, default_value_t = 16)]
    pub concurrent_pod_syncs: usize,
    /// How long a stream of a command may be silent before it is closed
    #[arg(long, default_value = "4h", value_parser = parse_duration)]
    pub streaming_connection_idle_timeout: Duration,
    #[command(flatten)]
    pub latency: Latency,
    /// Port of the agents, as the nodes' statuses say
    #[arg(skip = KUBELET_PORT)]
    pub port: u16,
    /// Address at which the agents really listen; `None` when they serve nothing
    #[arg(skip)]
    pub agent_endpoint: Option<String>,
    /// How nodes get certificates of their own; `None` when they are impersonated
    #[arg(skip)]
    pub bootstrap: Option<Bootstrap>,
    /// The kubelet's version, as the nodes' statuses say
    #[arg(skip = version::GIT_VERSION)]
    pub version: String,
}

/// The provider of the machines: none, or a cloud with a cloud-controller-manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudProvider {
    None,
    External,
}

/// How long the actions of a simulated machine take.
#[derive(Args, Clone, Debug)]
pub struct Latency {
    /// Creating a pod's sandbox
    #[arg(long = "sandbox-time", default_value = "0", value_parser = parse_duration)]
    pub sandbox: Duration,
    /// Pulling an image that the node does not have
    #[arg(long = "image-pull-time", default_value = "400ms", value_parser = parse_duration)]
    pub image_pull: Duration,
    /// Creating and starting a container
    #[arg(long = "container-start-time", default_value = "100ms", value_parser = parse_duration)]
    pub container_start: Duration,
    /// From SIGTERM to the end of a container
    #[arg(long = "container-stop-time", default_value = "200ms", value_parser = parse_duration)]
    pub stop: Duration,
    /// How long init containers run
    #[arg(long = "init-run-time", default_value = "500ms", value_parser = parse_duration)]
    pub init_run: Duration,
    /// How long containers of pods with restart policy OnFailure or Never run
    #[arg(long = "job-run-time", default_value = "5s", value_parser = parse_duration)]
    pub job_run: Duration,
}

/// The port of a kubelet.
pub const KUBELET_PORT: u16 = 10250;

impl Default for Latency {
    fn default() -> Self {
        options::defaults()
    }
}

impl Default for Settings {
    fn default() -> Self {
        options::defaults()
    }
}

impl Settings {
    /// Returns the one node whose identity this process has; `None` when it impersonates its nodes.
    pub fn own_node(&self) -> Option<String> {
        (!self.impersonate_nodes).then(|| self.node_name(self.first_node))
    }

    pub fn node_name(&self, number: u32) -> String {
        format!("{}{number}", self.node_name_prefix)
    }

    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.impersonate_nodes || self.nodes == 1 {
            return Ok(());
        }
        let message =
            "an identity that is not allowed to impersonate nodes is that of one: --nodes has to be 1".to_owned();
        Err(OptionsError::Invalid { flag: "impersonate-nodes", message })
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not of the form NAME=VALUE")),
    }
}

/// Parses a taint: `KEY=VALUE:EFFECT` or `KEY:EFFECT`.
fn parse_taint(text: &str) -> Result<Taint, String> {
    let invalid = || format!("{text:?} is not of the form KEY=VALUE:EFFECT or KEY:EFFECT");
    let (pair, effect) = text.rsplit_once(':').ok_or_else(invalid)?;
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value.to_owned())));
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(format!("invalid taint effect: {effect}, unsupported taint effect"));
    }
    if key.is_empty() {
        return Err(invalid());
    }
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), ..Taint::default() })
}

fn parse_cloud_provider(text: &str) -> Result<CloudProvider, String> {
    match text {
        "" => Ok(CloudProvider::None),
        "external" => Ok(CloudProvider::External),
        _ => Err("no cloud provider is built in: it is external or none".to_owned()),
    }
}

/// Checks a quantity and returns it as it was written.
fn parse_quantity(text: &str) -> Result<String, String> {
    let quantity = Quantity::parse(text).map_err(|error| error.to_string())?;
    if quantity.signum() < 0 { Err("a quantity cannot be negative".to_owned()) } else { Ok(text.to_owned()) }
}

fn parse_resource(text: &str) -> Result<(String, String), String> {
    let (name, quantity) = parse_pair(text)?;
    Ok((name, parse_quantity(&quantity)?))
}

/// Parses an eviction threshold: `memory.available<100Mi`, `nodefs.available<10%`.
fn parse_threshold(text: &str) -> Result<(String, String), String> {
    let invalid = || format!("{text:?} is not of the form SIGNAL<QUANTITY or SIGNAL<PERCENT%");
    let (signal, amount) = text.split_once('<').ok_or_else(invalid)?;
    let known =
        ["memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"];
    if !known.contains(&signal) {
        return Err(format!("unknown eviction signal {signal:?}"));
    }
    let well_formed = match amount.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..100.0).contains(&percent)),
        None => parse_quantity(amount).is_ok(),
    };
    if well_formed { Ok((signal.to_owned(), amount.to_owned())) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        settings: Settings,
    }

    #[test]
    fn lists_are_split() {
        let flags =
            ["kubelet-sim", "--zones", "a,b", "--node-labels", "x=1,y=", "--extended-resource", "nvidia.com/gpu=2"];
        let parsed = Command::parse_from(flags).settings;
        assert_eq!(parsed.zones, ["a", "b"]);
        assert_eq!(parsed.node_labels, [("x".into(), "1".into()), ("y".into(), String::new())]);
        assert_eq!(parsed.extended_resources, [("nvidia.com/gpu".into(), "2".into())]);
        for wrong in [
            "--node-labels=x",
            "--node-status-update-frequency=soon",
            "--memory=lots",
            "--cpu=-1",
            "--extended-resource=gpu=some",
            "--kube-reserved=cpu",
            "--system-reserved=cpu=some",
            "--eviction-hard=memory.available>1Gi",
            "--eviction-hard=luck<1Gi",
            "--eviction-hard=nodefs.available<110%",
            "--cloud-provider=aws",
            "--register-with-taints=dedicated=gpu",
            "--register-with-taints=dedicated=gpu:Never",
            "--cluster-dns=dns.example",
        ] {
            assert!(Command::try_parse_from(["kubelet-sim", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_configuration_file_is_read_as_the_flags_are() {
        #[derive(Parser)]
        struct Kubelet {
            #[command(flatten)]
            config: Config,
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubelet.yaml");
        let config = |fields: &str, flags: &[&str]| {
            let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            std::fs::write(&path, format!("{head}{fields}")).unwrap();
            let file = format!("--config={}", path.display());
            let parsed = Kubelet::parse_from([&["kubelet-sim", file.as_str()], flags].concat()).config;
            parsed.with_file().map_err(|error| error.to_string().replace(&*path.to_string_lossy(), "FILE"))
        };
        let fields = "maxPods: 7\nport: 1\nnodeLeaseDurationSeconds: 30\nevictionHard: {memory.available: 1Gi}\nkubeReserved: {cpu: 100m}\n";
        let read = config(fields, &["--port=2"]).unwrap();
        assert_eq!((read.settings.max_pods, read.serving.secure_port), (7, Some(2)));
        assert_eq!(read.settings.node_lease_duration, Duration::from_secs(30));
        assert_eq!(read.settings.eviction_hard, [("memory.available".to_owned(), "1Gi".to_owned())]);
        assert_eq!(read.settings.kube_reserved, [("cpu".to_owned(), "100m".to_owned())]);
        assert_eq!(read.settings.node_status_update_frequency, Duration::from_secs(10));
        let unknown = config("maxPod: 7\nauthentication: {webhook: {enable: true}}\n", &[]).unwrap_err();
        let expected = r#"--config: FILE: unknown field "maxPod", unknown field "authentication.webhook.enable""#;
        let mut parts: Vec<&str> = unknown.trim_start_matches("--config: FILE: ").split(", ").collect();
        parts.sort_unstable();
        parts.reverse();
        assert_eq!(format!("--config: FILE: {}", parts.join(", ")), expected);
        let wrong = config("kubeReserved: {cpu: some}\n", &[]).unwrap_err();
        assert!(wrong.starts_with("--config: FILE: invalid value 'cpu=some' for '--kube-reserved"), "{wrong}");
    }
}
