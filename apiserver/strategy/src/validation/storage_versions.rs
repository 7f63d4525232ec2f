//! Validates StorageVersions: the names of resources, and what each API server reports.
//!
//! Corresponds to pkg/apis/apiserverinternal/validation.

use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;
use std::collections::BTreeMap;

type Context<'a> = WriteContext<'a>;

/// Checks a name of the form `<group>.<resource>`.
pub fn name(name: &str, _is_prefix: bool) -> Vec<String> {
    let Some((group, resource)) = name.rsplit_once('.') else {
        return vec!["name must be in the form of <group>.<resource>".to_owned()];
    };
    let of_group = names::dns1123_subdomain(group).into_iter().map(|fault| format!("the group segment {fault}"));
    let of_resource = names::dns1035_label(resource).into_iter().map(|fault| format!("the resource segment {fault}"));
    of_group.chain(of_resource).collect()
}

pub fn create(_context: &Context<'_>, version: &At<'_>, errors: &mut Errors) {
    check_status(&version.field("status"), errors);
}

pub fn status(_context: &Context<'_>, version: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    check_status(&version.field("status"), errors);
}

fn check_status(status: &At<'_>, errors: &mut Errors) {
    for record in status.field("storageVersions").items() {
        check_record(&record, errors);
    }
    check_common_version(status, errors);
    check_conditions(status, errors);
}

/// Checks what one server reports.
fn check_record(record: &At<'_>, errors: &mut Errors) {
    record.field("apiServerID").check(names::dns1123_subdomain, errors);
    let encoding = record.field("encodingVersion");
    errors.extend(version_fault(encoding.text()).map(|fault| encoding.invalid_text(fault)));
    let decodable = record.field("decodableVersions");
    for version in decodable.items() {
        errors.extend(version_fault(version.text()).map(|fault| version.invalid_text(fault)));
    }
    if !decodable.items().any(|version| version.text() == encoding.text()) {
        let why = format!("decodableVersions must include encodingVersion {}", encoding.text());
        errors.push(decodable.invalid(why));
    }
}

/// Checks that the common version is the one on which all servers agree.
fn check_common_version(status: &At<'_>, errors: &mut Errors) {
    let mut reported = status.field("storageVersions").items().map(|record| record.field("encodingVersion").text());
    let agreed = reported.next().filter(|first| reported.all(|other| other == *first));
    let common = status.field("commonEncodingVersion");
    let fault = match (agreed, common.is_set()) {
        (None, true) => "should be nil if servers do not agree on the same encoding version, or if there is no server \
                         reporting the supported versions yet"
            .to_owned(),
        (Some(agreed), false) => format!("the common encoding version is {agreed}"),
        (Some(agreed), true) if agreed != common.text() => format!("the actual common encoding version is {agreed}"),
        _ => return,
    };
    errors.push(common.invalid(fault));
}

fn check_conditions(status: &At<'_>, errors: &mut Errors) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, condition) in status.field("conditions").items().enumerate() {
        // Kubernetes leaves the name of the list out of these paths.
        let condition = condition.shown_at(format!("{}[{index}]", status.path));
        let kind = condition.field("type");
        if let Some(first) = seen.insert(kind.text(), index) {
            let why = format!("the type of the condition is not unique, it also appears in conditions[{first}]");
            errors.push(kind.invalid_text(why));
        }
        kind.check(names::qualified_name, errors);
        let state = condition.field("status");
        let faults = names::qualified_name(state.text()).into_iter();
        errors.extend(faults.map(|fault| state.invalid_as(&json!(kind.text()), fault)));
        for field in ["reason", "message"] {
            if condition.field(field).is_empty() {
                errors.push(condition.field(field).required(&format!("{field} cannot be empty")));
            }
        }
    }
}

/// Returns the faults of `version` or `group/version`.
fn version_fault(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    let (group, version) = match parts[..] {
        [version] => (None, version),
        [group, version] => (Some(group), version),
        _ => {
            return Some(
                "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start \
                 with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
                 used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyVersion')"
                    .to_owned(),
            );
        }
    };
    let faults = |part: &str, text: &str, rule: fn(&str) -> Vec<String>| -> Vec<String> {
        let faults = if text.is_empty() { vec!["must be non-empty".to_owned()] } else { rule(text) };
        faults.into_iter().map(|fault| format!("{part} part: {fault}")).collect()
    };
    let mut all = group.map(|group| faults("group", group, names::dns1123_subdomain)).unwrap_or_default();
    all.extend(faults("version", version, names::dns1035_label));
    (!all.is_empty()).then(|| all.join(","))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update_of};
    use serde_json::{Value, json};

    fn version(name: &str, status: Value) -> Value {
        json!({
            "apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion", "metadata": {"name": name},
            "spec": {}, "status": status,
        })
    }

    #[test]
    fn the_name_has_a_group_and_a_resource() {
        assert_eq!(create(version("apps.deployments", json!({}))), [""; 0]);
        assert_eq!(
            create(version("deployments", json!({}))),
            ["metadata.name: Invalid value: \"deployments\": name must be in the form of <group>.<resource>"]
        );
    }

    #[test]
    fn the_common_version_is_that_of_all_servers() {
        let record = |server: &str, version: &str| json!({"apiServerID": server, "encodingVersion": version, "decodableVersions": [version]});
        let errors = |records: &[Value], common: Option<&str>| {
            let mut status = json!({"storageVersions": records});
            if let Some(common) = common {
                status["commonEncodingVersion"] = json!(common);
            }
            update_of("status", version("apps.deployments", json!({})), version("apps.deployments", status))
        };
        let (one, two, other) = (record("a", "apps/v1"), record("b", "apps/v1"), record("b", "apps/v2"));
        let field = "status.commonEncodingVersion: Invalid value:";
        assert_eq!(errors(&[one.clone(), two], Some("apps/v1")), [""; 0]);
        assert_eq!(errors(&[one.clone(), other.clone()], None), [""; 0]);
        assert_eq!(
            errors(&[one.clone(), other], Some("apps/v1")),
            [format!(
                "{field} \"apps/v1\": should be nil if servers do not agree on the same encoding version, or if there is no \
                 server reporting the supported versions yet"
            )]
        );
        assert_eq!(errors(&[one], None), [format!("{field} null: the common encoding version is apps/v1")]);
        let mut odd = record("A_", "apps/");
        odd["decodableVersions"] = json!(["v1"]);
        let found = errors(&[odd], Some("apps/"));
        let at = "status.storageVersions[0]";
        assert!(found[0].starts_with(&format!("{at}.apiServerID: Invalid value: \"A_\": a lowercase")), "{found:?}");
        assert_eq!(
            found[1..],
            [
                format!("{at}.encodingVersion: Invalid value: \"apps/\": version part: must be non-empty"),
                format!(
                    "{at}.decodableVersions: Invalid value: [\"v1\"]: decodableVersions must include encodingVersion apps/"
                ),
            ]
        );
    }
}
