//! `Files`: the contents of the files that flags name, read once at the start.
//!
//! They are read before the server creates a store, a folder or a log, so a server that cannot start because of a file
//! leaves nothing behind. A file that may change while the server runs is read again by the module that watches it.

use crate::audit::{Audit, AuditError};
use crate::config::Config;
use crate::node_agents::NodeAgents;
use crate::serving_certificate::{self, Authorities};
use crate::snapshot::{Snapshot, SnapshotError};
use access::authn::cluster_authentication_info::ClusterAuthenticationInfo;
use access::authn::service_account::{KeyError, ServiceAccountTokens};
use access::authn::token_file::{TokenFile, TokenFileError};
use access::authn::webhook::WebhookTokens;
use access::authn::{ActiveConfiguration, Authentication};
use access::authz::abac;
use access::authz::chain::Chain;
use admission::chain;
use admission::chain::PluginError;
use admission::configuration::PluginConfigurations;
use arc_swap::ArcSwap;
use cacher::encryption;
use cacher::encryption::Encryption;
use cacher::encryption::reload::EncryptionError;
use component_base::env::Env;
use component_base::options::{OptionsError, read_file};
use component_base::tls::{self, ServerTls, TlsError};
use remote::clients::Clients;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::etcd::grpc::EtcdTls;

/// A file that cannot be read, or has the wrong content. The text is one line, and names the flag.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("--token-auth-file: {0}")]
    TokenFile(#[from] TokenFileError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("--authorization-config, --authorization-webhook-config-file: {0}")]
    Authorizers(String),
    #[error("--{0}")]
    Plugins(#[from] PluginError),
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("--restore: {}: {source}", path.display())]
    Snapshot { path: PathBuf, source: SnapshotError },
}

/// The parts of a server that come from files.
pub struct Files {
    /// The serving certificate and what belongs to it; `None` if the server has to make a certificate for itself.
    pub tls: Option<ServerTls>,
    /// The authorities of client and proxy certificates.
    pub authorities: Authorities,
    pub authentication: Authentication,
    /// The authorities and proxies that this server publishes for extension servers.
    pub cluster_authentication_info: ClusterAuthenticationInfo,
    pub authorizers: Chain,
    pub policies: Vec<abac::Policy>,
    pub plugins: PluginConfigurations,
    /// Connections to webhooks and extension servers.
    pub clients: Arc<Clients>,
    pub node_agents: NodeAgents,
    pub encryption: Encryption,
    pub audit: Option<Arc<Audit>>,
    pub etcd_tls: EtcdTls,
    pub snapshot: Option<Snapshot>,
}

impl Files {
    /// Reads every file, and creates nothing but the audit log.
    pub fn read(config: &Config, env: &Env) -> Result<Self, FileError> {
        let (authorizers, policies) = authorizers(config, env)?;
        let plugins = plugins(config, env)?;
        let authentication = authentication(config, env)?;
        let authorities = Authorities::read(config)?;
        let proxy_client = serving_certificate::proxy_client(config)?;
        let Authorities { client_ca, proxy_ca } = authorities.clone();
        let cluster_authentication_info =
            ClusterAuthenticationInfo { client_ca, proxy_ca, request_headers: authentication.request_headers.clone() };
        Ok(Self {
            tls: tls(config, &authorities)?,
            authorities,
            authentication,
            cluster_authentication_info,
            authorizers,
            policies,
            plugins,
            clients: Arc::new(Clients::new(env, config.service_cluster_ip_range.clone(), proxy_client)),
            node_agents: NodeAgents::new(env, &config.node_agents)?,
            etcd_tls: config.etcd.tls()?,
            snapshot: config.restore.as_deref().map(snapshot).transpose()?,
            encryption: encryption::reload::of(
                env,
                config.encryption_provider_config.as_deref(),
                config.encryption_provider_config_automatic_reload,
            )?,
            // Last, because this creates the log file if it does not exist.
            audit: Audit::new(env, &config.audit)?,
        })
    }
}

fn invalid(flag: &'static str, message: &str) -> FileError {
    FileError::Options(OptionsError::Invalid { flag, message: message.to_owned() })
}

fn tls(config: &Config, authorities: &Authorities) -> Result<Option<ServerTls>, FileError> {
    let given = serving_certificate::given(config, authorities)?;
    given.as_ref().map(tls::server_config).transpose()?;
    Ok(given)
}

fn authorizers(config: &Config, env: &Env) -> Result<(Chain, Vec<abac::Policy>), FileError> {
    let options = &config.authorization;
    let authorizers = options.authorizers(|flag| config.original.has(flag))?;
    let policies = options.policies(&authorizers)?;
    Ok((Chain::new(env, authorizers).map_err(FileError::Authorizers)?, policies))
}

fn plugins(config: &Config, env: &Env) -> Result<PluginConfigurations, FileError> {
    let configurations = match &config.admission_control_config_file {
        Some(path) => PluginConfigurations::of_file(path)
            .map_err(|why| invalid("admission-control-config-file", &format!("{}: {why}", path.display())))?,
        None => PluginConfigurations::default(),
    };
    chain::check(env, &config.enable_admission_plugins, &config.disable_admission_plugins, &configurations)?;
    Ok(configurations)
}

fn snapshot(path: &Path) -> Result<Snapshot, FileError> {
    let file = std::fs::read(path);
    let file = file.map_err(|source| OptionsError::Unreadable { flag: "restore", path: path.to_owned(), source })?;
    Snapshot::parse(&file.into()).map_err(|source| FileError::Snapshot { path: path.to_owned(), source })
}

fn authentication(config: &Config, env: &Env) -> Result<Authentication, FileError> {
    if config.service_account_signing_endpoint.is_some() {
        let message = "signers outside of this process are not supported; give --service-account-signing-key-file";
        return Err(invalid("service-account-signing-endpoint", message));
    }
    let token_file = match &config.token_auth_file {
        Some(path) => TokenFile::parse(&read_file("token-auth-file", path)?)?,
        None => TokenFile::default(),
    };
    let key = match &config.service_account_signing_key_file {
        Some(path) => Some(read_file("service-account-signing-key-file", path)?),
        None => config.service_account_signing_key.clone(),
    };
    let mut further = Vec::new();
    for path in &config.service_account_key_file {
        further.push(read_file("service-account-key-file", path)?);
    }
    let tokens =
        key.map(|key| ServiceAccountTokens::new(&key, &further, &config.service_account_issuer, config.audiences()));
    let tokens = tokens.transpose()?.map(|tokens| tokens.lookup(config.service_account_lookup));
    let configured = config.issuers.configuration(&config.service_account_issuer)?;
    if configured.anonymous.is_some() && config.original.has("anonymous_auth") {
        let why = "cannot be set when anonymous field is configured in authentication configuration file";
        return Err(invalid("anonymous-auth", why));
    }
    if config.anonymous_auth && !config.allows_anonymous() {
        tracing::warn!(
            "AlwaysAllow is among the authorizers, so requests without credentials are refused: --anonymous-auth is off"
        );
    }
    let configuration = ActiveConfiguration::new(env, configured, config.allows_anonymous());
    Ok(Authentication {
        request_headers: config.request_headers.authenticator()?,
        token_file,
        service_accounts: tokens,
        bootstrap_tokens: config.tokens.enable_bootstrap_token_auth,
        webhook: WebhookTokens::of(env, &config.tokens, config.audiences())?,
        configuration: ArcSwap::from_pointee(configuration),
        ..Authentication::default()
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use component_base::pki;
    use component_base_testing::fixtures;
    use std::io::{PipeReader, Write, pipe};
    use std::os::fd::AsRawFd;

    /// Makes a file that can be read only once, as `<(command)` of a shell is.
    fn once(text: &str) -> (PipeReader, Option<PathBuf>) {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        (reader, Some(path.into()))
    }

    #[test]
    fn a_file_is_read_once() {
        let env = Env::system();
        let pair = || pki::self_signed(&[], env.wall()).unwrap();
        let (serving, proxy) = (pair(), pair());
        let (_cert, cert) = once(&serving.cert_pem);
        let (_key, key) = once(&serving.key_pem);
        let (_client_ca, client_ca) = once(&fixtures::authority_pem());
        let (_proxy_ca, proxy_ca) = once(&fixtures::authority_pem());
        let (_proxy_cert, proxy_client_cert_file) = once(&proxy.cert_pem);
        let (_proxy_key, proxy_client_key_file) = once(&proxy.key_pem);
        let mut config = Config { proxy_client_cert_file, proxy_client_key_file, ..Config::default() };
        (config.serving.tls_cert_file, config.serving.tls_private_key_file) = (cert, key);
        config.serving.client_ca_file = client_ca;
        config.request_headers.requestheader_client_ca_file = proxy_ca;
        let files = Files::read(&config, &env).map_err(|error| error.to_string()).expect("each file is read once");
        let tls = files.tls.expect("a certificate was given");
        assert_eq!((tls.cert, tls.key), (serving.cert_pem, serving.key_pem));
        assert!(
            tls.client_ca == Some(fixtures::authority_pem())
                && tls.client_ca == files.cluster_authentication_info.client_ca
        );
        assert!(tls.proxy_ca == tls.client_ca && tls.proxy_ca == files.cluster_authentication_info.proxy_ca);
    }
}
