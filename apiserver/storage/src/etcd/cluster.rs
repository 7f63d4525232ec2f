//! `Cluster`: the members of one etcd cluster, called one after the other until one answers.
//!
//! Corresponds to etcd's client/v3 (balancer and retry interceptor). It ensures three things:
//! - a call is repeated only if that is safe: a read always, a write only if nothing has happened;
//! - only one cluster is used: a member of another cluster is not called. Each connection is asked for its cluster
//!   before its first call;
//! - the cluster never goes back in time. A cluster that was restored from an older snapshot lacks revisions that this
//!   server's caches and clients know, so the engine stops and the process has to restart.

use super::member::{Connection, Failure, Header, Member, RangeQuery, Ranged, Status, Swapped};
use super::version::ServerVersion;
use crate::Error;
use component_base::env::Env;
use futures::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time limit of a call that must not be repeated. etcd itself gives up after seven seconds and says why.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Time limit for one member of a call that another member can answer instead.
const REPEATABLE_LIMIT: Duration = Duration::from_secs(5);

/// Time limit of a status call, which needs no other member.
const STATUS_LIMIT: Duration = Duration::from_secs(3);

/// Pause before all members are called again: an election takes about a second.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a start waits for etcd, which may be starting too.
const START_LIMIT: Duration = Duration::from_secs(10);

/// The reasons for which the engine cannot start. Each prints as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("--etcd-servers: {0:?}: {1}")]
    Server(String, String),
    #[error("etcd does not answer at {servers}: {reason}")]
    Unreachable { servers: String, reason: String },
    #[error("--etcd-servers: {0} and {1} belong to different clusters")]
    TwoClusters(String, String),
}

/// Whether a call may be repeated when its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Repeating the call has no further effect.
    Always,
    /// The call may have been carried out, and must not be carried out twice.
    Never,
}

/// An answer of a member.
pub trait Answer {
    /// Returns the header if the answer is linearisable, which means that it went through the whole cluster.
    fn header(&self) -> Option<Header>;
}

impl Answer for Ranged {
    fn header(&self) -> Option<Header> {
        Some(self.header)
    }
}

impl Answer for Swapped {
    fn header(&self) -> Option<Header> {
        Some(self.header)
    }
}

impl Answer for Header {
    fn header(&self) -> Option<Header> {
        None
    }
}

/// The id of a lease.
impl Answer for i64 {
    fn header(&self) -> Option<Header> {
        None
    }
}

pub struct Cluster {
    env: Env,
    members: Vec<Arc<dyn Member>>,
    state: Mutex<State>,
    /// The newest revision that is known to be committed.
    seen: AtomicU64,
    ended: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The member that answered last.
    preferred: usize,
    /// What each member's last status said.
    known: Vec<Option<Identity>>,
    cluster: u64,
    /// Members of other clusters that have been logged.
    foreign: BTreeSet<usize>,
    /// Why the last call failed, or `None`.
    trouble: Option<String>,
    is_full: bool,
    stopped: Option<Error>,
}

struct Identity {
    answers_progress_in_order: bool,
    /// The connection that the status came over, until a call over it fails.
    connection: Option<Arc<dyn Connection>>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.members).finish()
    }
}

impl Cluster {
    /// Waits a little for the first member to answer, and checks that all members that answer are of one cluster.
    pub async fn open(env: &Env, members: Vec<Arc<dyn Member>>, probe: Vec<u8>) -> Result<Arc<Self>, OpenError> {
        let state = State { known: members.iter().map(|_| None).collect(), ..State::default() };
        let cluster = Arc::new(Self {
            env: env.clone(),
            members,
            state: Mutex::new(state),
            seen: AtomicU64::new(0),
            ended: CancellationToken::new(),
        });
        let deadline = env.now() + START_LIMIT;
        loop {
            let outcome = cluster.check_members(&probe).await?;
            match outcome {
                Ok(()) => return Ok(cluster),
                Err(failure) if env.now() >= deadline || env.shutdown().is_cancelled() => {
                    let servers: Vec<&str> = cluster.members.iter().map(|member| member.url()).collect();
                    let reason = failure.to_string();
                    return Err(OpenError::Unreachable { servers: servers.join(", "), reason });
                }
                Err(failure) => {
                    tracing::debug!(%failure, "waiting for etcd");
                    let _ = env.timeout(PAUSE * 5, env.shutdown().cancelled()).await;
                }
            }
        }
    }

    /// Calls every member for its status, then the cluster for its revision.
    async fn check_members(&self, probe: &[u8]) -> Result<Result<(), Failure>, OpenError> {
        let statuses = join_all(self.members.iter().map(|member| self.connect(member))).await;
        let mut first: Option<(usize, u64)> = None;
        for (index, status) in statuses.iter().enumerate() {
            let Ok((connection, status)) = status else { continue };
            match first {
                Some((other, cluster)) if cluster != status.cluster => {
                    let url = |index: usize| self.members[index].url().to_owned();
                    return Err(OpenError::TwoClusters(url(other), url(index)));
                }
                _ => first = first.or(Some((index, status.cluster))),
            }
            self.record_status(index, status, connection);
        }
        match first {
            Some((index, cluster)) => {
                let mut state = self.state.lock();
                state.cluster = cluster;
                state.preferred = index;
            }
            None => {
                let failure = statuses.into_iter().find_map(Result::err);
                return Ok(Err(failure.unwrap_or_else(|| Failure::Unreachable("no servers are named".to_owned()))));
            }
        }
        let read = self.call(Repeat::Always, |connection| {
            let query = RangeQuery { count_only: true, ..RangeQuery::key(probe) };
            async move { connection.range(query).await }
        });
        Ok(read.await.map(|_| ()))
    }

    /// Calls the members in turn, beginning with the one that answered last.
    pub async fn call<T, Fut>(&self, repeat: Repeat, ask: impl Fn(Arc<dyn Connection>) -> Fut) -> Result<T, Failure>
    where
        T: Answer,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let deadline = self.env.now() + CALL_LIMIT;
        let limit = if repeat == Repeat::Always { REPEATABLE_LIMIT } else { CALL_LIMIT };
        loop {
            let mut last = Failure::Unreachable("no servers are named".to_owned());
            let mut may_change = false;
            let first = self.state.lock().preferred;
            for index in (0..self.members.len()).map(|turn| (first + turn) % self.members.len()) {
                if let Some(stopped) = self.stopped() {
                    return Err(Failure::Unreachable(stopped.to_string()));
                }
                let outcome = self.ask_member(index, limit, &ask).await;
                last = match outcome.map_err(|failure| failure.of(self.members[index].url())) {
                    Ok(answer) => return Ok(answer),
                    Err(failure @ Failure::Unreachable(_)) => failure,
                    Err(failure @ Failure::TryLater(_)) => {
                        may_change = true;
                        failure
                    }
                    Err(failure @ (Failure::Lost(_) | Failure::TimedOut(_))) if repeat == Repeat::Always => {
                        may_change = true;
                        failure
                    }
                    Err(failure @ (Failure::Lost(_) | Failure::TimedOut(_))) => {
                        self.record_trouble(&failure);
                        return Err(failure);
                    }
                    Err(failure) => return Err(failure),
                };
            }
            if !may_change || self.env.now() >= deadline {
                self.record_trouble(&last);
                return Err(last);
            }
            self.env.sleep(PAUSE).await;
        }
    }

    async fn ask_member<T, Fut>(
        &self,
        index: usize,
        limit: Duration,
        ask: &impl Fn(Arc<dyn Connection>) -> Fut,
    ) -> Result<T, Failure>
    where
        T: Answer,
        Fut: Future<Output = Result<T, Failure>>,
    {
        // The connection may have broken since the last call. Then nothing has happened, and a new one may work.
        if let Some(connection) = self.connection(index) {
            match self.ask_over(index, limit, connection, ask).await {
                Err(Failure::Unreachable(_)) => {}
                outcome => return outcome,
            }
        }
        // Only the status is requested, so nothing has happened if that fails.
        let connection = self.identify(index).await.map_err(|failure| Failure::Unreachable(failure.to_string()))?;
        self.ask_over(index, limit, connection, ask).await
    }

    async fn ask_over<T, Fut>(
        &self,
        index: usize,
        limit: Duration,
        connection: Arc<dyn Connection>,
        ask: &impl Fn(Arc<dyn Connection>) -> Fut,
    ) -> Result<T, Failure>
    where
        T: Answer,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let before = self.seen.load(Ordering::Acquire);
        let outcome = self.limited(limit, ask(connection.clone())).await;
        match outcome {
            Ok(answer) => {
                if let Some(header) = answer.header() {
                    self.check_header(index, header, before)?;
                }
                self.record_success(index);
                Ok(answer)
            }
            Err(failure @ (Failure::Unreachable(_) | Failure::Lost(_) | Failure::TimedOut(_))) => {
                Err(self.drop_connection(index, &connection, failure))
            }
            Err(failure) => {
                self.record_full(&failure);
                Err(failure)
            }
        }
    }

    async fn limited<T>(&self, limit: Duration, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match self.env.timeout(limit, call).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::TimedOut(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    /// Makes a connection, and asks the member over it which cluster it belongs to.
    async fn connect(&self, member: &Arc<dyn Member>) -> Result<(Arc<dyn Connection>, Status), Failure> {
        let connected = async {
            let connection = member.connect().await?;
            let status = connection.status().await?;
            Ok((connection, status))
        };
        self.limited(STATUS_LIMIT, connected).await
    }

    fn connection(&self, index: usize) -> Option<Arc<dyn Connection>> {
        self.state.lock().known[index].as_ref().and_then(|known| known.connection.clone())
    }

    /// Returns a member's connection, and makes one if there is none: another server may have taken its place.
    async fn identify(&self, index: usize) -> Result<Arc<dyn Connection>, Failure> {
        if let Some(connection) = self.connection(index) {
            return Ok(connection);
        }
        let (connection, status) = self.connect(&self.members[index]).await?;
        self.check_cluster(index, status.cluster)?;
        self.record_status(index, &status, &connection);
        Ok(connection)
    }

    fn record_status(&self, index: usize, status: &Status, connection: &Arc<dyn Connection>) {
        let version = ServerVersion::parse(&status.version);
        let answers_progress_in_order = version.is_some_and(ServerVersion::answers_progress_in_order);
        tracing::debug!(server = self.members[index].url(), version = %status.version, "etcd answers");
        let identity = Identity { answers_progress_in_order, connection: Some(connection.clone()) };
        self.state.lock().known[index] = Some(identity);
    }

    /// Stops using a connection over which a call failed, and returns the failure with the member's name.
    pub fn drop_connection(&self, index: usize, failed: &Arc<dyn Connection>, failure: Failure) -> Failure {
        if let Some(known) = &mut self.state.lock().known[index] {
            known.connection.take_if(|connection| Arc::ptr_eq(connection, failed));
        }
        failure.of(self.members[index].url())
    }

    pub fn check_cluster(&self, index: usize, cluster: u64) -> Result<(), Failure> {
        let mut state = self.state.lock();
        if cluster == state.cluster {
            return Ok(());
        }
        if let Some(known) = &mut state.known[index] {
            known.connection = None;
        }
        let url = self.members[index].url();
        let why = format!("etcd at {url} belongs to another cluster than the one that this server began with");
        if state.foreign.insert(index) {
            tracing::error!("{why}; it is not asked any more");
        }
        Err(Failure::Unreachable(why))
    }

    /// Stops the engine when an answer has a lower revision than was known before the call: the cluster has lost data.
    fn check_header(&self, index: usize, header: Header, before: u64) -> Result<(), Failure> {
        self.check_cluster(index, header.cluster)?;
        if header.revision < before {
            let error = self.stop(format!(
                "etcd at {} went back from revision {before} to {}: it was restored from an older snapshot; start again \
                 to go on with what it holds",
                self.members[index].url(),
                header.revision,
            ));
            return Err(Failure::Lost(error.to_string()));
        }
        self.observe_revision(header.revision);
        Ok(())
    }

    /// Notes that this revision is committed.
    pub fn observe_revision(&self, revision: u64) {
        self.seen.fetch_max(revision, Ordering::AcqRel);
    }

    /// Returns the index of the member that answered last, and a connection to it.
    pub async fn preferred(&self) -> Result<(usize, Arc<dyn Connection>), Failure> {
        let index = self.state.lock().preferred;
        let connection = self.identify(index).await.map_err(|failure| failure.of(self.members[index].url()))?;
        Ok((index, connection))
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns whether this member answers progress requests reliably.
    pub fn is_progress_trusted(&self, index: usize) -> bool {
        self.state.lock().known[index].as_ref().is_some_and(|known| known.answers_progress_in_order)
    }

    /// Returns whether all known members answer progress requests reliably.
    pub fn answers_progress_in_order(&self) -> bool {
        let state = self.state.lock();
        let mut known = state.known.iter().flatten().peekable();
        known.peek().is_some() && known.all(|known| known.answers_progress_in_order)
    }

    fn record_success(&self, index: usize) {
        let mut state = self.state.lock();
        state.preferred = index;
        if let Some(trouble) = state.trouble.take() {
            tracing::warn!(trouble, "etcd answers again");
        }
    }

    fn record_trouble(&self, failure: &Failure) {
        let mut state = self.state.lock();
        if state.trouble.is_none() && state.stopped.is_none() {
            tracing::error!(reason = %failure, "etcd does not answer");
            state.trouble = Some(failure.to_string());
        }
    }

    /// Logs once that the database is full, until a write succeeds again.
    fn record_full(&self, failure: &Failure) {
        let Failure::Rejected(why) = failure else { return };
        let mut state = self.state.lock();
        if why.contains("database space exceeded") && !std::mem::replace(&mut state.is_full, true) {
            tracing::error!(
                "etcd takes no more writes, only deletions: its database is full (alarm NOSPACE). Compact and \
                 defragment it or raise its --quota-backend-bytes, then disarm the alarm"
            );
        }
    }

    /// Notes that a write that needs space succeeded.
    pub fn record_space(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.is_full) {
            tracing::warn!("etcd takes writes again");
        }
    }

    /// Returns the error of the store for a failure that remains after all attempts.
    pub fn error(&self, failure: Failure) -> Error {
        match (self.stopped(), failure) {
            (Some(stopped), _) => stopped,
            (None, Failure::Rejected(why)) => Error::Rejected(why),
            (None, Failure::TimedOut(why)) => Error::TimedOut(why),
            (None, failure) => Error::Unavailable(failure.to_string()),
        }
    }

    /// Stops the engine for good. The first reason stays.
    pub fn stop(&self, reason: String) -> Error {
        let error = self.state.lock().stopped.get_or_insert(Error::Stopped(reason)).clone();
        self.ended.cancel();
        error
    }

    /// Returns why the last call failed, or `None`.
    pub fn trouble(&self) -> Option<String> {
        self.state.lock().trouble.clone()
    }

    pub fn stopped(&self) -> Option<Error> {
        self.state.lock().stopped.clone()
    }

    /// Cancelled when the engine has stopped.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }
}
