//! `/portForward/{namespace}/{pod}`: connections to the servers in a pod, as many as the client opens.
//!
//! Corresponds to getPortForward in pkg/kubelet/server/server.go and to pkg/cri/streaming/portforward. A pod's address
//! is simulated: connections to a declared port of a running container end here, at the pages that `proxy` shows too.

use super::pages::{self, PodPort};
use crate::agent::plain_text::Refusal;
use crate::agent::stream::event::StreamEvent;
use crate::agent::stream::multiplex::{Framing, Incoming, Outgoing};
use crate::agent::stream::spdy::Headers;
use crate::agent::stream::upgrade::{Offers, Upgrade};
use crate::agent::target::PodRef;
use crate::fleet::Fleet;
use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http::{Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pod_life::images;
use proto::Kind;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const OFFERS: Offers = Offers {
    websocket: &["SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", ""],
    spdy: &["portforward.k8s.io"],
};
/// Connections that a session may have at a time; more are refused.
const MAX_CONNECTIONS: usize = 256;
/// Ports of a WebSocket: the number of a channel is a byte, and each port takes two channels.
const MAX_PORTS: usize = 127;
/// Output of a server that may wait to be sent.
const PIPE_BYTES: usize = 32 << 10;
/// After the last connection has ended, a client gets this long to read the rest.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// Headers of a SPDY stream: its purpose, its port, and the connection that its two streams share.
const STREAM_TYPE: &str = "streamtype";
const PORT: &str = "port";
const REQUEST_ID: &str = "requestid";

pub fn answer(
    fleet: &Arc<Fleet>,
    pod: PodRef,
    query: &[(String, String)],
    upgrade: Upgrade,
) -> Result<Response<Body>, Refusal> {
    pod.find(fleet).ok_or_else(|| (StatusCode::NOT_FOUND, "pod does not exist\n".to_owned()))?;
    let ports = match upgrade.takes_channels(OFFERS) {
        true => requested_ports(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?,
        false => Vec::new(),
    };
    let shared = fleet.clone();
    Ok(upgrade.answer(fleet, OFFERS, move |framing, incoming, outgoing| async move {
        let end = shared.env().shutdown().child_token();
        let _at_the_end = end.clone().drop_guard();
        let session = PortForwardSession { fleet: shared, pod, outgoing, end, inputs: BTreeMap::new() };
        match framing {
            Framing::Channels(_) => session.channels(incoming, &ports).await,
            Framing::Spdy => session.spdy_streams(incoming).await,
        }
    }))
}

/// Reads the ports that a WebSocket asks for.
fn requested_ports(query: &[(String, String)]) -> Result<Vec<u16>, String> {
    let lists: Vec<&String> = query.iter().filter(|(name, _)| name == PORT).map(|(_, list)| list).collect();
    if lists.is_empty() {
        return Err(format!("query parameter {PORT:?} is required"));
    }
    let mut ports = Vec::new();
    for list in lists {
        if list.is_empty() {
            return Err(format!("query parameter {PORT:?} cannot be empty"));
        }
        for port in list.split(',') {
            ports.push(parse_port(port).map_err(|why| why.in_list(list))?);
        }
    }
    if ports.len() > MAX_PORTS {
        return Err(format!("no more than {MAX_PORTS} ports go through one connection"));
    }
    Ok(ports)
}

/// The reason why a text is no port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NoPort {
    Zero,
    /// The text, and the reason as strconv words it.
    Unreadable(String, &'static str),
}

impl NoPort {
    /// Words the error for a list of ports that the text is in.
    fn in_list(self, list: &str) -> String {
        match self {
            Self::Zero => format!("port {list:?} must be > 0"),
            Self::Unreadable(text, why) => {
                format!("unable to parse {list:?} as a port: strconv.ParseUint: parsing {text:?}: {why}")
            }
        }
    }
}

fn parse_port(text: &str) -> Result<u16, NoPort> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        _ if !is_number => Err(NoPort::Unreadable(text.to_owned(), "invalid syntax")),
        Ok(0) => Err(NoPort::Zero),
        Ok(port) => Ok(port),
        Err(_) => Err(NoPort::Unreadable(text.to_owned(), "value out of range")),
    }
}

/// The connections of one client.
struct PortForwardSession {
    fleet: Arc<Fleet>,
    pod: PodRef,
    outgoing: Outgoing,
    end: CancellationToken,
    /// The input of each server, by the stream that carries it.
    inputs: BTreeMap<u32, WriteHalf<DuplexStream>>,
}

/// The two streams of a connection, while the client opens them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pair {
    data: Option<(u32, u16)>,
    error: Option<u32>,
}

impl PortForwardSession {
    /// Serves a WebSocket: one connection for each port, which lasts as long as the WebSocket.
    async fn channels(mut self, mut incoming: Incoming, ports: &[u16]) {
        let (alive, mut ended) = mpsc::channel::<()>(1);
        for (number, port) in (0_u32..).step_by(2).zip(ports) {
            for stream in [number, number + 1] {
                self.outgoing.data(stream, Bytes::copy_from_slice(&port.to_le_bytes())).await;
            }
            self.connect(*port, number, number + 1, Some(alive.clone())).await;
        }
        drop(alive);
        loop {
            let event = tokio::select! {
                biased;
                () = self.end.cancelled() => return,
                event = incoming.next() => event,
                _ = ended.recv() => break,
            };
            match event {
                Some(event) => self.handle(event).await,
                None => return,
            }
        }
        self.outgoing.go_away().await;
        incoming.finish(CLOSE_LIMIT).await;
    }

    /// Serves SPDY: the client opens a pair of streams for each connection, when it needs it.
    async fn spdy_streams(mut self, mut incoming: Incoming) {
        let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
        loop {
            let event = tokio::select! {
                biased;
                () = self.end.cancelled() => return,
                event = incoming.next() => event,
            };
            let Some(event) = event else { return };
            let StreamEvent::Open { stream, headers } = event else {
                self.handle(event).await;
                continue;
            };
            let is_full = self.inputs.len() >= MAX_CONNECTIONS || pairs.len() >= MAX_CONNECTIONS;
            let Some(id) = connection_id(stream, &headers).filter(|_| !is_full) else {
                self.outgoing.refuse(stream).await;
                continue;
            };
            self.outgoing.reply(stream).await;
            let pair = pairs.entry(id.clone()).or_default();
            pair.add(stream, &headers);
            if let Pair { data: Some((data, port)), error: Some(error) } = *pair {
                pairs.remove(&id);
                self.connect(port, data, error, None).await;
            }
        }
    }

    async fn handle(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Data { stream, bytes } => {
                if let Some(input) = self.inputs.get_mut(&stream)
                    && input.write_all(&bytes).await.is_err()
                {
                    self.inputs.remove(&stream);
                }
            }
            StreamEvent::End(stream) => {
                if let Some(input) = self.inputs.get_mut(&stream) {
                    let _ = input.shutdown().await;
                }
            }
            StreamEvent::Reset(stream) => {
                if let Some(mut input) = self.inputs.remove(&stream) {
                    let _ = input.shutdown().await;
                }
            }
            StreamEvent::Open { .. } => {}
        }
    }

    /// Connects to the server on a port; sends an error on the error stream when nothing listens.
    async fn connect(&mut self, port: u16, data: u32, error: u32, alive: Option<mpsc::Sender<()>>) {
        let PodRef { node, namespace, pod } = self.pod.clone();
        let port = PodPort { node, namespace, pod, port };
        if !port.is_open(&self.fleet).await {
            let uid = self.pod.find(&self.fleet).map(|pod| pod.uid().to_owned()).unwrap_or_default();
            self.outgoing.data(error, connection_refused(&uid, port.port).into()).await;
            self.outgoing.end(error).await;
            self.outgoing.end(data).await;
            return;
        }
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (output, input) = tokio::io::split(ours);
        self.inputs.insert(data, input);
        let (env, fleet) = (self.fleet.env().clone(), self.fleet.clone());
        env.spawn(serve(fleet, port, theirs, self.end.clone()));
        env.spawn(copy_output(output, self.outgoing.clone(), (data, error), self.end.clone(), alive));
    }
}

impl Pair {
    fn add(&mut self, stream: u32, headers: &Headers) {
        match headers.get(PORT).and_then(|text| parse_port(text).ok()) {
            Some(port) if is_data(headers) => self.data = Some((stream, port)),
            _ => self.error = Some(stream),
        }
    }
}

fn is_data(headers: &Headers) -> bool {
    headers.get(STREAM_TYPE).is_some_and(|kind| kind == "data")
}

/// Returns the connection that a stream belongs to; `None` when it is no stream of a forwarded port.
fn connection_id(stream: u32, headers: &Headers) -> Option<String> {
    parse_port(headers.get(PORT)?).ok()?;
    if !matches!(headers.get(STREAM_TYPE)?.as_str(), "data" | "error") {
        return None;
    }
    // A client that sends no request id opens the error stream first and the data stream right after it.
    let first = if is_data(headers) { stream.wrapping_sub(2) } else { stream };
    Some(headers.get(REQUEST_ID).cloned().unwrap_or_else(|| first.to_string()))
}

/// Returns the error of containerd when nothing listens, with the kubelet's words around it.
fn connection_refused(pod_uid: &str, port: u16) -> String {
    let sandbox = images::fingerprint(&["sandbox", pod_uid]);
    format!(
        "error forwarding port {port} to pod {sandbox}, uid : failed to execute portforward in network namespace \
         \"/var/run/netns/cni-{pod_uid}\": failed to connect to localhost:{port} inside namespace {sandbox:?}, IPv4: \
         dial tcp4 127.0.0.1:{port}: connect: connection refused IPv6 dial tcp6 [::1]:{port}: connect: connection \
         refused "
    )
}

/// Runs the server of a container for one connection.
async fn serve(fleet: Arc<Fleet>, port: PodPort, connection: DuplexStream, end: CancellationToken) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let answer = pages::answer(&fleet, &port, request.map(Body::new));
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let server = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service);
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        _ = server.with_upgrades() => {}
    }
}

/// Copies the output of a server to the client; drops `alive` at the end.
async fn copy_output(
    mut output: ReadHalf<DuplexStream>,
    outgoing: Outgoing,
    (data, error): (u32, u32),
    end: CancellationToken,
    alive: Option<mpsc::Sender<()>>,
) {
    let all = async {
        loop {
            let mut bytes = BytesMut::with_capacity(PIPE_BYTES);
            let read = output.read_buf(&mut bytes).await;
            if read.is_err() || bytes.is_empty() || !outgoing.data(data, bytes.freeze()).await {
                break;
            }
        }
        outgoing.end(error).await;
        outgoing.end(data).await;
    };
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        () = all => {}
    }
    drop(alive);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_websocket_says_which_ports_it_is_for() {
        for (query, expected) in [
            (&[("port", "80,81"), ("port", "82")][..], Ok(vec![80, 81, 82])),
            (&[], Err("query parameter \"port\" is required")),
            (&[("port", "")], Err("query parameter \"port\" cannot be empty")),
            (&[("port", "0")], Err("port \"0\" must be > 0")),
            (
                &[("port", "80,70000")],
                Err("unable to parse \"80,70000\" as a port: strconv.ParseUint: parsing \"70000\": value out of range"),
            ),
            (
                &[("port", "80,")],
                Err("unable to parse \"80,\" as a port: strconv.ParseUint: parsing \"\": invalid syntax"),
            ),
            (
                &[("port", "http")],
                Err("unable to parse \"http\" as a port: strconv.ParseUint: parsing \"http\": invalid syntax"),
            ),
        ] {
            assert_eq!(requested_ports(&pairs(query)), expected.map_err(str::to_owned), "{query:?}");
        }
    }

    #[test]
    fn two_streams_make_a_connection() {
        let headers = |given: &[(&str, &str)]| Headers::from_iter(pairs(given));
        for (stream, given, expected) in [
            (1, &[("streamtype", "error"), ("port", "80"), ("requestid", "7")][..], Some("7")),
            (3, &[("streamtype", "data"), ("port", "80"), ("requestid", "7")], Some("7")),
            (5, &[("streamtype", "error"), ("port", "80")], Some("5")),
            (7, &[("streamtype", "data"), ("port", "80")], Some("5")),
            (9, &[("streamtype", "stdin"), ("port", "80")], None),
            (9, &[("streamtype", "data"), ("port", "0")], None),
            (9, &[("streamtype", "data")], None),
        ] {
            assert_eq!(connection_id(stream, &headers(given)).as_deref(), expected, "{given:?}");
        }
        let mut pair = Pair::default();
        pair.add(1, &headers(&[("streamtype", "error"), ("port", "80")]));
        pair.add(3, &headers(&[("streamtype", "data"), ("port", "80")]));
        assert_eq!(pair, Pair { data: Some((3, 80)), error: Some(1) });
    }
}
