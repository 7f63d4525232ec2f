//! `Policy`: decides which requests are recorded, at which stages, and in which detail.
//!
//! Corresponds to audit.k8s.io/v1 Policy and k8s.io/apiserver/pkg/audit/policy.

use request::UserInfo;
use request::info::RequestInfo;
use serde::{Deserialize, Serialize};
use std::fmt;

const API_VERSION: &str = "audit.k8s.io/v1";
/// API group of TokenReviews.
const TOKENS: &str = "authentication.k8s.io";

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Point in the handling of a request at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    RequestReceived,
    /// The headers of a long-running answer have been sent.
    ResponseStarted,
    ResponseComplete,
    Panic,
}

/// The decision of a policy about one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    pub level: Level,
    pub omit_stages: Vec<Stage>,
    pub omit_managed_fields: bool,
}

/// The content of a policy file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    /// Accepted and ignored.
    metadata: serde_json::Value,
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Option<Level>,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    urls: Vec<String>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// An invalid policy. The text is one line.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    #[error("not an audit policy: {0}")]
    Syntax(String),
    #[error("a Policy of {API_VERSION} is expected, not a {kind:?} of {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("a policy without rules")]
    Empty,
    #[error("rules[{rule}].{field}: {why}")]
    Rule { rule: usize, field: &'static str, why: String },
}

/// A checked policy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    omit_stages: Vec<Stage>,
    omit_managed_fields: bool,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

impl Policy {
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let file: File = serde_saphyr::from_str(text)
            .map_err(|error| PolicyError::Syntax(error.to_string().lines().next().unwrap_or_default().to_owned()))?;
        let File { api_version, kind, metadata: _, rules, omit_stages, omit_managed_fields } = file;
        if (api_version.as_str(), kind.as_str()) != (API_VERSION, "Policy") {
            return Err(PolicyError::Kind { api_version, kind });
        }
        if rules.is_empty() {
            return Err(PolicyError::Empty);
        }
        for (index, rule) in rules.iter().enumerate() {
            rule.check().map_err(|(field, why)| PolicyError::Rule { rule: index, field, why })?;
        }
        Ok(Self { rules, omit_stages, omit_managed_fields })
    }

    /// Applies the first rule that matches a request. A request that matches no rule is not recorded.
    pub fn decide(&self, info: &RequestInfo, user: Option<&UserInfo>) -> Decision {
        let Some(rule) = self.rules.iter().find(|rule| rule.matches(info, user)) else {
            return Decision { omit_managed_fields: self.omit_managed_fields, ..Decision::default() };
        };
        let level = rule.level.unwrap_or_default();
        // Deviation: the bodies of secrets and tokens are recorded only by a rule that names their resource, not by one
        // for all resources.
        let level = if holds_secrets(info) && !rule.names(info) { level.min(Level::Metadata) } else { level };
        Decision {
            level,
            omit_stages: [self.omit_stages.as_slice(), &rule.omit_stages].concat(),
            omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.level.is_none() {
            return Err(("level", "one of None, Metadata, Request and RequestResponse is required".to_owned()));
        }
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if of_resources && !self.urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            return Err(("nonResourceURLs", why.to_owned()));
        }
        for url in &self.urls {
            let before = url.strip_suffix('*').unwrap_or(url);
            if url != "*" && !url.starts_with('/') {
                return Err(("nonResourceURLs", format!("{url:?}: rules must begin with '/' or be '*'")));
            }
            if before.contains('*') {
                return Err(("nonResourceURLs", format!("{url:?}: '*' must be the last character")));
            }
        }
        for resources in &self.resources {
            if resources.group.contains('/') {
                let why = format!("{:?}: a group without its version is expected", resources.group);
                return Err(("resources", why));
            }
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err(("resources", "using resourceNames requires at least one resource".to_owned()));
            }
        }
        Ok(())
    }

    fn matches(&self, info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        let name = |user: &UserInfo| has(&self.users, &user.name);
        let group = |user: &UserInfo| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.users.is_empty() && !user.is_some_and(name)
            || !self.user_groups.is_empty() && !user.is_some_and(group)
            || !self.verbs.is_empty() && !has(&self.verbs, &info.verb)
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource && self.matches_resource(info);
        }
        self.urls.is_empty() || !info.is_resource && self.urls.iter().any(|url| is_path(url, &info.path))
    }

    /// Returns true if the rule names the resource of a request itself, not by `*`.
    fn names(&self, info: &RequestInfo) -> bool {
        let says = |rule: &String| {
            let resource = rule.split_once('/').map_or(rule.as_str(), |(resource, _)| resource);
            resource == info.resource && is_resource(rule, info)
        };
        self.resources.iter().any(|of| of.group == info.group && of.resources.iter().any(says))
    }

    fn matches_resource(&self, info: &RequestInfo) -> bool {
        if !self.namespaces.is_empty() && !has(&self.namespaces, &info.namespace) {
            return false;
        }
        let resource = |of: &GroupResources| {
            let named = || of.resource_names.is_empty() || has(&of.resource_names, &info.name);
            of.group == info.group
                && (of.resources.is_empty() || named() && of.resources.iter().any(|rule| is_resource(rule, info)))
        };
        self.resources.is_empty() || self.resources.iter().any(resource)
    }
}

/// Returns true if the bodies of a request may contain secrets or tokens.
fn holds_secrets(info: &RequestInfo) -> bool {
    let requested = (info.group.as_str(), info.resource.as_str(), info.subresource.as_str());
    info.is_resource
        && matches!(requested, ("", "secrets", _) | ("", "serviceaccounts", "token") | (TOKENS, "tokenreviews", _))
}

/// Matches `pods`, `pods/log`, `pods/*`, `*/log` or `*` with the resource of a request.
fn is_resource(rule: &str, info: &RequestInfo) -> bool {
    match rule.split_once('/') {
        None if rule == "*" => true,
        None => info.subresource.is_empty() && rule == info.resource,
        Some((resource, "*")) => resource == info.resource,
        Some(("*", subresource)) => !info.subresource.is_empty() && subresource == info.subresource,
        Some((resource, subresource)) => resource == info.resource && subresource == info.subresource,
    }
}

fn is_path(rule: &str, path: &str) -> bool {
    rule.strip_suffix('*').map_or(rule == path, |prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    const HEAD: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";

    #[test]
    fn the_first_rule_that_is_about_a_request_decides() {
        let policy = format!(
            "{HEAD}omitStages: [RequestReceived]\nomitManagedFields: true\nrules:
- {{level: None, users: [system:kube-proxy], verbs: [watch]}}
- {{level: None, nonResourceURLs: [/healthz*, /version]}}
- {{level: Metadata, resources: [{{group: '', resources: [secrets, configmaps]}}]}}
- {{level: Metadata, resources: [{{group: '', resources: ['pods/*']}}], omitStages: [Panic]}}
- {{level: RequestResponse, userGroups: [ops], namespaces: [prod], omitManagedFields: false}}
- {{level: Request, resources: [{{group: apps}}, {{group: '', resources: [nodes], resourceNames: [n1]}}]}}
- {{level: Request, resources: [{{group: batch, resources: ['*/status']}}]}}
"
        );
        let policy = Policy::parse(&policy).unwrap();
        let decide = |method: Method, path: &str, query: &str, user: &UserInfo| {
            let decision = policy.decide(&RequestInfo::of(&method, path, query), Some(user));
            format!("{} {}", decision.level, decision.omit_managed_fields)
        };
        let ann = UserInfo::new("ann", &["ops"]);
        let proxy = UserInfo::new("system:kube-proxy", &[]);
        let cases = [
            (Method::GET, "/api/v1/services", "watch=1", &proxy, "None true"),
            (Method::GET, "/healthz/etcd", "", &ann, "None true"),
            (Method::GET, "/version", "", &ann, "None true"),
            (Method::GET, "/versions", "", &ann, "None true"),
            (Method::GET, "/api/v1/namespaces/prod/secrets/s", "", &ann, "Metadata true"),
            (Method::GET, "/api/v1/namespaces/prod/pods/p/log", "", &proxy, "Metadata true"),
            (Method::GET, "/api/v1/namespaces/prod/pods/p", "", &proxy, "Metadata true"),
            (Method::GET, "/api/v1/namespaces/prod/events", "", &ann, "RequestResponse false"),
            (Method::GET, "/api/v1/namespaces/test/events", "", &ann, "None true"),
            (Method::PUT, "/apis/apps/v1/namespaces/a/deployments/d/scale", "", &proxy, "Request true"),
            (Method::GET, "/api/v1/nodes/n1", "", &proxy, "Request true"),
            (Method::GET, "/api/v1/nodes/n2", "", &proxy, "None true"),
            (Method::PUT, "/apis/batch/v1/namespaces/a/jobs/j/status", "", &proxy, "Request true"),
            (Method::PUT, "/apis/batch/v1/namespaces/a/jobs/j", "", &proxy, "None true"),
        ];
        for (method, path, query, user, expected) in cases {
            assert_eq!(decide(method, path, query, user), expected, "{path}");
        }
        let exec = RequestInfo::of(&Method::POST, "/api/v1/namespaces/a/pods/p/exec", "");
        assert_eq!(policy.decide(&exec, None).omit_stages, [Stage::RequestReceived, Stage::Panic]);
    }

    #[test]
    fn secrets_are_written_down_only_by_a_rule_that_names_them() {
        let level = |rule: &str, path: &str| {
            let policy = format!("{HEAD}rules:\n- {{level: RequestResponse{rule}}}\n");
            let info = RequestInfo::of(&Method::POST, path, "");
            Policy::parse(&policy).unwrap().decide(&info, None).level
        };
        let secrets = "/api/v1/namespaces/a/secrets";
        let token = "/api/v1/namespaces/a/serviceaccounts/s/token";
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        for rule in [
            "",
            ", verbs: [create]",
            ", resources: [{group: ''}, {group: authentication.k8s.io}]",
            ", resources: [{group: '', resources: ['*']}, {group: authentication.k8s.io, resources: ['*']}]",
            ", resources: [{group: '', resources: ['*', '*/token', configmaps]}, {group: authentication.k8s.io}]",
        ] {
            for path in [secrets, token, reviews] {
                assert_eq!(level(rule, path), Level::Metadata, "{rule} {path}");
            }
            assert_eq!(level(rule, "/api/v1/namespaces/a/configmaps"), Level::RequestResponse, "{rule}");
        }
        for (rule, path) in [
            (", resources: [{group: '', resources: [secrets]}]", secrets),
            (", resources: [{group: '', resources: ['serviceaccounts/token']}]", token),
            (", resources: [{group: '', resources: ['serviceaccounts/*']}]", token),
            (", resources: [{group: authentication.k8s.io, resources: [tokenreviews]}]", reviews),
            // A ServiceAccount holds no secret.
            ("", "/api/v1/namespaces/a/serviceaccounts"),
            ("", "/api/v1/namespaces/a/configmaps"),
            ("", "/apis/example.com/v1/namespaces/a/secrets"),
        ] {
            assert_eq!(level(rule, path), Level::RequestResponse, "{rule} {path}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_a_line() {
        let rules = |rules: &str| format!("{HEAD}rules:\n- {rules}\n");
        for (text, expected) in [
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1beta1\n".to_owned(),
                "a Policy of audit.k8s.io/v1 is expected, not a \"Policy\" of \"audit.k8s.io/v1beta1\"",
            ),
            (HEAD.to_owned(), "a policy without rules"),
            (rules("verbs: [get]"), "rules[0].level: one of None, Metadata, Request and RequestResponse is required"),
            (
                rules("{level: None, nonResourceURLs: [/a], namespaces: [b]}"),
                "rules[0].nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs",
            ),
            (
                rules("{level: None, nonResourceURLs: [healthz]}"),
                "rules[0].nonResourceURLs: \"healthz\": rules must begin with '/' or be '*'",
            ),
            (
                rules("{level: None, nonResourceURLs: [/a*/b]}"),
                "rules[0].nonResourceURLs: \"/a*/b\": '*' must be the last character",
            ),
            (
                rules("{level: None, resources: [{group: apps/v1}]}"),
                "rules[0].resources: \"apps/v1\": a group without its version is expected",
            ),
            (
                rules("{level: None, resources: [{resourceNames: [a]}]}"),
                "rules[0].resources: using resourceNames requires at least one resource",
            ),
        ] {
            assert_eq!(Policy::parse(&text).unwrap_err().to_string(), expected);
        }
        for text in [rules("level: All"), rules("{level: None, user: [ann]}"), "rules: 1".to_owned()] {
            assert!(Policy::parse(&text).unwrap_err().to_string().starts_with("not an audit policy: "), "{text}");
        }
    }
}
