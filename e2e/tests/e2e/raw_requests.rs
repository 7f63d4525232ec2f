//! Tests malformed HTTP requests: headers with unusual line ends and bytes, and bodies with two lengths. A server that
//! reads such a request differently from a proxy before it could mix up the requests of two callers.

use crate::program;
use component_base::kubeconfig::Connection;
use component_base::pki::{Authority, Subject};
use component_base::tls::{self, Protocols};
use e2e::apiserver::ApiServer;
use e2e::store::Store;
use orrery::up::data_dir::DataDir;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest time for an answer.
const LIMIT: Duration = Duration::from_secs(30);
const REVIEW: &str = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;

/// Three callers with their credentials, and their server.
struct Callers {
    server: ApiServer,
    admin: Connection,
    stranger: Connection,
    proxy: Connection,
}

impl Callers {
    async fn start(directory: &Path) -> Self {
        let tokens = directory.join("tokens.csv");
        std::fs::write(&tokens, "ann-token,ann,1,dev\n").unwrap();
        let proxies = directory.join("proxies");
        let now = component_base::env::Env::system().wall();
        let authority = Authority::load_or_create(&proxies, now).unwrap();
        let flags = [
            format!("--token-auth-file={}", tokens.display()),
            format!("--requestheader-client-ca-file={}", proxies.join("ca.crt").display()),
            "--requestheader-allowed-names=front".to_owned(),
        ];
        let flags = flags.each_ref().map(String::as_str);
        let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
        let server = ApiServer::start_in(program(), data_dir, Store::Memory, &flags).await;
        let admin = server.admin.clone();
        let stranger = Connection { client_cert_pem: None, client_key_pem: None, ..admin.clone() };
        let pair = authority.issue(&Subject { common_name: "front", ..Subject::default() }, now).unwrap();
        let (client_cert_pem, client_key_pem) = (Some(pair.cert_pem), Some(pair.key_pem));
        let proxy = Connection { client_cert_pem, client_key_pem, ..admin.clone() };
        Self { server, admin, stranger, proxy }
    }

    /// Returns headers that set the user, each with the caller that may send it.
    fn headers(&self) -> [(&Connection, &'static str, &'static str); 7] {
        [
            (&self.admin, "impersonate-user", "ann"),
            (&self.admin, "impersonate-group", "dev"),
            (&self.admin, "impersonate-extra-team", "red"),
            (&self.stranger, "authorization", "Bearer ann-token"),
            (&self.proxy, "x-remote-user", "ann"),
            (&self.proxy, "x-remote-group", "dev"),
            (&self.proxy, "x-remote-extra-team", "red"),
        ]
    }

    /// Sends bytes. Returns the received ones once the server has closed the connection or `is_all` returns true.
    async fn exchange(
        &self,
        by: &Connection,
        protocols: Protocols,
        bytes: &[u8],
        is_all: fn(&[u8]) -> bool,
    ) -> Vec<u8> {
        let exchange = async {
            let config = tls::client_config(by, protocols).unwrap();
            let address = by.server.strip_prefix("https://").unwrap();
            let name = address.rsplit_once(':').unwrap().0.to_owned().try_into().unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
            // The server may close before it has read everything.
            let _ = stream.write_all(bytes).await;
            let mut received = Vec::new();
            let mut piece = [0; 4096];
            while !is_all(&received) {
                match stream.read(&mut piece).await {
                    Ok(0) | Err(_) => break,
                    Ok(length) => received.extend_from_slice(&piece[..length]),
                }
            }
            received
        };
        let received = self.server.env.timeout(LIMIT, exchange).await;
        received.unwrap_or_else(|_| panic!("no end after {}", String::from_utf8_lossy(bytes)))
    }

    /// Sends HTTP/1.1 text. Returns the codes of all answers, and their whole text.
    async fn plain(&self, by: &Connection, text: &[u8]) -> (Vec<u16>, String) {
        let received = self.exchange(by, Protocols::Http1Only, text, |_| false).await;
        let received = String::from_utf8(received).unwrap();
        let answers = received.split("HTTP/1.1 ").skip(1);
        (answers.map(|answer| answer[..3].parse().unwrap()).collect(), received)
    }
}

/// Returns the begin of a SelfSubjectReview request with further header lines.
fn who(lines: &[u8]) -> Vec<u8> {
    let mut request = b"POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\r\nHost: x\r\n".to_vec();
    request.extend_from_slice(b"Content-Type: application/json\r\n");
    request.extend_from_slice(lines);
    request
}

/// Returns a complete SelfSubjectReview request with further header lines, after which the server closes the
/// connection.
fn last(lines: &[u8]) -> Vec<u8> {
    let mut lines = lines.to_vec();
    lines.extend_from_slice(
        format!("\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{REVIEW}", REVIEW.len()).as_bytes(),
    );
    who(&lines)
}

/// Returns a header with bytes inserted in the middle or at the end of its name, or into its value.
fn damaged(name: &str, value: &str, piece: &[u8]) -> [(Vec<u8>, Vec<u8>); 4] {
    let into = |text: &str, at: usize| [&text.as_bytes()[..at], piece, &text.as_bytes()[at..]].concat();
    let (name, value) = (name.to_owned(), value.to_owned());
    [
        (into(&name, name.len() / 2), value.clone().into_bytes()),
        (into(&name, name.len()), value.clone().into_bytes()),
        (name.clone().into_bytes(), into(&value, value.len() - 1)),
        (name.into_bytes(), into(&value, value.len())),
    ]
}

/// Bytes that are not allowed in headers: control characters except the tab.
fn control_bytes() -> impl Iterator<Item = u8> {
    (0..0x20).chain([0x7f]).filter(|byte| *byte != b'\t')
}

#[tokio::test]
async fn headers_with_control_characters_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let callers = Callers::start(directory.path()).await;
    for (by, name, value) in callers.headers() {
        // Headers for groups and other attributes need a header for the user.
        let user = match name.split_once('-') {
            Some(("x", _)) => "x-remote-user: joe\r\n",
            Some(("impersonate", _)) => "impersonate-user: joe\r\n",
            _ => "",
        };
        let user = if name.ends_with("-user") { "" } else { user };
        let line = |name: &[u8], value: &[u8]| last(&[user.as_bytes(), name, b": ", value].concat());
        let (codes, received) = callers.plain(by, &line(name.as_bytes(), value.as_bytes())).await;
        assert_eq!(codes, [201], "{name}: {received}");
        // A line feed alone is left out: it ends a line, as in Go's server.
        let pieces = control_bytes().filter(|byte| *byte != b'\n').map(|byte| vec![byte]);
        let folds = ["\r\n ", "\r\n\t", "\r\r\n", "\0\r\n"].map(|fold| fold.as_bytes().to_vec());
        for piece in pieces.chain(folds) {
            for (name, value) in damaged(name, value, &piece) {
                let line = line(&name, &value);
                let (codes, received) = callers.plain(by, &line).await;
                assert_eq!(codes, [400], "{}: {received}", String::from_utf8_lossy(&line).escape_debug());
            }
        }
        for name in [format!("{name} "), format!("{name}\t"), format!(" {name}"), format!("{name}\u{e9}")] {
            let (codes, received) = callers.plain(by, &line(name.as_bytes(), value.as_bytes())).await;
            assert_eq!(codes, [400], "{name:?}: {received}");
        }
    }
}

#[tokio::test]
async fn a_line_feed_ends_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let callers = Callers::start(directory.path()).await;
    // A caller that may send both headers may end their lines either way; no other caller gains a permission.
    for (by, lines, code, name) in [
        (&callers.admin, "impersonate-user: ann\nimpersonate-group: dev", 201, r#""username":"ann""#),
        (&callers.stranger, "authorization: Bearer ann-token\nimpersonate-user: kubernetes-admin", 403, "cannot"),
        (&callers.stranger, "authorization: Bearer ann-token\nx-remote-user: root", 201, r#""username":"ann""#),
        (&callers.stranger, "authorization: Bearer nobody\nauthorization: Bearer ann-token", 401, "Unauthorized"),
        (&callers.stranger, "authorization: Bearer\n ann-token", 400, ""),
        (&callers.admin, "impersonate-user: a\n nn", 400, ""),
        (&callers.proxy, "x-remote-user:\n ann", 400, ""),
    ] {
        let (codes, received) = callers.plain(by, &last(lines.as_bytes())).await;
        assert!(codes == [code] && received.contains(name), "{lines:?}: {received}");
    }
}

/// Encodes a frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Encodes a header as an HPACK literal.
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| vec![u8::try_from(text.len()).ok().filter(|length| *length < 0x7f).unwrap()];
    [vec![0], length(name), name.to_vec(), length(value), value.to_vec()].concat()
}

/// Returns the result of an HTTP/2 request: the HPACK index of the status, or the error of the stream or connection;
/// `None` if neither has arrived yet.
fn outcome(mut received: &[u8]) -> Option<Result<u8, &'static str>> {
    while let [a, b, c, kind, _, _, _, _, stream, rest @ ..] = received {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let payload = rest.get(..length)?;
        match (kind, stream) {
            (1, 1) => return Some(Ok(payload[0])),
            (3, 1) => return Some(Err("reset")),
            (7, _) => return Some(Err("gone away")),
            _ => received = &rest[length..],
        }
    }
    None
}

const HPACK_200: u8 = 0x88;

#[tokio::test]
async fn control_characters_in_http_2_headers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let callers = Callers::start(directory.path()).await;
    let send = async |by: &Connection, name: &[u8], value: &[u8]| {
        let known = name == b"authorization" || name.ends_with(b"-user");
        let user: &[u8] = if name.starts_with(b"x") { b"x-remote-user" } else { b"impersonate-user" };
        let mut headers = Vec::new();
        for (name, value) in [(":method", "GET"), (":scheme", "https"), (":path", "/version"), (":authority", "x")] {
            headers.extend(literal(name.as_bytes(), value.as_bytes()));
        }
        if !known {
            headers.extend(literal(user, b"joe"));
        }
        headers.extend(literal(name, value));
        let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 5, 1, &headers)];
        let received = callers
            .exchange(by, Protocols::Http2AndHttp1, &bytes.concat(), |received| outcome(received).is_some())
            .await;
        outcome(&received).unwrap_or(Err("closed"))
    };
    for (by, name, value) in callers.headers() {
        assert_eq!(send(by, name.as_bytes(), value.as_bytes()).await, Ok(HPACK_200), "{name}");
        let pieces = control_bytes().map(|byte| vec![byte]).chain([b"\r\n".to_vec(), b"\r\n ".to_vec()]);
        for piece in pieces {
            for (name, value) in damaged(name, value, &piece) {
                let result = send(by, &name, &value).await;
                let shown = String::from_utf8_lossy(&name).escape_debug().to_string();
                assert!(result.is_err(), "{shown}: {}: {result:?}", String::from_utf8_lossy(&value).escape_debug());
            }
        }
    }
}

#[tokio::test]
async fn ambiguous_body_lengths_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let callers = Callers::start(directory.path()).await;
    let length = REVIEW.len();
    let chunked = format!("{length:x}\r\n{REVIEW}\r\n0\r\n\r\n");
    // A proxy may have read these bytes as a body or as another caller's request.
    let smuggled = String::from_utf8(last(b"impersonate-user: mallory")).unwrap();
    for lines in [
        format!("Content-Length: {length}\r\nContent-Length: {}", length + smuggled.len()),
        format!("Content-Length: {}\r\nContent-Length: {length}", length + smuggled.len()),
        format!("Content-Length: {length}, {}", length + 1),
        format!("Content-Length: +{length}"),
        format!("Content-Length: -{length}"),
        format!("Content-Length: 0x{length:x}"),
        format!("Content-Length: {length} 0"),
        "Content-Length:".to_owned(),
        format!("Content-Length: {}", "9".repeat(40)),
        "Transfer-Encoding: identity".to_owned(),
        "Transfer-Encoding: chunked, identity".to_owned(),
        "Transfer-Encoding: xchunked".to_owned(),
        "Transfer-Encoding: gzip, chunked, x".to_owned(),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity".to_owned(),
        format!("Content-Length: {length}\r\nTransfer-Encoding: identity"),
        format!("Transfer-Encoding : chunked\r\nContent-Length: {length}"),
        format!("Transfer-Encoding:\r\n chunked\r\nContent-Length: {length}"),
    ] {
        for body in [REVIEW, &chunked] {
            let text = [who(lines.as_bytes()), format!("\r\n\r\n{body}{smuggled}").into_bytes()].concat();
            let (codes, received) = callers.plain(&callers.admin, &text).await;
            assert_eq!(codes, [400], "{lines}: {received}");
        }
    }
    // If a body has both kinds of length, the chunks count, and nothing after them is read.
    for lines in [
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
        format!("Content-Length: {}\r\nTransfer-Encoding: Chunked", chunked.len() + smuggled.len()),
    ] {
        for (body, code) in [(chunked.as_str(), 201), (REVIEW, 400)] {
            let text = [who(lines.as_bytes()), format!("\r\n\r\n{body}{smuggled}").into_bytes()].concat();
            let (codes, received) = callers.plain(&callers.admin, &text).await;
            assert!(codes == [code] && !received.contains("mallory"), "{lines}: {received}");
        }
    }
    for chunks in ["g\r\n", "-1\r\nx\r\n0\r\n\r\n", "1\nx\n0\n\n", "2\r\n{}0\r\n\r\n", "ffffffffffffffffff\r\n"] {
        let text = [who(b"Transfer-Encoding: chunked"), format!("\r\n\r\n{chunks}{smuggled}").into_bytes()].concat();
        let (codes, received) = callers.plain(&callers.admin, &text).await;
        assert!(codes.is_empty() || codes == [400], "{chunks:?}: {received}");
    }
    // Several requests may arrive at once, and each has its own user.
    let first = format!("impersonate-user: ann\r\nContent-Length: {length}\r\n\r\n{REVIEW}");
    let second = format!("Transfer-Encoding: chunked\r\n\r\n{chunked}");
    let text = [who(first.as_bytes()), who(second.as_bytes()), last(b"impersonate-user: bob")].concat();
    let (codes, received) = callers.plain(&callers.admin, &text).await;
    assert_eq!(codes, [201, 201, 201], "{received}");
    let names: Vec<usize> = ["ann", "kubernetes-admin", "bob"].iter().filter_map(|name| received.find(name)).collect();
    assert!(names.len() == 3 && names.is_sorted(), "{received}");
}
