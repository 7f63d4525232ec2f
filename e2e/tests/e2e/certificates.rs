//! Tests certificate signing requests: a user's is approved, and the certificate works; a node's is approved
//! automatically.

use crate::cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use component_base::kubeconfig;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use std::path::Path;

const USAGES: &str = "[digital signature, client auth]";

/// Returns the manifest of a CertificateSigningRequest, and its key.
fn manifest(name: &str, organization: &str, common_name: &str, signer: &str) -> (String, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, organization);
    subject.push(DnType::CommonName, common_name);
    params.distinguished_name = subject;
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = STANDARD.encode(request);
    let manifest = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec:\n  \
         request: {request}\n  signerName: kubernetes.io/{signer}\n  usages: {USAGES}\n  expirationSeconds: 3600\n"
    );
    (manifest, key)
}

/// Waits for the issued certificate.
fn certificate(kubectl: &Kubectl, name: &str) -> String {
    let mut issued = String::new();
    e2e::wait::until("the certificate is issued", || {
        issued = kubectl.ok(&format!("get csr {name} -o jsonpath={{.status.certificate}}"));
        !issued.is_empty()
    });
    let pem = STANDARD.decode(issued).unwrap();
    String::from_utf8(pem).unwrap()
}

/// Returns a kubectl that authenticates with this certificate.
fn kubectl_with(admin: &Path, directory: &Path, cert: String, key: &KeyPair) -> Kubectl {
    let connection = kubeconfig::read(admin).unwrap();
    let connection =
        kubeconfig::Connection { client_cert_pem: Some(cert), client_key_pem: Some(key.serialize_pem()), ..connection };
    let path = directory.join("owner");
    kubeconfig::write(&path, &connection, "orrery", "owner").unwrap();
    Kubectl::new(&path, directory)
}

#[test]
fn approved_requests_are_signed() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let (kubectl, admin) = (cluster.kubectl(), cluster.data_dir.join("kubeconfig"));

    let (request, key) = manifest("ada", "dev", "ada", "kube-apiserver-client");
    kubectl.with_input("create -f -", &request).succeeded();
    assert!(kubectl.ok("get csr ada").contains("Pending"));
    assert!(
        kubectl.ok("certificate approve ada").contains("certificatesigningrequest.certificates.k8s.io/ada approved")
    );
    let ada = kubectl_with(&admin, directory.path(), certificate(&kubectl, "ada"), &key);
    assert!(kubectl.ok("get csr ada").contains("Approved,Issued"));
    let who = ada.ok("auth whoami");
    assert!(who.contains("ada") && who.contains("dev"), "{who}");
    assert!(ada.fails("get nodes").contains(r#"User "ada" cannot list resource "nodes""#));

    // A kubelet's own request is approved automatically; a request that the signer does not permit fails with a
    // condition.
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    kubectl.ok(&format!("create clusterrolebinding nodes --clusterrole={role} --group=system:nodes"));
    let (request, key) = manifest("node", "system:nodes", "system:node:node-0", "kube-apiserver-client-kubelet");
    kubectl.with_input("create -f - --as=system:node:node-0 --as-group=system:nodes", &request).succeeded();
    let node = kubectl_with(&admin, directory.path(), certificate(&kubectl, "node"), &key);
    assert!(node.ok("get node node-0").contains("Ready"));
    let (request, _) = manifest("other", "dev", "ada", "kube-apiserver-client-kubelet");
    kubectl.with_input("create -f -", &request).succeeded();
    kubectl.ok("certificate approve other");
    e2e::wait::until("the request has failed", || kubectl.ok("get csr other").contains("Approved,Failed"));
    assert!(kubectl.ok("get csr other -o yaml").contains("subject organization is not system:nodes"));
}
