//! Flags `--authentication-config` (a file of issuers) and `--oidc-*` (one issuer).
//!
//! Corresponds to OIDCAuthenticationOptions in pkg/kubeapiserver/options/authentication.go.

use super::configuration::{
    self, Configuration, WrittenIssuer, WrittenJwt, WrittenMapping, WrittenMappings, WrittenRule,
};
use crate::configuration_file;
use clap::Args;
use component_base::options::{OptionsError, read_file};
use jsonwebtoken::Algorithm;
use std::path::{Path, PathBuf};

const CONFIG: &str = "authentication-config";

#[derive(Args, Clone, Debug, Default)]
pub struct IssuerOptions {
    /// Issuers of tokens and the rules of anonymous callers as an AuthenticationConfiguration, read again when it changes
    #[arg(long, value_name = "FILE")]
    pub authentication_config: Option<PathBuf>,
    /// Issuer (OpenID Connect) whose tokens are taken
    #[arg(long, value_name = "URL")]
    pub oidc_issuer_url: Option<String>,
    /// Audience that its tokens have to have
    #[arg(long, value_name = "ID")]
    pub oidc_client_id: Option<String>,
    /// Who signs the issuer's certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub oidc_ca_file: Option<PathBuf>,
    /// Claim that is the user's name
    #[arg(long, default_value = "sub", value_name = "CLAIM")]
    pub oidc_username_claim: String,
    /// Stands before the name; the issuer's URL and a # where none is given, unless the claim is email; - for nothing
    #[arg(long, default_value = "", value_name = "PREFIX")]
    pub oidc_username_prefix: String,
    /// Claim with the user's groups
    #[arg(long, default_value = "", value_name = "CLAIM")]
    pub oidc_groups_claim: String,
    /// Stands before each group
    #[arg(long, default_value = "", value_name = "PREFIX")]
    pub oidc_groups_prefix: String,
    /// Claims that have to be there, with their values
    #[arg(long, value_delimiter = ',', value_name = "CLAIM=VALUE")]
    pub oidc_required_claim: Vec<String>,
    /// Algorithms by which tokens may be signed
    #[arg(long, value_delimiter = ',', default_value = "RS256", value_name = "NAMES")]
    pub oidc_signing_algs: Vec<String>,
}

impl IssuerOptions {
    /// Reads the file or the flags. `own_issuers`, those of this server's service account tokens, are not allowed there.
    pub fn configuration(&self, own_issuers: &[String]) -> Result<Configuration, OptionsError> {
        match &self.authentication_config {
            Some(_) if self.oidc_issuer_url.is_some() || self.oidc_client_id.is_some() => {
                Err(invalid(CONFIG, "authentication-config file and oidc-* flags are mutually exclusive"))
            }
            Some(path) => Self::of_file(path, own_issuers),
            None => self.of_flags(own_issuers),
        }
    }

    pub fn of_file(path: &Path, own_issuers: &[String]) -> Result<Configuration, OptionsError> {
        let parsed = configuration::parse(&read_file(CONFIG, path)?, own_issuers);
        parsed.map_err(|why| invalid(CONFIG, &format!("{}: {why}", path.display())))
    }

    fn of_flags(&self, own_issuers: &[String]) -> Result<Configuration, OptionsError> {
        const FLAG: &str = "oidc-issuer-url";
        let (url, client_id) = match (&self.oidc_issuer_url, &self.oidc_client_id) {
            (None, None) => return Ok(Configuration::default()),
            (Some(url), Some(client_id)) => (url.clone(), client_id.clone()),
            _ => {
                let why = "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
                return Err(invalid(FLAG, why));
            }
        };
        let username_prefix = match self.oidc_username_prefix.as_str() {
            "-" => String::new(),
            "" if self.oidc_username_claim != "email" => format!("{url}#"),
            prefix => prefix.to_owned(),
        };
        let ca = self.oidc_ca_file.as_ref().map(|path| read_file("oidc-ca-file", path)).transpose()?;
        let required = self.oidc_required_claim.iter().map(|pair| match pair.split_once('=') {
            Some((claim, value)) => {
                Ok(WrittenRule { claim: claim.to_owned(), required_value: value.to_owned(), ..WrittenRule::default() })
            }
            None => Err(invalid("oidc-required-claim", &format!("{pair:?}: want CLAIM=VALUE"))),
        });
        let written = WrittenJwt {
            issuer: WrittenIssuer {
                url,
                audiences: vec![client_id],
                certificate_authority: ca.unwrap_or_default(),
                ..WrittenIssuer::default()
            },
            claim_validation_rules: required.collect::<Result<_, _>>()?,
            claim_mappings: WrittenMappings {
                username: WrittenMapping {
                    claim: self.oidc_username_claim.clone(),
                    prefix: Some(username_prefix),
                    ..WrittenMapping::default()
                },
                groups: WrittenMapping {
                    claim: self.oidc_groups_claim.clone(),
                    prefix: Some(self.oidc_groups_prefix.clone()).filter(|_| !self.oidc_groups_claim.is_empty()),
                    ..WrittenMapping::default()
                },
                ..WrittenMappings::default()
            },
            ..WrittenJwt::default()
        };
        let mut errors = Vec::new();
        let settings = written.checked("jwt[0]", own_issuers, &mut errors);
        configuration_file::refusal(&errors).map_err(|why| invalid(FLAG, &why))?;
        let algorithm = |name: &String| match name.parse() {
            Ok(Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) | Err(_) => {
                Err(invalid("oidc-signing-algs", &format!("unsupported signing algorithm {name:?}")))
            }
            Ok(algorithm) => Ok(algorithm),
        };
        let algorithms: Vec<Algorithm> = self.oidc_signing_algs.iter().map(algorithm).collect::<Result<_, _>>()?;
        let issuers =
            settings.into_iter().map(|settings| super::Settings { algorithms: algorithms.clone(), ..settings });
        Ok(Configuration { issuers: issuers.collect(), anonymous: None })
    }
}

fn invalid(flag: &'static str, message: &str) -> OptionsError {
    OptionsError::Invalid { flag, message: message.to_owned() }
}
