//! `GrpcMember`: a real etcd server, and `GrpcConnection`, a connection to it through the `etcd-client` crate.
//!
//! Corresponds to etcd's client/v3. This file only translates requests and answers, and classifies errors by what is
//! known to have happened.

use super::member::{
    Connection, Expected, Failure, Header, KeyChange, KeyEvent, KeyValue, Member, RangeQuery, Ranged, Status, Swap,
    Swapped, WatchMessage, WatchMessages, WatchQuery,
};
use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    Certificate, Channel, Client, Compare, CompareOp, ConnectOptions, DeleteOptions, EventType, GetOptions, Identity,
    PutOptions, ResponseHeader, TlsOptions, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchRequestSender, WatchResponse,
    WatchResponseStream,
};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tonic::transport::{Endpoint, Uri};
use tower::{BoxError, Service, service_fn};

/// Time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval and time limit of pings on a connection with watches. etcd closes connections that ping more often than
/// every five seconds.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// The certificates of a TLS connection to etcd, PEM.
#[derive(Clone, Default)]
pub struct EtcdTls {
    pub ca: Option<String>,
    /// Certificate and key.
    pub identity: Option<(String, String)>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EtcdTls")
    }
}

pub struct GrpcMember {
    url: String,
    endpoint: Endpoint,
}

impl fmt::Debug for GrpcMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl GrpcMember {
    /// Makes no connection yet. An error says what is wrong with the URL or the certificates.
    pub fn new(url: &str, tls: &EtcdTls) -> Result<Self, String> {
        let invalid = |error: tonic::transport::Error| chain(&error.into());
        let mut endpoint = Endpoint::from_shared(url.to_owned())
            .map_err(invalid)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(false);
        if url.starts_with("https://") {
            let mut config = TlsOptions::new();
            if let Some(ca) = &tls.ca {
                config = config.ca_certificate(Certificate::from_pem(ca));
            }
            if let Some((cert, key)) = &tls.identity {
                config = config.identity(Identity::from_pem(cert, key));
            }
            endpoint = endpoint.tls_config(config).map_err(invalid)?;
        }
        Ok(Self { url: url.to_owned(), endpoint })
    }
}

#[async_trait]
impl Member for GrpcMember {
    fn url(&self) -> &str {
        &self.url
    }

    async fn connect(&self) -> Result<Arc<dyn Connection>, Failure> {
        let channel = Channel::Tonic(self.endpoint.connect_with_connector_lazy(connects_once()));
        // A member without a leader can promise nothing: it has to say so at once.
        let options = ConnectOptions::new().with_require_leader(true);
        let client = Client::from_channel(channel, Some(options)).await.map_err(failure)?;
        Ok(Arc::new(GrpcConnection { client }))
    }
}

/// Returns a connector that connects once. A gRPC channel would connect again by itself when its connection breaks.
fn connects_once() -> impl Service<Uri, Response = TokioIo<TcpStream>, Error = BoxError, Future: Send> + Send + 'static
{
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let mut unused = Some(http);
    service_fn(move |uri: Uri| {
        let http = unused.take();
        async move {
            match http {
                Some(mut http) => Ok(http.call(uri).await?),
                None => Err(io::Error::new(io::ErrorKind::NotConnected, "the connection has broken").into()),
            }
        }
    })
}

struct GrpcConnection {
    client: Client,
}

#[async_trait]
impl Connection for GrpcConnection {
    async fn status(&self) -> Result<Status, Failure> {
        let status = self.client.maintenance_client().status().await.map_err(failure)?;
        Ok(Status {
            cluster: header(status.header())?.cluster,
            version: status.version().to_owned(),
            size_bytes: unsigned(status.db_size()),
        })
    }

    async fn range(&self, query: RangeQuery) -> Result<Ranged, Failure> {
        let mut options = GetOptions::new()
            .with_limit(i64::try_from(query.limit).unwrap_or(i64::MAX))
            .with_revision(signed(query.revision));
        if !query.end.is_empty() {
            options = options.with_range(query.end);
        }
        if query.count_only {
            options = options.with_count_only();
        }
        let mut kv = self.client.kv_client().max_decoding_message_size(usize::MAX);
        let mut answer = kv.get(query.start, Some(options)).await.map_err(failure)?;
        Ok(Ranged {
            header: header(answer.header())?,
            more: answer.more(),
            count: unsigned(answer.count()),
            kvs: answer.take_kvs().into_iter().map(owned).collect(),
        })
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Failure> {
        let key = swap.key;
        let compare = match swap.expected {
            Expected::ModRevision(revision) => Compare::mod_revision(&*key, CompareOp::Equal, signed(revision)),
            Expected::Version(version) => Compare::version(&*key, CompareOp::Equal, signed(version)),
        };
        let change = match swap.change {
            KeyChange::Put { value, lease } => {
                let options = PutOptions::new().with_prev_key().with_lease(lease);
                TxnOp::put(&*key, value, Some(options))
            }
            KeyChange::Delete => TxnOp::delete(&*key, Some(DeleteOptions::new().with_prev_key())),
        };
        let txn = Txn::new().when([compare]).and_then([change]).or_else([TxnOp::get(key, None)]);
        let mut kv = self.client.kv_client().max_decoding_message_size(usize::MAX);
        let answer = kv.txn(txn).await.map_err(failure)?;
        let key_value = match answer.op_responses().pop() {
            Some(TxnOpResponse::Put(mut put)) => put.take_prev_key(),
            Some(TxnOpResponse::Delete(mut delete)) => delete.take_prev_kvs().pop(),
            Some(TxnOpResponse::Get(mut get)) => get.take_kvs().pop(),
            Some(TxnOpResponse::Txn(_)) | None => None,
        };
        Ok(Swapped { header: header(answer.header())?, succeeded: answer.succeeded(), key_value: key_value.map(owned) })
    }

    async fn compact(&self, revision: u64) -> Result<Header, Failure> {
        let answer = self.client.kv_client().compact(signed(revision), None).await.map_err(failure)?;
        header(answer.header())
    }

    async fn grant_lease(&self, ttl_s: u64) -> Result<i64, Failure> {
        let answer = self.client.lease_client().grant(signed(ttl_s), None).await.map_err(failure)?;
        Ok(answer.id())
    }

    async fn watch(&self, query: WatchQuery) -> Result<Box<dyn WatchMessages>, Failure> {
        let options = WatchOptions::new()
            .with_range(query.end)
            .with_start_revision(signed(query.from))
            .with_prev_key()
            .with_progress_notify();
        let mut client = self.client.watch_client().max_decoding_message_size(usize::MAX);
        let stream = client.watch(query.start, Some(options)).await.map_err(failure)?;
        let (requests, responses) = stream.split();
        Ok(Box::new(GrpcWatch { requests, responses }))
    }
}

/// One gRPC stream with one watch on it.
struct GrpcWatch {
    requests: WatchRequestSender,
    responses: WatchResponseStream,
}

#[async_trait]
impl WatchMessages for GrpcWatch {
    async fn next(&mut self) -> Result<Option<WatchMessage>, Failure> {
        Ok(self.responses.message().await.map_err(failure)?.map(|response| message(&response)))
    }

    async fn request_progress(&mut self) -> Result<(), Failure> {
        self.requests.request_progress().await.map_err(failure)
    }
}

fn message(response: &WatchResponse) -> WatchMessage {
    let event = |event: &etcd_client::Event| {
        Some(KeyEvent {
            key_value: copied(event.kv()?),
            is_delete: event.event_type() == EventType::Delete,
            previous: event.prev_kv().map(copied),
        })
    };
    let (cluster, revision) =
        response.header().map_or((0, 0), |header| (header.cluster_id(), unsigned(header.revision())));
    WatchMessage {
        cluster,
        revision,
        created: response.created(),
        canceled: response.canceled().then(|| response.cancel_reason().to_owned()),
        compacted: unsigned(response.compact_revision()),
        answers_request: response.watch_id() < 0,
        events: response.events().iter().filter_map(event).collect(),
    }
}

fn header(header: Option<&ResponseHeader>) -> Result<Header, Failure> {
    let header = header.ok_or_else(|| Failure::Lost("etcd answered without a header".to_owned()))?;
    Ok(Header { cluster: header.cluster_id(), revision: unsigned(header.revision()) })
}

fn owned(kv: etcd_client::KeyValue) -> KeyValue {
    let (create, modified, version) = (kv.create_revision(), kv.mod_revision(), kv.version());
    let (key, value) = kv.into_key_value();
    KeyValue {
        key,
        value: value.into(),
        create_revision: unsigned(create),
        mod_revision: unsigned(modified),
        version: unsigned(version),
    }
}

fn copied(kv: &etcd_client::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key().to_owned(),
        value: Bytes::copy_from_slice(kv.value()),
        create_revision: unsigned(kv.create_revision()),
        mod_revision: unsigned(kv.mod_revision()),
        version: unsigned(kv.version()),
    }
}

/// Converts from etcd's signed numbers, which are never below 0.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// etcd's errors that say that nothing has happened and that a later attempt may succeed. See
/// api/v3rpc/rpctypes/error.go.
const TRY_LATER: [&str; 3] = ["etcdserver: no leader", "etcdserver: too many requests", "etcdserver: not capable"];

/// gRPC codes of the transport, or of a member that gave up waiting.
const LOSS_CODES: [i32; 6] = [1, 2, 4, 10, 14, 15];

/// gRPC's code for a message that is too large, and etcd's for a database over its quota.
const RESOURCE_EXHAUSTED: i32 = 8;

/// Classifies an error by what may have happened.
fn failure(error: etcd_client::Error) -> Failure {
    let refused = causes(&error).any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::NotConnected))
    });
    let text = chain(&error);
    if refused || text.contains("tcp connect error") || text.contains("dns error") {
        return Failure::Unreachable(text);
    }
    let etcd_client::Error::GRpcStatus(status) = &error else { return Failure::Lost(text) };
    by_message(status.message(), status.code().into(), text)
}

fn by_message(message: &str, code: i32, text: String) -> Failure {
    match message {
        "etcdserver: mvcc: required revision has been compacted" => Failure::Compacted,
        "etcdserver: mvcc: required revision is a future revision" => Failure::Future,
        "etcdserver: requested lease not found" => Failure::NoLease,
        message if TRY_LATER.contains(&message) => Failure::TryLater(text),
        message if code == RESOURCE_EXHAUSTED => Failure::Rejected(message.to_owned()),
        _ if LOSS_CODES.contains(&code) => Failure::Lost(text),
        message => Failure::Rejected(message.to_owned()),
    }
}

fn causes<'a>(error: &'a etcd_client::Error) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> + 'a {
    let first: Option<&(dyn std::error::Error + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => status.source(),
        etcd_client::Error::TransportError(error) => Some(error),
        etcd_client::Error::IoError(error) => Some(error),
        _ => None,
    };
    std::iter::successors(first, |error: &&'a (dyn std::error::Error + 'static)| -> Option<&'a _> {
        (**error).source()
    })
}

/// Joins the causes of an error in one line, each once, without the words of gRPC.
fn chain(error: &etcd_client::Error) -> String {
    let mut parts = match error {
        etcd_client::Error::GRpcStatus(status) => vec![status.message().to_owned()],
        etcd_client::Error::TransportError(_) => Vec::new(),
        error => vec![error.to_string()],
    };
    for cause in causes(error) {
        let cause = cause.to_string();
        if !parts.iter().any(|part| part.contains(&cause)) {
            parts.push(cause);
        }
    }
    parts.retain(|part| !part.is_empty() && part != "transport error");
    parts.join(": ").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_sorted_by_what_may_have_happened() {
        let lost = |text: &str| Failure::Lost(text.to_owned());
        let rejected = |text: &str| Failure::Rejected(text.to_owned());
        let cases = [
            ("etcdserver: mvcc: required revision has been compacted", 11, Failure::Compacted),
            ("etcdserver: mvcc: required revision is a future revision", 11, Failure::Future),
            ("etcdserver: requested lease not found", 5, Failure::NoLease),
            ("etcdserver: no leader", 14, Failure::TryLater("etcdserver: no leader".into())),
            ("etcdserver: request timed out", 14, lost("etcdserver: request timed out")),
            ("error reading a body from connection", 2, lost("error reading a body from connection")),
            ("etcdserver: mvcc: database space exceeded", 8, rejected("etcdserver: mvcc: database space exceeded")),
            ("etcdserver: request is too large", 3, rejected("etcdserver: request is too large")),
            ("etcdserver: permission denied", 7, rejected("etcdserver: permission denied")),
        ];
        for (message, code, expected) in cases {
            assert_eq!(by_message(message, code, message.to_owned()), expected, "{message}");
        }
    }

    #[tokio::test]
    async fn a_connection_that_broke_does_not_connect_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let connection = GrpcMember::new(&url, &EtcdTls::default()).unwrap().connect().await.unwrap();
        let accept_and_close = async { drop(listener.accept().await.unwrap()) };
        let (first, ()) = tokio::join!(connection.status(), accept_and_close);
        assert!(matches!(&first, Err(Failure::Lost(_))), "{first:?}");
        let second = connection.status().await;
        assert_eq!(second, Err(Failure::Unreachable("the connection has broken".to_owned())));
    }
}
