//! Tests the errors of CertificateSigningRequests: spec, `approval` and `status`.

use crate::testing::{at, create, update, update_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use component_base::certificate_request::node_request;
use component_base_testing::fixtures;
use serde_json::{Value, json};

fn pem_request() -> String {
    node_request("a").expect("a key and a request").1
}

fn request() -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "Any_Name"},
        "spec": {
            "request": STANDARD.encode(pem_request()), "usages": ["client auth"], "signerName": "example.com/signer",
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut request = request();
    *at(&mut request, pointer) = value;
    request
}

fn decided(types: &[(&str, &str)]) -> Value {
    let condition = |(kind, status): &(&str, &str)| match status.is_empty() {
        true => json!({"type": kind}),
        false => json!({"type": kind, "status": status}),
    };
    with("/status", json!({"conditions": types.iter().map(condition).collect::<Vec<_>>()}))
}

#[test]
fn the_request_is_pem_of_a_request_that_its_key_has_signed() {
    let errors_of = |pem: &str| create(with("/spec/request", json!(STANDARD.encode(pem))));
    assert_eq!(errors_of(&pem_request()), [""; 0]);
    let mut forged = pem::parse(pem_request()).expect("PEM").into_contents();
    // The last byte is the signature's.
    *forged.last_mut().expect("bytes") ^= 1;
    let of = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
    for (pem, why) in [
        (String::new(), "PEM block type must be CERTIFICATE REQUEST"),
        (of("CERTIFICATE", b"x"), "PEM block type must be CERTIFICATE REQUEST"),
        (of("CERTIFICATE REQUEST", b"x"), "asn1: structure error: not a certificate request"),
        (of("CERTIFICATE REQUEST", &forged), "x509: ECDSA verification failure"),
    ] {
        let shown = STANDARD.encode(&pem);
        assert_eq!(errors_of(&pem), [format!("spec.request: Invalid value: {shown:?}: {why}")]);
    }
}

#[test]
fn a_spec_is_checked_in_this_order() {
    let mut request = request();
    request["spec"] =
        json!({"request": "", "usages": ["any", "odd", "any"], "signerName": "", "expirationSeconds": 599});
    let errors = create(request.clone());
    let starts = [
        "spec.request: Invalid value: \"\": PEM block",
        "spec.usages[1]: Unsupported value: \"odd\": supported values: \"any\", \"cert sign\"",
        "spec.usages[2]: Duplicate value: \"any\"",
        "spec.signerName: Required value",
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:?}");
    errors.iter().zip(starts).for_each(|(error, start)| assert!(error.starts_with(start), "{error}"));
    // Invalid values of the old object may stay, except its request.
    assert_eq!(update(with("/spec/usages", json!(["odd", "odd"])), self::request()), [""; 0]);
    assert_eq!(update(with("/spec/signerName", json!("kubernetes.io/legacy-unknown")), self::request()), [""; 0]);
    assert_eq!(update_of("approval", with("/spec/usages", json!(["odd"])), self::request()), [""; 0]);
}

#[test]
fn a_signer_is_a_domain_and_a_path() {
    let signer = |name: &str| create(with("/spec/signerName", json!(name)));
    assert_eq!(signer("example.com/a.b"), [""; 0]);
    assert_eq!(
        signer("kubernetes.io/legacy-unknown"),
        [
            "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this \
             API version"
        ]
    );
    assert_eq!(
        signer("short/x"),
        ["spec.signerName: Invalid value: \"short\": should be a domain with at least two segments separated by dots"]
    );
    let three = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    assert_eq!(signer("a.b/c/d"), [format!("spec.signerName: Invalid value: \"a.b/c/d\": {three}")]);
    // Only the first invalid label of each part is reported.
    let errors = signer("Ex.Com/-.-");
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].starts_with("spec.signerName: Invalid value: \"Ex.Com\": validating label \"Ex\": a lowercase"));
    assert!(errors[1].starts_with("spec.signerName: Invalid value: \"-.-\": validating label \"-\": a lowercase"));
    let long = format!("example.com/{}", vec!["a".repeat(200); 3].join("."));
    assert_eq!(signer(&long), ["spec.signerName: Too long: may not be more than 571 bytes"]);
}

#[test]
fn conditions_are_checked_in_this_order() {
    let approve = |types: &[(&str, &str)]| update_of("approval", request(), decided(types));
    assert_eq!(approve(&[("Approved", "True"), ("Other", "Unknown")]), [""; 0]);
    assert_eq!(
        approve(&[("", "Odd"), ("Approved", "False"), ("Denied", ""), ("Approved", "True"), ("Failed", "Unknown")]),
        [
            "status.conditions[0].type: Required value",
            "status.conditions[0].status: Unsupported value: \"Odd\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
            "status.conditions[2].status: Required value",
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            "status.conditions: Invalid value: \"Approved\": Approved and Denied conditions are mutually exclusive",
            "status.conditions[3].type: Duplicate value: \"Approved\"",
            "status.conditions[4].status: Unsupported value: \"Unknown\": supported values: \"True\"",
        ]
    );
    let both = decided(&[("Approved", "True"), ("Denied", "True"), ("Denied", "True")]);
    assert_eq!(update_of("approval", both.clone(), both), [""; 0]);
}

#[test]
fn decisions_stay_and_only_approval_decides() {
    let undecided = || decided(&[("Other", "True")]);
    let all = || decided(&[("Failed", "True"), ("Denied", "True")]);
    let gone =
        |kind: &str| format!("status.conditions: Forbidden: updates may not remove a condition of type {kind:?}");
    for part in ["approval", "status"] {
        assert_eq!(update_of(part, all(), undecided()), [gone("Denied"), gone("Failed")], "{part}");
    }
    let added = "status.conditions: Forbidden: updates may not add a condition of type \"Denied\"";
    assert_eq!(update_of("status", undecided(), all()), [added]);
    assert_eq!(update_of("approval", undecided(), all()), [""; 0]);
    // An update of the status does not change a decision.
    let mut reworded = all();
    reworded["status"]["conditions"][1]["message"] = json!("because");
    reworded["status"]["conditions"][1]["status"] = json!("False");
    assert_eq!(update_of("status", all(), reworded.clone()), [""; 0]);
    assert_eq!(
        update_of("approval", all(), reworded),
        ["status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\""]
    );
}

#[test]
fn a_certificate_is_written_once_by_the_signer() {
    let signed = |pem: &str| with("/status", json!({"certificate": STANDARD.encode(pem)}));
    let good = fixtures::authority_pair().cert_pem;
    let of = |tag: &str, der: &[u8]| pem::encode(&pem::Pem::new(tag, der));
    let chain = format!("{good}{good}");
    assert_eq!(update_of("status", request(), signed(&chain)), [""; 0]);
    let mut headed = pem::Pem::new("CERTIFICATE", pem::parse(&good).expect("PEM").into_contents());
    headed.headers_mut().add("Proc-Type", "4").expect("a header");
    for (pem, why) in [
        ("x".to_owned(), "must contain at least one CERTIFICATE PEM block"),
        (format!("{good}{}", of("KEY", b"x")), "only CERTIFICATE PEM blocks are allowed, found \"KEY\""),
        (pem::encode(&headed), "no PEM block headers are permitted"),
        (of("CERTIFICATE", b""), "found CERTIFICATE PEM block containing 0 certificates"),
        (of("CERTIFICATE", b"x"), "x509: malformed certificate"),
    ] {
        assert_eq!(
            update_of("status", request(), signed(&pem)),
            [format!("status.certificate: Invalid value: \"<certificate data>\": {why}")]
        );
        // An invalid certificate may stay. It could become another invalid one, if the rule below did not forbid changes.
        assert_eq!(update_of("status", signed(&pem), signed(&pem)), [""; 0]);
    }
    let again = "status.certificate: Forbidden: updates may not modify existing certificate content";
    assert_eq!(update_of("status", signed(&good), signed(&chain)), [again]);
    assert_eq!(update_of("status", signed(&good), request()), [again]);
    assert_eq!(update_of("status", signed("x"), signed("y")), [again]);
    // Other requests do not change the certificate.
    assert_eq!(update_of("approval", signed(&good), signed(&chain)), [""; 0]);
    assert_eq!(update(signed(&good), signed(&chain)), [""; 0]);
}
