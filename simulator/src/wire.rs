//! `Wire`: the network between the components and the API server, with faults.
//!
//! It is an in-process service that wraps the server's own. A request runs as a task of the server's process, so that
//! it ends with the server and not with its caller. The wire decides whether the caller gets the answer.

use super::checked_store::CheckedStore;
use super::controller_caches::{ControllerState, REPLICA_SETS, REQUESTER};
use super::log::{Log, Lost, Said};
use super::part::Part;
use super::plan::fault::{CRASHED_FOR, Moment, SWAP_GAP, SWAP_LIMIT};
use super::plan::{self, FaultPlan, Hold};
use super::violations::Violations;
use super::watch_check::WatchCheck;
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
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Shortest time of a request; the longest is twice that. Without it no two requests would overlap, and controllers
/// would reconcile each change alone, where a real cluster reconciles many changes at once.
const LATENCY: Duration = Duration::from_millis(5);

/// Most bytes of an answer to a write.
const MAX_ANSWER_BYTES: usize = 16 << 20;

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// Faults of the wire, each with its probability from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WireFaults {
    /// The connection breaks before the request reaches the server.
    pub lost_request: f64,
    /// The request is carried out, and its answer is lost.
    pub lost_answer: f64,
    /// A request or its answer takes up to `longest_delay` longer.
    pub delay: f64,
    pub longest_delay: Duration,
    /// A watch breaks at its next event, which is lost with it.
    pub cut_watch: f64,
    /// An event of a watch, and all later ones, arrive up to `longest_stall` late.
    pub stall_watch: f64,
    pub longest_stall: Duration,
}

/// An order to kill a component at one of its next writes.
#[derive(Clone, Copy, Debug)]
struct PendingKill {
    writes_left: u32,
    down: Duration,
}

pub struct Wire {
    env: Env,
    random: Random,
    violations: Violations,
    checked_store: Arc<CheckedStore>,
    log: Log,
    state: Mutex<State>,
    /// Wakes deliveries that wait for another one.
    delivery: Notify,
}

#[derive(Default)]
struct State {
    faults: WireFaults,
    /// Names of disconnected nodes.
    unreachable: BTreeSet<String>,
    /// Components that cannot reach the API server.
    cut_off: BTreeSet<Part>,
    /// A token for all watches of a component. To cut the watches, it is cancelled and replaced.
    watch_tokens: BTreeMap<Part, CancellationToken>,
    /// Components whose watches stall, each with the prefix of the watched keys and the end of the stall.
    stalled: BTreeMap<Part, (&'static str, Instant)>,
    pending_kills: BTreeMap<Part, PendingKill>,
    plan: FaultPlan,
    /// Watches that are frozen, by component and name, each with the end of it.
    frozen: BTreeMap<(Part, String), Instant>,
    /// Number of counted deliveries that have reached each component.
    delivered: BTreeMap<Part, u64>,
    /// Number of successful writes of each component.
    writes: BTreeMap<Part, u32>,
    /// Channels to the supervisors, which kill components.
    kill_channels: BTreeMap<Part, mpsc::Sender<Duration>>,
}

impl Wire {
    pub fn new(env: &Env, violations: &Violations, checked_store: Arc<CheckedStore>, log: Log) -> Arc<Self> {
        let (random, violations) = (env.random("simulation/wire"), violations.clone());
        Arc::new(Self {
            env: env.clone(),
            random,
            violations,
            checked_store,
            log,
            state: Mutex::default(),
            delivery: Notify::new(),
        })
    }

    pub fn set_faults(&self, faults: WireFaults) {
        self.state.lock().faults = faults;
    }

    pub fn set_unreachable(&self, node: &str, unreachable: bool) {
        let nodes = &mut self.state.lock().unreachable;
        if unreachable {
            nodes.insert(node.to_owned())
        } else {
            nodes.remove(node)
        };
    }

    /// Disconnects a component from the API server, or reconnects it.
    pub fn set_cut_off(&self, part: Part, cut_off: bool) {
        let mut state = self.state.lock();
        if cut_off {
            state.cut_off.insert(part)
        } else {
            state.cut_off.remove(&part)
        };
        drop(state);
        self.cut_watches(part);
    }

    /// Breaks the open watches of a component.
    pub fn cut_watches(&self, part: Part) {
        if let Some(token) = self.state.lock().watch_tokens.remove(&part) {
            token.cancel();
        }
    }

    /// Stalls the open watches of a component on keys with the prefix `row`, so that it acts on old objects.
    pub fn stall_watches(&self, part: Part, row: &'static str, how_long: Duration) {
        let until = self.env.now() + how_long;
        self.state.lock().stalled.insert(part, (row, until));
    }

    /// Kills a component at its `writes`th write from now: after the server has stored it, before the component gets
    /// the answer.
    pub fn kill_after_writes(&self, part: Part, writes: u32, down: Duration) {
        self.state.lock().pending_kills.insert(part, PendingKill { writes_left: writes, down });
    }

    /// Counts writes and deliveries from now, and lets the planned faults happen.
    pub fn begin(&self, plan: FaultPlan) {
        self.state.lock().plan = plan;
    }

    /// Reads the plan and what it has counted.
    pub fn plan<T>(&self, read: impl FnOnce(&FaultPlan) -> T) -> T {
        read(&self.state.lock().plan)
    }

    /// Returns the number of successful writes of a component so far.
    pub fn writes_of(&self, part: Part) -> u32 {
        self.state.lock().writes.get(&part).copied().unwrap_or_default()
    }

    /// Sets the channel for orders to kill a component.
    pub fn set_kill_channel(&self, part: Part, orders: mpsc::Sender<Duration>) {
        self.state.lock().kill_channels.insert(part, orders);
    }

    /// Ends all faults, except for nodes that were disconnected by name.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.faults = WireFaults::default();
        state.stalled.clear();
        state.pending_kills.clear();
    }

    /// Wraps the server's service with faults. `server` is the process in which requests run.
    pub fn wrap(self: &Arc<Self>, service: HttpService, server: &Env) -> HttpService {
        let (wire, server) = (self.clone(), server.clone());
        HttpService::new(tower::service_fn(move |request| {
            let (wire, server, service) = (wire.clone(), server.clone(), service.clone());
            async move { Ok::<_, Infallible>(wire.forward(service, &server, request).await.unwrap_or_else(broken)) }
        }))
    }

    async fn forward(
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
        if caller.is_some_and(|caller| self.state.lock().cut_off.contains(&caller)) {
            return Err(Broken("no route to host"));
        }
        let info = RequestInfo::of(request.method(), request.uri().path(), request.uri().query().unwrap_or_default());
        let is_controllers_write = caller == Some(Part::ControllerManager) && info.is_mutating();
        let requester = is_controllers_write.then(|| self.checked_store.caches().state_at(self.env.now()));
        let account = (requester.is_some() && info.subresource == "token").then(|| info.name.clone());
        if let Some(account) = &account {
            self.checked_store.caches().record_token_request(account);
        }
        if let Some(component) = caller {
            self.env.sleep(self.random.jitter(LATENCY, 1.0)).await;
            self.delay().await;
            if self.occurs(|faults| faults.lost_request) {
                self.lose(component, Lost::Request, &info.path);
                return Err(Broken("the request was lost"));
            }
        }
        let crash = caller.and_then(|caller| self.planned(|plan| plan.write(caller, &info)));
        if let (Some(caller), Some(Moment::Before)) = (caller, crash) {
            self.kill(caller, CRASHED_FOR).await;
        }
        let is_partial = text(&request, &header::ACCEPT).is_some_and(|accept| accept.contains("PartialObject"));
        let handled = service.oneshot(request);
        let task = match requester.clone() {
            Some(requester) => server.spawn(REQUESTER.scope(requester, handled)),
            None => server.spawn(handled),
        };
        let mut caller_gone = CallerGone { task: task.abort_handle(), random: &self.random, answered: false };
        let answered = task.await;
        caller_gone.answered = true;
        drop(caller_gone);
        let Ok(Ok(answer)) = answered else { return Err(Broken("connection reset by peer")) };
        let Some(caller) = caller else { return Ok(answer) };
        if crash == Some(Moment::After) {
            self.kill(caller, CRASHED_FOR).await;
        }
        if info.is_mutating() && answer.status().is_success() {
            self.kill_if_due(caller).await;
        }
        if self.occurs(|faults| faults.lost_answer) {
            self.lose(caller, Lost::Answer, &info.path);
            return Err(Broken("the answer was lost"));
        }
        self.delay().await;
        if info.verb == "watch" && answer.status().is_success() {
            let check = check(&info);
            let name = plan::watch_name(&info, is_partial);
            let feeds_caches = caller == Part::ControllerManager && !is_partial;
            return Ok(self.watch(answer, caller, name, check, feeds_caches, server));
        }
        if let Some(account) = account.filter(|_| answer.status().is_success()) {
            self.checked_store.caches().record_token(&account, self.env.now());
        }
        match requester.filter(|_| is_resize(&info) && answer.status().is_success()) {
            Some(requester) => self.record_answer(&info, &requester, answer).await,
            None => Ok(answer),
        }
    }

    /// Records that the writer of a ReplicaSet got its answer.
    async fn record_answer(
        &self,
        info: &RequestInfo,
        requester: &ControllerState,
        answer: Response<Body>,
    ) -> Result<Response<Body>, Broken> {
        let (parts, body) = answer.into_parts();
        let bytes = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await.map_err(|_| Broken("the answer broke off"))?;
        let written: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let of = |field: &str| written["metadata"][field].as_str().unwrap_or_default();
        if let Ok(version) = of("resourceVersion").parse() {
            let key = format!("{REPLICA_SETS}{}/{}", info.namespace, of("name"));
            self.checked_store.caches().record_answer(key, version, requester, self.env.now());
        }
        Ok(Response::from_parts(parts, Body::from(bytes)))
    }

    /// Draws whether a fault occurs now. `probability` selects the fault.
    fn occurs(&self, probability: impl Fn(&WireFaults) -> f64) -> bool {
        let probability = probability(&self.state.lock().faults);
        // Draws nothing without faults, so that a run without faults does not depend on their number.
        probability > 0.0 && self.random.unit() < probability
    }

    fn lose(&self, component: Part, lost: Lost, path: &str) {
        self.log.say(Said::Lost { component, lost, path: path.to_owned() });
    }

    /// Asks the plan what happens now, and notes the fault if one does.
    fn planned<T>(&self, ask: impl FnOnce(&mut FaultPlan) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        let planned = ask(&mut state.plan);
        let reached = planned.is_some().then(|| state.plan.reached().last().cloned()).flatten();
        drop(state);
        reached.into_iter().for_each(|reached| self.log.fault(reached));
        planned
    }

    async fn delay(&self) {
        if self.occurs(|faults| faults.delay) {
            let longest = self.state.lock().faults.longest_delay;
            self.env.sleep(longest.mul_f64(self.random.unit())).await;
        }
    }

    /// Counts a write of the caller. Kills the caller if its pending kill is due, and then never returns.
    async fn kill_if_due(&self, caller: Part) {
        let down = {
            let mut state = self.state.lock();
            *state.writes.entry(caller).or_default() += 1;
            let Some(pending) = state.pending_kills.get_mut(&caller) else { return };
            pending.writes_left = pending.writes_left.saturating_sub(1);
            if pending.writes_left > 0 {
                return;
            }
            let down = pending.down;
            state.pending_kills.remove(&caller);
            down
        };
        self.kill(caller, down).await;
    }

    /// Kills a component, and then never returns. Returns if the component is already down.
    async fn kill(&self, caller: Part, down: Duration) {
        let order = self.state.lock().kill_channels.get(&caller).and_then(|kill| kill.try_send(down).ok());
        if order.is_some() {
            std::future::pending().await
        }
    }

    /// Counts a delivery, and waits if a planned fault holds it back.
    async fn hold_back(&self, caller: Part, watch: &str, revision: u64) {
        let key = (caller, watch.to_owned());
        let (hold, before) = {
            let hold = self.planned(|plan| plan.delivery(caller, watch, revision, self.env.now()));
            let mut state = self.state.lock();
            if let Some(Hold::Freeze(how_long)) = hold {
                state.frozen.insert(key.clone(), self.env.now() + how_long);
            }
            (hold, state.delivered.get(&caller).copied().unwrap_or_default())
        };
        if hold == Some(Hold::Swap) {
            let next = async {
                loop {
                    let notified = self.delivery.notified();
                    if self.state.lock().delivered.get(&caller).copied().unwrap_or_default() > before {
                        return;
                    }
                    notified.await;
                }
            };
            // Without another delivery, this one comes late.
            let _ = self.env.timeout(SWAP_LIMIT, next).await;
            self.env.sleep(SWAP_GAP).await;
        }
        loop {
            let until = self.state.lock().frozen.get(&key).copied().filter(|until| *until > self.env.now());
            let Some(until) = until else { break };
            self.env.sleep_until(until).await;
        }
        *self.state.lock().delivered.entry(caller).or_default() += 1;
        self.delivery.notify_waiters();
    }

    fn watch(
        self: &Arc<Self>,
        answer: Response<Body>,
        caller: Part,
        name: Option<String>,
        check: WatchCheck,
        feeds_caches: bool,
        server: &Env,
    ) -> Response<Body> {
        let token = self.state.lock().watch_tokens.entry(caller).or_default().clone();
        let (parts, body) = answer.into_parts();
        let watch = Watch {
            wire: self.clone(),
            caller,
            name,
            token,
            server: server.shutdown().clone(),
            body: body.into_data_stream(),
            row: check.prefix.clone().unwrap_or_default(),
            check,
            feeds_caches,
            broken: false,
        };
        watch.record_delivered();
        let body = stream::unfold(watch, |mut watch| async move { Some((watch.next().await?, watch)) });
        Response::from_parts(parts, Body::from_stream(body))
    }
}

/// Returns true for the Deployment controller's writes to ReplicaSets. The ReplicaSet controller writes only the
/// status, and the garbage collector only patches and deletes.
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

/// Makes the check of the watch that a request opens.
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

/// Handles a caller that goes away in the middle of a request: the request is cancelled or completed, at random.
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

/// An open watch whose bytes the wire passes on to the caller.
struct Watch {
    wire: Arc<Wire>,
    caller: Part,
    /// Name of the watch; `None` if its deliveries are not counted.
    name: Option<String>,
    /// Cancelled to cut the watch.
    token: CancellationToken,
    /// Cancelled when the server's process ends.
    server: CancellationToken,
    body: BodyDataStream,
    /// Prefix of the watched keys; empty for a filtered watch.
    row: String,
    check: WatchCheck,
    /// True if its events reach the controllers' caches.
    feeds_caches: bool,
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
            () = self.token.cancelled() => None,
            passed = Self::pass(&self.wire, self.caller, &self.row, self.name.as_deref(), &self.check, &mut self.body)
                => Some(passed),
        };
        match passed {
            Some(Ok(Some(bytes))) => {
                self.check_lines(&bytes);
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
    async fn pass(
        wire: &Wire,
        caller: Part,
        row: &str,
        name: Option<&str>,
        check: &WatchCheck,
        body: &mut BodyDataStream,
    ) -> Result<Option<Bytes>, ()> {
        let Some(Ok(bytes)) = body.next().await else { return Ok(None) };
        if let Some(name) = name.filter(|_| wire.plan(FaultPlan::is_counting))
            && let Some(revision) = check.change_in(&bytes)
        {
            wire.hold_back(caller, name, revision).await;
        }
        if wire.occurs(|faults| faults.stall_watch) {
            let longest = wire.state.lock().faults.longest_stall;
            wire.env.sleep(longest.mul_f64(wire.random.unit())).await;
        }
        loop {
            let stalled = wire.state.lock().stalled.get(&caller).copied();
            let stalled = stalled.filter(|(rows, until)| row.starts_with(rows) && *until > wire.env.now());
            let Some((_, until)) = stalled else { break };
            wire.env.sleep_until(until).await;
        }
        if wire.occurs(|faults| faults.cut_watch) {
            wire.lose(caller, Lost::Watch, row);
            return Err(());
        }
        Ok(Some(bytes))
    }

    fn check_lines(&mut self, bytes: &Bytes) {
        let store = &self.wire.checked_store;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line = std::str::from_utf8(line).unwrap_or_default();
            let next = |prefix: &str, after| store.next_revision(prefix, after);
            if let Err(why) = self.check.check_line(line, next) {
                let promise = "a watch delivers every change once and in order";
                self.wire.violations.record(promise, format!("{}: {why}", self.caller), []);
            }
        }
        self.record_delivered();
    }

    fn record_delivered(&self) {
        if let (true, Some(version), Some(row)) = (self.feeds_caches, self.check.reached(), &self.check.prefix) {
            self.wire.checked_store.caches().record_delivered(row, version);
        }
    }
}
