//! Flags `--authorization-*`: the authorizers and their order.
//!
//! Corresponds to pkg/kubeapiserver/options/authorization.go.

use super::abac;
use super::configuration::{self, Authorizer, Connection, ReviewVersion, Webhook};
use super::match_conditions::MatchConditions;
use super::mode::Mode;
use clap::Args;
use component_base::duration::parse_duration;
use component_base::options::{OptionsError, read_file};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout of one call to the webhook that the flags configure.
const WEBHOOK_LIMIT: Duration = Duration::from_secs(30);

#[derive(Args, Clone, Debug, Default)]
pub struct AuthorizationOptions {
    /// Authorizers, asked in this order
    #[arg(long, value_enum, value_delimiter = ',', default_value = "Node,RBAC", value_name = "MODES")]
    pub authorization_mode: Vec<Mode>,
    /// Authorizers as an AuthorizationConfiguration, which is read again when it changes
    #[arg(long, value_name = "FILE")]
    pub authorization_config: Option<PathBuf>,
    /// Policies of the ABAC authorizer, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub authorization_policy_file: Option<PathBuf>,
    /// Server of the Webhook authorizer, in the form of a kubeconfig
    #[arg(long, value_name = "FILE")]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// Version of the SubjectAccessReviews that the webhook is sent: v1 or v1beta1
    #[arg(long, default_value = "v1beta1", value_name = "VERSION")]
    pub authorization_webhook_version: String,
    /// How long the webhook's consent is remembered
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = parse_duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long the webhook's refusal is remembered
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = parse_duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
}

impl AuthorizationOptions {
    /// Reads the authorizers from the file or from the flags; `is_given` tells whether the command line has a flag.
    pub fn authorizers(&self, is_given: impl Fn(&str) -> bool) -> Result<Vec<Authorizer>, OptionsError> {
        let Some(path) = &self.authorization_config else { return self.of_flags() };
        let others = [
            "authorization_mode",
            "authorization_webhook_config_file",
            "authorization_webhook_version",
            "authorization_webhook_cache_authorized_ttl",
            "authorization_webhook_cache_unauthorized_ttl",
        ];
        if others.into_iter().any(is_given) {
            let why = "can not be specified when --authorization-mode or --authorization-webhook-* flags are defined";
            return Err(invalid("authorization-config", why));
        }
        Self::of_file(path)
    }

    pub fn of_file(path: &Path) -> Result<Vec<Authorizer>, OptionsError> {
        const FLAG: &str = "authorization-config";
        let parsed = configuration::parse(&read_file(FLAG, path)?);
        parsed.map_err(|why| invalid(FLAG, &format!("{}: {why}", path.display())))
    }

    fn of_flags(&self) -> Result<Vec<Authorizer>, OptionsError> {
        const FLAG: &str = "authorization-webhook-config-file";
        let wants = self.authorization_mode.contains(&Mode::Webhook);
        match &self.authorization_webhook_config_file {
            Some(_) if !wants => return Err(invalid(FLAG, "cannot be specified without --authorization-mode=Webhook")),
            None if wants => return Err(invalid(FLAG, "needed by --authorization-mode=Webhook")),
            _ => {}
        }
        let of_mode = |mode: &Mode| {
            let webhook = match (mode, &self.authorization_webhook_config_file) {
                (Mode::Webhook, Some(path)) => Some(self.webhook(path)?),
                _ => None,
            };
            let name = if *mode == Mode::Webhook { "default".to_owned() } else { mode.to_string().to_lowercase() };
            Ok(Authorizer { mode: *mode, name, webhook })
        };
        self.authorization_mode.iter().map(of_mode).collect()
    }

    fn webhook(&self, path: &Path) -> Result<Webhook, OptionsError> {
        let version = ReviewVersion::of(&self.authorization_webhook_version);
        Ok(Webhook {
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
            caches_authorized: true,
            caches_unauthorized: true,
            timeout: WEBHOOK_LIMIT,
            version: version.ok_or_else(|| invalid("authorization-webhook-version", "want v1 or v1beta1"))?,
            failure_denies: false,
            connection: Connection::File(path.to_owned()),
            conditions: MatchConditions::default(),
        })
    }

    /// Reads the policies of the ABAC authorizer. The file must be given exactly when ABAC is one of the authorizers.
    pub fn policies(&self, authorizers: &[Authorizer]) -> Result<Vec<abac::Policy>, OptionsError> {
        const FLAG: &str = "authorization-policy-file";
        let wants = authorizers.iter().any(|authorizer| authorizer.mode == Mode::Abac);
        match &self.authorization_policy_file {
            Some(path) if wants => {
                let parsed = abac::parse(&read_file(FLAG, path)?);
                parsed.map_err(|why| invalid(FLAG, &format!("{}: {why}", path.display())))
            }
            Some(_) => Err(invalid(FLAG, "cannot be specified without --authorization-mode=ABAC")),
            None if wants => Err(invalid(FLAG, "needed by --authorization-mode=ABAC")),
            None => Ok(Vec::new()),
        }
    }
}

fn invalid(flag: &'static str, message: &str) -> OptionsError {
    OptionsError::Invalid { flag, message: message.to_owned() }
}
