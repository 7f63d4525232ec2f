//! The command line of kubelet-sim: how many nodes there are, what they have, and how long things take on them.
//!
//! Corresponds to the kubelet's flags and KubeletConfiguration.

use crate::certificate::Bootstrap;
use crate::config_file::{KUBELET_CONFIGURATION, OwnFields};
use crate::flags::Kubelet;
use crate::machines::failure_model::FailureModel;
use crate::machines::shutdown::{self, GracePeriod};
use crate::template::NodeTemplate;
use clap::Args;
use component_base::duration::parse_duration;
use component_base::options::{
    self, ClientOptions, ConfigFile, ConfigFileError, OptionsError, OriginalFlags, ServingOptions,
};
use component_base::version;
use ipnet::Ipv4Net;
use metrics_server::config::FrontProxyOptions;
pub use pod_life::latency::Latency;
use proto::kinds::api::core::v1::Taint;
use proto::meta::quantity::Quantity;
use stages::stage::Stage;
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
    pub front_proxy: FrontProxyOptions,
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
        let own = OwnFields::read(&file.own).map_err(|message| file.invalid(message))?;
        if !self.original.has("register_with_taints") {
            self.settings.register_with_taints = own.taints.unwrap_or_default();
        }
        self.settings.shutdown_by_priority = own.shutdown_by_priority;
        Ok(self)
    }
}

/// The settings of a fleet, which do not depend on its connections.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Folder or file with manifests of static pods; with several nodes, a folder below it for each node by its name
    #[arg(long, value_name = "PATH")]
    pub pod_manifest_path: Option<PathBuf>,
    /// How often the manifests of static pods are read; every second at least
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    pub file_check_frequency: Duration,
    /// URL that serves static pods of the first node, as a Pod or a PodList
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    pub manifest_url: String,
    /// Headers of requests to --manifest-url, for example a:hello,b:again
    #[arg(long, value_name = "NAME:VALUE", value_delimiter = ',', value_parser = parse_header)]
    pub manifest_url_header: Vec<(String, String)>,
    /// How often --manifest-url is asked
    #[arg(long, default_value = "20s", value_parser = parse_duration)]
    pub http_check_frequency: Duration,
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
    /// Addresses of the node itself, one of each family at most, instead of those of --node-cidr; --nodes has to be 1
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub node_ip: Vec<IpAddr>,
    /// Name of the node, instead of the one that its number gives; --nodes has to be 1
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub hostname_override: String,
    /// Identifies the machine to its cloud, as spec.providerID; --nodes has to be 1
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub provider_id: String,
    /// How many images a node's status lists; -1 sets no limit
    #[arg(long, default_value_t = 50, value_name = "NUMBER", allow_negative_numbers = true)]
    pub node_status_max_images: i32,
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
    /// Memory and disk below which a node evicts pods once it has lasted for a grace period
    #[arg(long, value_name = "SIGNAL<AMOUNT", value_delimiter = ',', value_parser = parse_threshold)]
    pub eviction_soft: Vec<(String, String)>,
    /// How long each soft threshold must last, for example memory.available=1m30s
    #[arg(long, value_name = "SIGNAL=DURATION", value_delimiter = ',', value_parser = parse_pair)]
    pub eviction_soft_grace_period: Vec<(String, String)>,
    /// How much more than a threshold a node reclaims once it has been met, for example memory.available=500Mi
    #[arg(long, value_name = "SIGNAL=AMOUNT", value_delimiter = ',', value_parser = parse_pair)]
    pub eviction_minimum_reclaim: Vec<(String, String)>,
    /// How long a node reports a pressure after it was last observed
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub eviction_pressure_transition_period: Duration,
    /// The longest grace period in seconds of pods that a soft threshold evicts
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    pub eviction_max_pod_grace_period: u32,
    /// Pull one image after the other
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub serialize_image_pulls: bool,
    /// How many images are pulled at the same time, with --serialize-image-pulls=false; 0 sets no limit
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub max_parallel_image_pulls: usize,
    /// Bytes of an image that arrive in a second, in addition to --image-pull-time; 0 ignores the size
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub image_pull_rate: u64,
    /// Percentage of the disk from which on unused images are removed
    #[arg(long, default_value_t = 85, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_high_threshold: u8,
    /// Percentage of the disk down to which unused images are removed
    #[arg(long, default_value_t = 80, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_low_threshold: u8,
    /// How long an image stays on a node at least
    #[arg(long, default_value = "2m", value_parser = parse_duration)]
    pub minimum_image_ttl_duration: Duration,
    /// With `external`, nodes have a taint until a cloud-controller-manager has initialized them
    #[arg(long, default_value = "", value_name = "external", hide_default_value = true, value_parser = parse_cloud_provider)]
    pub cloud_provider: CloudProvider,
    /// Labels of every node, for example disktype=ssd
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_pair)]
    pub node_labels: Vec<(String, String)>,
    /// Taints of every node when it is registered, for example dedicated=gpu:NoSchedule
    #[arg(long, value_name = "KEY=VALUE:EFFECT", value_delimiter = ',', value_parser = parse_taint)]
    pub register_with_taints: Vec<Taint>,
    /// NUMA nodes of a machine; its CPUs and its memory lie on them in equal parts
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub numa_nodes: u8,
    /// With `static`, pods of the class Guaranteed get whole CPUs of their own
    #[arg(long, default_value = "none", value_parser = ["none", "static"])]
    pub cpu_manager_policy: String,
    /// Options of the static CPU manager; full-pcpus-only=true has an effect
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = parse_pair)]
    pub cpu_manager_policy_options: Vec<(String, String)>,
    /// CPUs that no pod gets for itself, for example 0-1,4
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CPUS", value_parser = parse_cpu_set)]
    pub reserved_cpus: String,
    /// With `Static`, the memory of pods of the class Guaranteed lies on chosen NUMA nodes
    #[arg(long, default_value = "None", value_parser = ["None", "Static"])]
    pub memory_manager_policy: String,
    /// How close the resources of a container have to lie together
    #[arg(long, default_value = "none", value_parser = ["none", "best-effort", "restricted", "single-numa-node"])]
    pub topology_manager_policy: String,
    /// Whether each container is aligned, or the whole pod
    #[arg(long, default_value = "container", value_parser = ["container", "pod"])]
    pub topology_manager_scope: String,
    /// Handlers of container runtimes that a RuntimeClass may name, beside the default one
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "runc")]
    pub runtime_handlers: Vec<String>,
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
    /// Folder for the files that pods write to claims, which several processes may share; without one they lie in the
    /// memory of this process
    #[arg(long, value_name = "DIR")]
    pub volume_dir: Option<PathBuf>,
    /// How many pods are synced at the same time
    #[arg(long, default_value_t = 16)]
    pub concurrent_pod_syncs: usize,
    /// How long a stream of a command may be silent before it is closed
    #[arg(long, default_value = "4h", value_parser = parse_duration)]
    pub streaming_connection_idle_timeout: Duration,
    /// File or folder with KWOK's stages, which pods and nodes go through; as often as you like
    #[arg(long = "stages", value_name = "PATH")]
    pub stage_files: Vec<PathBuf>,
    /// File with templates of nodes, instead of --nodes; as often as you like. What a template does not say, the other
    /// flags say
    #[arg(long = "node-template", value_name = "FILE")]
    pub node_template_files: Vec<PathBuf>,
    /// File with models of failures of machines; as often as you like
    #[arg(long = "failure-model", value_name = "FILE")]
    pub failure_model_files: Vec<PathBuf>,
    /// How long a node that shuts down waits for its pods, critical ones included; 0 for not at all
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub shutdown_grace_period: Duration,
    /// How much of --shutdown-grace-period is for critical pods
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub shutdown_grace_period_critical_pods: Duration,
    /// The same for pods of other priorities, as shutdownGracePeriodByPodPriority of a configuration file has it
    #[arg(skip)]
    pub shutdown_by_priority: Vec<GracePeriod>,
    #[command(flatten)]
    pub latency: Latency,
    /// The models of these files
    #[arg(skip)]
    pub failure_models: Vec<FailureModel>,
    /// The templates of these files
    #[arg(skip)]
    pub templates: Vec<NodeTemplate>,
    /// The stages of these files
    #[arg(skip)]
    pub stages: Vec<Stage>,
    /// How often the process looks whether the API server serves Stages
    #[arg(skip = Duration::from_secs(10))]
    pub stages_poll: Duration,
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

/// The port of a kubelet.
pub const KUBELET_PORT: u16 = 10250;

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
        if !self.hostname_override.is_empty() {
            return self.hostname_override.clone();
        }
        format!("{}{number}", self.node_name_prefix)
    }

    /// Returns how many images are pulled at the same time; 0 for no limit.
    pub fn pulls_at_once(&self) -> usize {
        if self.serialize_image_pulls { 1 } else { self.max_parallel_image_pulls }
    }

    /// Returns how many CPUs no pod gets for itself: those of `--reserved-cpus`, and otherwise what is reserved, rounded up.
    pub fn reserved_cpu_count(&self) -> i64 {
        if !self.reserved_cpus.is_empty() {
            return cpu_count(&self.reserved_cpus).unwrap_or(0);
        }
        let reserved = self.kube_reserved.iter().chain(&self.system_reserved).filter(|(name, _)| name == "cpu");
        let milli = reserved.filter_map(|(_, amount)| Quantity::parse(amount).ok()).map(|cpu| cpu.milli_value());
        (milli.sum::<i64>() + 999) / 1000
    }

    /// Returns the groups of pods that a node stops one after another when it shuts down.
    pub fn shutdown_groups(&self) -> Vec<GracePeriod> {
        match self.shutdown_by_priority.as_slice() {
            [] => shutdown::groups_of(self.shutdown_grace_period, self.shutdown_grace_period_critical_pods),
            groups => groups.to_vec(),
        }
    }

    /// Refuses what is about one node when there are several.
    fn check_of_one_node(&self) -> Result<(), OptionsError> {
        if !self.templates.is_empty() && !self.impersonate_nodes {
            let message = "templates are about several nodes, which need --impersonate-nodes".to_owned();
            return Err(OptionsError::Invalid { flag: "node-template", message });
        }
        let of_one = [
            ("node-ip", self.node_ip.is_empty()),
            ("hostname-override", self.hostname_override.is_empty()),
            ("provider-id", self.provider_id.is_empty()),
        ];
        if let Some((flag, _)) =
            of_one.into_iter().find(|(_, is_empty)| !is_empty && (self.nodes != 1 || !self.templates.is_empty()))
        {
            let message = format!("it is about one node: --nodes has to be 1, and not {}", self.nodes);
            return Err(OptionsError::Invalid { flag, message });
        }
        let of_family = |is_v4: bool| self.node_ip.iter().filter(|ip| ip.is_ipv4() == is_v4).count();
        if of_family(true) > 1 || of_family(false) > 1 {
            let message = "must contain either a single IP or a dual-stack pair of IPs".to_owned();
            return Err(OptionsError::Invalid { flag: "node-ip", message });
        }
        Ok(())
    }

    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.serialize_image_pulls && self.max_parallel_image_pulls > 1 {
            let message = "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) \
                           is set to false";
            return Err(OptionsError::Invalid { flag: "max-parallel-image-pulls", message: message.to_owned() });
        }
        self.check_of_one_node()?;
        if self.shutdown_grace_period_critical_pods > self.shutdown_grace_period {
            let message = format!(
                "ShutdownGracePeriodCriticalPods {:?} must be <= ShutdownGracePeriod {:?}",
                self.shutdown_grace_period_critical_pods, self.shutdown_grace_period
            );
            return Err(OptionsError::Invalid { flag: "shutdown-grace-period-critical-pods", message });
        }
        if !self.shutdown_by_priority.is_empty() && !self.shutdown_grace_period.is_zero() {
            let message = "cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod".to_owned();
            return Err(OptionsError::Invalid { flag: "shutdown-grace-period", message });
        }
        let reserves_cpus = self.kube_reserved.iter().chain(&self.system_reserved).any(|(name, _)| name == "cpu");
        if self.cpu_manager_policy == "static" && self.reserved_cpus.is_empty() && !reserves_cpus {
            let message =
                "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero".to_owned();
            return Err(OptionsError::Invalid { flag: "cpu-manager-policy", message });
        }
        if self.image_gc_low_threshold >= self.image_gc_high_threshold {
            let message = format!(
                "LowThresholdPercent {} can not be higher than HighThresholdPercent {}",
                self.image_gc_low_threshold, self.image_gc_high_threshold
            );
            return Err(OptionsError::Invalid { flag: "image-gc-low-threshold", message });
        }
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

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.trim().to_owned())),
        _ => Err(format!("{text:?} is not of the form NAME:VALUE")),
    }
}

/// Checks a set of CPUs such as `0-1,4`.
fn parse_cpu_set(text: &str) -> Result<String, String> {
    cpu_count(text).map(|_| text.to_owned()).ok_or_else(|| format!("{text:?} is no list of CPUs such as \"0-1,4\""))
}

/// Returns how many CPUs a set has; `None` when it cannot be parsed.
fn cpu_count(text: &str) -> Option<i64> {
    let mut count = 0;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (i64, i64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count += (last - first + 1 > 0).then_some(last - first + 1)?;
    }
    Some(count)
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
        let listed = unknown.strip_prefix("--config: FILE: [").and_then(|rest| rest.strip_suffix(']'));
        let mut parts: Vec<&str> = listed.unwrap_or(&unknown).split(", ").collect();
        parts.sort_unstable();
        assert_eq!(parts, [r#"unknown field "authentication.webhook.enable""#, r#"unknown field "maxPod""#]);
        let wrong = config("kubeReserved: {cpu: some}\n", &[]).unwrap_err();
        assert!(wrong.starts_with("--config: FILE: kubeReserved: invalid value 'cpu=some'"), "{wrong}");
    }
}
