//! `Watchers`: the open watches of an engine. Each has a queue of its own, so that none waits for another.
//!
//! Corresponds to etcd's server/storage/mvcc/watchable_store.go. Publishing happens under the engine's lock,
//! in the same step that makes the events visible; reading a queue takes only that queue's lock.

use super::{Error, Event, Watch, WatchItem};
use futures::Stream;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// Largest number of events in one watch's queue. A watch that falls further behind is cut and resumes from history.
const QUEUE_EVENTS: usize = 65_536;

/// Largest number of events in one item, so that a reader of a long queue can yield in between.
const BATCH_EVENTS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Watchers {
    watches: Vec<Weak<Shared>>,
}

#[derive(Debug)]
struct Shared {
    prefix: String,
    after: u64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    /// Sent once the events before it have been read.
    progress: Option<u64>,
    end: Option<End>,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum End {
    Cut,
    Failed(Error),
}

impl Watchers {
    /// Adds a watch whose queue begins with `history`. The caller holds the engine's lock, so no event is missed in
    /// between.
    pub fn add(&mut self, prefix: &str, after: u64, history: Vec<Arc<Event>>) -> Watch {
        let queue = Mutex::new(Queue { events: history.into(), ..Queue::default() });
        let shared = Arc::new(Shared { prefix: prefix.to_owned(), after, queue });
        self.watches.retain(|watch| watch.strong_count() > 0);
        self.watches.push(Arc::downgrade(&shared));
        Box::pin(Reader(shared))
    }

    pub fn publish(&mut self, events: &[Arc<Event>]) {
        self.for_each(|watch| {
            let mut matching =
                events.iter().filter(|event| event.revision > watch.after && event.key.starts_with(&watch.prefix));
            let Some(first) = matching.next() else { return };
            let mut queue = watch.queue.lock();
            if queue.end.is_some() {
                // Events after a cut would hide the gap.
                return;
            }
            queue.events.push_back(first.clone());
            queue.events.extend(matching.cloned());
            if queue.events.len() > QUEUE_EVENTS {
                queue.events.clear();
                queue.end = Some(End::Cut);
            }
            queue.wake();
        });
    }

    /// Reports `revision`, which is the newest published one, to the watches that overlap `prefix`.
    pub fn progress(&mut self, prefix: &str, revision: u64) {
        self.for_each(|watch| {
            if watch.prefix.starts_with(prefix) || prefix.starts_with(&watch.prefix) {
                let mut queue = watch.queue.lock();
                queue.progress = Some(revision.max(watch.after));
                queue.wake();
            }
        });
    }

    /// Ends every watch with the error, because the engine has stopped.
    pub fn fail(&mut self, error: &Error) {
        self.for_each(|watch| {
            let mut queue = watch.queue.lock();
            queue.end = Some(End::Failed(error.clone()));
            queue.wake();
        });
    }

    fn for_each(&mut self, act: impl Fn(&Shared)) {
        self.watches.retain(|watch| watch.upgrade().inspect(|watch| act(watch)).is_some());
    }
}

impl Queue {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct Reader(Arc<Shared>);

impl Stream for Reader {
    type Item = Result<WatchItem, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.queue.lock();
        if !queue.events.is_empty() {
            // Every revision of these engines holds one event, so a batch may end anywhere.
            let batch = queue.events.len().min(BATCH_EVENTS);
            return Poll::Ready(Some(Ok(WatchItem::Events(queue.events.drain(..batch).collect()))));
        }
        match queue.end.take() {
            Some(End::Failed(error)) => {
                queue.end = Some(End::Cut);
                return Poll::Ready(Some(Err(error)));
            }
            Some(End::Cut) => {
                queue.end = Some(End::Cut);
                return Poll::Ready(None);
            }
            None => {}
        }
        if let Some(revision) = queue.progress.take() {
            return Poll::Ready(Some(Ok(WatchItem::Progress(revision))));
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    fn event(revision: u64) -> Arc<Event> {
        Arc::new(Event { revision, key: "/a".into(), current: None, previous: None })
    }

    #[test]
    fn a_watch_that_is_not_read_is_cut_and_others_are_not() {
        let mut watchers = Watchers::default();
        let (mut slow, mut quick) = (watchers.add("/", 0, Vec::new()), watchers.add("/", 0, Vec::new()));
        for revision in 1..=QUEUE_EVENTS as u64 + 1 {
            watchers.publish(&[event(revision)]);
            let item = quick.next().now_or_never();
            assert_eq!(item, Some(Some(Ok(WatchItem::Events(vec![event(revision)])))));
        }
        watchers.publish(&[event(1 << 20)]);
        assert_eq!(slow.next().now_or_never(), Some(None), "it ends, and hides no gap");
        assert_eq!(slow.next().now_or_never(), Some(None));
    }
}
