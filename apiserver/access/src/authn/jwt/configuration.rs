//! `AuthenticationConfiguration`: the accepted issuers of tokens, and the rules for anonymous requests.
//!
//! Corresponds to k8s.io/apiserver/pkg/apis/apiserver and ValidateAuthenticationConfiguration beside it.

use super::Settings;
use super::claims::{ClaimRules, Expression, Mapping, Subject, Validation};
use super::keys::Issuer;
use crate::configuration_file;
use cel::Type;
use component_base::tls;
use jsonwebtoken::Algorithm;
use proto::meta::status::FieldError;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

pub const KIND: &str = "AuthenticationConfiguration";
const MAX_ISSUERS: usize = 64;
/// Deviation: tokens that are signed by ES512 are not known.
const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// The validated content of a file.
#[derive(Debug, Default)]
pub struct Configuration {
    pub issuers: Vec<Settings>,
    /// `None` leaves the decision to `--anonymous-auth`.
    pub anonymous: Option<Anonymous>,
}

/// Rules for requests without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Anonymous {
    pub enabled: bool,
    /// The paths that are allowed; empty means every path.
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Condition {
    pub path: String,
}

impl Anonymous {
    pub fn allows(&self, path: &str) -> bool {
        self.enabled && (self.conditions.is_empty() || self.conditions.iter().any(|condition| condition.path == path))
    }
}

/// The fields of the file, before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    jwt: Vec<WrittenJwt>,
    anonymous: Option<Anonymous>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenJwt {
    pub issuer: WrittenIssuer,
    pub claim_validation_rules: Vec<WrittenRule>,
    pub claim_mappings: WrittenMappings,
    pub user_validation_rules: Vec<WrittenUserRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenIssuer {
    pub url: String,
    #[serde(rename = "discoveryURL")]
    pub discovery_url: String,
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    /// Accepted but unused: this server has no egress selector.
    pub egress_selector_type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenUserRule {
    pub expression: String,
    pub message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenMappings {
    pub username: WrittenMapping,
    pub groups: WrittenMapping,
    pub uid: WrittenUid,
    pub extra: Vec<WrittenExtra>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenMapping {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenUid {
    pub claim: String,
    pub expression: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenExtra {
    pub key: String,
    pub value_expression: String,
}

/// Parses and validates a file. `own_issuers`, those of this server's service account tokens, are not allowed in it.
pub fn parse(text: &str, own_issuers: &[String]) -> Result<Configuration, String> {
    let written: Written = configuration_file::parse(text, KIND)?;
    let mut errors = Vec::new();
    if written.jwt.len() > MAX_ISSUERS {
        errors.push(FieldError::too_many("jwt", written.jwt.len(), MAX_ISSUERS));
    }
    if let Some(anonymous) = written.anonymous.as_ref().filter(|a| !a.enabled && !a.conditions.is_empty()) {
        let paths: Vec<&str> = anonymous.conditions.iter().map(|condition| condition.path.as_str()).collect();
        let why = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid("anonymous.conditions", &json!(paths), why));
    }
    let mut seen = BTreeSet::new();
    let mut issuers = Vec::new();
    for (index, jwt) in written.jwt.into_iter().enumerate() {
        let field = format!("jwt[{index}]");
        if !jwt.issuer.url.is_empty() && !seen.insert(jwt.issuer.url.clone()) {
            errors.push(FieldError::duplicate(format!("{field}.issuer.url"), &json!(jwt.issuer.url)));
        }
        issuers.extend(jwt.checked(&field, own_issuers, &mut errors));
    }
    configuration_file::refusal(&errors)?;
    Ok(Configuration { issuers, anonymous: written.anonymous })
}

impl WrittenJwt {
    /// Validates one entry; returns `None` after adding to `errors`.
    pub fn checked(self, field: &str, own_issuers: &[String], errors: &mut Vec<FieldError>) -> Option<Settings> {
        let before = errors.len();
        let issuer = self.issuer.checked(&format!("{field}.issuer"), own_issuers, errors);
        let validations = validations(&self.claim_validation_rules, field, errors);
        let mut rules = mappings(self.claim_mappings, &format!("{field}.claimMappings"), errors);
        let mut seen = BTreeSet::new();
        for (index, rule) in self.user_validation_rules.iter().enumerate() {
            let field = format!("{field}.userValidationRules[{index}].expression");
            if !seen.insert(&rule.expression) {
                errors.push(FieldError::duplicate(&field, &json!(rule.expression)));
            }
            let compiled = compiled(&rule.expression, &rule.message, Subject::User, &[Type::Bool], field, errors);
            if let Some(rules) = &mut rules {
                rules.user_validations.extend(compiled);
            }
        }
        let mut rules = rules.filter(|_| errors.len() == before)?;
        rules.validations = validations;
        Some(Settings { issuer, audiences: self.issuer.audiences, algorithms: ALGORITHMS.to_vec(), rules })
    }
}

impl WrittenIssuer {
    fn checked(&self, field: &str, own_issuers: &[String], errors: &mut Vec<FieldError>) -> Issuer {
        let at = |name: &str| format!("{field}.{name}");
        match self.url.as_str() {
            "" => errors.push(FieldError::required(at("url"), "URL is required")),
            url => {
                check_url(url, at("url"), errors);
                if own_issuers.iter().any(|own| own == url) {
                    let why = format!("URL must not overlap with disallowed issuers: [{}]", own_issuers.join(" "));
                    errors.push(FieldError::invalid(at("url"), &json!(url), why));
                }
            }
        }
        if !self.discovery_url.is_empty() {
            check_url(&self.discovery_url, at("discoveryURL"), errors);
            if self.discovery_url.trim_end_matches('/') == self.url.trim_end_matches('/') {
                let why = "discoveryURL must be different from URL";
                errors.push(FieldError::invalid(at("discoveryURL"), &json!(self.discovery_url), why));
            }
        }
        if self.audiences.is_empty() {
            let field = at("audiences");
            errors.push(FieldError::required(&field, &format!("at least one {field} is required")));
        }
        let mut seen = BTreeSet::new();
        for (index, audience) in self.audiences.iter().enumerate() {
            let field = format!("{}[{index}]", at("audiences"));
            if audience.is_empty() {
                errors.push(FieldError::required(field, "audience is required"));
            } else if !seen.insert(audience) {
                errors.push(FieldError::duplicate(field, &json!(audience)));
            }
        }
        let policy = &self.audience_match_policy;
        let why = match (self.audiences.len(), policy.as_str()) {
            (_, "MatchAny") | (0 | 1, "") => None,
            (0 | 1, _) => Some("audienceMatchPolicy must be empty or MatchAny for single audience"),
            _ => Some("audienceMatchPolicy must be MatchAny for multiple audiences"),
        };
        errors.extend(why.map(|why| FieldError::invalid(at("audienceMatchPolicy"), &json!(policy), why)));
        let ca_pem = Some(self.certificate_authority.clone()).filter(|pem| !pem.is_empty());
        if let Some(Err(error)) = ca_pem.as_deref().map(|pem| tls::certificates("certificate authority", pem)) {
            errors.push(FieldError::invalid(at("certificateAuthority"), &json!("<omitted>"), error));
        }
        if !["", "controlplane", "cluster"].contains(&self.egress_selector_type.as_str()) {
            let supported = ["controlplane", "cluster"];
            let field = at("egressSelectorType");
            errors.push(FieldError::not_supported(field, &json!(self.egress_selector_type), &supported));
        }
        Issuer { url: self.url.clone(), discovery_url: self.discovery_url.clone(), ca_pem }
    }
}

fn check_url(url: &str, field: String, errors: &mut Vec<FieldError>) {
    let mut wrong = |why: &str| errors.push(FieldError::invalid(field.clone(), &json!(url), why));
    let Some((scheme, rest)) = url.split_once("://") else { return wrong("URL scheme must be https") };
    if scheme != "https" {
        wrong("URL scheme must be https");
    }
    if rest.split(['/', '?', '#']).next().unwrap_or_default().contains('@') {
        wrong("URL must not contain a username or password");
    }
    if rest.contains('?') {
        wrong("URL must not contain a query");
    }
    if rest.contains('#') {
        wrong("URL must not contain a fragment");
    }
}

fn compiled(
    text: &str,
    message: &str,
    subject: Subject,
    wanted: &[Type],
    field: String,
    errors: &mut Vec<FieldError>,
) -> Option<Expression> {
    if text.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is required"));
        return None;
    }
    let compiled = Expression::compile(text, message, subject, wanted);
    compiled.map_err(|why| errors.push(FieldError::invalid(field, &json!(text), why))).ok()
}

fn validations(rules: &[WrittenRule], field: &str, errors: &mut Vec<FieldError>) -> Vec<Validation> {
    let (mut claims, mut expressions, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let field = format!("{field}.claimValidationRules[{index}]");
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(field, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let why = "message can't be set when claim is set";
                    errors.push(FieldError::invalid(format!("{field}.message"), &json!(rule.message), why));
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(format!("{field}.claim"), &json!(claim)));
                }
                found.push(Validation::Required { claim: claim.to_owned(), value: rule.required_value.clone() });
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let why = "requiredValue can't be set when expression is set";
                    errors.push(FieldError::invalid(
                        format!("{field}.requiredValue"),
                        &json!(rule.required_value),
                        why,
                    ));
                }
                if !expressions.insert(expression) {
                    errors.push(FieldError::duplicate(format!("{field}.expression"), &json!(expression)));
                }
                let field = format!("{field}.expression");
                let compiled = compiled(expression, &rule.message, Subject::Claims, &[Type::Bool], field, errors);
                found.extend(compiled.map(Validation::Holds));
            }
            (claim, _) => {
                errors.push(FieldError::invalid(field, &json!(claim), "claim and expression can't both be set"));
            }
        }
    }
    found
}

fn mappings(written: WrittenMappings, field: &str, errors: &mut Vec<FieldError>) -> Option<ClaimRules> {
    let text_or_texts = [Type::String, Type::list(Type::String), Type::list(Type::Dyn)];
    let username = mapping(written.username, true, &[Type::String], format!("{field}.username"), errors);
    let groups = mapping(written.groups, false, &text_or_texts, format!("{field}.groups"), errors);
    let uid = WrittenMapping {
        prefix: Some(String::new()).filter(|_| !written.uid.claim.is_empty()),
        claim: written.uid.claim,
        expression: written.uid.expression,
    };
    let uid = mapping(uid, false, &[Type::String], format!("{field}.uid"), errors);
    let (mut seen, mut extra) = (BTreeSet::new(), Vec::new());
    for (index, one) in written.extra.into_iter().enumerate() {
        let field = format!("{field}.extra[{index}]");
        let key = format!("{field}.key");
        let domain = one.key.split_once('/').map(|(domain, _)| domain).unwrap_or_default();
        if one.key.is_empty() {
            errors.push(FieldError::required(key, ""));
        } else if domain.is_empty() {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid(key, &json!(one.key), why));
        } else if one.key.chars().any(char::is_uppercase) {
            errors.push(FieldError::invalid(key, &json!(one.key), "key must be lowercase"));
        } else if ["k8s.io", "kubernetes.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}"))) {
            let why = format!("{domain} is reserved for Kubernetes use");
            errors.push(FieldError::invalid(key, &json!(one.key), why));
        } else if !seen.insert(one.key.clone()) {
            errors.push(FieldError::duplicate(key, &json!(one.key)));
        }
        let field = format!("{field}.valueExpression");
        let compiled = compiled(&one.value_expression, "", Subject::Claims, &text_or_texts, field, errors);
        extra.extend(compiled.map(|expression| (one.key, expression)));
    }
    Some(ClaimRules { validations: Vec::new(), username: username?, groups, uid, extra, user_validations: Vec::new() })
}

fn mapping(
    written: WrittenMapping,
    is_required: bool,
    wanted: &[Type],
    field: String,
    errors: &mut Vec<FieldError>,
) -> Option<Mapping> {
    let prefix_field = format!("{field}.prefix");
    match (written.claim.as_str(), written.expression.as_str()) {
        ("", "") => {
            if is_required {
                errors.push(FieldError::required(field, "claim or expression is required"));
            } else if let Some(prefix) = written.prefix {
                let why = "prefix can't be set when claim is not set";
                errors.push(FieldError::invalid(prefix_field, &json!(prefix), why));
            }
            None
        }
        ("", expression) => {
            if let Some(prefix) = &written.prefix {
                let why = "prefix can't be set when expression is set";
                errors.push(FieldError::invalid(prefix_field, &json!(prefix), why));
            }
            let field = format!("{field}.expression");
            compiled(expression, "", Subject::Claims, wanted, field, errors).map(Mapping::Expression)
        }
        (claim, "") => {
            let Some(prefix) = written.prefix else {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(prefix_field, why));
                return None;
            };
            Some(Mapping::Claim { name: claim.to_owned(), prefix })
        }
        _ => {
            errors.push(FieldError::invalid(field, &json!(""), "claim and expression can't both be set"));
            None
        }
    }
}
