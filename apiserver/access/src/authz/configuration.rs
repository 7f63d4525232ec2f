//! `AuthorizationConfiguration`: a file that lists the authorizers in their order.
//!
//! Corresponds to k8s.io/apiserver/pkg/apis/apiserver and ValidateAuthorizationConfiguration beside it.

use super::match_conditions::MatchConditions;
use super::mode::Mode;
use crate::configuration_file;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

pub const KIND: &str = "AuthorizationConfiguration";
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// One authorizer.
#[derive(Debug)]
pub struct Authorizer {
    pub mode: Mode,
    pub name: String,
    /// Set exactly for `Mode::Webhook`.
    pub webhook: Option<Webhook>,
}

/// Settings of a webhook authorizer.
#[derive(Debug)]
pub struct Webhook {
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub caches_authorized: bool,
    pub caches_unauthorized: bool,
    pub timeout: Duration,
    pub version: ReviewVersion,
    pub failure_denies: bool,
    pub connection: Connection,
    pub conditions: MatchConditions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    pub fn of(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    File(PathBuf),
    InCluster,
}

/// The fields of the file, before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    authorizers: Vec<WrittenAuthorizer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenAuthorizer {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    webhook: Option<WrittenWebhook>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenWebhook {
    #[serde(rename = "authorizedTTL", deserialize_with = "configuration_file::duration")]
    authorized_ttl: Duration,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL", deserialize_with = "configuration_file::duration")]
    unauthorized_ttl: Duration,
    cache_unauthorized_requests: Option<bool>,
    #[serde(deserialize_with = "configuration_file::duration")]
    timeout: Duration,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: WrittenConnection,
    match_conditions: Vec<WrittenCondition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct WrittenConnection {
    #[serde(rename = "type")]
    kind: String,
    kube_config_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WrittenCondition {
    expression: String,
}

/// Parses and validates a file; the error lists everything that is wrong.
pub fn parse(text: &str) -> Result<Vec<Authorizer>, String> {
    let written: Written = configuration_file::parse(text, KIND)?;
    let mut errors = Vec::new();
    if written.authorizers.is_empty() {
        errors.push(FieldError::required("authorizers", "at least one authorization mode must be defined"));
    }
    let (mut modes, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut authorizers = Vec::new();
    for (index, one) in written.authorizers.into_iter().enumerate() {
        let field = format!("authorizers[{index}]");
        let kind = format!("{field}.type");
        let mode = match Mode::of_name(&one.kind) {
            Some(mode) if mode != Mode::Webhook && !modes.insert(mode) => {
                errors.push(FieldError::duplicate(kind, &json!(one.kind)));
                continue;
            }
            Some(mode) => mode,
            None if one.kind.is_empty() => {
                errors.push(FieldError::required(kind, ""));
                continue;
            }
            None => {
                errors.push(FieldError::not_supported(kind, &json!(one.kind), &Mode::NAMES));
                continue;
            }
        };
        check_name(&one.name, &field, &mut names, &mut errors);
        let webhook = match (mode, one.webhook) {
            (Mode::Webhook, Some(webhook)) => webhook.checked(&field, &mut errors),
            (Mode::Webhook, None) => {
                errors.push(FieldError::required(format!("{field}.webhook"), "required when type=Webhook"));
                None
            }
            (_, Some(_)) => {
                let why = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(format!("{field}.webhook"), &json!("non-null"), why));
                None
            }
            (_, None) => None,
        };
        authorizers.push(Authorizer { mode, name: one.name, webhook });
    }
    configuration_file::refusal(&errors)?;
    Ok(authorizers)
}

fn check_name(name: &str, field: &str, seen: &mut BTreeSet<String>, errors: &mut Vec<FieldError>) {
    let field = format!("{field}.name");
    let complaints = names::dns1123_subdomain(name);
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !seen.insert(name.to_owned()) {
        errors.push(FieldError::duplicate(field, &json!(name)));
    } else if !complaints.is_empty() {
        let why = format!("authorizer name is invalid: {}", complaints.join(", "));
        errors.push(FieldError::invalid(field, &json!(name), why));
    }
}

impl WrittenWebhook {
    /// Validates one webhook; returns `None` after adding to `errors`.
    fn checked(self, field: &str, errors: &mut Vec<FieldError>) -> Option<Webhook> {
        let at = |name: &str| format!("{field}.{name}");
        let mut required = |name: &str, is_missing: bool, why: &str| {
            if is_missing {
                errors.push(FieldError::required(at(name), why));
            }
        };
        required("timeout", self.timeout.is_zero(), "");
        required("authorizedTTL", self.authorized_ttl.is_zero(), "");
        required("unauthorizedTTL", self.unauthorized_ttl.is_zero(), "");
        required("subjectAccessReviewVersion", self.subject_access_review_version.is_empty(), "");
        let condition_version = self.match_condition_subject_access_review_version.as_str();
        let (name, why) = ("matchConditionSubjectAccessReviewVersion", "required if match conditions are specified");
        required(name, condition_version.is_empty() && !self.match_conditions.is_empty(), why);
        required("failurePolicy", self.failure_policy.is_empty(), "");
        let info = &self.connection_info;
        required("connectionInfo.type", info.kind.is_empty(), "");
        let file = info.kube_config_file.as_deref().filter(|path| !path.as_os_str().is_empty());
        required("connectionInfo.kubeConfigFile", info.kind == "KubeConfigFile" && file.is_none(), "");
        if self.timeout > LONGEST_TIMEOUT {
            let text = component_base::duration::format_duration(self.timeout);
            errors.push(FieldError::invalid(at("timeout"), &json!(text), "must be > 0s and <= 30s"));
        }
        let mut one_of = |name: &str, text: &str, known: &[&str]| {
            if !text.is_empty() && !known.contains(&text) {
                errors.push(FieldError::not_supported(at(name), &json!(text), known));
            }
        };
        one_of("subjectAccessReviewVersion", &self.subject_access_review_version, &["v1", "v1beta1"]);
        one_of("matchConditionSubjectAccessReviewVersion", condition_version, &["v1"]);
        one_of("failurePolicy", &self.failure_policy, &["NoOpinion", "Deny"]);
        one_of("connectionInfo.type", &info.kind, &["InClusterConfig", "KubeConfigFile"]);
        let connection = match (info.kind.as_str(), file) {
            ("InClusterConfig", None) => Some(Connection::InCluster),
            ("InClusterConfig", Some(path)) => {
                let why = "can only be set when type=KubeConfigFile";
                errors.push(FieldError::invalid(at("connectionInfo.kubeConfigFile"), &json!(path), why));
                None
            }
            (_, Some(path)) => {
                let why = if !path.is_absolute() {
                    Some("must be an absolute path".to_owned())
                } else {
                    match std::fs::metadata(path) {
                        Ok(metadata) if metadata.is_file() => None,
                        Ok(_) => Some("must be a regular file".to_owned()),
                        Err(error) => Some(format!("error loading file: {error}")),
                    }
                };
                errors
                    .extend(why.map(|why| FieldError::invalid(at("connectionInfo.kubeConfigFile"), &json!(path), why)));
                Some(Connection::File(path.to_owned()))
            }
            (_, None) => None,
        };
        let expressions: Vec<String> = self.match_conditions.into_iter().map(|one| one.expression).collect();
        let (conditions, refused) = MatchConditions::compile(&expressions, field);
        errors.extend(refused);
        Some(Webhook {
            authorized_ttl: self.authorized_ttl,
            unauthorized_ttl: self.unauthorized_ttl,
            caches_authorized: self.cache_authorized_requests.unwrap_or(true),
            caches_unauthorized: self.cache_unauthorized_requests.unwrap_or(true),
            timeout: self.timeout,
            version: ReviewVersion::of(&self.subject_access_review_version)?,
            failure_denies: self.failure_policy == "Deny",
            connection: connection?,
            conditions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(authorizers: &str) -> String {
        let text = format!("{{apiVersion: apiserver.config.k8s.io/v1, kind: {KIND}, authorizers: {authorizers}}}");
        parse(&text)
            .map(|known| format!("{:?}", known.iter().map(|a| a.mode).collect::<Vec<_>>()))
            .unwrap_or_else(|e| e)
    }

    #[test]
    fn a_configuration_is_refused_in_a_line() {
        let webhook = |more: &str| {
            refused(&format!(
                "[{{type: Webhook, name: w, webhook: {{authorizedTTL: 5m, unauthorizedTTL: 30s, timeout: 3s, \
                 subjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {{type: InClusterConfig}}{more}}}}}]"
            ))
        };
        for (got, expected) in [
            (refused("[{type: Node, name: one}, {type: RBAC, name: r}]"), "[Node, Rbac]"),
            (webhook(""), "[Webhook]"),
            (refused("[]"), "authorizers: Required value: at least one authorization mode must be defined"),
            (refused("[{name: one}]"), "authorizers[0].type: Required value"),
            (
                refused("[{type: Magic, name: one}]"),
                "authorizers[0].type: Unsupported value: \"Magic\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"",
            ),
            (
                refused("[{type: RBAC, name: one}, {type: RBAC, name: other}]"),
                "authorizers[1].type: Duplicate value: \"RBAC\"",
            ),
            (
                refused("[{type: Node}, {type: RBAC, name: a, webhook: {}}, {type: Webhook, name: a}]"),
                "[authorizers[0].name: Required value, authorizers[1].webhook: Invalid value: \"non-null\": may only be \
                 specified when type=Webhook, authorizers[2].name: Duplicate value: \"a\", authorizers[2].webhook: \
                 Required value: required when type=Webhook]",
            ),
            (
                webhook(", matchConditions: [{expression: 'true'}]"),
                "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
            ),
            (
                webhook(
                    ", matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: request.group}]",
                ),
                "authorizers[0].matchConditions[0].expression: Invalid value: \"request.group\": compilation failed: ERROR: <input>:1:8: undefined field 'group'",
            ),
            (webhook(", caches: 1"), "strict decoding error: unknown field `caches`, expected one of "),
        ] {
            assert!(got.starts_with(expected), "{got}\n{expected}");
            assert!(!got.contains('\n'));
        }
        let file = refused(
            "[{type: Webhook, name: w, webhook: {timeout: 31s, subjectAccessReviewVersion: v2, failurePolicy: Open, \
             connectionInfo: {type: KubeConfigFile, kubeConfigFile: hooks.conf}}}]",
        );
        assert_eq!(
            file,
            "[authorizers[0].authorizedTTL: Required value, authorizers[0].unauthorizedTTL: Required value, \
             authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s, \
             authorizers[0].subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\", \
             authorizers[0].failurePolicy: Unsupported value: \"Open\": supported values: \"NoOpinion\", \"Deny\", \
             authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"hooks.conf\": must be an absolute path]"
        );
    }
}
