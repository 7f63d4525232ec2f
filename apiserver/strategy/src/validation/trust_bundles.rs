//! Validates ClusterTrustBundles: their names, and the certificates that they hold.
//!
//! Corresponds to ValidateClusterTrustBundle in pkg/apis/certificates/validation.

use super::object_meta;
use super::signing_requests::check_signer_name;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use serde_json::json;
use std::collections::BTreeMap;
use x509_parser::prelude::{FromDer, X509Certificate};

type Context<'a> = WriteContext<'a>;

const MAX_BUNDLE_BYTES: usize = 1024 * 1024;

pub fn create(_context: &Context<'_>, bundle: &At<'_>, errors: &mut Errors) {
    check(bundle, errors);
    anchors(&bundle.down("spec.trustBundle"), errors);
}

/// Checks an update. Certificates that do not change need not be valid any more.
pub fn update(_context: &Context<'_>, bundle: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    check(bundle, errors);
    let (text, before) = (bundle.down("spec.trustBundle"), old.down("spec.trustBundle"));
    if text.value != before.value {
        anchors(&text, errors);
    }
    bundle.down("spec.signerName").check_unchanged(&old.down("spec.signerName"), errors);
}

fn check(bundle: &At<'_>, errors: &mut Errors) {
    let signer = bundle.down("spec.signerName");
    for (field, is_prefix) in [("generateName", true), ("name", false)] {
        let name = bundle.field("metadata").field(field);
        if !name.is_empty() {
            let complaints = name_faults(name.text(), signer.text(), is_prefix);
            errors.extend(complaints.into_iter().map(|complaint| name.invalid(complaint)));
        }
    }
    if !signer.is_empty() {
        check_signer_name(&signer, errors);
    }
}

/// Returns the faults of a name. It begins with the signer, with a colon for each slash, or it has no colon.
fn name_faults(name: &str, signer: &str, is_prefix: bool) -> Vec<String> {
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()],
            false => object_meta::subdomain(name, is_prefix),
        };
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => object_meta::subdomain(rest, is_prefix),
        None => vec![format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}")],
    }
}

/// Checks that a bundle has certificates of authorities, and each of them once.
fn anchors(bundle: &At<'_>, errors: &mut Errors) {
    if bundle.len() > MAX_BUNDLE_BYTES {
        errors.push(bundle.too_long(MAX_BUNDLE_BYTES));
        return;
    }
    let blocks = pem::parse_many(bundle.text()).unwrap_or_default();
    let omitted = |detail: String| bundle.invalid_as(&json!("<value omitted>"), detail);
    let before = errors.len();
    let mut seen: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    for (entry, block) in blocks.iter().enumerate() {
        match block_fault(block) {
            Some(fault) => errors.push(omitted(format!("entry {entry} {fault}"))),
            None => seen.entry(block.contents()).or_default().push(entry.to_string()),
        }
    }
    if errors.len() > before {
        return;
    }
    if blocks.is_empty() {
        errors.push(omitted("at least one trust anchor must be provided".to_owned()));
    }
    for entries in seen.values().filter(|entries| entries.len() > 1) {
        errors.push(omitted(format!("duplicate trust anchor (indices [{}])", entries.join(" "))));
    }
}

fn block_fault(block: &pem::Pem) -> Option<String> {
    if block.tag() != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.tag()));
    }
    if block.headers().iter().next().is_some() {
        return Some("has PEM block headers".to_owned());
    }
    let certificate = match X509Certificate::from_der(block.contents()) {
        Ok(([], certificate)) => certificate,
        _ => return Some("does not parse as X.509".to_owned()),
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};
    use component_base_testing::fixtures;
    use serde_json::{Value, json};

    fn bundle(name: &str, signer: &str, pem: &str) -> Value {
        let mut bundle = json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle", "metadata": {"name": name},
            "spec": {"trustBundle": pem}
        });
        if !signer.is_empty() {
            bundle["spec"]["signerName"] = json!(signer);
        }
        bundle
    }

    #[test]
    fn a_bundle_is_named_by_its_signer_and_holds_authorities() {
        let authority = &fixtures::authority_pem();
        let leaf = &fixtures::serving().cert_pem;
        let omitted = |why: &str| format!("spec.trustBundle: Invalid value: \"<value omitted>\": {why}");
        let named = |name: &str, why: &str| format!("metadata.name: Invalid value: {name:?}: {why}");
        let prefix = "ClusterTrustBundle for signerName example.com/a must be named with prefix example.com:a:";
        for (object, expected) in [
            (bundle("trusted", "", authority), vec![]),
            (bundle("example.com:a:one", "example.com/a", authority), vec![]),
            (bundle("one", "example.com/a", authority), vec![named("one", prefix)]),
            (
                bundle("a:b", "", authority),
                vec![named("a:b", "ClusterTrustBundle without signer name must not have \":\" in its name")],
            ),
            (bundle("a", "", ""), vec![omitted("at least one trust anchor must be provided")]),
            (bundle("a", "", leaf), vec![omitted("entry 0 does not have the CA bit set")]),
            (bundle("a", "", &authority.repeat(2)), vec![omitted("duplicate trust anchor (indices [0 1])")]),
            (
                bundle("a", "", "-----BEGIN KEY-----\nQQ==\n-----END KEY-----\n"),
                vec![omitted("entry 0 has bad block type: KEY")],
            ),
            (
                bundle("a", "", "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"),
                vec![omitted("entry 0 does not parse as X.509")],
            ),
        ] {
            assert_eq!(create(object.clone()), expected, "{object}");
        }
    }

    #[test]
    fn an_update_keeps_the_signer_and_may_keep_what_is_invalid() {
        let invalid = bundle("example.com:a:one", "example.com/a", "none");
        assert_eq!(update(invalid.clone(), invalid.clone()), Vec::<String>::new());
        let mut other = invalid.clone();
        other["spec"]["signerName"] = json!("example.com/b");
        assert_eq!(
            update(invalid, other),
            [
                "metadata.name: Invalid value: \"example.com:a:one\": ClusterTrustBundle for signerName example.com/b must be \
                 named with prefix example.com:b:",
                "spec.signerName: Invalid value: \"example.com/b\": field is immutable",
            ]
        );
    }
}
