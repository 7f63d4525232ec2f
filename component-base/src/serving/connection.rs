//! One accepted connection: the TLS handshake, then HTTP/1.1 or 2, until it closes.

use super::Material;
use super::activity::{Activity, Protocol};
use super::peer::Peer;
use super::places::Place;
use crate::env::Env;
use crate::network::HttpService;
use arc_swap::ArcSwap;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tower::ServiceExt;

/// Flow-control windows, large enough that one slow stream does not stall the others of its connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Most streams of one connection; kube-apiserver allows 100 to unauthenticated clients and 1,000 to others.
const MAX_STREAMS: u32 = 1_000;
/// Numbers of streams that a client may reset before they were handled, or break; one more ends the connection. A
/// stream costs the server more than its reset costs the client.
const MAX_RESET_STREAMS: usize = 20;
const MAX_ERROR_STREAMS: usize = 1024;
/// Most bytes of all headers of a request, as in Go.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// The answer to a plain HTTP request.
const NOT_TLS: &str = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

pub struct Connection {
    pub env: Env,
    pub material: Arc<ArcSwap<Material>>,
    pub service: HttpService,
    pub address: SocketAddr,
    pub activity: Arc<Activity>,
    pub place: Place,
}

/// Marks a request as being answered while the value lives.
struct InFlight(Arc<Activity>);

impl InFlight {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.request_began();
        Self(activity.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

impl Connection {
    pub async fn run(self, mut stream: TcpStream) {
        let activity = self.activity.clone();
        let shutdown = self.env.shutdown().clone();
        let first = tokio::select! {
            biased;
            first = speaks_tls(&mut stream) => first,
            _ = activity.expired() => return,
            () = shutdown.cancelled() => return,
        };
        match first {
            Ok(true) => self.run_tls(stream).await,
            Ok(false) => tracing::debug!(peer = %self.address, "the client does not speak TLS"),
            Err(error) => tracing::debug!(peer = %self.address, %error, "no first byte"),
        }
    }

    async fn run_tls<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S) {
        let Self { env, material, service, address, activity, place } = self;
        let acceptor = material.load().acceptor.clone();
        let handshake = tokio::select! {
            biased;
            handshake = acceptor.accept(stream) => handshake,
            _ = activity.expired() => Err(io::ErrorKind::TimedOut.into()),
            () = env.shutdown().cancelled() => return,
        };
        let stream = match handshake {
            Ok(stream) => stream,
            Err(error) => {
                match advice(&error) {
                    Some(advice) => tracing::warn!(peer = %address, "TLS handshake failed: {advice}"),
                    None => tracing::debug!(peer = %address, %error, "TLS handshake failed"),
                }
                return;
            }
        };
        let agreed = stream.get_ref().1;
        let protocol = if agreed.alpn_protocol() == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 };
        let shown = agreed.peer_certificates().unwrap_or_default();
        let peer = Arc::new(Peer::new(address, shown.iter().map(|c| c.clone().into_owned()).collect()));
        activity.handshake_ended(protocol);
        let io = TokioIo::new(Observed { stream, activity: activity.clone(), _place: place });
        let (request_activity, request_env) = (activity.clone(), env.clone());
        let handler = service_fn(move |request: Request<Incoming>| {
            let in_flight = InFlight::new(&request_activity);
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer.info(&request_env, &material.load().verifiers));
            let answer = service.clone().oneshot(request);
            async move {
                let answer: Response<Body> = answer.await?;
                Ok::<_, Infallible>(answer.map(|body| Answer { body, _in_flight: in_flight }))
            }
        });
        let ended = match protocol {
            Protocol::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_buf_size(MAX_HEADER_BYTES as usize);
                let connection = builder.serve_connection(io, handler).with_upgrades();
                drive(&env, &activity, connection, |connection| connection.graceful_shutdown()).await
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .initial_stream_window_size(STREAM_WINDOW_BYTES)
                    .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                    .max_concurrent_streams(MAX_STREAMS)
                    .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
                    .max_local_error_reset_streams(MAX_ERROR_STREAMS)
                    .max_header_list_size(MAX_HEADER_BYTES);
                let connection = builder.serve_connection(io, handler);
                drive(&env, &activity, connection, |connection| connection.graceful_shutdown()).await
            }
        };
        activity.released();
        if let Err(error) = ended {
            tracing::trace!(peer = %address, %error, "connection ended");
        }
    }
}

/// Drives a connection until it ends, a limit has passed, or the server shuts down. In the last two cases it first
/// announces the end to a client whose last request was served, which may then finish its requests.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    env: &Env,
    activity: &Activity,
    connection: C,
    announce_end: impl Fn(Pin<&mut C>),
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    let mut is_announced = false;
    loop {
        let should_announce = tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = env.shutdown().cancelled(), if !is_announced => true,
            should_announce = activity.expired() => should_announce,
        };
        if is_announced || !should_announce {
            return Ok(());
        }
        is_announced = true;
        activity.closing();
        announce_end(connection.as_mut());
    }
}

/// Returns advice for the owner of a certificate with which the handshake failed.
///
/// Deviation: a client certificate of X.509 version 1 is refused, where Go takes it: the library that checks signatures reads
/// version 3 alone.
fn advice(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let is_old = matches!(error, rustls::Error::InvalidCertificate(_)) && error.to_string().contains("CertVersion");
    is_old.then_some(
        "the client's certificate is of X.509 version 1, and only version 3 is taken: issue it again with extensions, \
         for example by `openssl x509 -req -extfile` with a file that says `extendedKeyUsage = clientAuth`",
    )
}

/// Peeks at the first byte. Answers a client that speaks plain HTTP with an HTTP error, as Go's server does.
///
/// Every HTTP method begins with an upper-case letter, and no TLS record does.
async fn speaks_tls(stream: &mut TcpStream) -> io::Result<bool> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        stream.write_all(NOT_TLS.as_bytes()).await?;
        stream.shutdown().await?;
        return Ok(false);
    }
    Ok(true)
}

/// Body of an answer; the request is in flight until it has been sent.
struct Answer {
    body: Body,
    _in_flight: InFlight,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that records its progress. It holds the connection's place, also after an upgrade.
struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
    _place: Place,
}

impl<S> Observed<S> {
    fn record<T>(&self, progress: &Poll<io::Result<T>>) {
        match progress {
            Poll::Pending => self.activity.write_blocked(),
            Poll::Ready(_) => self.activity.write_progressed(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.activity.received(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.record(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.record(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::CertKey;
    use crate::private_key::PrivateKey;
    use crate::tls_policy::TlsPolicy;
    use crate::{fixtures, tls};
    use rustls::SignatureScheme;
    use rustls::client::ResolvesClientCert;
    use rustls::sign::CertifiedKey;
    use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
    use std::time::Duration;

    const OLD_CERTIFICATE: &str = include_str!("../../testing/fixtures/client-v1.crt");

    /// A client that presents this certificate, whatever the server asks for.
    #[derive(Debug)]
    struct Shows(Arc<CertifiedKey>);

    impl ResolvesClientCert for Shows {
        fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            Some(self.0.clone())
        }

        fn has_certs(&self) -> bool {
            true
        }
    }

    /// The server's handshake fails with the error that the advice is for.
    #[tokio::test]
    async fn a_handshake_with_an_old_certificate_ends_with_advice() {
        tls::install_provider();
        let CertKey { cert_pem, key_pem } = fixtures::serving();
        let client_ca = Some(fixtures::authority_pem());
        let policy = TlsPolicy::default();
        let of_server =
            tls::ServerTls { cert: cert_pem, key: key_pem, client_ca, proxy_ca: None, named: Vec::new(), policy };
        let acceptor = Material::new(&of_server).unwrap().acceptor;

        let mut roots = rustls::RootCertStore::empty();
        roots.add(tls::certificates("authority", &fixtures::authority_pem()).unwrap().remove(0)).unwrap();
        let key = PrivateKey::from_pem(&fixtures::client("kubernetes-admin").unwrap().key_pem).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.pkcs8_der().to_vec()));
        let builder = rustls::ClientConfig::builder();
        let key = builder.crypto_provider().key_provider.load_private_key(key).unwrap();
        let shown = CertifiedKey::new(tls::certificates("client", OLD_CERTIFICATE).unwrap(), key);
        let shows = Arc::new(Shows(Arc::new(shown)));
        let config = builder.with_root_certificates(roots).with_client_cert_resolver(shows);
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));

        let (of_client, of_server) = tokio::io::duplex(1 << 16);
        let name = "localhost".try_into().unwrap();
        let (refused, _) = tokio::join!(acceptor.accept(of_server), connector.connect(name, of_client));
        let advice = advice(&refused.expect_err("the certificate is too old")).unwrap_or_default();
        assert!(advice.contains("is of X.509 version 1, and only version 3 is taken"), "{advice}");
    }

    #[test]
    fn the_owner_of_an_old_certificate_is_told_what_to_do() {
        let old = tls::certificates("client certificate", OLD_CERTIFICATE).unwrap();
        let verifier = tls::client_verifier(&fixtures::authority_pem()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let refused = verifier.verify_client_cert(&old[0], &[], now).unwrap_err();
        let of = |error: rustls::Error| io::Error::new(io::ErrorKind::InvalidData, error);
        assert!(advice(&of(refused)).is_some_and(|advice| advice.contains("extendedKeyUsage = clientAuth")));
        assert_eq!(advice(&of(rustls::Error::InvalidCertificate(rustls::CertificateError::Expired))), None);
        assert_eq!(advice(&io::ErrorKind::TimedOut.into()), None);
    }
}
