//! Roles and bindings, signing requests, flow control.
//!
//! Corresponds to pkg/apis/rbac/validation, pkg/apis/certificates/validation and pkg/apis/flowcontrol/validation.

use super::at::{At, Errors};
use super::selector;
use crate::bootstrap::flow_schemas;
use crate::registry::strategy::WriteContext;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub fn role(context: &Context<'_>, role: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    for rule in role.field("rules").items() {
        policy_rule(&rule, namespaced, errors);
    }
    let aggregation = role.field("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for one in selectors.items() {
        selector::check(&one, errors);
        if selector::is_unreadable(&one) {
            errors.push(one.invalid_as(&Value::Null, "invalid label selector."));
        }
    }
}

fn policy_rule(rule: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let [verbs, groups, resources, urls] =
        ["verbs", "apiGroups", "resources", "nonResourceURLs"].map(|field| rule.field(field));
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    if !urls.is_empty() {
        if namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        let names = rule.field("resourceNames");
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

pub fn binding(context: &Context<'_>, binding: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    let role = binding.field("roleRef");
    if role.field("apiGroup").text() != RBAC_GROUP {
        errors.push(unsupported(&role.field("apiGroup"), &[RBAC_GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.field("kind").text()) {
        errors.push(unsupported(&role.field("kind"), kinds));
    }
    role.field("name").check_required(names::path_segment, errors);
    binding.field("subjects").items().for_each(|subject| self::subject(&subject, namespaced, errors));
}

/// `not_supported` for a text that may be absent.
fn unsupported(at: &At<'_>, supported: &[&str]) -> FieldError {
    FieldError::not_supported(at.path.clone(), &json!(at.text()), supported)
}

fn subject(subject: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (kind, name, group) = (subject.field("kind"), subject.field("name"), subject.field("apiGroup"));
    if name.is_empty() {
        errors.push(name.required(""));
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.check(names::dns1123_subdomain, errors);
            }
            if !group.is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            if !namespaced && subject.field("namespace").is_empty() {
                errors.push(subject.field("namespace").required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != RBAC_GROUP {
                errors.push(unsupported(&group, &[RBAC_GROUP]));
            }
        }
        _ => errors.push(unsupported(&kind, &["ServiceAccount", "User", "Group"])),
    }
}

pub fn binding_update(_context: &Context<'_>, binding: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if binding.field("roleRef").value != old.field("roleRef").value {
        errors.push(binding.field("roleRef").invalid("cannot change roleRef"));
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub fn signing_request(_context: &Context<'_>, request: &At<'_>, errors: &mut Errors) {
    let spec = request.field("spec");
    let pem = spec.field("request");
    if !is_certificate_request(pem.text()) {
        errors.push(pem.invalid_text("PEM block type must be CERTIFICATE REQUEST"));
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !USAGES.contains(&usage.text()) {
            errors.push(usage.not_supported(USAGES));
        }
        if !seen.insert(usage.text()) {
            errors.push(usage.duplicate());
        }
    }
    signer_name(&spec.field("signerName"), errors);
    let expiry = spec.field("expirationSeconds");
    if expiry.integer().is_some_and(|s| s < 600) {
        errors.push(expiry.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    conditions(request, errors);
}

fn is_certificate_request(base64: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(base64) else { return false };
    let Some(pem) = x509_parser::pem::Pem::iter_from_buffer(&bytes).next().and_then(Result::ok) else { return false };
    pem.label == "CERTIFICATE REQUEST"
}

fn signer_name(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let Some((domain, path)) = at.text().split_once('/') else {
        errors.push(at.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'"));
        return;
    };
    let mut complaints = names::dns1123_subdomain(domain);
    if complaints.is_empty() && domain.split('.').count() < 2 {
        complaints.push("should be a domain with at least two segments separated by dots".to_owned());
    }
    complaints.extend(names::dns1123_subdomain(path));
    errors.extend(complaints.into_iter().map(|complaint| at.invalid(complaint)));
}

fn conditions(request: &At<'_>, errors: &mut Errors) {
    let list = request.down("status.conditions");
    let mut seen = BTreeSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() {
            errors.push(kind.required(""));
        }
        match (kind.text(), status.text()) {
            (_, "") => errors.push(status.required("")),
            ("Approved" | "Denied" | "Failed", text) if text != "True" => {
                errors.push(status.not_supported(&["True"]));
            }
            (_, "True" | "False" | "Unknown") => {}
            _ => errors.push(status.not_supported(&["True", "False", "Unknown"])),
        }
        if !seen.insert(kind.text()) {
            errors.push(At::new(condition.path.clone(), kind.value).duplicate());
        }
    }
    if seen.contains("Approved") && seen.contains("Denied") {
        errors.push(list.invalid_as(&json!("Denied"), "Approved and Denied conditions are mutually exclusive"));
    }
}

fn has_condition(request: &At<'_>, kind: &str) -> bool {
    request.down("status.conditions").items().any(|condition| condition.field("type").text() == kind)
}

/// Who decided stays on record; nobody but `approval` may decide.
fn guard(request: &At<'_>, old: &At<'_>, may_decide: bool, errors: &mut Errors) {
    let list = request.down("status.conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        let (now, before) = (has_condition(request, kind), has_condition(old, kind));
        if before && !now {
            errors.push(list.forbidden(format!("updates may not remove a condition of type {kind:?}")));
        }
        if now && !before && !may_decide && kind != "Failed" {
            errors.push(list.forbidden(format!("updates may not add a condition of type {kind:?}")));
        }
    }
}

pub fn signing_request_update(context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    guard(request, old, context.subresource == "approval", errors);
    if context.subresource == "approval" {
        conditions(request, errors);
    }
}

pub fn signing_request_status(_context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    guard(request, old, false, errors);
    conditions(request, errors);
    let certificate = request.down("status.certificate");
    let before = old.down("status.certificate");
    if certificate.value == before.value {
        return;
    }
    let shown = json!("<certificate data>");
    if !before.is_empty() {
        errors.push(certificate.forbidden("updates may not set certificate content twice"));
    }
    let decoded = STANDARD.decode(certificate.text()).unwrap_or_default();
    let blocks: Vec<_> = x509_parser::pem::Pem::iter_from_buffer(&decoded).filter_map(Result::ok).collect();
    if blocks.is_empty() {
        errors.push(certificate.invalid_as(&shown, "must contain at least one CERTIFICATE PEM block"));
    } else if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        errors.push(certificate.invalid_as(&shown, "only CERTIFICATE PEM blocks are allowed"));
    }
}

const MAX_PRECEDENCE: i64 = 10_000;

pub fn flow_schema(_context: &Context<'_>, schema: &At<'_>, errors: &mut Errors) {
    let spec = schema.field("spec");
    let precedence = spec.field("matchingPrecedence");
    match precedence.integer().unwrap_or(0) {
        number if number <= 0 => errors.push(precedence.invalid_as(&json!(number), "must be a positive value")),
        number if number > MAX_PRECEDENCE => {
            errors.push(precedence.invalid(format!("must not be greater than {MAX_PRECEDENCE}")));
        }
        1 if schema.down("metadata.name").text() != "exempt" => {
            errors.push(precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1"));
        }
        _ => {}
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() && !["ByNamespace", "ByUser"].contains(&method.field("type").text()) {
        let kind = method.field("type");
        let shown = kind.text();
        errors.push(FieldError {
            field: kind.path.clone(),
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {{\"Type\":{shown:?}}}: supported values: \"ByNamespace\", \"ByUser\""
            ),
        });
    }
    let level = spec.down("priorityLevelConfiguration.name");
    if level.is_empty() {
        errors.push(level.required("must reference a priority level"));
    } else {
        level.check(names::dns1123_subdomain, errors);
    }
    spec.field("rules").items().for_each(|rule| flow_rule(&rule, errors));
    fixed("flowschemas", schema, errors);
}

/// What the server cannot do without has one form.
fn fixed(resource: &str, object: &At<'_>, errors: &mut Errors) {
    let name = object.down("metadata.name").text();
    if let Some(mandatory) = flow_schemas::mandatory(resource, name)
        && mandatory["spec"] != *object.field("spec").value
    {
        errors.push(object.field("spec").invalid(format!("spec of '{name}' must equal the fixed value")));
    }
}

fn flow_rule(rule: &At<'_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    for subject in subjects.items() {
        let kind = subject.field("kind");
        let field = match kind.text() {
            "User" => "user",
            "Group" => "group",
            "ServiceAccount" => "serviceAccount",
            _ => {
                errors.push(kind.not_supported(&["Group", "ServiceAccount", "User"]));
                continue;
            }
        };
        let who = subject.field(field);
        if !who.is_set() {
            errors.push(who.required(&format!("{field} is required when subject kind is '{}'", kind.text())));
        } else if who.field("name").is_empty() {
            errors.push(who.field("name").required(""));
        }
    }
    let (resources, urls) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.push(rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    resources.items().for_each(|rule| flow_resource_rule(&rule, errors));
    urls.items().for_each(|rule| flow_url_rule(&rule, errors));
}

/// `*` stands alone.
fn all_or_some(list: &At<'_>, missing: &str, others: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(missing));
    } else if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {others}")));
    }
}

fn flow_resource_rule(rule: &At<'_>, errors: &mut Errors) {
    all_or_some(&rule.field("verbs"), "resource rules must supply at least one verb", "verbs", errors);
    all_or_some(&rule.field("apiGroups"), "resource rules must supply at least one api group", "api groups", errors);
    all_or_some(&rule.field("resources"), "resource rules must supply at least one resource", "resources", errors);
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").is_true() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(why));
    } else if namespaces.len() > 1 && namespaces.items().any(|namespace| namespace.text() == "*") {
        errors.push(namespaces.invalid("if '*' is present, must not specify other namespaces"));
    }
}

fn flow_url_rule(rule: &At<'_>, errors: &mut Errors) {
    all_or_some(&rule.field("verbs"), "verbs must contain at least one value", "verbs", errors);
    let urls = rule.field("nonResourceURLs");
    all_or_some(&urls, "nonResourceURLs must contain at least one value", "non-resource URLs", errors);
    for url in urls.items().filter(|url| url.text() != "*") {
        let text = url.text();
        if text.is_empty() {
            errors.push(url.invalid("must not be empty"));
        } else if !text.starts_with('/') {
            errors.push(url.invalid("must start with slash"));
        } else if text.contains("//") {
            errors.push(url.invalid("must not contain double-slash"));
        } else if text.trim_end_matches('*').contains('*') || (text.contains('*') && !text.ends_with("/*")) {
            errors.push(url.invalid("wildcard can only do suffix matching"));
        }
    }
}

pub fn priority_level(_context: &Context<'_>, level: &At<'_>, errors: &mut Errors) {
    let spec = level.field("spec");
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
        }
        "Limited" => {
            if exempt.is_set() {
                errors.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if limited.is_set() {
                limited_level(&limited, errors);
            } else {
                errors.push(limited.required("must not be empty when type is Limited"));
            }
        }
        _ => errors.push(unsupported(&kind, &["Exempt", "Limited"])),
    }
    fixed("prioritylevelconfigurations", level, errors);
}

fn limited_level(limited: &At<'_>, errors: &mut Errors) {
    limited.field("nominalConcurrencyShares").check_non_negative(errors);
    let lendable = limited.field("lendablePercent");
    if lendable.integer().is_some_and(|percent| !(0..=100).contains(&percent)) {
        errors.push(lendable.invalid("must be between 0 and 100, inclusive"));
    }
    limited.field("borrowingLimitPercent").check_non_negative(errors);
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" => {
            if queuing.is_set() {
                errors.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
            }
        }
        "Queue" => {
            if !queuing.is_set() {
                errors.push(queuing.required("must not be empty if limited.limitResponse.type is Limited"));
                return;
            }
            for field in ["queueLengthLimit", "queues", "handSize"] {
                if queuing.field(field).integer().unwrap_or(0) <= 0 {
                    errors.push(queuing.field(field).invalid("must be positive"));
                }
            }
            let number = |field: &str| queuing.field(field).integer().unwrap_or(0);
            if number("handSize") > number("queues") {
                let why = format!("should not be greater than queues ({})", number("queues"));
                errors.push(queuing.field("handSize").invalid(why));
            }
        }
        "" => errors.push(kind.required("must specify a limit response type")),
        _ => errors.push(kind.not_supported(&["Queue", "Reject"])),
    }
}
