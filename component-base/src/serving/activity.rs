//! `Activity`: the state of a connection, and the time limit of each state.
//!
//! The limits are those of kube-apiserver's http.Server and of Go's HTTP/2 server. While a request is served there is no
//! limit: a watch, exec or port-forward ends by its own rules.

use crate::env::Env;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Limit for the first byte and the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Limit for the client's preface of HTTP/2.
const PREFACE_LIMIT: Duration = Duration::from_secs(10);
/// Limit for the header of an HTTP/1.1 request, from its first byte on; for the first request, from the handshake on.
const HEADER_LIMIT: Duration = Duration::from_secs(32);
/// Limit between two requests.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// Limit for the client to close, after the server announced the end.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Longest time between two checks of the deadline. No limit that starts in between is shorter.
const CHECK_PERIOD: Duration = HEADER_LIMIT;
/// Length of an HTTP/2 preface (24 bytes) and of the first frame's header.
const PREFACE_BYTES: usize = 24 + 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// The next thing that the client has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Handshake,
    /// HTTP/2 only: so many bytes are missing.
    Preface(usize),
    /// The header of a request; HTTP/1.1 only.
    Header,
    /// The next request.
    Request,
    /// The close, after the server announced the end.
    End,
}

impl Waiting {
    fn limit(self) -> Duration {
        match self {
            Self::Handshake => HANDSHAKE_LIMIT,
            Self::Preface(_) => PREFACE_LIMIT,
            Self::Header => HEADER_LIMIT,
            Self::Request => IDLE_LIMIT,
            Self::End => CLOSE_LIMIT,
        }
    }
}

/// The state of one connection, updated by the code that reads, writes and answers.
pub struct Activity {
    env: Env,
    state: Mutex<State>,
    evicted: Notify,
}

/// The present state.
#[derive(Debug)]
struct State {
    protocol: Protocol,
    waiting: Waiting,
    since: Instant,
    /// Number of requests whose answers are not finished.
    requests: usize,
    has_served: bool,
    /// The client does not read the bytes that are left to send.
    is_write_blocked: bool,
    /// The connection was upgraded to another protocol, or has ended.
    is_released: bool,
}

impl Activity {
    pub fn new(env: &Env) -> Self {
        let state = State {
            protocol: Protocol::Http1,
            waiting: Waiting::Handshake,
            since: env.now(),
            requests: 0,
            has_served: false,
            is_write_blocked: false,
            is_released: false,
        };
        Self { env: env.clone(), state: Mutex::new(state), evicted: Notify::new() }
    }

    fn wait(&self, now: &mut State, waiting: Waiting) {
        (now.waiting, now.since) = (waiting, self.env.now());
    }

    /// Records the end of the handshake.
    pub fn handshake_ended(&self, protocol: Protocol) {
        let mut now = self.state.lock();
        now.protocol = protocol;
        let next = match protocol {
            Protocol::Http1 => Waiting::Header,
            Protocol::Http2 => Waiting::Preface(PREFACE_BYTES),
        };
        self.wait(&mut now, next);
    }

    /// Records that bytes have come.
    pub fn received(&self, bytes: usize) {
        let mut now = self.state.lock();
        match now.waiting {
            Waiting::Preface(missing) if missing > bytes => now.waiting = Waiting::Preface(missing - bytes),
            Waiting::Preface(_) => self.wait(&mut now, Waiting::Request),
            Waiting::Request if now.protocol == Protocol::Http1 && now.requests == 0 => {
                self.wait(&mut now, Waiting::Header);
            }
            _ => {}
        }
    }

    /// Records the start of a request.
    pub fn request_began(&self) {
        let mut now = self.state.lock();
        now.requests += 1;
        now.has_served = true;
    }

    /// Records that a request was answered, or given up by the client.
    pub fn request_ended(&self) {
        let mut now = self.state.lock();
        now.requests -= 1;
        if now.requests == 0 {
            let next = if now.waiting == Waiting::End { Waiting::End } else { Waiting::Request };
            self.wait(&mut now, next);
        }
    }

    /// Records that the client reads no bytes at present.
    pub fn write_blocked(&self) {
        self.state.lock().is_write_blocked = true;
    }

    /// Records that the client reads again. The rest of an answer may take long on a slow line, so the limit starts anew. If
    /// nothing was left to send, it does not, so that answers to pings keep no connection open.
    pub fn write_progressed(&self) {
        let mut now = self.state.lock();
        if std::mem::take(&mut now.is_write_blocked) && matches!(now.waiting, Waiting::Request | Waiting::End) {
            now.since = self.env.now();
        }
    }

    /// Records that the server announces the end to the client.
    pub fn closing(&self) {
        let mut now = self.state.lock();
        self.wait(&mut now, Waiting::End);
    }

    /// Records that the stream was upgraded to another protocol, or has ended.
    pub fn released(&self) {
        self.state.lock().is_released = true;
    }

    /// Returns since when the connection is idle, if it is, and whether it has served a request.
    pub fn idle_since(&self) -> Option<(bool, Instant)> {
        let now = self.state.lock();
        let is_idle = now.requests == 0 && now.waiting != Waiting::End && !now.is_released;
        is_idle.then_some((now.has_served, now.since))
    }

    /// Makes `expired` return, because the place is needed.
    pub fn evict(&self) {
        self.evicted.notify_one();
    }

    fn deadline(&self) -> Option<Instant> {
        let now = self.state.lock();
        (now.requests == 0).then(|| now.since + now.waiting.limit())
    }

    /// Waits until a limit has passed, or the connection is evicted. Returns true if the server should announce the end to
    /// the client, because its last request was served.
    pub async fn expired(&self) -> bool {
        tokio::select! {
            biased;
            () = self.deadline_passed() => {}
            () = self.evicted.notified(), if !self.is_closing() => {}
        }
        let now = self.state.lock();
        now.requests > 0 || (now.waiting == Waiting::Request && now.has_served)
    }

    async fn deadline_passed(&self) {
        loop {
            let next_check = self.env.now() + CHECK_PERIOD;
            let deadline = self.deadline();
            if deadline.is_some_and(|deadline| deadline <= self.env.now()) {
                return;
            }
            self.env.sleep_until(deadline.unwrap_or(next_check).min(next_check)).await;
        }
    }

    fn is_closing(&self) -> bool {
        self.state.lock().waiting == Waiting::End
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many seconds a connection to which that happened is over, from then on; `None`: not within a day.
    async fn over_after(happened: impl AsyncFn(&Env, &Activity)) -> Option<u64> {
        let env = Env::simulated(1);
        let activity = Activity::new(&env);
        happened(&env, &activity).await;
        let began = env.now();
        let day = Duration::from_secs(24 * 3600);
        env.timeout(day, activity.expired()).await.ok().map(|_| began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn every_wait_has_its_limit() {
        assert_eq!(over_after(async |_, _| {}).await, Some(10));
        assert_eq!(over_after(async |_, of| of.handshake_ended(Protocol::Http1)).await, Some(32));
        assert_eq!(over_after(async |_, of| of.handshake_ended(Protocol::Http2)).await, Some(10));
        let half_a_preface = async |_: &Env, of: &Activity| {
            of.handshake_ended(Protocol::Http2);
            of.received(24);
        };
        assert_eq!(over_after(half_a_preface).await, Some(10));
        let preface = async |_: &Env, of: &Activity| {
            of.handshake_ended(Protocol::Http2);
            of.received(20);
            of.received(13);
        };
        assert_eq!(over_after(preface).await, Some(90));
        // Pings and their answers are no requests.
        let pings = async |env: &Env, of: &Activity| {
            preface(env, of).await;
            env.sleep(Duration::from_secs(60)).await;
            of.received(17);
            of.write_progressed();
        };
        assert_eq!(over_after(pings).await, Some(30));
        assert_eq!(over_after(async |_, of| of.closing()).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_takes_as_long_as_it_takes() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let begun = async |_: &Env, of: &Activity| {
                of.handshake_ended(protocol);
                of.received(100);
                of.request_began();
            };
            assert_eq!(over_after(begun).await, None);
            // It waits for the end of what it serves, too.
            let closing = async |env: &Env, of: &Activity| {
                begun(env, of).await;
                of.closing();
            };
            assert_eq!(over_after(closing).await, None);
            let ended = async |env: &Env, of: &Activity| {
                begun(env, of).await;
                env.sleep(Duration::from_secs(5000)).await;
                of.request_ended();
            };
            assert_eq!(over_after(ended).await, Some(90));
            // A part of the next request of HTTP/1.1 has to become a whole one.
            let again = async |env: &Env, of: &Activity| {
                ended(env, of).await;
                env.sleep(Duration::from_secs(10)).await;
                of.received(1);
            };
            let left = if protocol == Protocol::Http1 { 32 } else { 80 };
            assert_eq!(over_after(again).await, Some(left));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_an_answer_may_go_slowly() {
        let slow = async |env: &Env, of: &Activity| {
            of.handshake_ended(Protocol::Http1);
            of.request_began();
            of.write_blocked();
            of.request_ended();
            for _ in 0..10 {
                env.sleep(Duration::from_secs(60)).await;
                of.write_progressed();
                of.write_blocked();
            }
        };
        assert_eq!(over_after(slow).await, Some(90));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_begins_during_a_look_is_kept() {
        let env = Env::simulated(1);
        let activity = Activity::new(&env);
        activity.handshake_ended(Protocol::Http1);
        activity.request_began();
        let began = env.now();
        let client = async {
            env.sleep(Duration::from_secs(3)).await;
            activity.request_ended();
            env.sleep(Duration::from_secs(5)).await;
            activity.received(1);
        };
        tokio::join!(activity.expired(), client);
        assert_eq!(began.elapsed().as_secs(), 8 + 32);
    }
}
