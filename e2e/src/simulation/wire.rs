//! `Wire`: the faulty connection between the components and the API server.
//!
//! It is an in-process service around the server's own. A request runs as a task of the server's process, so that it ends
//! with the server and not with its caller. The wire decides whether the caller gets the answer.

use super::insight::{ASKED, Known, REPLICA_SETS};
use super::part::Part;
use super::verdict::Verdict;
use super::watch_check::WatchCheck;
use super::witness::Witness;
use axum::body::Body;
use axum::body::BodyDataStream;
use bytes::Bytes;
use component_base::env::Env;
use component_base::network::{Broken, HttpService};
use component_base::rng::Random;
use futures::{StreamExt, stream};
use http::{HeaderName, Request, Response, header};
use parking_lot::Mutex;
use proto::gvk::Gvr;
use proto::resources::Catalogue;
use registry::row::key_prefix;
use request::info::RequestInfo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A request takes this long and up to twice that, like a write that has to reach a disk. Without it no two requests would
/// overlap, and work that a real cluster does once for many changes would be done for each.
const LATENCY: Duration = Duration::from_millis(5);

/// Most bytes of an answer to a write.
const LARGEST_ANSWER: usize = 16 << 20;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// Probability of each fault, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// The connection breaks before the server has the request.
    pub lost_request: f64,
    /// The request is carried out, and its answer is lost.
    pub lost_answer: f64,
    /// A request or its answer takes up to `longest_delay` longer.
    pub delay: f64,
    pub longest_delay: Duration,
    /// A watch breaks at its next event, which is lost with it.
    pub cut_watch: f64,
    /// An event of a watch, and all after it, come up to `longest_stall` later.
    pub stall_watch: f64,
    pub longest_stall: Duration,
}

/// An order to kill a component at one of its writes.
#[derive(Clone, Copy, Debug)]
struct Ambush {
    writes_left: u32,
    down: Duration,
}

pub struct Wire {
    env: Env,
    random: Random,
    verdict: Verdict,
    witness: Arc<Witness>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    weather: Weather,
    /// Names of disconnected nodes.
    unreachable: BTreeSet<String>,
    /// Tokens of the components' watches. To cut the watches, the token is cancelled and replaced.
    lines: BTreeMap<Part, CancellationToken>,
    /// Components whose watches of a row stall, with the prefix and the end.
    stalled: BTreeMap<Part, (&'static str, Instant)>,
    ambushes: BTreeMap<Part, Ambush>,
    /// Channels to the supervisors that kill components.
    kills: BTreeMap<Part, mpsc::Sender<Duration>>,
}

impl Wire {
    pub fn new(env: &Env, verdict: &Verdict, witness: Arc<Witness>) -> Arc<Self> {
        let (random, verdict) = (env.random("simulation/wire"), verdict.clone());
        Arc::new(Self { env: env.clone(), random, verdict, witness, state: Mutex::default() })
    }

    pub fn set_weather(&self, weather: Weather) {
        self.state.lock().weather = weather;
    }

    pub fn set_unreachable(&self, node: &str, unreachable: bool) {
        let nodes = &mut self.state.lock().unreachable;
        if unreachable {
            nodes.insert(node.to_owned())
        } else {
            nodes.remove(node)
        };
    }

    /// Breaks the open watches of a component.
    pub fn cut_watches(&self, part: Part) {
        if let Some(line) = self.state.lock().lines.remove(&part) {
            line.cancel();
        }
    }

    /// Stalls the open watches of a component on rows with this prefix, so that it acts on old objects.
    pub fn stall_watches(&self, part: Part, row: &'static str, how_long: Duration) {
        let until = self.env.now() + how_long;
        self.state.lock().stalled.insert(part, (row, until));
    }

    /// Kills a component when the server has carried out its `writes`th write from now, before it gets the answer.
    pub fn ambush(&self, part: Part, writes: u32, down: Duration) {
        self.state.lock().ambushes.insert(part, Ambush { writes_left: writes, down });
    }

    pub fn on_kill(&self, part: Part, order: mpsc::Sender<Duration>) {
        self.state.lock().kills.insert(part, order);
    }

    /// Ends all faults, except for nodes that were disconnected by name.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.weather = Weather::default();
        state.stalled.clear();
        state.ambushes.clear();
    }

    /// Returns the server's service with faults. `server` is the process in which requests run.
    pub fn around(self: &Arc<Self>, service: HttpService, server: &Env) -> HttpService {
        let (wire, server) = (self.clone(), server.clone());
        HttpService::new(tower::service_fn(move |request| {
            let (wire, server, service) = (wire.clone(), server.clone(), service.clone());
            async move { Ok::<_, Infallible>(wire.carry(service, &server, request).await.unwrap_or_else(broken)) }
        }))
    }

    async fn carry(
        self: Arc<Self>,
        service: HttpService,
        server: &Env,
        request: Request<Body>,
    ) -> Result<Response<Body>, Broken> {
        let caller = text(&request, &header::USER_AGENT).and_then(Part::of_user_agent);
        let node = text(&request, &IMPERSONATE_USER).and_then(|user| user.strip_prefix("system:node:"));
        if node.is_some_and(|node| self.state.lock().unreachable.contains(node)) {
            return Err(Broken("no route to host"));
        }
        let info = RequestInfo::of(request.method(), request.uri().path(), request.uri().query().unwrap_or_default());
        let is_decided = caller == Some(Part::ControllerManager) && info.is_mutating();
        let asked = is_decided.then(|| self.witness.insight().known(self.env.now()));
        if caller.is_some() {
            self.env.sleep(self.random.jitter(LATENCY, 1.0)).await;
            self.delay().await;
            if self.falls(|weather| weather.lost_request) {
                return Err(Broken("the request was lost"));
            }
        }
        let is_partial = text(&request, &header::ACCEPT).is_some_and(|accept| accept.contains("PartialObject"));
        let carried = service.oneshot(request);
        let task = match asked.clone() {
            Some(asked) => server.spawn(ASKED.scope(asked, carried)),
            None => server.spawn(carried),
        };
        let mut caller_gone = CallerGone { task: task.abort_handle(), random: &self.random, answered: false };
        let answered = task.await;
        caller_gone.answered = true;
        drop(caller_gone);
        let Ok(Ok(answer)) = answered else { return Err(Broken("connection reset by peer")) };
        let Some(caller) = caller else { return Ok(answer) };
        if info.is_mutating() && answer.status().is_success() {
            self.spring_ambush(caller).await;
        }
        if self.falls(|weather| weather.lost_answer) {
            return Err(Broken("the answer was lost"));
        }
        self.delay().await;
        if info.verb == "watch" && answer.status().is_success() {
            let check = check(&info);
            let shows = caller == Part::ControllerManager && !is_partial;
            return Ok(self.watch(answer, caller, check, shows, server));
        }
        match asked.filter(|_| is_resize(&info) && answer.status().is_success()) {
            Some(asked) => self.note_answer(&info, &asked, answer).await,
            None => Ok(answer),
        }
    }

    /// Records that the writer of a ReplicaSet got its answer.
    async fn note_answer(
        &self,
        info: &RequestInfo,
        asked: &Known,
        answer: Response<Body>,
    ) -> Result<Response<Body>, Broken> {
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, LARGEST_ANSWER).await.map_err(|_| Broken("the answer broke off"))?;
        let written: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let of = |field: &str| written["metadata"][field].as_str().unwrap_or_default();
        if let Ok(version) = of("resourceVersion").parse() {
            let key = format!("{REPLICA_SETS}{}/{}", info.namespace, of("name"));
            self.witness.insight().answer(key, version, asked, self.env.now());
        }
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }

    fn falls(&self, likely: impl Fn(&Weather) -> f64) -> bool {
        let likely = likely(&self.state.lock().weather);
        // Draws nothing without faults, so that such a run does not depend on them.
        likely > 0.0 && self.random.unit() < likely
    }

    async fn delay(&self) {
        if self.falls(|weather| weather.delay) {
            let longest = self.state.lock().weather.longest_delay;
            self.env.sleep(longest.mul_f64(self.random.unit())).await;
        }
    }

    /// Kills the caller if it is due; then this never returns.
    async fn spring_ambush(&self, caller: Part) {
        let order = {
            let mut state = self.state.lock();
            let Some(ambush) = state.ambushes.get_mut(&caller) else { return };
            ambush.writes_left = ambush.writes_left.saturating_sub(1);
            if ambush.writes_left > 0 {
                return;
            }
            let down = ambush.down;
            state.ambushes.remove(&caller);
            state.kills.get(&caller).and_then(|kill| kill.try_send(down).ok())
        };
        if order.is_some() {
            std::future::pending().await
        }
    }

    fn watch(
        self: &Arc<Self>,
        answer: Response<Body>,
        caller: Part,
        check: WatchCheck,
        shows: bool,
        server: &Env,
    ) -> Response<Body> {
        let line = self.state.lock().lines.entry(caller).or_default().clone();
        let (parts, body) = answer.into_parts();
        let watch = Watch {
            wire: self.clone(),
            caller,
            line,
            server: server.shutdown().clone(),
            body: body.into_data_stream(),
            row: check.prefix.clone().unwrap_or_default(),
            check,
            shows,
            broken: false,
        };
        watch.show();
        let body = stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) });
        Response::from_parts(parts, Body::from_stream(body))
    }
}

/// Returns true for the Deployment controller's writes to ReplicaSets. (The ReplicaSet controller writes the status, and
/// the garbage collector patches and deletes.)
fn is_resize(info: &RequestInfo) -> bool {
    info.resource == "replicasets" && info.subresource.is_empty() && matches!(info.verb.as_str(), "create" | "update")
}

fn text<'a>(request: &'a Request<Body>, name: &HeaderName) -> Option<&'a str> {
    request.headers().get(name).and_then(|value| value.to_str().ok())
}

fn broken(why: Broken) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(why);
    response
}

/// Returns the check of a watch.
fn check(info: &RequestInfo) -> WatchCheck {
    let gvr = Gvr::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
    let row = Catalogue::builtin().by_gvr(&gvr).and_then(|target| key_prefix(&target.row));
    let filtered = ["labelSelector", "fieldSelector"].iter().any(|name| !info.query.text(name).is_empty());
    let prefix = row.filter(|_| !filtered && info.name.is_empty()).map(|row| match info.namespace.as_str() {
        "" => row,
        namespace => format!("{row}{namespace}/"),
    });
    let initial = info.query.switch("sendInitialEvents");
    let version = if initial { 0 } else { info.query.text("resourceVersion").parse().unwrap_or(0) };
    WatchCheck::new(prefix, version)
}

/// Handles a caller that goes away in the middle of a request, which is cancelled or completed at random.
struct CallerGone<'a> {
    task: tokio::task::AbortHandle,
    random: &'a Random,
    answered: bool,
}

impl Drop for CallerGone<'_> {
    fn drop(&mut self) {
        if !self.answered && self.random.unit() < 0.5 {
            self.task.abort();
        }
    }
}

/// An open watch that is passed on to its reader.
struct Watch {
    wire: Arc<Wire>,
    caller: Part,
    line: CancellationToken,
    /// Cancelled when the server's process ends.
    server: CancellationToken,
    body: BodyDataStream,
    /// Prefix of the watched keys; empty for a filtered watch.
    row: String,
    check: WatchCheck,
    /// True if its events reach the controllers' caches.
    shows: bool,
    broken: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.broken {
            return None;
        }
        let passed = tokio::select! {
            biased;
            () = self.server.cancelled() => None,
            () = self.line.cancelled() => None,
            passed = Self::pass(&self.wire, self.caller, &self.row, &mut self.body) => Some(passed),
        };
        match passed {
            Some(Ok(Some(bytes))) => {
                self.judge(&bytes);
                Some(Ok(bytes))
            }
            Some(Ok(None)) => None,
            Some(Err(())) | None => {
                self.broken = true;
                Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")))
            }
        }
    }

    /// Returns the next bytes when the wire delivers them.
    async fn pass(wire: &Wire, caller: Part, row: &str, body: &mut BodyDataStream) -> Result<Option<Bytes>, ()> {
        let Some(Ok(bytes)) = body.next().await else { return Ok(None) };
        if wire.falls(|weather| weather.stall_watch) {
            let longest = wire.state.lock().weather.longest_stall;
            wire.env.sleep(longest.mul_f64(wire.random.unit())).await;
        }
        loop {
            let stalled = wire.state.lock().stalled.get(&caller).copied();
            let stalled = stalled.filter(|(rows, until)| row.starts_with(rows) && *until > wire.env.now());
            let Some((_, until)) = stalled else { break };
            wire.env.sleep_until(until).await;
        }
        if wire.falls(|weather| weather.cut_watch) { Err(()) } else { Ok(Some(bytes)) }
    }

    fn judge(&mut self, bytes: &Bytes) {
        let witness = &self.wire.witness;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = std::str::from_utf8(line).unwrap_or_default();
            let next = |prefix: &str, after| witness.next_revision(prefix, after);
            if let Err(complaint) = self.check.line(line, next) {
                self.wire.verdict.violated(format!("{}: {complaint}", self.caller), []);
            }
        }
        self.show();
    }

    fn show(&self) {
        if let (true, Some(version), Some(row)) = (self.shows, self.check.reached(), &self.check.prefix) {
            self.wire.witness.insight().show(row, version);
        }
    }
}
