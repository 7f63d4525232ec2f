//! Tests of a server with many clients: silent ones keep nobody out, and long requests are not cut.

use component_base::env::Env;
use component_base::http::{Body, HttpService};
use component_base::kubeconfig::Connection;
use component_base::pki::{Authority, Subject};
use component_base::serving::SecureServer;
use component_base::tls::{self, Protocols, ServerTls};
use futures::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Length of a long watch, beyond any limit of a connection.
const LONG: Duration = Duration::from_secs(3600);
/// Places of the server, and silent clients; each connection takes two files of this process.
const PLACES: usize = 24;
const SILENT: usize = 96;

struct Site {
    tls: Arc<ClientConfig>,
    address: String,
    env: Env,
}

impl Site {
    async fn open() -> Self {
        let (env, folder) = (Env::system(), tempfile::tempdir().unwrap());
        let authority = Authority::load_or_create(folder.path(), env.wall()).unwrap();
        let names = ["127.0.0.1".to_owned()];
        let subject = Subject { common_name: "server", organizations: &[], names: &names };
        let pair = authority.issue(&subject, env.wall()).unwrap();
        let shown = ServerTls { cert: pair.cert_pem, key: pair.key_pem, ..ServerTls::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = SecureServer::new(listener, &shown).unwrap().with_connections(PLACES);
        let (serving, service) = (env.clone(), service(&env));
        env.spawn(async move { server.serve(&serving, service).await });
        let connection = Connection { ca_pem: Some(authority.cert_pem), ..Connection::default() };
        let tls = Arc::new(tls::client_config(&connection, Protocols::Http1Only).unwrap());
        Self { tls, address, env }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, stream).await.unwrap()
    }

    async fn ask(&self, path: &str) -> TlsStream<TcpStream> {
        let mut stream = self.connect().await;
        let upgrade = if path == "/exec" { "Connection: Upgrade\r\nUpgrade: echo\r\n" } else { "" };
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n").as_bytes()).await.unwrap();
        stream
    }
}

/// Returns a service: `/watch` answers at once and sends one event after a long time; `/exec` upgrades to another protocol
/// and sends something after a long time; other paths are answered.
fn service(env: &Env) -> HttpService {
    let env = env.clone();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let env = env.clone();
        async move {
            let answer = match request.uri().path() {
                "/watch" => {
                    let event = async move {
                        env.sleep(LONG).await;
                        Ok::<_, Infallible>("event")
                    };
                    Response::new(Body::from_stream(event.into_stream().boxed()))
                }
                "/exec" => {
                    let taken = env.clone();
                    env.spawn(async move {
                        let mut stream = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
                        taken.sleep(LONG).await;
                        stream.write_all(b"event").await.unwrap();
                        stream.shutdown().await.unwrap();
                    });
                    let mut answer = Response::new(Body::empty());
                    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                    answer.headers_mut().insert("connection", "upgrade".parse().unwrap());
                    answer.headers_mut().insert("upgrade", "echo".parse().unwrap());
                    answer
                }
                _ => Response::new(Body::from("hello")),
            };
            Ok::<_, Infallible>(answer)
        }
    }))
}

/// Reads until the stream has sent `wanted`.
async fn read_to(stream: &mut TlsStream<TcpStream>, wanted: &str) {
    let mut text = String::new();
    while !text.contains(wanted) {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "it ended after {text:?}, before {wanted:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

#[tokio::test]
async fn silent_clients_keep_nobody_out_and_what_is_served_stays() {
    let site = Site::open().await;
    let (mut watch, mut exec) = (site.ask("/watch").await, site.ask("/exec").await);
    read_to(&mut watch, "200 OK").await;
    read_to(&mut exec, "101 Switching Protocols").await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        // Some do not even speak TLS, and some send one request and stay.
        match number % 3 {
            0 => silent.push((Some(TcpStream::connect(&site.address).await.unwrap()), None)),
            1 => silent.push((None, Some(site.connect().await))),
            _ => {
                let mut stream = site.ask("/").await;
                read_to(&mut stream, "hello").await;
                silent.push((None, Some(stream)));
            }
        }
        if number % 16 == 0 {
            read_to(&mut site.ask("/").await, "hello").await;
        }
    }
    read_to(&mut site.ask("/").await, "hello").await;
    // After any time, the running requests get their answers.
    tokio::time::pause();
    read_to(&mut watch, "event").await;
    read_to(&mut exec, "event").await;
    drop(silent);
    site.env.drain().await;
}
