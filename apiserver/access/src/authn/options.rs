//! Flags of the webhook token authenticator and of bootstrap tokens.
//!
//! Corresponds to pkg/kubeapiserver/options/authentication.go.

use clap::Args;
use component_base::duration::parse_duration;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Clone, Debug, Default)]
pub struct TokenOptions {
    /// Server that is asked about tokens, in the form of a kubeconfig
    #[arg(long, value_name = "FILE")]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long the webhook's answers are remembered
    #[arg(long, default_value = "2m", value_name = "DURATION", value_parser = parse_duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Version of the TokenReviews that the webhook is sent: v1 or v1beta1
    #[arg(long, default_value = "v1beta1", value_name = "VERSION")]
    pub authentication_token_webhook_version: String,
    /// Take secrets of type bootstrap.kubernetes.io/token in kube-system as tokens
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub enable_bootstrap_token_auth: bool,
}
