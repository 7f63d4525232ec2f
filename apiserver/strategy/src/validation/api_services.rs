//! Validates APIServices: group, version, priorities, and the service that serves them.
//!
//! Corresponds to kube-aggregator's pkg/apis/apiregistration/validation.

use super::conditions;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;

const MAX_GROUP_PRIORITY: i64 = 20_000;
const MAX_VERSION_PRIORITY: i64 = 1000;

pub fn api_service(_context: &WriteContext<'_>, service: &At<'_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let (group, version) = (spec.field("group"), spec.field("version"));
    let name = service.down("metadata.name");
    let expected = format!("{}.{}", version.text(), group.text());
    if name.text() != expected && names::path_segment(name.text()).is_empty() {
        errors.push(name.invalid(format!("must be `spec.version+\".\"+spec.group`: {expected:?}")));
    }
    if group.is_empty() && version.text() != "v1" {
        errors.push(group.required("only v1 may have an empty group and it better be legacy kube"));
    }
    if !group.is_empty() {
        group.check(names::dns1123_subdomain, errors);
    }
    version.check(names::dns1035_label, errors);
    for (field, max) in [("groupPriorityMinimum", MAX_GROUP_PRIORITY), ("versionPriority", MAX_VERSION_PRIORITY)] {
        let priority = spec.field(field).integer().unwrap_or(0);
        if !(1..=max).contains(&priority) {
            let why = format!("must be positive and less than {max}");
            errors.push(spec.field(field).invalid_as(&json!(priority), why));
        }
    }
    backend(&spec, errors);
}

pub fn status(_context: &WriteContext<'_>, service: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    for condition in service.down("status.conditions").items() {
        conditions::check_status(&condition, &["True", "False", "Unknown"], errors);
    }
}

/// Checks the service that serves the group and version, and how to verify it. Without a service, this server serves
/// them itself.
fn backend(spec: &At<'_>, errors: &mut Errors) {
    let (service, bundle, insecure) =
        (spec.field("service"), spec.field("caBundle"), spec.field("insecureSkipTLSVerify"));
    if !service.is_set() {
        if !bundle.is_empty() {
            let bytes = bundle.len() / 4 * 3 - bundle.text().bytes().rev().take_while(|b| *b == b'=').count();
            let shown = json!(format!("{bytes} bytes"));
            errors.push(bundle.invalid_as(&shown, "local APIServices may not have a caBundle"));
        }
        if insecure.is_true() {
            errors.push(insecure.invalid("local APIServices may not have insecureSkipTLSVerify"));
        }
        return;
    }
    for field in ["namespace", "name"] {
        if service.field(field).is_empty() {
            errors.push(service.field(field).required(""));
        }
    }
    let port = service.field("port");
    let number = port.integer().unwrap_or(0);
    if !(1..=65535).contains(&number) {
        errors.push(port.invalid_as(&json!(number), "port is not valid: must be between 1 and 65535, inclusive"));
    }
    if insecure.is_true() && !bundle.is_empty() {
        errors.push(insecure.invalid("may not be true if caBundle is present"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::create;
    use serde_json::{Value, json};

    fn service(name: &str, spec: Value) -> Vec<String> {
        let object = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": spec});
        create(object)
    }

    #[test]
    fn the_name_is_the_version_and_the_group() {
        let spec = |more: Value| {
            let mut spec =
                json!({"group": "x.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let other = json!({"service": {"namespace": "n", "name": "s"}});
        assert_eq!(service("v1.x.example", spec(other)), [""; 0]);
        assert_eq!(
            service("v2.x.example", spec(json!({}))),
            [
                "metadata.name: Invalid value: \"v2.x.example\": must be `spec.version+\".\"+spec.group`: \"v1.x.example\""
            ]
        );
        let odd = json!({"versionPriority": 0, "insecureSkipTLSVerify": true, "caBundle": "eA=="});
        assert_eq!(
            service("v1.x.example", spec(odd)),
            [
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                "spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ]
        );
        assert_eq!(
            service("v1.x.example", spec(json!({"service": {"port": 70000}}))),
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
            ]
        );
    }
}
