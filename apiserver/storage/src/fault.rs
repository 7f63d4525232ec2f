//! `Fault`: wraps any engine in an unreliable network. A seeded random stream decides what fails.
//!
//! It breaks no promise of the contract, so a correct caller must cope with it. A write may happen and its answer be
//! lost, calls take time, and watches fall behind or are cut. Nothing is reordered or repeated.

use super::{Change, Entry, Error, Outcome, Range, RangeRequest, Read, Storage, Watch, Write};
use async_trait::async_trait;
use component_base::env::Env;
use component_base::rng::Random;
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time after which every watcher has received a write.
const DELIVERY_TIME: Duration = Duration::from_millis(1);

/// How likely each fault is, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// A call fails before anything has happened.
    pub lost_request: f64,
    /// A write fails although it happened; a read fails after it was made.
    pub lost_answer: f64,
    /// A call, or an item of a watch, takes up to `longest_delay` longer.
    pub delay: f64,
    pub longest_delay: Duration,
    /// A watch ends before its next item, half of the times with an error.
    pub cut_watch: f64,
}

/// Returns the changes that another writer makes to a key just before a write of it, in order, given the key's entry.
type Rival = Arc<dyn Fn(&Write, Option<&Entry>) -> Vec<Change> + Send + Sync>;

/// Selects the writes whose requests get lost.
type Lost = Arc<dyn Fn(&Write) -> bool + Send + Sync>;

pub struct Fault {
    env: Env,
    inner: Arc<dyn Storage>,
    source: Arc<FaultSource>,
    rival: Mutex<Option<Rival>>,
    lost: Mutex<Option<Lost>>,
    /// Written once, after the next range was read and before its answer is returned.
    after_range: Mutex<Option<Write>>,
    hides_progress: AtomicBool,
    /// Every call panics before anything has happened.
    panics: AtomicBool,
    /// Cancelled and replaced when all watches are cut at once.
    connection: Mutex<CancellationToken>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct FaultSource {
    faults: Mutex<Faults>,
    random: Random,
}

impl FaultSource {
    fn hits(&self, likely: impl Fn(&Faults) -> f64) -> bool {
        let likely = likely(&self.faults.lock());
        // Without faults no random number is drawn, so that the stream does not depend on them.
        likely > 0.0 && self.random.unit() < likely
    }

    async fn delay(&self, env: &Env) {
        if self.hits(|faults| faults.delay) {
            let longest = self.faults.lock().longest_delay;
            env.sleep(longest.mul_f64(self.random.unit())).await;
        }
    }
}

impl Fault {
    /// Wraps an engine, without faults until `set` is called.
    pub fn new(env: &Env, inner: Arc<dyn Storage>) -> Arc<Self> {
        let source = FaultSource { faults: Mutex::default(), random: env.random("storage/fault") };
        Arc::new(Self {
            env: env.clone(),
            inner,
            source: Arc::new(source),
            rival: Mutex::default(),
            lost: Mutex::default(),
            after_range: Mutex::default(),
            hides_progress: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            connection: Mutex::default(),
        })
    }

    pub fn set(&self, faults: Faults) {
        *self.source.faults.lock() = faults;
    }

    /// Lets another writer win every race: the changes that `rival` returns for a write are written first, to the same
    /// key.
    pub fn set_rival(&self, rival: impl Fn(&Write, Option<&Entry>) -> Vec<Change> + Send + Sync + 'static) {
        *self.rival.lock() = Some(Arc::new(rival));
    }

    /// Loses the requests of the writes that `lost` selects.
    pub fn lose(&self, lost: impl Fn(&Write) -> bool + Send + Sync + 'static) {
        *self.lost.lock() = Some(Arc::new(lost));
    }

    /// Makes another writer write after the next range was read. Watchers receive that write before the range's answer.
    pub fn write_after_range(&self, write: Write) {
        *self.after_range.lock() = Some(write);
    }

    /// Makes progress unreliable from now on, as with an old etcd.
    pub fn hide_progress(&self) {
        self.hides_progress.store(true, Ordering::Relaxed);
    }

    /// Makes every call panic, as a bug in an engine would, or stops doing so.
    pub fn set_panics(&self, panics: bool) {
        self.panics.store(panics, Ordering::Relaxed);
    }

    /// Writes the rival's changes before this write.
    async fn write_as_rival(&self, write: &Write) -> Result<(), Error> {
        let Some(rival) = self.rival.lock().clone() else { return Ok(()) };
        let current = self.inner.get(&write.key).await?.entry;
        for change in rival(write, current.as_ref()) {
            let expected = self.inner.get(&write.key).await?.entry.map_or(0, |entry| entry.mod_revision);
            self.inner.write(Write { key: write.key.clone(), expected, change }).await?;
        }
        Ok(())
    }

    /// Ends every watch at once, as a lost connection does.
    pub fn cut_watches(&self) {
        std::mem::take(&mut *self.connection.lock()).cancel();
    }

    /// Makes one call through the unreliable network.
    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.source.delay(&self.env).await;
        assert!(!self.panics.load(Ordering::Relaxed), "a mistake in the engine");
        if self.source.hits(|faults| faults.lost_request) {
            return Err(Error::Unavailable("the request was lost".to_owned()));
        }
        let answer = call.await;
        if answer.is_ok() && self.source.hits(|faults| faults.lost_answer) {
            return Err(Error::Unavailable("the answer was lost".to_owned()));
        }
        self.source.delay(&self.env).await;
        answer
    }
}

#[async_trait]
impl Storage for Fault {
    async fn get(&self, key: &str) -> Result<Read, Error> {
        self.call(self.inner.get(key)).await
    }

    async fn range(&self, request: RangeRequest) -> Result<Range, Error> {
        let answer = self.call(self.inner.range(request)).await;
        let write = self.after_range.lock().take();
        if let Some(write) = write {
            self.inner.write(write).await?;
            self.env.sleep(DELIVERY_TIME).await;
        }
        answer
    }

    async fn write(&self, write: Write) -> Result<Outcome, Error> {
        if self.lost.lock().as_ref().is_some_and(|lost| lost(&write)) {
            return Err(Error::Unavailable("the request was lost".to_owned()));
        }
        self.write_as_rival(&write).await?;
        self.call(self.inner.write(write)).await
    }

    async fn watch(&self, prefix: &str, after: u64) -> Result<Watch, Error> {
        let connection = self.connection.lock().clone();
        let watch = self.call(self.inner.watch(prefix, after)).await?;
        let (env, source) = (self.env.clone(), self.source.clone());
        let cuttable = watch.take_until(connection.cancelled_owned()).boxed();
        let lossy = stream::unfold(Some(cuttable), move |watch| {
            let (env, source) = (env.clone(), source.clone());
            async move {
                let mut watch = watch?;
                let item = watch.next().await?;
                source.delay(&env).await;
                if !source.hits(|faults| faults.cut_watch) {
                    return Some((item, Some(watch)));
                }
                let error = Error::Unavailable("the watch was cut".to_owned());
                source.hits(|_| 0.5).then_some((Err(error), None))
            }
        });
        Ok(lossy.boxed())
    }

    async fn current_revision(&self) -> Result<u64, Error> {
        self.call(self.inner.current_revision()).await
    }

    fn reports_progress(&self) -> bool {
        self.inner.reports_progress() && !self.hides_progress.load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn trouble(&self) -> Option<String> {
        self.inner.trouble()
    }

    async fn size_bytes(&self) -> Option<u64> {
        self.inner.size_bytes().await
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.call(self.inner.request_progress(prefix)).await
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        self.call(self.inner.compact(revision)).await
    }

    async fn stopped(&self) -> Error {
        self.inner.stopped().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
