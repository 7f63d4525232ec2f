//! Starts webhook servers over TLS. They are reached by their address, or as the Service `hooks` in the namespace
//! `default`.

use component_base::dial::SERVICE_ENDPOINT;
use component_base::env::Env;
use component_base::network::HttpService;
use component_base::pki::{Authority, Subject};
use component_base::serving::SecureServer;
use component_base::tls::ServerTls;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Starts a server that runs as long as `env`. Returns its address.
pub async fn serve(env: &Env, authority: &Authority, service: HttpService) -> SocketAddr {
    let names = ["127.0.0.1", "hooks.default.svc"].map(str::to_owned);
    let subject = Subject { common_name: "hooks", names: &names, ..Subject::default() };
    let pair = authority.issue(&subject, env.wall()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = ServerTls { cert: pair.cert_pem, key: pair.key_pem, ..ServerTls::default() };
    let server = SecureServer::new(listener, &tls).unwrap();
    let own = env.clone();
    env.spawn(async move { server.serve(&own, service).await });
    address
}

/// Returns the Service `hooks`, whose annotation has the server's address.
pub fn service(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "hooks", "annotations": {SERVICE_ENDPOINT: address.to_string()}},
        "spec": {"ports": [{"port": 443}]},
    })
}
