//! A modelled etcd cluster: the store in memory, in virtual time, and members that fail on demand.

use crate::etcd::member::{
    Connection, Expected, Failure, Header, KeyChange, KeyEvent, KeyValue, Member, RangeQuery, Ranged, Status, Swap,
    Swapped, WatchMessage, WatchMessages, WatchQuery,
};
use async_trait::async_trait;
use bytes::Bytes;
use component_base::env::Env;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Largest number of revisions in one message of a watch, as in etcd.
const MESSAGE_REVISIONS: usize = 1000;

/// How often etcd serves watches that still read history.
const SYNC_PERIOD: Duration = Duration::from_millis(100);

pub const NEW: &str = "3.6.1";
pub const OLD: &str = "3.4.23";

/// The state that all members of a cluster agree on.
#[derive(Debug)]
pub struct Model {
    env: Env,
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

#[derive(Clone, Debug)]
struct State {
    cluster: u64,
    revision: u64,
    compacted: u64,
    /// All events, in order; a revision may have several.
    log: Vec<KeyEvent>,
    current: BTreeMap<Vec<u8>, (KeyValue, i64)>,
    last_lease: i64,
    leases: Vec<i64>,
    is_full: bool,
}

/// A copy of a cluster's state.
#[derive(Debug)]
pub struct Snapshot(State);

impl Model {
    pub fn new(env: &Env, cluster: u64) -> Arc<Self> {
        let state = State {
            cluster,
            revision: 1,
            compacted: 0,
            log: Vec::new(),
            current: BTreeMap::new(),
            last_lease: 0,
            leases: Vec::new(),
            is_full: false,
        };
        Arc::new(Self { env: env.clone(), state: Mutex::new(state), revision: watch::Sender::new(1) })
    }

    /// Creates `count` members of a version.
    pub fn members(self: &Arc<Self>, count: usize, version: &str) -> Vec<Arc<ModelMember>> {
        let member = |index| {
            let switches = Switches { version: version.to_owned(), ..Switches::default() };
            Arc::new(ModelMember {
                url: format!("http://etcd-{index}"),
                model: Mutex::new(self.clone()),
                switches: Arc::new(Mutex::new(switches)),
            })
        };
        (0..count).map(member).collect()
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.state.lock().clone())
    }

    pub fn restore(&self, snapshot: Snapshot) {
        *self.state.lock() = snapshot.0;
    }

    pub fn set_full(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }

    pub fn compacted(&self) -> u64 {
        self.state.lock().compacted
    }

    pub fn leases(&self) -> usize {
        self.state.lock().leases.len()
    }

    /// Writes a key without going through a member.
    pub fn put(&self, key: &[u8], value: &str) {
        let key_value = Some(Bytes::copy_from_slice(value.as_bytes()));
        let revision = {
            let mut state = self.state.lock();
            state.revision += 1;
            state.change(key, key_value, 0);
            state.revision
        };
        self.revision.send_replace(revision);
    }

    /// Ends a lease and deletes every key on it, in one revision.
    pub fn revoke(&self, lease: i64) {
        let mut state = self.state.lock();
        state.leases.retain(|known| *known != lease);
        let keys: Vec<_> =
            state.current.iter().filter(|(_, (_, on))| *on == lease).map(|(key, _)| key.clone()).collect();
        if keys.is_empty() {
            return;
        }
        state.revision += 1;
        for key in keys {
            state.change(&key, None, 0);
        }
        let revision = state.revision;
        drop(state);
        self.revision.send_replace(revision);
    }
}

impl State {
    fn header(&self) -> Header {
        Header { cluster: self.cluster, revision: self.revision }
    }

    /// Adds one event to the current revision.
    fn change(&mut self, key: &[u8], value: Option<Bytes>, lease: i64) {
        let previous = self.current.get(key).map(|(key_value, _)| key_value.clone());
        let is_delete = value.is_none();
        let key_value = KeyValue {
            key: key.to_owned(),
            create_revision: match &previous {
                Some(previous) => previous.create_revision,
                None => self.revision,
            },
            mod_revision: self.revision,
            version: previous.as_ref().map_or(0, |previous| previous.version) + 1,
            value: value.unwrap_or_default(),
        };
        if is_delete {
            self.current.remove(key);
        } else {
            self.current.insert(key.to_owned(), (key_value.clone(), lease));
        }
        self.log.push(KeyEvent { key_value, is_delete, previous });
    }

    fn at(&self, revision: u64) -> BTreeMap<Vec<u8>, KeyValue> {
        let mut keys = BTreeMap::new();
        for event in self.log.iter().take_while(|event| event.key_value.mod_revision <= revision) {
            let key = event.key_value.key.clone();
            if event.is_delete {
                keys.remove(&key);
            } else {
                keys.insert(key, event.key_value.clone());
            }
        }
        keys
    }

    fn range(&self, query: &RangeQuery) -> Result<Ranged, Failure> {
        if query.revision > self.revision {
            return Err(Failure::Future);
        }
        if query.revision > 0 && query.revision < self.compacted {
            return Err(Failure::Compacted);
        }
        let is_in_range = |key: &[u8]| match &*query.end {
            [] => key == query.start,
            end => key >= &*query.start && key < end,
        };
        let mut found: Vec<KeyValue> = if query.revision == 0 {
            self.current.values().map(|(key_value, _)| key_value).filter(|kv| is_in_range(&kv.key)).cloned().collect()
        } else {
            self.at(query.revision).into_values().filter(|kv| is_in_range(&kv.key)).collect()
        };
        let count = found.len() as u64;
        if query.count_only {
            found.clear();
        }
        let more = query.limit > 0 && found.len() > query.limit;
        if more {
            found.truncate(query.limit);
        }
        Ok(Ranged { header: self.header(), kvs: found, more, count })
    }

    fn swap(&mut self, swap: &Swap) -> Result<Swapped, Failure> {
        let held = self.current.get(&swap.key).map(|(key_value, _)| key_value.clone());
        let lease = match &swap.change {
            KeyChange::Put { lease, .. } => *lease,
            KeyChange::Delete => 0,
        };
        if self.is_full && matches!(swap.change, KeyChange::Put { .. }) {
            return Err(Failure::Rejected("etcdserver: mvcc: database space exceeded".to_owned()));
        }
        let succeeded = match swap.expected {
            Expected::ModRevision(revision) => held.as_ref().map_or(0, |held| held.mod_revision) == revision,
            Expected::Version(version) => held.as_ref().map_or(0, |held| held.version) == version,
        };
        if succeeded && lease != 0 && !self.leases.contains(&lease) {
            return Err(Failure::NoLease);
        }
        if succeeded {
            match &swap.change {
                KeyChange::Put { value, .. } => {
                    self.revision += 1;
                    self.change(&swap.key, Some(value.clone()), lease);
                }
                KeyChange::Delete if held.is_some() => {
                    self.revision += 1;
                    self.change(&swap.key, None, 0);
                }
                KeyChange::Delete => {}
            }
        }
        Ok(Swapped { header: self.header(), succeeded, key_value: held })
    }
}

/// One member, with switches for its failures.
#[derive(Debug)]
pub struct ModelMember {
    url: String,
    /// The cluster that it belongs to, which an operator's mistake can change.
    model: Mutex<Arc<Model>>,
    switches: Arc<Mutex<Switches>>,
}

#[derive(Clone, Debug, Default)]
pub struct Switches {
    pub version: String,
    /// It refuses connections.
    pub is_down: bool,
    /// It receives requests and does not answer.
    pub is_hung: bool,
    /// It cannot reach the other members.
    pub has_no_leader: bool,
    /// It carries out requests, and their answers are lost.
    pub loses_answers: bool,
    pub delay: Duration,
    /// Cancelled when connections break.
    line: CancellationToken,
}

impl ModelMember {
    pub fn set(&self, set: impl FnOnce(&mut Switches)) {
        set(&mut self.switches.lock());
    }

    /// Breaks the connections to this member.
    pub fn cut(&self) {
        std::mem::take(&mut self.switches.lock().line).cancel();
    }

    pub fn kill(&self) {
        self.set(|switches| switches.is_down = true);
        self.cut();
    }

    /// Moves it into another cluster.
    pub fn join(&self, model: &Arc<Model>) {
        *self.model.lock() = model.clone();
        self.cut();
    }
}

#[async_trait]
impl Member for ModelMember {
    fn url(&self) -> &str {
        &self.url
    }

    async fn connect(&self) -> Result<Arc<dyn Connection>, Failure> {
        let model = self.model.lock().clone();
        let line = self.switches.lock().line.clone();
        Ok(Arc::new(ModelConnection { model, switches: self.switches.clone(), line }))
    }
}

/// A connection to a member; it ends when connections break.
struct ModelConnection {
    model: Arc<Model>,
    switches: Arc<Mutex<Switches>>,
    line: CancellationToken,
}

impl ModelConnection {
    async fn call<T>(&self, act: impl FnOnce(&Model) -> Result<T, Failure>) -> Result<T, Failure> {
        let Switches { is_down, is_hung, has_no_leader, loses_answers, delay, .. } = self.switches.lock().clone();
        if is_down || self.line.is_cancelled() {
            return Err(Failure::Unreachable("connection refused".to_owned()));
        }
        if is_hung {
            std::future::pending::<()>().await;
        }
        self.model.env.sleep(delay).await;
        if has_no_leader {
            return Err(Failure::TryLater("etcdserver: no leader".to_owned()));
        }
        let answer = act(&self.model);
        if loses_answers {
            return Err(Failure::Lost("connection reset".to_owned()));
        }
        answer
    }
}

#[async_trait]
impl Connection for ModelConnection {
    async fn status(&self) -> Result<Status, Failure> {
        let (version, is_cut_off) = {
            let switches = self.switches.lock();
            (switches.version.clone(), switches.has_no_leader || switches.loses_answers)
        };
        if is_cut_off {
            // The status needs no other member.
            return Ok(Status { cluster: self.model.state.lock().cluster, version, size_bytes: 0 });
        }
        self.call(|model| Ok(Status { cluster: model.state.lock().cluster, version, size_bytes: 0 })).await
    }

    async fn range(&self, query: RangeQuery) -> Result<Ranged, Failure> {
        self.call(|model| model.state.lock().range(&query)).await
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Failure> {
        self.call(|model| {
            let swapped = model.state.lock().swap(&swap)?;
            model.revision.send_replace(swapped.header.revision);
            Ok(swapped)
        })
        .await
    }

    async fn compact(&self, revision: u64) -> Result<Header, Failure> {
        self.call(|model| {
            let mut state = model.state.lock();
            if revision > state.revision {
                return Err(Failure::Future);
            }
            if revision <= state.compacted {
                return Err(Failure::Compacted);
            }
            state.compacted = revision;
            Ok(state.header())
        })
        .await
    }

    async fn grant_lease(&self, ttl_s: u64) -> Result<i64, Failure> {
        let model = self.model.clone();
        let id = self
            .call(|model| {
                let mut state = model.state.lock();
                state.last_lease += 1;
                let id = state.last_lease;
                state.leases.push(id);
                Ok(id)
            })
            .await?;
        let env = model.env.clone();
        env.clone().spawn(async move {
            env.sleep(Duration::from_secs(ttl_s)).await;
            model.revoke(id);
        });
        Ok(id)
    }

    async fn watch(&self, query: WatchQuery) -> Result<Box<dyn WatchMessages>, Failure> {
        self.call(|_| Ok(())).await?;
        let (model, line) = (self.model.clone(), self.line.clone());
        let is_old = self.switches.lock().version == OLD;
        let revision = model.revision.subscribe();
        let from = query.from;
        let has_history = from <= model.state.lock().revision;
        let catches_up_at = model.env.now() + if has_history { SYNC_PERIOD } else { Duration::ZERO };
        Ok(Box::new(ModelWatch {
            model,
            query,
            from,
            revision,
            line,
            is_old,
            catches_up_at,
            is_created: false,
            is_synced: false,
            progress_requested: false,
        }))
    }
}

struct ModelWatch {
    model: Arc<Model>,
    query: WatchQuery,
    /// Events from this revision on have not been sent.
    from: u64,
    revision: watch::Receiver<u64>,
    line: CancellationToken,
    is_old: bool,
    /// Until this time a progress request gets no answer, except from an old member.
    catches_up_at: Instant,
    is_created: bool,
    /// The watch has sent all of history once: compaction cannot overtake it any more.
    is_synced: bool,
    progress_requested: bool,
}

#[async_trait]
impl WatchMessages for ModelWatch {
    async fn next(&mut self) -> Result<Option<WatchMessage>, Failure> {
        loop {
            if self.line.is_cancelled() {
                return Err(Failure::Lost("connection reset".to_owned()));
            }
            self.revision.mark_unchanged();
            if let Some(message) = self.message() {
                return Ok(Some(message));
            }
            tokio::select! {
                biased;
                () = self.line.cancelled() => {}
                _ = self.revision.changed() => {}
            }
        }
    }

    async fn request_progress(&mut self) -> Result<(), Failure> {
        self.progress_requested |= self.is_old || self.model.env.now() >= self.catches_up_at;
        Ok(())
    }
}

impl ModelWatch {
    fn message(&mut self) -> Option<WatchMessage> {
        let state = self.model.state.lock();
        let message = WatchMessage { cluster: state.cluster, revision: state.revision, ..WatchMessage::default() };
        if !std::mem::replace(&mut self.is_created, true) {
            return Some(WatchMessage { created: true, ..message });
        }
        // An old member answers before it has sent the events.
        if self.is_old && std::mem::take(&mut self.progress_requested) {
            return Some(WatchMessage { answers_request: true, ..message });
        }
        if !self.is_synced && self.from < state.compacted {
            let canceled = Some("etcdserver: mvcc: required revision has been compacted".to_owned());
            return Some(WatchMessage { canceled, compacted: state.compacted, ..message });
        }
        let next = state.log.iter().filter(|event| event.key_value.mod_revision >= self.from);
        let mine = next.filter(|event| event.key_value.key >= self.query.start && event.key_value.key < self.query.end);
        let mut events: Vec<KeyEvent> = Vec::new();
        let mut revisions = 0;
        for event in mine {
            let is_new = events.last().is_none_or(|last| last.key_value.mod_revision < event.key_value.mod_revision);
            revisions += usize::from(is_new);
            if revisions > MESSAGE_REVISIONS {
                break;
            }
            events.push(event.clone());
        }
        match events.last() {
            Some(last) => {
                self.from = last.key_value.mod_revision + 1;
                Some(WatchMessage { events, ..message })
            }
            None => {
                self.is_synced = true;
                self.from = self.from.max(state.revision + 1);
                std::mem::take(&mut self.progress_requested)
                    .then_some(WatchMessage { answers_request: true, ..message })
            }
        }
    }
}
