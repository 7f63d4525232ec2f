//! `Service`, the HTTP server behind an extender: its address, its certificates, and one request to it.
//!
//! Corresponds to makeTransport and send of pkg/scheduler/extender.go.

use super::wire;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::Client;
use component_base::duration::parse_duration;
use component_base::env::Env;
use component_base::http::{Body, read_all};
use component_base::kubeconfig::Connection;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use scheduling_framework::configuration::extender::{Extender, ExtenderTls};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

const USER_AGENT: &str = "kube-scheduler-orrery";
/// Time limit of a request without `httpTimeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer: ten thousand nodes of a usual size.
/// Deviation: a larger answer of an extender is refused, where Kubernetes reads it to its end.
const MAX_ANSWER_BYTES: usize = 64 << 20;

pub struct Service {
    client: Client,
    url: String,
    authority: String,
    timeout: Duration,
}

impl Service {
    /// Prepares a client. The error begins with the field that is wrong.
    pub fn new(env: &Env, extender: &Extender) -> Result<Self, String> {
        let url = extender.url_prefix.trim_end_matches('/').to_owned();
        let invalid =
            |why: &dyn std::fmt::Display| format!("urlPrefix: Invalid value: {:?}: {why}", extender.url_prefix);
        let uri: Uri = url.parse().map_err(|error| invalid(&error))?;
        let authority = match (uri.scheme_str(), uri.authority()) {
            (Some("http" | "https"), Some(authority)) => authority.to_string(),
            _ => return Err(invalid(&"must be a URL with the scheme http or https")),
        };
        let tls = extender.tls_config.clone().unwrap_or_default();
        let connection = connection(&url, extender.enable_https, &tls).map_err(|why| format!("tlsConfig.{why}"))?;
        let client = Client::connect(env, &connection, USER_AGENT).map_err(|error| invalid(&error))?;
        let timeout = match parse_duration(&extender.http_timeout) {
            Ok(Duration::ZERO) => DEFAULT_TIMEOUT,
            Ok(timeout) => timeout,
            Err(why) => return Err(format!("httpTimeout: {why}")),
        };
        Ok(Self { client, url, authority, timeout })
    }

    /// Sends a question and reads the answer, within the time limit. Errors are worded as Go's client words them.
    pub async fn post<T: DeserializeOwned>(&self, verb: &str, args: &impl Serialize) -> Result<T, String> {
        let url = format!("{}/{verb}", self.url);
        let failed = |why: &str| format!("Post {url:?}: {why}");
        let body = serde_json::to_vec(args).map_err(|error| error.to_string())?;
        let exchange = async {
            let request = Request::builder()
                .method(Method::POST)
                .uri(format!("/{verb}"))
                .header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))
                .body(Body::from(body))
                .map_err(|error| failed(&error.to_string()))?;
            let answer = self.client.send(request).await;
            let answer = answer.map_err(|error| failed(&error.in_gos_words(&self.authority)))?;
            if answer.status() != StatusCode::OK {
                let code = answer.status().as_u16();
                return Err(format!("failed {verb} with extender at URL {url}, code {code}"));
            }
            let bytes = read_all(answer.into_body(), MAX_ANSWER_BYTES).await.map_err(|error| error.to_string())?;
            wire::decode(&bytes)
        };
        let env = self.client.env();
        tokio::select! {
            biased;
            answered = env.timeout(self.timeout, exchange) => answered.unwrap_or_else(|_| {
                Err(failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)"))
            }),
            () = env.shutdown().cancelled() => Err(failed("context canceled")),
        }
    }
}

/// Returns the connection of an extender. Without an authority of its own, an extender by `enableHTTPS` is trusted whatever
/// its certificate is. The error begins with the field of `tlsConfig` that is wrong.
/// Deviation: the machine's own authorities are not asked where an extender has none.
fn connection(url: &str, enable_https: bool, tls: &ExtenderTls) -> Result<Connection, String> {
    let ca_pem = pem("caFile", &tls.ca_file, "caData", &tls.ca_data)?;
    if tls.insecure && ca_pem.is_some() {
        return Err("insecure: specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    let client_cert_pem = pem("certFile", &tls.cert_file, "certData", &tls.cert_data)?;
    let client_key_pem = pem("keyFile", &tls.key_file, "keyData", &tls.key_data)?;
    if client_cert_pem.is_some() != client_key_pem.is_some() {
        return Err("certData: a certificate and its key belong together".to_owned());
    }
    Ok(Connection {
        server: url.to_owned(),
        insecure: tls.insecure || (enable_https && ca_pem.is_none()),
        ca_pem,
        client_cert_pem,
        client_key_pem,
        tls_server_name: (!tls.server_name.is_empty()).then(|| tls.server_name.clone()),
        ..Connection::default()
    })
}

/// Returns a PEM text that is given as data, in base64, or as a file. Data wins.
fn pem(file_field: &str, file: &str, data_field: &str, data: &str) -> Result<Option<String>, String> {
    if !data.is_empty() {
        let bytes = BASE64.decode(data).map_err(|error| format!("{data_field}: {error}"))?;
        return String::from_utf8(bytes).map(Some).map_err(|error| format!("{data_field}: {error}"));
    }
    match file.is_empty() {
        true => Ok(None),
        false => std::fs::read_to_string(file).map(Some).map_err(|error| format!("{file_field}: {file}: {error}")),
    }
}
