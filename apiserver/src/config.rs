//! The flags of the API server, under the names that kube-apiserver gives them.
//!
//! Corresponds to cmd/kube-apiserver/app/options.

use crate::audit::options::AuditOptions;
use crate::flags::KubeApiserver;
use crate::node_agents::NodeAgentOptions;
use crate::request_log::RequestLog;
use crate::runtime_config::ApiSwitch;
use access::authn::jwt::options::IssuerOptions;
use access::authn::options::TokenOptions;
use access::authn::request_header::RequestHeaderOptions;
use access::authz::mode::Mode;
use access::authz::options::AuthorizationOptions;
use clap::{Args, ValueEnum};
use component_base::duration::parse_duration;
use component_base::options::{OriginalFlags, ServingOptions};
use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;
use storage::etcd::options::EtcdOptions;

pub const DEFAULT_SECURE_PORT: u16 = 6443;

/// Engine that keeps the cluster's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    // No doc comments: clap would turn every flag's help into a page for them.
    Embedded,
    Memory,
    Etcd,
}

/// Writes the value of `--store`.
impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Memory => "memory",
            Self::Etcd => "etcd",
        })
    }
}

/// Mechanism that keeps the endpoints of the `kubernetes` Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointReconcilerType {
    // No doc comments, as above.
    Lease,
    None,
}

// The settings of an API server. No doc comment: clap would show it as the description of the command.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeApiserver>,
    #[command(flatten)]
    pub serving: ServingOptions,
    /// Engine that keeps the cluster's state: embedded is durable on one disk, memory is gone with the process, etcd
    /// is a cluster of its own, and the default where --etcd-servers are named
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub store: Option<StoreKind>,
    #[command(flatten)]
    pub etcd: EtcdOptions,
    /// Resources that are encrypted in the store, and their keys: an EncryptionConfiguration
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Take over changes of that file without a restart
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub encryption_provider_config_automatic_reload: bool,
    /// Folder of the embedded store
    #[arg(long, value_name = "DIR", default_value = "orrery-data/store")]
    pub data_dir: PathBuf,
    /// Folder for the certificate that the server makes for itself where --tls-cert-file gives none
    #[arg(long, value_name = "DIR", default_value = "/var/run/kubernetes")]
    pub cert_dir: PathBuf,
    #[command(flatten)]
    pub request_headers: RequestHeaderOptions,
    /// Certificate (PEM) to show to aggregated API servers
    #[arg(long, value_name = "FILE")]
    pub proxy_client_cert_file: Option<PathBuf>,
    /// Key (PEM) of that certificate, of the aggregator
    #[arg(long, value_name = "FILE")]
    pub proxy_client_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub node_agents: NodeAgentOptions,
    /// Bearer tokens, one a line: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    #[command(flatten)]
    pub tokens: TokenOptions,
    #[command(flatten)]
    pub issuers: IssuerOptions,
    /// Let requests without credentials pass as system:anonymous
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub anonymous_auth: bool,
    /// Key (PEM, ECDSA P-256 or RSA) that signs and verifies service account tokens
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// The key itself, for a server inside another program, which has no file
    #[arg(skip)]
    pub service_account_signing_key: Option<String>,
    /// Further keys (PEM, private or public) of service account tokens that are accepted; several in one file, or files
    #[arg(long, value_delimiter = ',', value_name = "FILES")]
    pub service_account_key_file: Vec<PathBuf>,
    /// Issuer of service account tokens; tokens of further ones are accepted
    #[arg(long, value_delimiter = ',', default_value = "https://kubernetes.default.svc", value_name = "URLS")]
    pub service_account_issuer: Vec<String>,
    /// URL of the keys of service account tokens; this server where none is given
    #[arg(long, value_name = "URL")]
    pub service_account_jwks_uri: Option<String>,
    /// Refuse service account tokens whose account, pod or secret is gone
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub service_account_lookup: bool,
    /// Longest life of a service account token; a request for more gets this much
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub service_account_max_token_expiration: Option<Duration>,
    /// Give pods' tokens of 3607 seconds a year, and only warn of them after that time
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub service_account_extend_token_expiration: bool,
    /// Socket of a signer outside of this process; refused, there is no protocol for it yet
    #[arg(long, value_name = "SOCKET")]
    pub service_account_signing_endpoint: Option<String>,
    #[command(flatten)]
    pub authorization: AuthorizationOptions,
    /// Audiences of the API; the issuer where none is given
    #[arg(long, value_delimiter = ',', value_name = "URLS")]
    pub api_audiences: Vec<String>,
    /// Origins whose web pages may read answers: regular expressions that match whole hosts
    #[arg(long, value_delimiter = ',', value_name = "EXPRESSIONS")]
    pub cors_allowed_origins: Vec<String>,
    /// Admission plugins to run beside those that are on by default
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub enable_admission_plugins: Vec<String>,
    /// Configuration of admission plugins: an AdmissionConfiguration
    #[arg(long, value_name = "FILE")]
    pub admission_control_config_file: Option<PathBuf>,
    /// Admission plugins that are on by default and shall not run
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub disable_admission_plugins: Vec<String>,
    /// How long a pod stays on a node that is not ready, unless it says otherwise
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub default_not_ready_toleration_seconds: i64,
    /// How long a pod stays on a node that cannot be reached, unless it says otherwise
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub default_unreachable_toleration_seconds: i64,
    /// APIs to serve or not: GROUP/VERSION, v1, api/all, api/ga, api/beta or api/alpha =true or =false
    #[arg(long, value_delimiter = ',', value_name = "API=BOOL")]
    pub runtime_config: Vec<ApiSwitch>,
    /// How long Events are kept
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = parse_duration)]
    pub event_ttl: Duration,
    /// Network from which Services get their addresses; one for each family, the primary one first
    #[arg(long, default_value = "10.96.0.0/16", value_delimiter = ',', action = clap::ArgAction::Set, value_name = "CIDR")]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Ports that NodePort Services get
    #[arg(long, default_value = "30000-32767", value_name = "FIRST-LAST")]
    pub service_node_port_range: String,
    /// Address at which others reach this server; the bind address where none is given
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,
    /// How the endpoints of the kubernetes Service are kept: lease lists every API server that renews its lease in the
    /// store, none leaves them to another program
    #[arg(long, value_enum, default_value = "lease", value_name = "TYPE")]
    pub endpoint_reconciler_type: EndpointReconcilerType,
    #[command(flatten)]
    pub audit: AuditOptions,
    /// Share the seats for requests among priority levels, by FlowSchemas and PriorityLevelConfigurations; otherwise
    /// the two limits below are all there is
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub enable_priority_and_fairness: bool,
    /// Reads that are worked on at once; 0 for no limit
    #[arg(long, default_value_t = 400, value_name = "N")]
    pub max_requests_inflight: usize,
    /// Writes that are worked on at once; 0 for no limit
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub max_mutating_requests_inflight: usize,
    /// Objects of a collection that are deleted at a time
    // Deviation: `--delete-collection-workers` is 16 by default, and 1 in Kubernetes. Deletions at the same time
    // share one sync of the store.
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub delete_collection_workers: usize,
    /// Keep traces of requests that ask for it by the header `Orrery-Trace: true`, for those who may get
    /// /debug/requests/*
    #[arg(long, default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = clap::ArgAction::Set)]
    pub enable_request_trace: bool,
    /// How long a request may take, except for watches and other streams
    #[arg(long, default_value = "1m", value_name = "DURATION", value_parser = parse_duration)]
    pub request_timeout: Duration,
    /// Shortest time in seconds that a watch may stay open; each gets up to twice that
    #[arg(long = "min-request-timeout", default_value_t = 1800, value_name = "SECONDS")]
    pub min_request_timeout_s: u64,
    /// Time between the end of readiness and the end of serving
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = parse_duration)]
    pub shutdown_delay_duration: Duration,
    /// Snapshot to fill the store with at the start, if it is empty
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,
    /// One line per request and per delivered watch event, for simulations
    #[arg(skip)]
    pub request_log: Option<RequestLog>,
}

/// Has the defaults of the flags.
impl Default for Config {
    fn default() -> Self {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            config: Config,
        }
        <Flags as clap::Parser>::parse_from(["apiserver"]).config
    }
}

impl Config {
    /// Returns whether requests without credentials are accepted, unless `--authentication-config` decides it. They are
    /// never accepted with the authorizer `AlwaysAllow`, whatever `--anonymous-auth` says.
    pub fn allows_anonymous(&self) -> bool {
        self.anonymous_auth && !self.authorization.authorization_mode.contains(&Mode::AlwaysAllow)
    }

    /// Returns the address that the endpoints of the `kubernetes` Service list: never the unspecified one.
    pub fn advertised_ip(&self) -> IpAddr {
        let bound = self.serving.bind_address;
        self.advertise_address.unwrap_or(if bound.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { bound })
    }

    /// Returns the engine that the flags select, or why they contradict each other.
    pub fn store_kind(&self) -> Result<StoreKind, String> {
        match (self.store, self.etcd.etcd_servers.as_slice()) {
            (None, []) => Ok(StoreKind::Embedded),
            (None, _) => Ok(StoreKind::Etcd),
            (Some(StoreKind::Etcd), []) => Err("--store=etcd needs --etcd-servers".to_owned()),
            (Some(StoreKind::Etcd), _) => Ok(StoreKind::Etcd),
            (Some(kind), []) => Ok(kind),
            (Some(kind), _) => Err(format!("--etcd-servers and --store={kind} contradict each other")),
        }
    }

    /// Returns the audiences that a token of a service account must have: one of them.
    pub fn audiences(&self) -> Vec<String> {
        if self.api_audiences.is_empty() {
            self.service_account_issuer.iter().take(1).cloned().collect()
        } else {
            self.api_audiences.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naming_etcd_servers_is_enough() {
        let cases = [
            (None, "", Ok(StoreKind::Embedded)),
            (None, "http://a", Ok(StoreKind::Etcd)),
            (Some(StoreKind::Etcd), "http://a", Ok(StoreKind::Etcd)),
            (Some(StoreKind::Memory), "", Ok(StoreKind::Memory)),
            (Some(StoreKind::Etcd), "", Err("--store=etcd needs --etcd-servers")),
            (Some(StoreKind::Memory), "http://a", Err("--etcd-servers and --store=memory contradict each other")),
        ];
        for (store, server, expected) in cases {
            let mut config = Config { store, ..Config::default() };
            config.etcd.etcd_servers.extend((!server.is_empty()).then(|| server.to_owned()));
            assert_eq!(config.store_kind(), expected.map_err(str::to_owned), "{store:?} {server}");
        }
    }
}
