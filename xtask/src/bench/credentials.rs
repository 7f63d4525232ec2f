//! One credential of each form that an API server knows by itself, and the user that it stands for.

use super::Error;
use super::objects::{NAMESPACE, post};
use super::servers::{Servers, Setup};
use client::Client;
use client::request::{Call, JSON};
use component_base::kubeconfig::Connection;
use http::Method;
use serde_json::{Value, json};

pub struct Credential {
    pub form: &'static str,
    pub connection: Connection,
    /// As bindings name it.
    pub subject: Value,
}

/// The static token's user is in this group too.
pub const CROWD: &str = "crowd";
const STATIC: &str = "static";
/// Not a secret: it opens a server that lives as long as its measurement.
const BOOTSTRAP: (&str, &str) = ("bench0", "0123456789abcdef");
const ACCOUNT: &str = "bench";

/// What a server is told so that it knows them.
pub fn setup() -> Setup {
    Setup {
        tokens: format!("{STATIC},{STATIC},{STATIC}\n{CROWD},{CROWD},{CROWD},\"{CROWD}\"\n"),
        knows_certificates: true,
        arguments: vec!["--enable-bootstrap-token-auth".to_owned()],
    }
}

/// The user of a static token whom many bindings name by his group.
pub fn of_the_crowd(servers: &Servers) -> Credential {
    static_token(servers, "static token, of a group that every binding names", CROWD)
}

fn static_token(servers: &Servers, form: &'static str, user: &str) -> Credential {
    let connection = Connection { token: Some(user.to_owned()), ..servers.anonymous() };
    Credential { form, connection, subject: subject("User", user) }
}

fn subject(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

/// Makes what stands behind them: a service account with a token, and the secret of a bootstrap token.
pub async fn make(servers: &Servers, client: &Client) -> Result<Vec<Credential>, Error> {
    let (id, secret) = BOOTSTRAP;
    let kept = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": format!("bootstrap-token-{id}")},
        "stringData": {"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
    });
    post(client.clone(), "/api/v1/namespaces/kube-system/secrets", kept).await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    post(client.clone(), &format!("{NAMESPACE}/serviceaccounts"), account).await?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
    let answer = client.call(&Call::new(Method::POST, path).body(JSON, request.to_string())).await?;
    let answer: Value = serde_json::from_slice(&answer).map_err(|error| Error::Failed(error.to_string()))?;
    let token = answer["status"]["token"].as_str().unwrap_or_default().to_owned();
    let bearing = |token: String| Connection { token: Some(token), ..servers.anonymous() };
    let impersonating = Connection { impersonate_user: "impersonated".to_owned(), ..servers.connection.clone() };
    Ok(vec![
        static_token(servers, "static token", STATIC),
        Credential {
            form: "client certificate",
            connection: servers.by_certificate("certified")?,
            subject: subject("User", "certified"),
        },
        Credential {
            form: "service account token",
            connection: bearing(token),
            subject: json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}),
        },
        Credential {
            form: "bootstrap token",
            connection: bearing(format!("{id}.{secret}")),
            subject: subject("User", &format!("system:bootstrap:{id}")),
        },
        Credential { form: "anonymous", connection: servers.anonymous(), subject: subject("User", "system:anonymous") },
        Credential {
            form: "impersonated by a master",
            connection: impersonating,
            subject: subject("User", "impersonated"),
        },
    ])
}
