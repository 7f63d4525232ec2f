//! Objects that can be decoded but not stored: names, namespaces, required fields, stale and foreign identities.

use super::{CONFIG_MAPS, Case, DEPLOYMENTS};
use e2e::raw_request::RawRequest;

const THERE: &str = "/api/v1/namespaces/default/configmaps/there";
const MERGE: &str = "application/merge-patch+json";

pub fn cases() -> Vec<Case> {
    let mut cases = new_objects();
    cases.extend(changes());
    cases
}

fn new_objects() -> Vec<Case> {
    let create = |body: &str| RawRequest::post(CONFIG_MAPS, body);
    vec![
        Case::invalid(
            create(r#"{"data":{"a":"b"}}"#),
            r#"ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required"#,
        ),
        Case::invalid(
            create(r#"{"metadata":{"name":"A_b"}}"#),
            r#"ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
        ),
        Case::bad_request(
            create(r#"{"metadata":{"name":"a","namespace":"elsewhere"}}"#),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        Case::new(
            RawRequest::post("/api/v1/namespaces/nowhere/configmaps", r#"{"metadata":{"name":"a"}}"#),
            404,
            "NotFound",
            r#"namespaces "nowhere" not found"#,
        ),
        Case::new(
            create(r#"{"metadata":{"name":"there"}}"#),
            409,
            "AlreadyExists",
            r#"configmaps "there" already exists"#,
        ),
        Case::new(
            create(r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#),
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ),
        // One answer lists all errors.
        Case::invalid(
            RawRequest::post(DEPLOYMENTS, r#"{"metadata":{"name":"d"},"spec":{"replicas":-1}}"#),
            r#"Deployment.apps "d" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]"#,
        ),
    ]
}

fn changes() -> Vec<Case> {
    let update = |body: &str| RawRequest::put(THERE, body);
    let patch = |body: &str| RawRequest::patch(THERE, MERGE, body);
    let stale = r#"Operation cannot be fulfilled on configmaps "there": the object has been modified; please apply your changes to the latest version and try again"#;
    vec![
        Case::new(update(r#"{"metadata":{"name":"there","resourceVersion":"1"}}"#), 409, "Conflict", stale),
        Case::new(patch(r#"{"metadata":{"resourceVersion":"1"}}"#), 409, "Conflict", stale),
        Case::new(update(r#"{"metadata":{"name":"there","resourceVersion":"abc"}}"#), 500, "", "…"),
        Case::bad_request(
            update(r#"{"metadata":{"name":"other"}}"#),
            "the name of the object (other) does not match the name on the URL (there)",
        ),
        Case::bad_request(
            update("{}"),
            "the name of the object (there based on URL) was undeterminable: name must be provided",
        ),
        Case::invalid(
            patch(r#"{"metadata":{"uid":"x"}}"#),
            r#"ConfigMap "there" is invalid: metadata.uid: Invalid value: "x": field is immutable"#,
        ),
        Case::new(
            RawRequest::patch(THERE, "application/json-patch+json", r#"[{"op":"test","path":"/data/a","value":"2"}]"#),
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        Case::new(
            RawRequest::delete(THERE, r#"{"preconditions":{"uid":"x"}}"#),
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on ConfigMap "there": the UID in the precondition (x) does not match the UID in record (…"#,
        ),
        Case::new(
            RawRequest::patch(&format!("{CONFIG_MAPS}/gone"), MERGE, "{}"),
            404,
            "NotFound",
            r#"configmaps "gone" not found"#,
        ),
        Case::new(
            RawRequest::delete(&format!("{CONFIG_MAPS}/gone"), ""),
            404,
            "NotFound",
            r#"configmaps "gone" not found"#,
        ),
    ]
}
