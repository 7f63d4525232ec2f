//! The order of the authenticators, and the requests that may be anonymous.

use super::jwt::configuration::Configuration;
use super::request_header::RequestHeaderOptions;
use super::{ActiveConfiguration, Authentication, AuthenticationListener, TokenFile};
use cacher::lookup::{Lookup, ObjectKey};
use component_base::env::Env;
use component_base::network::ConnectionInfo;
use component_base::tls;
use component_base_testing::fixtures;
use http::Request;
use proto::resources::Target;
use proto::{Object, Status};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A cluster without objects.
struct NoObjects;

#[async_trait::async_trait]
impl Lookup for NoObjects {
    fn get(&self, _: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        Ok(None)
    }

    async fn get_live(&self, _: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        Ok(None)
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Result<Vec<Arc<Object>>, Status> {
        Ok(Vec::new())
    }

    fn kind(&self, _: &proto::Gvk) -> Option<Target> {
        None
    }

    async fn as_kind(&self, _: &Target, object: &Object) -> Result<Value, Status> {
        Ok(object.to_value())
    }
}

/// Authenticators for a proxy's headers, client certificates, a token file and anonymous requests.
fn authenticators(env: &Env) -> Authentication {
    let proxies = RequestHeaderOptions {
        requestheader_client_ca_file: Some("ca.crt".into()),
        requestheader_username_headers: vec!["X-Remote-User".into()],
        ..RequestHeaderOptions::default()
    };
    let authentication = Authentication {
        request_headers: proxies.authenticator().unwrap(),
        token_file: TokenFile::parse("known,token-user,1").unwrap(),
        bootstrap_tokens: true,
        ..Authentication::default()
    };
    authentication.replace(ActiveConfiguration::new(env, Configuration::default(), true));
    authentication
}

#[tokio::test]
async fn the_first_authenticator_that_recognises_the_user_decides() {
    let env = Env::simulated(1);
    let authentication = authenticators(&env);
    let objects: Arc<dyn Lookup> = Arc::new(NoObjects);
    let leaf =
        tls::certificates("client", &fixtures::client("system:kube-scheduler").unwrap().cert_pem).unwrap().remove(0);
    for (credentials, user) in [
        (&["proxy", "certificate", "token"][..], Ok("proxied")),
        (&["certificate", "token"], Ok("system:kube-scheduler")),
        (&["certificate", "invalid token"], Ok("system:kube-scheduler")),
        (&["token"], Ok("token-user")),
        (&["rejected certificate", "token"], Ok("token-user")),
        (&["invalid token"], Err(401)),
        (&["rejected certificate"], Err(401)),
        (&[], Ok("system:anonymous")),
    ] {
        let has = |credential: &str| credentials.contains(&credential);
        let mut request = Request::builder().uri("/api/v1/pods").header("x-remote-user", "proxied");
        for (name, token) in [("token", "known"), ("invalid token", "unknown")] {
            if has(name) {
                request = request.header("authorization", format!("Bearer {token}"));
            }
        }
        let connection = ConnectionInfo {
            peer_certificates: has("certificate").then(|| leaf.clone()).into_iter().collect(),
            rejected_certificate: has("rejected certificate"),
            proxy_certificate: has("proxy").then(|| Arc::new(leaf.clone())),
            remote_address: (Ipv4Addr::LOCALHOST, 0).into(),
        };
        let (parts, ()) = request.extension(connection).body(()).unwrap().into_parts();
        let outcome = authentication.authenticate(&parts, &env, &objects, &AuthenticationListener::NONE).await;
        let outcome = outcome.map(|user| user.name).map_err(|status| status.code);
        assert_eq!(outcome, user.map(str::to_owned), "{credentials:?}");
    }
}
