//! Tests with bad certificates and hostile clients: each is refused soon, and others are served meanwhile.

use crate::client::Client;
use component_base::env::Env;
use component_base::http::{Body, HttpService, read_all};
use component_base::kubeconfig::Connection;
use component_base::network::ConnectionInfo;
use component_base::options::OptionsError;
use component_base::pki::{Authority, Subject};
use component_base::serving::SecureServer;
use component_base::tls::{self, NamedCertificate, Protocols, ServerTls};
use component_base::tls_policy::TlsPolicy;
use http::{Request, Response};
use parking_lot::Mutex;
use proto::kinds::jiff::{SignedDuration, Timestamp};
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Ten years, longer than the validity of any certificate.
const LONG: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

struct Site {
    env: Env,
    authority: Authority,
    address: String,
    now: Timestamp,
    /// The certificates that the server reads when its file has changed.
    next: Arc<Mutex<ServerTls>>,
    file: tempfile::NamedTempFile,
    _folder: tempfile::TempDir,
}

fn subject<'a>(common_name: &'a str, names: &'a [String]) -> Subject<'a> {
    Subject { common_name, organizations: &[], names }
}

impl Site {
    /// Opens a server whose configuration `change` may complete.
    async fn open(change: impl FnOnce(&Authority, &mut ServerTls)) -> Self {
        let (env, folder) = (Env::system(), tempfile::tempdir().unwrap());
        let now = env.wall();
        let authority = Authority::load_or_create(folder.path(), now).unwrap();
        let mut tls = server_tls(&authority, now);
        change(&authority, &mut tls);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (next, file) = (Arc::new(Mutex::new(tls.clone())), tempfile::NamedTempFile::new().unwrap());
        let (serving, read) = (env.clone(), next.clone());
        let server = SecureServer::new(listener, &tls).unwrap();
        let server = server.following(vec![file.path().to_owned()], move || Ok::<_, OptionsError>(read.lock().clone()));
        env.spawn(async move { server.serve(&serving, who()).await });
        Self { env, authority, address, now, next, file, _folder: folder }
    }

    fn connection(&self) -> Connection {
        let ca_pem = Some(self.authority.cert_pem.clone());
        Connection { server: format!("https://{}", self.address), ca_pem, ..Connection::default() }
    }

    /// Returns the identity that the server sees.
    async fn ask(&self, connection: &Connection) -> Result<String, String> {
        let client = Client::connect(&self.env, connection, "test").map_err(|error| error.to_string())?;
        let request = Request::get("/").body(Body::empty()).unwrap();
        let answer = client.send(request).await.map_err(|error| error.to_string())?;
        let body = read_all(answer.into_body(), 1 << 16).await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    fn shown(&self, authority: &Authority, issued: Timestamp) -> Connection {
        let pair = authority.issue(&subject("ada", &[]), issued).unwrap();
        Connection { client_cert_pem: Some(pair.cert_pem), client_key_pem: Some(pair.key_pem), ..self.connection() }
    }

    /// Returns a connection on which the test sends raw bytes.
    async fn raw(&self, protocols: Protocols) -> TlsStream<TcpStream> {
        let config = tls::client_config(&self.connection(), protocols).unwrap();
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn server_tls(authority: &Authority, now: Timestamp) -> ServerTls {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let pair = authority.issue(&subject("server", &names), now).unwrap();
    ServerTls {
        cert: pair.cert_pem,
        key: pair.key_pem,
        client_ca: Some(authority.cert_pem.clone()),
        ..ServerTls::default()
    }
}

fn who() -> HttpService {
    HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let info = request.extensions().get::<ConnectionInfo>().expect("the acceptor attaches it");
        let leaf = info.peer_certificates.first();
        let name =
            leaf.and_then(|leaf| component_base::pki::subject(leaf)).map_or("nobody".to_owned(), |(name, _)| name);
        let rejected = if info.rejected_certificate { ", rejected" } else { "" };
        Ok::<_, Infallible>(Response::new(Body::from(format!("{name}{rejected}"))))
    }))
}

#[tokio::test]
async fn a_certificate_counts_in_its_time_and_under_its_authority() {
    let site = Site::open(|_, _| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::load_or_create(folder.path(), site.now).unwrap();
    let (own, now) = (&site.authority, site.now);
    for (connection, expected) in [
        (site.shown(own, now), "ada"),
        (site.shown(own, now - LONG), "nobody, rejected"),
        (site.shown(own, now + LONG), "nobody, rejected"),
        (site.shown(&stranger, now), "nobody, rejected"),
        (site.connection(), "nobody"),
    ] {
        assert_eq!(site.ask(&connection).await.as_deref(), Ok(expected));
    }
}

#[tokio::test]
async fn certificates_and_authorities_are_rotated_while_the_server_runs() {
    let site = Site::open(|_, _| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let other = Authority::load_or_create(folder.path(), site.now).unwrap();
    let (old, new) = (site.shown(&site.authority, site.now), site.shown(&other, site.now));
    assert_eq!(site.ask(&old).await.as_deref(), Ok("ada"));
    // The server has a certificate of the new authority, and trusts only that authority.
    *site.next.lock() = server_tls(&other, site.now);
    std::fs::write(site.file.path(), "new").unwrap();
    let trusting = |connection: &Connection| Connection { ca_pem: Some(other.cert_pem.clone()), ..connection.clone() };
    while site.ask(&trusting(&new)).await.is_err() {
        site.env.sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(site.ask(&trusting(&new)).await.as_deref(), Ok("ada"));
    assert_eq!(site.ask(&trusting(&old)).await.as_deref(), Ok("nobody, rejected"));
    assert!(site.ask(&old).await.unwrap_err().contains("invalid peer certificate"));
}

/// Kubernetes verifies a certificate with every request.
#[tokio::test]
async fn an_authority_that_is_taken_away_counts_no_more_on_connections_that_are_open() {
    let site = Site::open(|_, _| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let other = Authority::load_or_create(folder.path(), site.now).unwrap();
    let client = Client::connect(&site.env, &site.shown(&site.authority, site.now), "test").unwrap();
    let who = async || {
        let answer = client.send(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        let body = read_all(answer.into_body(), 1 << 16).await.unwrap();
        String::from_utf8_lossy(&body).into_owned()
    };
    assert_eq!(who().await, "ada");
    *site.next.lock() = server_tls(&other, site.now);
    std::fs::write(site.file.path(), "new").unwrap();
    let new = Connection { ca_pem: Some(other.cert_pem.clone()), ..site.connection() };
    while site.ask(&new).await.is_err() {
        site.env.sleep(Duration::from_millis(20)).await;
    }
    // On the same connection, since the client would not trust the server on a new one.
    assert_eq!(who().await, "nobody, rejected");
}

#[tokio::test]
async fn a_server_has_a_certificate_for_each_name_and_speaks_what_it_was_told() {
    let site = Site::open(|authority, tls| {
        let issue = |name: &str| {
            let names = [name.to_owned()];
            authority.issue(&subject("named", &names), Env::system().wall()).unwrap()
        };
        let (exact, starred) = (issue("a.example.com"), issue("*.example.org"));
        tls.named = vec![
            NamedCertificate { names: Vec::new(), cert: exact.cert_pem, key: exact.key_pem },
            NamedCertificate { names: vec!["*.example.org".to_owned()], cert: starred.cert_pem, key: starred.key_pem },
        ];
        tls.policy = TlsPolicy::default().with_min_version("VersionTLS13").unwrap();
    })
    .await;
    for (name, is_shown) in [
        ("a.example.com", true),
        ("A.example.com", true),
        ("b.example.org", true),
        ("localhost", true),
        ("b.example.com", false),
        ("a.b.example.org", false),
    ] {
        let asking = Connection { tls_server_name: Some(name.to_owned()), ..site.connection() };
        assert_eq!(site.ask(&asking).await.is_ok(), is_shown, "{name}");
    }
    let stream = site.raw(Protocols::Http1Only).await;
    assert_eq!(stream.get_ref().1.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn who_never_finishes_a_sentence_is_not_waited_for() {
    let site = Site::open(|_, _| {}).await;
    let mut silent = TcpStream::connect(&site.address).await.unwrap();
    let mut waiting = Vec::new();
    for (protocols, said) in [
        (Protocols::Http1Only, &b""[..]),
        (Protocols::Http1Only, b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: "),
        // An answered request and then nothing, or half of a second request.
        (Protocols::Http1Only, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (Protocols::Http1Only, b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET"),
        (Protocols::Http2AndHttp1, b""),
        (Protocols::Http2AndHttp1, &PREFACE[..10]),
        (Protocols::Http2AndHttp1, PREFACE),
    ] {
        let mut stream = site.raw(protocols).await;
        stream.write_all(said).await.unwrap();
        waiting.push(stream);
    }
    let mut idle = site.raw(Protocols::Http2AndHttp1).await;
    idle.write_all(&[PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    waiting.push(idle);
    assert_eq!(site.ask(&site.connection()).await.as_deref(), Ok("nobody"));
    // Nothing more is sent, so virtual time jumps to the limits.
    tokio::time::pause();
    let began = site.env.now();
    assert_eq!(rest(&mut silent).await, "");
    for mut stream in waiting {
        let hung_up = site.env.timeout(Duration::from_secs(600), rest(&mut stream)).await;
        hung_up.expect("the server hangs up");
    }
    assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn headers_have_a_limit() {
    let site = Site::open(|_, _| {}).await;
    let mut greedy = site.raw(Protocols::Http1Only).await;
    let line = format!("X-Long: {}\r\n", "x".repeat(64 << 10));
    greedy.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
    let mut sent = 0;
    // Until the server closes the connection.
    while sent < (8 << 20) && greedy.write_all(line.as_bytes()).await.is_ok() {
        sent += line.len();
    }
    let answer = rest(&mut greedy).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(sent < (8 << 20), "{sent}");
    assert_eq!(site.ask(&site.connection()).await.as_deref(), Ok("nobody"));
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of HTTP/2 frames.
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

#[tokio::test]
async fn streams_that_are_taken_back_in_bulk_end_their_connection() {
    let site = Site::open(|_, _| {}).await;
    let mut stream = site.raw(Protocols::Http2AndHttp1).await;
    let mut flood = PREFACE.to_vec();
    flood.extend(frame(SETTINGS, 0, 0, &[]));
    for number in 0..10_000_u32 {
        // GET https://a/ with HPACK's static table, then RST_STREAM with CANCEL.
        flood.extend(frame(HEADERS, 5, number * 2 + 1, &[0x82, 0x87, 0x84, 0x41, 1, b'a']));
        flood.extend(frame(RESET, 0, number * 2 + 1, &8_u32.to_be_bytes()));
    }
    let _ = stream.write_all(&flood).await;
    // GOAWAY with ENHANCE_YOUR_CALM, then the end.
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let calm = [7, 0, 0, 0, 0, 0];
    let said = bytes.windows(calm.len()).position(|window| window == calm);
    assert!(said.is_some_and(|at| bytes[at + 10..].starts_with(&11_u32.to_be_bytes())), "{bytes:?}");
    assert_eq!(site.ask(&site.connection()).await.as_deref(), Ok("nobody"));
}
