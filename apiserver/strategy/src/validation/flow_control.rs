//! Validates FlowSchemas and PriorityLevelConfigurations.
//!
//! Corresponds to pkg/apis/flowcontrol/validation.

use crate::validation::flow_schemas;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

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
    check_mandatory("flowschemas", schema, errors);
    conditions(schema, errors);
}

/// Checks that the spec of a mandatory object has its fixed value. Of the exempt level, `spec.exempt` may change.
fn check_mandatory(resource: &str, object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let name = object.down("metadata.name").text();
    if (resource, name) == ("prioritylevelconfigurations", "exempt") {
        if spec.field("type").text() != "Exempt" || spec.field("limited").is_set() {
            let why = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
            errors.push(spec.invalid(why));
        }
        return;
    }
    let Some(mandatory) = flow_schemas::mandatory(resource, name) else { return };
    if mandatory["spec"] != *spec.value {
        errors.push(spec.invalid(format!("spec of '{name}' must equal the fixed value")));
    }
}

pub fn status(_context: &Context<'_>, object: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    conditions(object, errors);
}

/// Checks that the types of conditions are set and unique.
fn conditions(object: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in object.down("status.conditions").items() {
        let kind = condition.field("type");
        if !seen.insert(kind.text()) {
            errors.push(At::new(kind.path.clone(), &json!(kind.text())).duplicate());
        }
        if kind.is_empty() {
            errors.push(kind.required("must not be empty"));
        }
    }
}

fn flow_rule(rule: &At<'_>, errors: &mut Errors) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    subjects.items().for_each(|subject| flow_subject(&subject, errors));
    let (resources, urls) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.push(rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    resources.items().for_each(|rule| flow_resource_rule(&rule, errors));
    urls.items().for_each(|rule| flow_url_rule(&rule, errors));
}

/// Returns a `not_supported` error for a text that may be absent.
fn unsupported(at: &At<'_>, supported: &[&str]) -> FieldError {
    FieldError::not_supported(at.path.clone(), &json!(at.text()), supported)
}

const SUBJECTS: [(&str, &str); 3] = [("User", "user"), ("Group", "group"), ("ServiceAccount", "serviceAccount")];

/// Checks that a subject has the field of its kind, and no field of another kind.
fn flow_subject(subject: &At<'_>, errors: &mut Errors) {
    let kind = subject.field("kind");
    let Some((_, field)) = SUBJECTS.iter().find(|(known, _)| *known == kind.text()) else {
        errors.push(unsupported(&kind, &["Group", "ServiceAccount", "User"]));
        return;
    };
    let identity = subject.field(field);
    let name = identity.field("name");
    if !identity.is_set() {
        errors.push(identity.required(&format!("{field} is required when subject kind is '{}'", kind.text())));
    } else if name.is_empty() {
        errors.push(name.required(""));
    } else if *field == "serviceAccount" && name.text() != "*" {
        name.check(names::dns1123_subdomain, errors);
    }
    if *field == "serviceAccount" && identity.is_set() {
        let namespace = identity.field("namespace");
        match namespace.is_empty() {
            true => errors.push(namespace.required("must specify namespace for service account")),
            false => namespace.check(names::dns1123_label, errors),
        }
    }
    // Kubernetes checks the other fields in this order.
    for other in ["serviceAccount", "user", "group"].iter().filter(|other| *other != field) {
        if subject.field(other).is_set() {
            let (other_kind, _) = SUBJECTS.iter().find(|(_, field)| field == other).unwrap_or(&SUBJECTS[0]);
            errors.push(
                subject.field(other).forbidden(format!("{other} is forbidden when subject kind is not '{other_kind}'")),
            );
        }
    }
}

fn has_wildcard(list: &At<'_>) -> bool {
    list.items().any(|item| item.text() == "*")
}

/// Checks that a list is not empty, and that `*` is its only item if it has one.
fn check_wildcard(list: &At<'_>, missing: &str, others: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(missing));
    } else if list.len() > 1 && has_wildcard(list) {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {others}")));
    }
}

const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn flow_verbs(verbs: &At<'_>, errors: &mut Errors) {
    check_wildcard(verbs, "verbs must contain at least one value", "verbs", errors);
    if !has_wildcard(verbs) && verbs.items().any(|verb| !VERBS.contains(&verb.text())) {
        errors.push(verbs.not_supported(VERBS));
    }
}

fn flow_resource_rule(rule: &At<'_>, errors: &mut Errors) {
    flow_verbs(&rule.field("verbs"), errors);
    check_wildcard(&rule.field("apiGroups"), "resource rules must supply at least one api group", "api groups", errors);
    check_wildcard(&rule.field("resources"), "resource rules must supply at least one resource", "resources", errors);
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").is_true() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(why));
    } else if has_wildcard(&namespaces) {
        check_wildcard(&namespaces, "", "namespaces", errors);
    } else {
        for namespace in namespaces.items() {
            let complaints = names::dns1123_label(namespace.text()).into_iter();
            let label = "each member of this list must be '*' or a DNS-1123 label; ";
            errors.extend(complaints.map(|complaint| namespace.invalid(format!("{label}{complaint}"))));
        }
    }
}

fn flow_url_rule(rule: &At<'_>, errors: &mut Errors) {
    flow_verbs(&rule.field("verbs"), errors);
    let urls = rule.field("nonResourceURLs");
    check_wildcard(&urls, "nonResourceURLs must contain at least one value", "non-resource URLs", errors);
    for url in urls.items().filter(|_| !has_wildcard(&urls)) {
        let text = url.text();
        let stars = text.matches('*').count();
        let complaint = match text {
            "" => "must not be empty",
            "/" => continue,
            _ if !text.starts_with('/') => "must start with slash",
            _ if text.contains(' ') => "must not contain white-space",
            _ if text.contains("//") => "must not contain double slash",
            _ if stars > 1 || (stars == 1 && !text.ends_with("/*")) => "wildcard can only do suffix matching",
            _ => continue,
        };
        errors.push(url.invalid(complaint));
    }
}

/// Annotation in which v1beta3 keeps a value that its field cannot express.
const PRESERVE_ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub fn priority_level(_context: &Context<'_>, level: &At<'_>, errors: &mut Errors) {
    let annotations = level.down("metadata.annotations");
    if annotations.field(PRESERVE_ZERO_SHARES).is_set() {
        errors.push(annotations.forbidden(format!("annotation '{PRESERVE_ZERO_SHARES}' is forbidden")));
    }
    let spec = level.field("spec");
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    if (level.down("metadata.name").text() == "exempt") != (kind.text() == "Exempt") {
        errors.push(kind.invalid_text("type must be 'Exempt' if and only if name is 'exempt'"));
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
            shares(&exempt, errors);
            lendable(&exempt, errors);
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
    check_mandatory("prioritylevelconfigurations", level, errors);
    conditions(level, errors);
}

fn shares(level: &At<'_>, errors: &mut Errors) {
    let shares = level.field("nominalConcurrencyShares");
    if shares.integer().is_some_and(|shares| shares < 0) {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
}

fn lendable(level: &At<'_>, errors: &mut Errors) {
    let lendable = level.field("lendablePercent");
    if lendable.integer().is_some_and(|percent| !(0..=100).contains(&percent)) {
        errors.push(lendable.invalid("must be between 0 and 100, inclusive"));
    }
}

fn limited_level(limited: &At<'_>, errors: &mut Errors) {
    shares(limited, errors);
    limit_response(&limited.field("limitResponse"), errors);
    lendable(limited, errors);
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.integer().is_some_and(|percent| percent < 0) {
        errors.push(borrowing.invalid("if specified, must be a non-negative integer"));
    }
}

fn limit_response(response: &At<'_>, errors: &mut Errors) {
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
            queues(&queuing, errors);
        }
        _ => errors.push(unsupported(&kind, &["Queue", "Reject"])),
    }
}

const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash from which shuffle sharding chooses the queues of a flow.
const HASH_BITS: i64 = 60;

fn queues(queuing: &At<'_>, errors: &mut Errors) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|field| queuing.field(field));
    let number = |at: &At<'_>| at.integer().unwrap_or(0);
    for at in [&length, &queues] {
        if number(at) <= 0 {
            errors.push(at.invalid_as(&json!(number(at)), "must be positive"));
        }
    }
    let (deck_size, hand_size) = (number(&queues), number(&hand));
    if deck_size > MAX_QUEUES {
        errors.push(queues.invalid(format!("must not be greater than {MAX_QUEUES}")));
    }
    if hand_size <= 0 {
        errors.push(hand.invalid_as(&json!(hand_size), "must be positive"));
    } else if hand_size > deck_size {
        errors.push(hand.invalid(format!("should not be greater than queues ({deck_size})")));
    } else if ((deck_size as f64).log2() * hand_size as f64).ceil() as i64 > HASH_BITS {
        errors.push(hand.invalid(format!(
            "required entropy bits of deckSize {deck_size} and handSize {hand_size} should not be greater than {HASH_BITS}"
        )));
    }
}

#[cfg(test)]
mod tests;
