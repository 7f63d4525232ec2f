//! `HttpProxy`: an HTTP proxy in front of an API server that injects faults into reads.
//!
//! Faults are drawn like cards from a shuffled deck: their order is random, but each one occurs regularly. In a
//! simulation the proxy is a service in the same process; in front of a process it listens on a port.

use bytes::Bytes;
use client::Client;
use component_base::env::Env;
use component_base::http::{Body, BodyStream, HttpService};
use component_base::network::Broken;
use component_base::rng::Random;
use futures::{StreamExt, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use proto::Status;
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tower::ServiceExt;

/// Delay of a delayed answer, and time without a listener after a refused connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for the bytes before a cut to arrive, so that the cut is in the middle.
const BEFORE_CUT: Duration = Duration::from_millis(5);
const RETRY_AFTER_S: u32 = 1;
/// Most frames that an answer has before its fault. A frame of a watch has one or a few events.
const FRAMES: usize = 4;

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The answer is delayed.
    Delay,
    /// The connection closes without an answer, and new ones are refused for a moment.
    Refused,
    /// The answer is 410.
    Expired,
    /// A watch ends with a 410 event. A list gets the answer 410.
    ExpiredEvent,
    /// The answer is 429.
    TooManyRequests,
    /// The answer is 500.
    InternalError,
    /// The connection breaks between two frames of the answer.
    CutBetween,
    /// The connection breaks in a frame, in the middle of a line.
    CutWithin,
    /// A watch ends early without an error. A list is not affected.
    End,
}

impl Fault {
    pub const ALL: [Self; 9] = [
        Self::Delay,
        Self::Refused,
        Self::Expired,
        Self::ExpiredEvent,
        Self::TooManyRequests,
        Self::InternalError,
        Self::CutBetween,
        Self::CutWithin,
        Self::End,
    ];
}

/// The proxy; its clones share one state. It passes all requests on, and injects faults into reads.
#[derive(Clone)]
pub struct HttpProxy(Arc<Inner>);

struct Inner {
    env: Env,
    upstream: Client,
    random: Random,
    state: Mutex<State>,
    refused: Notify,
}

struct State {
    /// Faults of the next requests, in reverse order; `None` for no fault.
    deck: Vec<Option<Fault>>,
    /// Number of faults that are left; `None` for no limit.
    left: Option<usize>,
    injected: BTreeMap<Fault, usize>,
    refuses_initial_events: bool,
}

impl HttpProxy {
    /// Makes a proxy that sends requests with the client `upstream`, and injects at most `faults` faults.
    pub fn new(env: &Env, upstream: Client, random: Random, faults: Option<usize>) -> Self {
        let state = State { deck: Vec::new(), left: faults, injected: BTreeMap::new(), refuses_initial_events: false };
        let (env, refused) = (env.child(), Notify::new());
        Self(Arc::new(Inner { env, upstream, random, state: Mutex::new(state), refused }))
    }

    /// Makes the proxy refuse watches that begin with a list, like a server that cannot stream lists.
    pub fn refuse_initial_events(&self) {
        self.0.state.lock().refuses_initial_events = true;
    }

    /// Injects no more faults, not even those that were already drawn.
    pub fn stop_faults(&self) {
        self.0.state.lock().left = Some(0);
    }

    /// Returns true if the proxy will inject no more faults.
    pub fn has_no_faults_left(&self) -> bool {
        self.0.state.lock().left == Some(0)
    }

    /// Returns how often each fault was injected so far.
    pub fn injected(&self) -> BTreeMap<Fault, usize> {
        self.0.state.lock().injected.clone()
    }

    /// Returns the proxy as a service, for clients in the same process.
    pub fn service(&self) -> HttpService {
        let proxy = self.0.clone();
        HttpService::new(tower::service_fn(move |request| {
            let proxy = proxy.clone();
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        }))
    }

    /// Serves on a loopback port, without TLS, until `stop`. Returns the address.
    pub async fn listen(&self, port: u16) -> SocketAddr {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let listener = TcpListener::bind(address).await.expect("the port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        self.0.env.spawn(self.clone().serve(listener, address));
        address
    }

    /// Ends every connection.
    pub async fn stop(&self) {
        self.0.env.drain().await;
    }

    async fn serve(self, listener: TcpListener, address: SocketAddr) {
        let (env, mut listener) = (&self.0.env, Some(listener));
        loop {
            let Some(listening) = &listener else {
                env.sleep(PAUSE).await;
                listener = TcpListener::bind(address).await.ok();
                continue;
            };
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                () = self.0.refused.notified() => listener = None,
                accepted = listening.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    let (service, shutdown) = (self.service(), env.shutdown().clone());
                    env.spawn(async move {
                        let served = service_fn(move |request: Request<hyper::body::Incoming>| {
                            let service = service.clone();
                            async move { answered(service.oneshot(request.map(Body::new)).await) }
                        });
                        tokio::select! {
                            biased;
                            () = shutdown.cancelled() => {}
                            // A broken connection ends with an error on purpose.
                            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), served) => {}
                        }
                    });
                }
            }
        }
    }
}

/// Turns a fault response into an error, which closes the connection without an answer.
fn answered(answer: Result<Response<Body>, Infallible>) -> Result<Response<Body>, &'static str> {
    let Ok(answer) = answer;
    match answer.extensions().get::<Broken>() {
        Some(Broken(why)) => Err(why),
        None => Ok(answer),
    }
}

impl Inner {
    async fn answer(self: Arc<Self>, mut request: Request<Body>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = ["watch=1", "watch=true"].iter().any(|flag| query.contains(flag));
        if query.contains("sendInitialEvents=true") && self.state.lock().refuses_initial_events {
            return status(&Status::invalid("meta.k8s.io", "ListOptions", "", &[]));
        }
        let mut fault = if request.method() == Method::GET { self.draw(is_watch) } else { None };
        match fault {
            Some(Fault::Delay) => {
                self.env.sleep(PAUSE).await;
                fault = is_watch.then_some(Fault::End);
            }
            Some(Fault::Refused) => {
                self.refused.notify_one();
                return broken("connection refused");
            }
            Some(Fault::Expired) => return status(&expired()),
            Some(Fault::TooManyRequests) => {
                let mut answer =
                    status(&Status::failure(429, "TooManyRequests", "too many requests, please try again"));
                answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
                return answer;
            }
            Some(Fault::InternalError) => return status(&Status::internal("the proxy has a bad day")),
            Some(Fault::ExpiredEvent | Fault::CutBetween | Fault::CutWithin | Fault::End) | None => {}
        }
        // Both headers belong to this connection only.
        request.headers_mut().remove(header::HOST);
        request.headers_mut().remove(header::CONNECTION);
        match self.upstream.send(request).await {
            Ok(answer) => answer.map(|body| self.with_fault(body, fault)),
            Err(error) => status(&Status::failure(502, "", error.to_string())),
        }
    }

    /// Draws the fault of the next request. A fault of the whole request is counted here, one of the body when it
    /// happens.
    fn draw(&self, is_watch: bool) -> Option<Fault> {
        let mut state = self.state.lock();
        if state.left == Some(0) {
            return None;
        }
        if state.deck.is_empty() {
            let mut deck: Vec<Option<Fault>> = Fault::ALL.into_iter().map(Some).chain([None, None]).collect();
            for last in (1..deck.len()).rev() {
                deck.swap(last, self.random.below(last + 1));
            }
            state.deck = deck;
        }
        // A watch without a fault ends early, so that the next one gets its fault.
        let fault = match state.deck.pop().flatten().or(is_watch.then_some(Fault::End))? {
            Fault::ExpiredEvent if !is_watch => Fault::Expired,
            Fault::End if !is_watch => return None,
            fault => fault,
        };
        let is_in_body = matches!(fault, Fault::ExpiredEvent | Fault::CutBetween | Fault::CutWithin | Fault::End);
        if !is_in_body {
            state.count(fault);
        }
        Some(fault)
    }

    /// Passes a body on, up to the frame with the fault.
    fn with_fault(self: &Arc<Self>, body: Body, fault: Option<Fault>) -> Body {
        let Some(fault @ (Fault::ExpiredEvent | Fault::CutBetween | Fault::CutWithin | Fault::End)) = fault else {
            return body;
        };
        let faulty = FaultyBody {
            proxy: self.clone(),
            body: body.into_data_stream(),
            fault,
            frames: self.random.below(FRAMES),
            is_at_line: true,
            next: Next::Pass,
        };
        Body::from_stream(stream::unfold(faulty, FaultyBody::next_frame))
    }
}

impl State {
    fn count(&mut self, fault: Fault) {
        *self.injected.entry(fault).or_default() += 1;
        self.left = self.left.map(|left| left.saturating_sub(1));
    }
}

/// A body that is passed on up to its fault.
struct FaultyBody {
    proxy: Arc<Inner>,
    body: BodyStream,
    fault: Fault,
    /// Number of frames before the fault.
    frames: usize,
    /// True if the bytes so far end with a whole line.
    is_at_line: bool,
    next: Next,
}

/// The action for the next frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Pass,
    Break,
    End,
}

impl FaultyBody {
    async fn next_frame(mut self) -> Option<(Result<Bytes, &'static str>, Self)> {
        if self.next == Next::Pass
            && self.frames == 0
            && self.is_at_line
            && self.fault != Fault::CutWithin
            && self.happens()
        {
            match self.fault {
                Fault::CutBetween => self.next = Next::Break,
                Fault::End => self.next = Next::End,
                _ => {
                    self.next = Next::End;
                    let line = format!("{}\n", json!({"type": "ERROR", "object": expired().to_value()}));
                    return Some((Ok(Bytes::from(line)), self));
                }
            }
        }
        match self.next {
            Next::Pass => {}
            Next::Break => {
                self.proxy.env.sleep(BEFORE_CUT).await;
                self.next = Next::End;
                return Some((Err("cut"), self));
            }
            Next::End => return None,
        }
        let Ok(frame) = self.body.next().await? else {
            self.next = Next::End;
            return Some((Err("the server cut it"), self));
        };
        if self.frames == 0 && self.fault == Fault::CutWithin && frame.len() > 1 && self.happens() {
            self.next = Next::Break;
            return Some((Ok(frame.slice(..frame.len() / 2)), self));
        }
        self.frames = self.frames.saturating_sub(1);
        self.is_at_line = frame.last() == Some(&b'\n');
        Some((Ok(frame), self))
    }

    /// Counts the fault and returns true, unless faults were stopped.
    fn happens(&self) -> bool {
        let mut state = self.proxy.state.lock();
        let happens = state.left != Some(0);
        if happens {
            state.count(self.fault);
        }
        happens
    }
}

fn expired() -> Status {
    Status::expired("too old resource version: 1 (2)")
}

fn status(status: &Status) -> Response<Body> {
    let mut answer = Response::new(Body::from(status.to_value().to_string()));
    *answer.status_mut() = StatusCode::from_u16(status.code).expect("they are real codes");
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn broken(why: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    answer.extensions_mut().insert(Broken(why));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::http::read_all;
    use component_base::kubeconfig::Connection;

    const LINES: usize = 8;

    /// Makes a proxy in front of a watch with [`LINES`] lines.
    fn proxy(env: &Env, faults: &[Fault]) -> HttpProxy {
        let lines = (0..LINES).map(|number| Ok::<_, Infallible>(Bytes::from(format!("line {number}\n"))));
        let lines: Vec<_> = lines.collect();
        let server = tower::service_fn(move |_: Request<Body>| {
            let lines = lines.clone();
            async move { Ok::<_, Infallible>(Response::new(Body::from_stream(stream::iter(lines)))) }
        });
        let upstream = Client::from_service(env, HttpService::new(server), "proxy");
        let proxy = HttpProxy::new(env, upstream, Random::from_seed(1, "proxy"), Some(faults.len()));
        proxy.0.state.lock().deck = faults.iter().rev().copied().map(Some).collect();
        proxy
    }

    /// Returns the code (0 without an answer), the received part of the body, and true if it is complete.
    async fn watch(client: &Client) -> (u16, String, bool) {
        let request = Request::get("/api/v1/configmaps?watch=true").body(Body::empty()).unwrap();
        let Ok(answer) = client.send(request).await else { return (0, String::new(), false) };
        let code = answer.status().as_u16();
        let (mut body, mut text) = (answer.into_body().into_data_stream(), String::new());
        while let Some(frame) = body.next().await {
            match frame {
                Ok(frame) => text.push_str(std::str::from_utf8(&frame).unwrap()),
                Err(_) => return (code, text, false),
            }
        }
        (code, text, true)
    }

    fn lines(count: usize) -> String {
        (0..count).map(|number| format!("line {number}\n")).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn every_fault_behaves_as_described_and_is_counted() {
        let env = Env::simulated(1);
        for fault in Fault::ALL {
            let proxy = proxy(&env, &[fault]);
            let client = Client::from_service(&env, proxy.service(), "reflector");
            let began = env.now();
            let (code, text, is_whole) = watch(&client).await;
            let is_late = env.now().duration_since(began) >= PAUSE;
            let whole_lines = text.lines().filter(|line| line.starts_with("line ")).count();
            let is_as_it_says = match fault {
                Fault::Delay => is_late && (code, text.as_str(), is_whole) == (200, lines(LINES).as_str(), true),
                Fault::Refused => code == 0,
                Fault::Expired => code == 410 && text.contains("Expired"),
                Fault::TooManyRequests => code == 429,
                Fault::InternalError => code == 500,
                Fault::ExpiredEvent => {
                    let last = text.strip_prefix(lines(whole_lines).as_str()).unwrap_or_default();
                    is_whole && whole_lines < LINES && last.contains(r#""ERROR""#) && last.contains("410")
                }
                Fault::CutBetween => !is_whole && whole_lines < LINES && text == lines(whole_lines),
                Fault::CutWithin => {
                    !is_whole && lines(LINES).starts_with(&text) && !text.is_empty() && !text.ends_with('\n')
                }
                Fault::End => is_whole && whole_lines < LINES && text == lines(whole_lines),
            };
            assert!(is_as_it_says, "{fault:?}: {code} {text:?}, whole: {is_whole}, late: {is_late}");
            assert_eq!(proxy.injected(), BTreeMap::from([(fault, 1)]));
            assert_eq!(watch(&client).await, (200, lines(LINES), true), "after {fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_faults_spare_open_watches_too_and_writes_never_fail() {
        let env = Env::simulated(1);
        let proxy = proxy(&env, &[Fault::CutBetween, Fault::Expired]);
        let client = Client::from_service(&env, proxy.service(), "reflector");
        let post = Request::post("/api/v1/configmaps").body(Body::empty()).unwrap();
        assert_eq!(client.send(post).await.unwrap().status(), 200);
        let request = Request::get("/api/v1/configmaps?watch=1").body(Body::empty()).unwrap();
        let begun = client.send(request).await.unwrap().into_body();
        proxy.stop_faults();
        assert_eq!(read_all(begun, 1 << 10).await.unwrap(), lines(LINES));
        assert_eq!((proxy.has_no_faults_left(), proxy.injected()), (true, BTreeMap::new()));
        proxy.refuse_initial_events();
        let request = Request::get("/api/v1/configmaps?watch=1&sendInitialEvents=true").body(Body::empty()).unwrap();
        assert_eq!(client.send(request).await.unwrap().status(), 422);
    }

    #[tokio::test]
    async fn over_a_port_the_same_faults_break_connections() {
        let env = Env::system();
        let proxy = proxy(&env, &[Fault::CutWithin, Fault::CutBetween, Fault::Refused, Fault::End]);
        let address = proxy.listen(crate::processes::free_ports()).await;
        let connection = Connection { server: format!("http://{address}"), ..Connection::default() };
        let client = Client::connect(&env, &connection, "reflector").unwrap();
        for _ in 0..2 {
            let (code, text, is_whole) = watch(&client).await;
            assert!(code == 200 && !is_whole && text.len() < lines(LINES).len(), "{code} {text:?}");
        }
        assert_eq!(watch(&client).await.0, 0);
        let mut seen = (0, String::new(), false);
        while seen.0 == 0 {
            seen = watch(&client).await; // until the port is open again
        }
        assert!(seen.2 && seen.1.len() < lines(LINES).len(), "{seen:?}");
        assert_eq!(proxy.injected().len(), 4);
        proxy.stop().await;
        assert_eq!(watch(&client).await.0, 0);
    }
}
