//! Opens TCP and TLS connections for the HTTP client, and reports the negotiated protocol.
//!
//! Corresponds to the dialer of k8s.io/client-go/transport.

use component_base::env::Env;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tower::Service;

/// Time limit for connecting, as in client-go's dialer.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Bytes that are read from a socket at once. TLS alone reads four KiB, and most objects of a watch are longer.
const READ_BYTES: usize = 16 << 10;

/// Connects to the authority of a URL.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    env: Env,
    tls: tokio_rustls::TlsConnector,
    server_name: Option<String>,
}

impl TlsConnector {
    pub(crate) fn new(env: &Env, config: ClientConfig, server_name: Option<String>) -> Self {
        Self { env: env.clone(), tls: Arc::new(config).into(), server_name }
    }

    /// Connects to the authority of a URL, within the limit.
    pub(crate) async fn connect_in_time(&self, uri: &Uri) -> io::Result<Stream> {
        match self.env.timeout(CONNECT_LIMIT, self.connect(uri)).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(io::Error::new(io::ErrorKind::TimedOut, elapsed)),
        }
    }

    async fn connect(&self, uri: &Uri) -> io::Result<Stream> {
        // The brackets around an IPv6 address belong to the URL, not to the address.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let secure = uri.scheme_str() != Some("http");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tcp = TcpStream::connect((host.as_str(), port)).await?;
        tcp.set_nodelay(true)?;
        if !secure {
            return Ok(Stream::Plain(TokioIo::new(tcp)));
        }
        let name = ServerName::try_from(self.server_name.clone().unwrap_or(host))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let tcp = BufReader::with_capacity(READ_BYTES, tcp);
        Ok(Stream::Tls(TokioIo::new(Box::new(self.tls.connect(name, tcp).await?))))
    }
}

impl Service<Uri> for TlsConnector {
    type Response = Stream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect_in_time(&uri).await })
    }
}

pub(crate) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(TokioIo<Box<TlsStream<BufReader<TcpStream>>>>),
}

impl Stream {
    /// Returns true if the server has agreed to speak HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.inner().get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        if self.is_http2() { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
