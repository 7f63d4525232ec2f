//! CertificateApproval, CertificateSigning, CertificateSubjectRestriction and ClusterTrustBundleAttest: check who may approve
//! and sign requests for a signer, which subjects a request may name, and who may say which certificates are a signer's.
//!
//! Corresponds to plugin/pkg/admission/certificates.

use super::pod_parts::text;
use crate::{AdmissionPlugin, Attributes, Operation};
use access::authz;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::Status;
use request::user_info::MASTERS;
use serde_json::Value;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509CertificationRequest};

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
const BUNDLES: &str = "clustertrustbundles";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Approval and denial need permission to `approve` for the signer.
pub struct CertificateApproval(pub Arc<dyn SignerRights>);
/// Writing a certificate needs permission to `sign` for the signer.
pub struct CertificateSigning(pub Arc<dyn SignerRights>);
/// Rejects requests for a client certificate of group `system:masters`.
pub struct CertificateSubjectRestriction;

/// Writing the certificates of a signer needs permission to `attest` for it.
pub struct ClusterTrustBundleAttest(pub Arc<dyn SignerRights>);

/// Checks permissions for a signer.
#[async_trait]
pub trait SignerRights: Send + Sync {
    async fn allows(&self, attributes: &authz::Attributes<'_>) -> bool;
}

#[async_trait]
impl SignerRights for authz::Authorization {
    async fn allows(&self, attributes: &authz::Attributes<'_>) -> bool {
        self.allows(attributes).await
    }
}

/// Returns whether the user has permission for this signer, or for all signers of its domain: `example.com/*`.
async fn has_right(attributes: &Attributes<'_>, rights: &dyn SignerRights, verb: &str, signer: &str) -> bool {
    let domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    for name in [signer, &domain] {
        let signers = authz::Attributes::of_resource(attributes.user, verb, GROUP, "signers");
        if rights.allows(&authz::Attributes { name, ..signers }).await {
            return true;
        }
    }
    false
}

/// Checks permission for the signer of a request.
async fn check(attributes: &Attributes<'_>, rights: &dyn SignerRights, verb: &str) -> Result<(), Status> {
    let signer = text(attributes.old(), "/spec/signerName");
    if has_right(attributes, rights, verb, signer).await {
        return Ok(());
    }
    Err(attributes.forbidden(format_args!("user not permitted to {verb} requests with signerName {signer:?}")))
}

fn is_of(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.served.group == GROUP && attributes.served.resource == REQUESTS && attributes.subresource == subresource
}

#[async_trait]
impl AdmissionPlugin for CertificateApproval {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if is_of(attributes, "approval") { check(attributes, self.0.as_ref(), "approve").await } else { Ok(()) }
    }
}

#[async_trait]
impl AdmissionPlugin for CertificateSigning {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let is_same = ["/status/certificate", "/status/conditions"]
            .iter()
            .all(|pointer| attributes.new_object().pointer(pointer) == attributes.old().pointer(pointer));
        if is_of(attributes, "status") && !is_same { check(attributes, self.0.as_ref(), "sign").await } else { Ok(()) }
    }
}

#[async_trait]
impl AdmissionPlugin for CertificateSubjectRestriction {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let object = attributes.new_object();
        if !is_of(attributes, "") || text(object, "/spec/signerName") != CLIENT_SIGNER {
            return Ok(());
        }
        let organizations = organizations(text(object, "/spec/request"))
            .map_err(|why| attributes.forbidden(format_args!("failed to parse CSR: {why}")))?;
        if organizations.iter().any(|organization| organization == MASTERS) {
            return Err(
                attributes.forbidden(format_args!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
            );
        }
        Ok(())
    }
}

#[async_trait]
impl AdmissionPlugin for ClusterTrustBundleAttest {
    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if attributes.served.group != GROUP || attributes.served.resource != BUNDLES {
            return Ok(());
        }
        let bundle = attributes.new_object();
        let signer = text(bundle, "/spec/signerName");
        // Storage migration and the garbage collector write bundles without changing them.
        let is_same = attributes.operation == Operation::Update && only_owners_change(bundle, attributes.old());
        if signer.is_empty() || is_same {
            return Ok(());
        }
        match has_right(attributes, self.0.as_ref(), "attest", signer).await {
            true => Ok(()),
            false => Err(attributes.forbidden(format_args!("user not permitted to attest for signerName {signer:?}"))),
        }
    }
}

/// Returns whether nothing but owners, finalizers and the record of managers differs.
fn only_owners_change(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| !["ownerReferences", "finalizers", "managedFields"].contains(&field.as_str()));
        }
        object
    };
    rest(new) == rest(old)
}

/// Returns the organizations of the subject, which become the groups of a client.
fn organizations(request: &str) -> Result<Vec<String>, String> {
    let pem = STANDARD.decode(request).map_err(|error| error.to_string())?;
    let not_a_request = "PEM block type must be CERTIFICATE REQUEST";
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).map_err(|_| not_a_request.to_owned())?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(not_a_request.to_owned());
    }
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).map_err(|error| error.to_string())?;
    let subject = &request.certification_request_info.subject;
    Ok(subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::json;

    /// `ann` may approve for one signer and sign for a whole domain.
    struct Ann;

    #[async_trait]
    impl SignerRights for Ann {
        async fn allows(&self, a: &authz::Attributes<'_>) -> bool {
            a.user.name == "ann"
                && (a.group, a.resource) == (GROUP, "signers")
                && matches!(
                    (a.verb, a.name),
                    ("approve", "example.com/one") | ("sign", "example.com/*") | ("attest", "attested.com/*")
                )
        }
    }

    fn request(signer: &str, status: Value) -> Value {
        json!({"metadata": {"name": "r"}, "spec": {"signerName": signer}, "status": status})
    }

    #[tokio::test]
    async fn approval_and_signing_need_rights_for_the_signer() {
        let approve = CertificateApproval(Arc::new(Ann));
        let sign = CertificateSigning(Arc::new(Ann));
        let signed = json!({"certificate": "eA=="});
        for (plugin, subresource, signer, after, why) in [
            (&approve as &dyn AdmissionPlugin, "approval", "example.com/one", json!({}), ""),
            (
                &approve,
                "approval",
                "example.com/two",
                json!({}),
                r#"user not permitted to approve requests with signerName "example.com/two""#,
            ),
            (&approve, "status", "example.com/two", json!({}), ""),
            (&sign, "status", "example.com/two", signed.clone(), ""),
            (&sign, "status", "other.com/x", json!({}), ""),
            (
                &sign,
                "status",
                "other.com/x",
                signed,
                r#"user not permitted to sign requests with signerName "other.com/x""#,
            ),
        ] {
            let write = Write::update(GROUP, REQUESTS, request(signer, json!({})), request(signer, after));
            let expected = match why {
                "" => String::new(),
                why => format!(r#"certificatesigningrequests.certificates.k8s.io "r" is forbidden: {why}"#),
            };
            assert_eq!(write.subresource(subresource).run(plugin).await.message(), expected);
        }
    }

    #[tokio::test]
    async fn who_changes_the_certificates_of_a_signer_attests_for_it() {
        let attest = ClusterTrustBundleAttest(Arc::new(Ann));
        let bundle = |signer: &str, pem: &str| json!({"metadata": {"name": "b"}, "spec": {"signerName": signer, "trustBundle": pem}});
        let mut owned = bundle("other.com/x", "a");
        owned["metadata"]["finalizers"] = json!(["example.com/f"]);
        let refusal = "clustertrustbundles.certificates.k8s.io \"b\" is forbidden: user not permitted to attest for \
                       signerName \"other.com/x\"";
        for (write, expected) in [
            (Write::create(GROUP, BUNDLES, bundle("attested.com/x", "a")), ""),
            (Write::create(GROUP, BUNDLES, bundle("", "a")), ""),
            (Write::create(GROUP, BUNDLES, bundle("other.com/x", "a")), refusal),
            (Write::update(GROUP, BUNDLES, bundle("other.com/x", "a"), bundle("other.com/x", "b")), refusal),
            (Write::update(GROUP, BUNDLES, bundle("other.com/x", "a"), owned), ""),
        ] {
            assert_eq!(write.run(&attest).await.message(), expected);
        }
    }

    #[tokio::test]
    async fn nobody_becomes_a_master_by_asking() {
        for (organization, signer, is_refused) in
            [(MASTERS, CLIENT_SIGNER, true), ("people", CLIENT_SIGNER, false), (MASTERS, "example.com/one", false)]
        {
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
            let key = rcgen::KeyPair::generate().expect("a key");
            let pem = params.serialize_request(&key).expect("a request").pem().expect("PEM");
            let object = json!({
                "metadata": {"name": "r"}, "spec": {"signerName": signer, "request": STANDARD.encode(pem)},
            });
            let seen = Write::create(GROUP, REQUESTS, object).run(&CertificateSubjectRestriction).await;
            let expected = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of \
                kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
            assert_eq!(seen.message(), if is_refused { expected } else { "" });
        }
    }
}
