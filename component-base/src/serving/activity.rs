//! What a connection waits for, and how long it may wait for just that.
//!
//! Limits are those of kube-apiserver's http.Server and of Go's HTTP/2 server. While a request is served there is none:
//! a watch, exec or port-forward ends by its own rules.

use crate::env::Env;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// For the first byte and the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// For the client's preface of HTTP/2.
const PREFACE_LIMIT: Duration = Duration::from_secs(10);
/// For the header of a request of HTTP/1.1, from its first byte on; of the first request, from the handshake on.
const HEADER_LIMIT: Duration = Duration::from_secs(32);
/// Between two requests.
const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// For a client that was told of the end to hang up.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Longest pause between two looks. What begins during a pause has a limit that is not shorter.
const LOOK_PERIOD: Duration = HEADER_LIMIT;
/// The 24 bytes that every HTTP/2 connection begins with, and the header of its first frame.
const PREFACE_BYTES: usize = 24 + 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// What has to come next from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Handshake,
    /// HTTP/2 alone: so many bytes are missing.
    Preface(usize),
    /// HTTP/1.1 alone.
    Header,
    /// The next request.
    Request,
    /// The end, of which the client has been told.
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

/// The life of one connection, noted by those who read, write and answer.
pub struct Activity {
    env: Env,
    now: Mutex<Now>,
    evicted: Notify,
}

/// Its present.
#[derive(Debug)]
struct Now {
    protocol: Protocol,
    waiting: Waiting,
    since: Instant,
    /// Requests whose answers are not finished.
    requests: usize,
    has_served: bool,
    /// Bytes are left that the client does not take.
    is_stuck: bool,
    /// It has become a stream of another protocol.
    is_left: bool,
}

impl Activity {
    pub fn new(env: &Env) -> Self {
        let now = Now {
            protocol: Protocol::Http1,
            waiting: Waiting::Handshake,
            since: env.now(),
            requests: 0,
            has_served: false,
            is_stuck: false,
            is_left: false,
        };
        Self { env: env.clone(), now: Mutex::new(now), evicted: Notify::new() }
    }

    fn wait(&self, now: &mut Now, waiting: Waiting) {
        (now.waiting, now.since) = (waiting, self.env.now());
    }

    /// The handshake is over.
    pub fn agreed(&self, protocol: Protocol) {
        let mut now = self.now.lock();
        now.protocol = protocol;
        let next = match protocol {
            Protocol::Http1 => Waiting::Header,
            Protocol::Http2 => Waiting::Preface(PREFACE_BYTES),
        };
        self.wait(&mut now, next);
    }

    /// So many bytes have come.
    pub fn received(&self, bytes: usize) {
        let mut now = self.now.lock();
        match now.waiting {
            Waiting::Preface(missing) if missing > bytes => now.waiting = Waiting::Preface(missing - bytes),
            Waiting::Preface(_) => self.wait(&mut now, Waiting::Request),
            Waiting::Request if now.protocol == Protocol::Http1 && now.requests == 0 => {
                self.wait(&mut now, Waiting::Header);
            }
            _ => {}
        }
    }

    /// A request has come.
    pub fn began(&self) {
        let mut now = self.now.lock();
        now.requests += 1;
        now.has_served = true;
    }

    /// Its answer is finished, or nobody wants it any more.
    pub fn ended(&self) {
        let mut now = self.now.lock();
        now.requests -= 1;
        if now.requests == 0 {
            let next = if now.waiting == Waiting::End { Waiting::End } else { Waiting::Request };
            self.wait(&mut now, next);
        }
    }

    /// The client takes no bytes for the time being.
    pub fn stuck(&self) {
        self.now.lock().is_stuck = true;
    }

    /// It takes some. What is left of an answer may take long on a slow line, so waiting begins anew; where nothing was
    /// left it does not, so that answers to pings keep no connection open.
    pub fn sent(&self) {
        let mut now = self.now.lock();
        if std::mem::take(&mut now.is_stuck) && matches!(now.waiting, Waiting::Request | Waiting::End) {
            now.since = self.env.now();
        }
    }

    /// The client is told that this is the end.
    pub fn closing(&self) {
        let mut now = self.now.lock();
        self.wait(&mut now, Waiting::End);
    }

    /// Somebody else has the stream now, or nobody.
    pub fn left(&self) {
        self.now.lock().is_left = true;
    }

    /// When it was last of use, if it is of none now; with false before those that have served a request.
    pub fn idle_since(&self) -> Option<(bool, Instant)> {
        let now = self.now.lock();
        let is_idle = now.requests == 0 && now.waiting != Waiting::End && !now.is_left;
        is_idle.then_some((now.has_served, now.since))
    }

    /// Ends `over`: the place is needed.
    pub fn evict(&self) {
        self.evicted.notify_one();
    }

    fn deadline(&self) -> Option<Instant> {
        let now = self.now.lock();
        (now.requests == 0).then(|| now.since + now.waiting.limit())
    }

    /// Ends when the client has been waited for long enough, or its place is needed. True: it is told, because its last
    /// request was served well.
    pub async fn over(&self) -> bool {
        tokio::select! {
            biased;
            () = self.waited_too_long() => {}
            () = self.evicted.notified(), if !self.is_closing() => {}
        }
        let now = self.now.lock();
        now.requests > 0 || (now.waiting == Waiting::Request && now.has_served)
    }

    async fn waited_too_long(&self) {
        loop {
            let look = self.env.now() + LOOK_PERIOD;
            let deadline = self.deadline();
            if deadline.is_some_and(|deadline| deadline <= self.env.now()) {
                return;
            }
            self.env.sleep_until(deadline.unwrap_or(look).min(look)).await;
        }
    }

    fn is_closing(&self) -> bool {
        self.now.lock().waiting == Waiting::End
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
        env.timeout(day, activity.over()).await.ok().map(|_| began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn every_wait_has_its_limit() {
        assert_eq!(over_after(async |_, _| {}).await, Some(10));
        assert_eq!(over_after(async |_, of| of.agreed(Protocol::Http1)).await, Some(32));
        assert_eq!(over_after(async |_, of| of.agreed(Protocol::Http2)).await, Some(10));
        let half_a_preface = async |_: &Env, of: &Activity| {
            of.agreed(Protocol::Http2);
            of.received(24);
        };
        assert_eq!(over_after(half_a_preface).await, Some(10));
        let preface = async |_: &Env, of: &Activity| {
            of.agreed(Protocol::Http2);
            of.received(20);
            of.received(13);
        };
        assert_eq!(over_after(preface).await, Some(90));
        // Pings and their answers are no requests.
        let pings = async |env: &Env, of: &Activity| {
            preface(env, of).await;
            env.sleep(Duration::from_secs(60)).await;
            of.received(17);
            of.sent();
        };
        assert_eq!(over_after(pings).await, Some(30));
        assert_eq!(over_after(async |_, of| of.closing()).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_takes_as_long_as_it_takes() {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let begun = async |_: &Env, of: &Activity| {
                of.agreed(protocol);
                of.received(100);
                of.began();
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
                of.ended();
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
            of.agreed(Protocol::Http1);
            of.began();
            of.stuck();
            of.ended();
            for _ in 0..10 {
                env.sleep(Duration::from_secs(60)).await;
                of.sent();
                of.stuck();
            }
        };
        assert_eq!(over_after(slow).await, Some(90));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_begins_during_a_look_is_kept() {
        let env = Env::simulated(1);
        let activity = Activity::new(&env);
        activity.agreed(Protocol::Http1);
        activity.began();
        let began = env.now();
        let client = async {
            env.sleep(Duration::from_secs(3)).await;
            activity.ended();
            env.sleep(Duration::from_secs(5)).await;
            activity.received(1);
        };
        tokio::join!(activity.over(), client);
        assert_eq!(began.elapsed().as_secs(), 8 + 32);
    }
}
