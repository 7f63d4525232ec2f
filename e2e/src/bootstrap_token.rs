//! The objects with which kubeadm lets nodes join: a bootstrap token, and bindings that allow certificate requests.

use component_base::kubeconfig::Connection;
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io";
/// The token that nodes send.
pub const TOKEN: &str = "abcdef.0123456789abcdef";
/// Name of the token's Secret.
pub const SECRET: &str = "bootstrap-token-abcdef";
/// Bindings for joining nodes: name, role and group.
pub const BINDINGS: [(&str, &str, &str); 3] = [
    ("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
    (
        "kubeadm:node-autoapprove-bootstrap",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "system:bootstrappers",
    ),
    (
        "kubeadm:node-autoapprove-certificate-rotation",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "system:nodes",
    ),
];

/// Returns the Secret and the bindings.
pub fn objects() -> Vec<Value> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
        },
    });
    let bindings = BINDINGS.map(|(name, role, group)| {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
        })
    });
    [secret].into_iter().chain(bindings).collect()
}

/// Returns a connection that authenticates with the token.
pub fn connection(server: &str) -> Connection {
    Connection { server: server.to_owned(), token: Some(TOKEN.to_owned()), ..Connection::default() }
}
