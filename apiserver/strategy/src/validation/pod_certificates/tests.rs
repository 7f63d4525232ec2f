//! Tests the errors of PodCertificateRequests: spec, key, and `status`.

use crate::testing::{at, create, update, update_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use component_base::certificate_request::node_request;
use serde_json::{Value, json};

/// Returns a request of P-256, DER in base64.
fn stub() -> String {
    let pem = pem::parse(node_request("a").expect("a key and a request").1).expect("PEM");
    STANDARD.encode(pem.contents())
}

fn request() -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest",
        "metadata": {"name": "r", "namespace": "shop"},
        "spec": {
            "signerName": "example.com/signer", "podName": "web", "podUID": "1", "serviceAccountName": "default",
            "serviceAccountUID": "2", "nodeName": "node-1", "nodeUID": "3", "stubPKCS10Request": stub(),
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut request = request();
    *at(&mut request, pointer) = value;
    request
}

#[test]
fn a_request_names_a_pod_and_has_a_key() {
    assert_eq!(create(request()), [""; 0]);
    let one =
        "spec: Invalid value: exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
    let range = |value: i64, longest: i64| {
        format!("spec.maxExpirationSeconds: Invalid value: {value}: must be in the range [3600, {longest}]")
    };
    let mut own = with("/spec/signerName", json!("kubernetes.io/kube-apiserver-client-pod"));
    own["spec"]["maxExpirationSeconds"] = json!(86_401);
    for (object, expected) in [
        (with("/spec/podUID", json!("")), "spec.podUID: Invalid value: \"\": must not be empty".to_owned()),
        (with("/spec/nodeUID", json!("u".repeat(129))), "spec.nodeUID: Too long: may not be more than 128 bytes".into()),
        (with("/spec/maxExpirationSeconds", json!(60)), range(60, 7_862_400)),
        (own, range(86_401, 86_400)),
        (with("/spec/stubPKCS10Request", json!(null)), one.to_owned()),
        (with("/spec/pkixPublicKey", json!("QQ==")), one.to_owned()),
        (
            with("/spec/stubPKCS10Request", json!("QQ==")),
            "spec.stubPKCS10Request: Invalid value: \"QQ==\": must be a valid PKCS#10 certificate signing request".into(),
        ),
        (
            with("/spec/unverifiedUserAnnotations", json!({"a": "b"})),
            "spec.unverifiedUserAnnotations: Invalid value: \"a\": must be a domain-prefixed key (such as \"acme.io/foo\")"
                .into(),
        ),
    ] {
        assert_eq!(create(object.clone()), [expected], "{object}");
    }
}

#[test]
fn the_spec_never_changes() {
    let mut changed = request();
    let old = changed.clone();
    changed["spec"]["podName"] = json!("other");
    let errors = update(old, changed);
    assert!(errors[0].ends_with("field is immutable") && errors[0].starts_with("spec: "), "{errors:?}");
}

#[test]
fn a_decision_is_final_and_a_certificate_fits_the_key() {
    let decided = |kind: &str, more: &Value| {
        let mut object = with("/status/conditions/0", json!(null));
        let condition = json!({
            "type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
        });
        object["status"] = json!({"conditions": [condition]});
        for (field, value) in more.as_object().into_iter().flatten() {
            object["status"][field] = value.clone();
        }
        object
    };
    let old = request();
    let errors = |new: Value| {
        // Each request has a key of its own, which the spec must keep.
        let mut new = new;
        new["spec"] = old["spec"].clone();
        update_of("status", old.clone(), new)
    };
    assert_eq!(errors(decided("Denied", &json!({}))), [""; 0]);
    assert_eq!(
        errors(decided("Denied", &json!({"certificateChain": "x"}))),
        [
            "status: Invalid value: non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        ]
    );
    assert_eq!(
        errors(decided("Odd", &json!({})))[0],
        "status.conditions.[0].type: Unsupported value: \"Odd\": supported values: \"Issued\", \"Denied\", \"Failed\""
    );
    assert_eq!(
        errors(decided("Issued", &json!({}))),
        [
            "status.certificateChain: Invalid value: \"\": issued certificate chain must contain at least one certificate"
        ]
    );
    let foreign = component_base_testing::fixtures::serving().cert_pem;
    let refused = errors(decided("Issued", &json!({"certificateChain": foreign})));
    assert!(refused[0].ends_with("leaf certificate was not issued to the requested public key"), "{refused:?}");
    let denied = decided("Denied", &json!({}));
    let mut again = denied.clone();
    again["status"]["conditions"] = json!([]);
    assert_eq!(
        update_of("status", denied, again),
        ["status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"]
    );
    let mut premature = old.clone();
    premature["status"] = json!({"certificateChain": "x"});
    assert_eq!(
        errors(premature),
        ["status: Invalid value: status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\""]
    );
}
