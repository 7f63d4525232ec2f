//! The flags of the controller manager, under the names and with the defaults of kube-controller-manager.
//!
//! Corresponds to cmd/kube-controller-manager/app/options.

use crate::attach_detach_options::AttachDetachOptions;
use crate::autoscaler_options::AutoscalerOptions;
use crate::cloud_options::CloudAccess;
use crate::device_options::DeviceOptions;
use crate::endpoint_options::EndpointOptions;
use crate::flags::KubeControllerManager;
use crate::leader_migration::LeaderMigrationOptions;
use crate::signers::options::{Signers, SigningOptions};
use clap::Args;
use component_base::duration::parse_duration;
use component_base::json_web_token::SigningKey;
use component_base::options::feature_gates::GateValues;
use component_base::options::{
    self, CertDirOptions, ClientOptions, LeaderElectionOptions, OriginalFlags, ServingOptions,
};
use ipnet::IpNet;
use std::path::PathBuf;
use std::time::Duration;

/// The command line of `controller-manager`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeControllerManager>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub cert_dir: CertDirOptions,
    /// Certificate authority (PEM) that pods trust; by default that of the kubeconfig
    #[arg(long, value_name = "FILE")]
    pub root_ca_file: Option<PathBuf>,
    /// Key (PEM, ECDSA P-256 or RSA) that signs the tokens of service accounts in secrets
    #[arg(long, value_name = "FILE")]
    pub service_account_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

/// Settings of the controllers, whether the manager runs as a process or inside another.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// Controllers to run: '*' for all that are on by default, 'foo' for one more, '-foo' for all but that
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// Pause between the starts of two controllers
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub controller_start_interval: Duration,
    /// How long the manager waits at its end for controllers that have not stopped
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub controller_shutdown_timeout: Duration,
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    #[command(flatten)]
    pub leader_migration: LeaderMigrationOptions,
    /// Let each controller write under its own service account
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub use_service_account_credentials: bool,
    /// Give each node a range of pod addresses out of --cluster-cidr
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Ranges of all pods' addresses, one per address family
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set, default_value = "10.244.0.0/16")]
    pub cluster_cidr: Vec<IpNet>,
    /// Ranges of Services; no node gets addresses of them for its pods
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set, value_name = "CIDR")]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Prefix length of a node's IPv4 range
    #[arg(long, default_value_t = 24)]
    pub node_cidr_mask_size: u8,
    /// Prefix length of a node's IPv4 range if --cluster-cidr has two families
    #[arg(long)]
    pub node_cidr_mask_size_ipv4: Option<u8>,
    /// Prefix length of a node's IPv6 range
    #[arg(long, default_value_t = 64)]
    pub node_cidr_mask_size_ipv6: u8,
    /// How often the health of every node is checked
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub node_monitor_period: Duration,
    /// How long a node may send no heartbeat before it counts as unhealthy
    #[arg(long, default_value = "50s", value_parser = parse_duration)]
    pub node_monitor_grace_period: Duration,
    /// How long a new node may send no heartbeat before it counts as unhealthy
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    pub node_startup_grace_period: Duration,
    /// Unhealthy nodes whose pods may be evicted, per second, in a healthy zone
    #[arg(long, default_value_t = 0.1)]
    pub node_eviction_rate: f32,
    /// Unhealthy nodes whose pods may be evicted, per second, in a zone that is mostly unhealthy
    #[arg(long, default_value_t = 0.01)]
    pub secondary_node_eviction_rate: f32,
    /// A zone is mostly unhealthy from this fraction on
    #[arg(long, default_value_t = 0.55)]
    pub unhealthy_zone_threshold: f32,
    /// Zones of up to this many nodes are small: no pod is evicted in a small zone that is mostly unhealthy
    #[arg(long, default_value_t = 50)]
    pub large_cluster_size_threshold: usize,
    /// Terminated pods that are kept; 0 keeps all
    #[arg(long, default_value_t = 12500)]
    pub terminated_pod_gc_threshold: usize,
    /// Deployments that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_deployment_syncs: usize,
    /// Replica sets that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_replicaset_syncs: usize,
    /// Replication controllers that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_rc_syncs: usize,
    /// Namespaces that are reconciled concurrently
    #[arg(long, default_value_t = 10)]
    pub concurrent_namespace_syncs: usize,
    /// How often all namespaces that are being deleted are looked at again; 0 sets no period
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub namespace_sync_period: Duration,
    /// Objects that the garbage collector processes concurrently
    #[arg(long, default_value_t = 20)]
    pub concurrent_gc_syncs: usize,
    /// Resource quotas that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_resource_quota_syncs: usize,
    /// How often the usage of every resource quota is recalculated
    #[arg(long, default_value = "5m", value_parser = parse_duration)]
    pub resource_quota_sync_period: Duration,
    /// Jobs that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_job_syncs: usize,
    /// Cron jobs that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_cron_job_syncs: usize,
    /// Stateful sets that are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_statefulset_syncs: usize,
    /// Daemon sets that are reconciled concurrently
    #[arg(long, default_value_t = 2)]
    pub concurrent_daemonset_syncs: usize,
    /// Finished jobs whose end is reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_ttl_after_finished_syncs: usize,
    /// Secrets and service accounts whose tokens are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_serviceaccount_token_syncs: usize,
    /// Validating admission policies that are checked concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_validating_admission_policy_status_syncs: usize,
    /// Delete what has lost its owner; the API server needs the same value
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_garbage_collector: bool,
    /// Pods whose ephemeral volumes are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_ephemeralvolume_syncs: usize,
    /// How often all claims and volumes are looked at again; 0 sets no period
    #[arg(long, default_value = "15s", value_parser = parse_duration)]
    pub pvclaimbinder_sync_period: Duration,
    /// Ask the provisioners of classes for volumes
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_dynamic_provisioning: bool,
    /// Folder in which kubelet-sim keeps the files of claims: the simulated driver copies and deletes them there; without
    /// one it clones no volume
    #[arg(long, value_name = "DIR")]
    pub volume_dir: Option<PathBuf>,
    /// How long a token in a secret has to be unused before it is marked invalid, and marked before it is deleted
    #[arg(long, default_value = "8760h", value_parser = parse_duration)]
    pub legacy_service_account_token_clean_up_period: Duration,
    #[command(flatten)]
    pub endpoints: EndpointOptions,
    #[command(flatten)]
    pub autoscaling: AutoscalerOptions,
    #[command(flatten)]
    pub attach_detach: AttachDetachOptions,
    #[command(flatten)]
    pub devices: DeviceOptions,
    #[command(flatten)]
    pub signing: SigningOptions,
    /// The authorities that sign, read from the files that the flags name
    #[arg(skip)]
    pub signers: Signers,
    /// The requested values of feature gates
    #[arg(skip)]
    pub feature_gates: GateValues,
    /// Key that signs the tokens in secrets
    #[arg(skip)]
    pub service_account_key: Option<SigningKey>,
    /// Certificate authority (PEM) that pods trust
    #[arg(skip)]
    pub root_ca_pem: Option<String>,
    /// The cloud, for the controllers that depend on one
    #[arg(skip)]
    pub cloud: Option<CloudAccess>,
}

impl Default for Settings {
    /// The defaults of the command line.
    fn default() -> Self {
        options::defaults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        let settings = Settings::default();
        assert_eq!(settings.node_monitor_grace_period, Duration::from_secs(50));
        assert_eq!(settings.node_startup_grace_period, Duration::from_secs(60));
        assert_eq!(settings.cluster_cidr, ["10.244.0.0/16".parse::<IpNet>().unwrap()]);
        assert!(settings.leader_election.leader_elect && settings.use_service_account_credentials);
        assert_eq!(settings.controllers, ["*"]);
    }

    #[test]
    fn flags_are_written_as_for_the_original() {
        let command = Config::augment_args(Command::new("controller-manager"));
        let arguments = [
            "controller-manager",
            "--controllers=*,-job",
            "--leader-elect=false",
            "--node-monitor-grace-period=1m30s",
            "--cluster-cidr=10.8.0.0/16",
            "--cluster-cidr=10.9.0.0/16,fd00::/48",
        ];
        let matches = command.get_matches_from(arguments);
        let config = Config::from_arg_matches(&matches).unwrap();
        assert_eq!(config.settings.controllers, ["*", "-job"]);
        assert!(!config.settings.leader_election.leader_elect);
        assert_eq!(config.settings.node_monitor_grace_period, Duration::from_secs(90));
        assert_eq!(config.settings.cluster_cidr.len(), 2);
    }
}
