//! Tests of the client over real sockets: identities, missing trust, and lost connections.

use crate::client::Client;
use crate::error::Error;
use crate::request::Call;
use component_base::env::Env;
use component_base::http::{Body, HttpService, read_all};
use component_base::kubeconfig::Connection;
use component_base::network::ConnectionInfo;
use component_base::pki::{Authority, Subject};
use component_base::serving::SecureServer;
use component_base::tls::ServerTls;
use futures::StreamExt;
use futures::future::join_all;
use http::{Method, Request, Response, Version};
use proto::gvk::Gvr;
use proto::kinds::jiff::Timestamp;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

/// Returns a service that answers with its knowledge of the caller.
fn mirror() -> HttpService {
    HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let info = request.extensions().get::<ConnectionInfo>().expect("the acceptor attaches it").clone();
        let seen = json!({
            "version": format!("{:?}", request.version()),
            "path": request.uri().path(),
            "certificates": info.peer_certificates.len(),
            "rejected": info.rejected_certificate,
            "local": info.remote_address.ip().is_loopback(),
        });
        Ok::<_, Infallible>(Response::new(Body::from(seen.to_string())))
    }))
}

/// Returns a service that answers with the port of the caller's end of the connection.
fn port_of_caller() -> HttpService {
    HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let info = request.extensions().get::<ConnectionInfo>().expect("the acceptor attaches it");
        Ok::<_, Infallible>(Response::new(Body::from(info.remote_address.port().to_string())))
    }))
}

struct Site {
    env: Env,
    authority: Authority,
    port: u16,
    now: Timestamp,
}

async fn site(folder: &Path) -> Site {
    serve(folder, 0, mirror()).await
}

/// Serves on a port of loopback; 0 stands for any.
async fn serve(folder: &Path, port: u16, service: HttpService) -> Site {
    let env = Env::system();
    let now = env.wall();
    let authority = Authority::load_or_create(folder, now).unwrap();
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "apiserver".to_owned()];
    let pair = authority.issue(&Subject { common_name: "server", organizations: &[], names: &names }, now).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = ServerTls {
        cert: pair.cert_pem,
        key: pair.key_pem,
        client_ca: Some(authority.cert_pem.clone()),
        ..ServerTls::default()
    };
    let serving = env.clone();
    let server = SecureServer::new(listener, &tls).unwrap();
    env.spawn(async move { server.serve(&serving, service).await });
    Site { env, authority, port, now }
}

impl Site {
    fn connection(&self) -> Connection {
        Connection {
            server: format!("https://127.0.0.1:{}", self.port),
            ca_pem: Some(self.authority.cert_pem.clone()),
            ..Connection::default()
        }
    }

    fn with_certificate_of(&self, authority: &Authority) -> Connection {
        let subject = Subject { common_name: "ada", organizations: &["dev"], names: &[] };
        let pair = authority.issue(&subject, self.now).unwrap();
        Connection { client_cert_pem: Some(pair.cert_pem), client_key_pem: Some(pair.key_pem), ..self.connection() }
    }

    async fn ask(&self, connection: &Connection) -> Result<Value, Error> {
        let client = Client::connect(&self.env, connection, "test")?;
        let answer = client.send(Request::get("/who").body(Body::empty()).unwrap()).await?;
        assert_eq!(answer.version(), Version::HTTP_2);
        let body = read_all(answer.into_body(), 1 << 16).await.unwrap();
        Ok(serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn servers_see_who_calls_and_clients_whom_they_call() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let site = site(folder.path()).await;
    let stranger = Authority::load_or_create(other.path(), site.now).unwrap();
    let seen = |certificates: u8, rejected: bool| {
        json!({
            "version": "HTTP/2.0", "path": "/who", "local": true,
            "certificates": certificates, "rejected": rejected
        })
    };
    assert_eq!(site.ask(&site.connection()).await.unwrap(), seen(0, false));
    assert_eq!(site.ask(&site.with_certificate_of(&site.authority)).await.unwrap(), seen(1, false));
    // Refused by an answer, not by closing the connection.
    assert_eq!(site.ask(&site.with_certificate_of(&stranger)).await.unwrap(), seen(0, true));

    let by_name = Connection { tls_server_name: Some("apiserver".into()), ..site.connection() };
    assert_eq!(site.ask(&by_name).await.unwrap(), seen(0, false));
    let prefixed = Connection { server: format!("https://localhost:{}/base/", site.port), ..site.connection() };
    assert_eq!(site.ask(&prefixed).await.unwrap()["path"], "/base/who");

    let distrusting = Connection { ca_pem: Some(stranger.cert_pem.clone()), ..site.connection() };
    let error = site.ask(&distrusting).await.unwrap_err().to_string();
    assert!(error.starts_with("GET /who: 127.0.0.1:") && error.contains("invalid peer certificate"), "{error}");
    let misnamed = Connection { tls_server_name: Some("elsewhere".into()), ..site.connection() };
    assert!(site.ask(&misnamed).await.unwrap_err().to_string().contains("invalid peer certificate"));
    let careless = Connection { ca_pem: None, insecure: true, ..site.connection() };
    assert_eq!(site.ask(&careless).await.unwrap(), seen(0, false));

    site.env.drain().await;
    let error = site.ask(&site.connection()).await.unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn all_requests_share_a_connection_and_the_next_one_replaces_a_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let site = serve(folder.path(), 0, port_of_caller()).await;
    let client = Client::connect(&Env::system(), &site.connection(), "test").unwrap();
    let ask = async || client.call(&Call::new(Method::GET, "/")).await;
    let ports = join_all((0..8).map(|_| ask())).await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    site.env.drain().await;
    for refused in join_all((0..3).map(|_| client.send(Request::post("/").body(Body::empty()).unwrap()))).await {
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with(&format!("POST /: 127.0.0.1:{}: ", site.port)), "{error}");
    }
    let _again = serve(folder.path(), site.port, port_of_caller()).await;
    assert_ne!(ask().await.unwrap(), ports[0]);
}

/// Returns a service that sends each body back while it comes.
fn echo() -> HttpService {
    HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        Ok::<_, Infallible>(Response::new(request.into_body()))
    }))
}

#[tokio::test]
async fn bodies_are_larger_than_a_window_and_come_while_the_answer_does() {
    let folder = tempfile::tempdir().unwrap();
    let site = serve(folder.path(), 0, echo()).await;
    let client = Client::connect(&Env::system(), &site.connection(), "test").unwrap();
    let whole: Vec<u8> = (0_u32..3 << 18).flat_map(u32::to_be_bytes).collect();
    let chunks: Vec<_> = whole.chunks(50_000).map(|chunk| Ok::<_, Infallible>(chunk.to_vec())).collect();
    for body in [Body::from(whole.clone()), Body::from_stream(futures::stream::iter(chunks))] {
        let answer = client.send(Request::post("/").body(body).unwrap()).await.unwrap();
        assert!(read_all(answer.into_body(), whole.len()).await.unwrap() == whole);
    }
    // The answer begins before the body ends, and the body goes on.
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    let body = Body::from_stream(receiver.map(Ok::<_, Infallible>));
    let answer = client.send(Request::post("/").body(body).unwrap()).await.unwrap();
    let mut parts = answer.into_body().into_data_stream();
    for part in ["a", "b"] {
        sender.unbounded_send(part).unwrap();
        assert_eq!(parts.next().await.unwrap().unwrap(), part);
    }
    drop(sender);
    let rest: Vec<_> = parts.map(Result::unwrap).collect().await;
    assert_eq!(rest.concat(), b"");
}

#[tokio::test]
async fn a_body_that_nobody_wants_any_more_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let site = serve(folder.path(), 0, mirror()).await;
    let client = Client::connect(&Env::system(), &site.connection(), "test").unwrap();
    let (sender, mut receiver) = tokio::sync::mpsc::channel::<Result<&str, Infallible>>(1);
    let body = Body::from_stream(futures::stream::poll_fn(move |cx| receiver.poll_recv(cx)));
    let answer = client.send(Request::post("/").body(body).unwrap()).await.unwrap();
    read_all(answer.into_body(), 1 << 16).await.unwrap();
    sender.closed().await;
}

/// A body that fails is not a shorter body.
#[tokio::test]
async fn a_body_that_ends_early_takes_its_request_back() {
    let folder = tempfile::tempdir().unwrap();
    let site = serve(folder.path(), 0, echo()).await;
    let client = Client::connect(&Env::system(), &site.connection(), "test").unwrap();
    let parts = [Ok("a"), Err(std::io::Error::other("no more"))];
    let body = Body::from_stream(futures::stream::iter(parts));
    let all = match client.send(Request::post("/").body(body).unwrap()).await {
        Ok(answer) => read_all(answer.into_body(), 9).await.ok(),
        Err(error) => {
            assert!(matches!(error, Error::Lost(_)), "{error}");
            None
        }
    };
    assert_eq!(all, None);
}

/// Carries bytes between a client and a server until the cable is cut; both ends stay open.
async fn cable(port: u16, cut: Arc<Notify>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own_port = listener.local_addr().unwrap().port();
    Env::system().spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        tokio::select! {
            biased;
            () = cut.notified() => std::future::pending::<()>().await,
            ended = tokio::io::copy_bidirectional(&mut client, &mut server) => drop(ended),
        }
    });
    own_port
}

#[tokio::test]
async fn a_server_that_answers_no_ping_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let site = serve(folder.path(), 0, mirror()).await;
    let cut = Arc::new(Notify::new());
    let port = cable(site.port, cut.clone()).await;
    let connection = Connection { server: format!("https://127.0.0.1:{port}"), ..site.connection() };
    let client = Client::connect(&Env::system(), &connection, "test").unwrap();
    let ask = async || client.send(Request::get("/who").body(Body::empty()).unwrap()).await;
    ask().await.unwrap();
    cut.notify_one();
    // The clock goes on by itself while all tasks wait.
    tokio::time::pause();
    let error = ask().await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
}

/// The server reads the first request and closes without an answer, like one that is being replaced.
#[tokio::test]
async fn a_read_whose_connection_is_lost_is_sent_again_and_a_write_is_not() {
    let env = Env::system();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let served = env.spawn(async move {
        let mut lines = Vec::new();
        for answers in [false, false, true] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0_u8; 4096];
            let read = stream.read(&mut request).await.unwrap();
            lines.push(String::from_utf8_lossy(&request[..read]).lines().next().unwrap().to_owned());
            if answers {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"a\": 1}").await.unwrap();
            }
        }
        lines
    });
    let client = Client::connect(&env, &Connection { server, ..Connection::default() }, "test").unwrap();
    let api = client.dynamic(&Gvr::new("", "v1", "configmaps"), "ns");
    assert!(matches!(api.create(&json!({})).await, Err(Error::Lost(_))));
    assert_eq!(api.get("a").await.unwrap()["a"], 1);
    let path = "/api/v1/namespaces/ns/configmaps";
    let expected =
        [format!("POST {path} HTTP/1.1"), format!("GET {path}/a HTTP/1.1"), format!("GET {path}/a HTTP/1.1")];
    assert_eq!(served.await.unwrap(), expected);
}
