//! Power losses in the middle of a batch: the writes of several writers that share one commit are present together or
//! not at all, and none is visible before all are durable.

use super::*;
use crate::memory::Memory;
use crate::{Change, WatchItem};
use futures::{FutureExt, StreamExt};

const ROUNDS: usize = 6;
/// The writers whose writes share one batch.
const WRITERS: usize = 4;

type Answer = oneshot::Receiver<Result<Outcome, Error>>;

/// Checks what is visible before each operation of the disk.
struct Witness {
    store: Arc<Embedded>,
    watch: Mutex<Watch>,
    /// Events that the watch has delivered, by revision.
    watched: Mutex<Vec<u64>>,
    /// The writes of the batch under way.
    answers: Mutex<Vec<Answer>>,
    /// The last revision of the batch before.
    durable: AtomicU64,
    /// The first write that was visible too early.
    early: Mutex<Option<String>>,
}

impl Witness {
    fn look(&self) {
        let durable = self.durable.load(Ordering::Relaxed);
        let mut seen = Vec::new();
        if let Ok(revision) = self.store.current_revision().now_or_never().expect("reads do not wait") {
            seen.push(("is the store's revision", revision));
        }
        if let Ok(range) = self.store.range(RangeRequest::prefix("/")).now_or_never().expect("reads do not wait") {
            seen.extend(range.entries.iter().map(|entry| ("was read", entry.mod_revision)));
        }
        seen.extend(self.read_watch().into_iter().map(|revision| ("was watched", revision)));
        for answer in self.answers.lock().iter_mut() {
            match answer.try_recv() {
                Ok(Ok(Outcome::Written { revision, .. })) => seen.push(("was answered", revision)),
                Ok(Ok(Outcome::Refused(entry))) => {
                    seen.push(("was visible in a refusal", entry.map_or(0, |entry| entry.mod_revision)));
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        if let Some((how, revision)) = seen.into_iter().find(|(_, revision)| *revision > durable) {
            self.early.lock().get_or_insert(format!("{revision} {how} when {durable} was the last durable one"));
        }
    }

    /// Returns the revisions that the watch has delivered since the last call.
    fn read_watch(&self) -> Vec<u64> {
        let (mut watch, mut delivered) = (self.watch.lock(), Vec::new());
        while let Some(Some(Ok(item))) = watch.next().now_or_never() {
            if let WatchItem::Events(events) = item {
                delivered.extend(events.iter().map(|event| event.revision));
            }
        }
        self.watched.lock().extend(&delivered);
        delivered
    }
}

/// Returns the batch of one writer: a change of its own key, a change of a key that all writers share, and a write
/// that comes too late for that. `at` returns the revision of a key after the writes before.
fn batch(round: usize, writer: usize, at: impl Fn(&str) -> u64) -> [Write; 3] {
    let own = format!("/own/{writer}");
    let put = |text: String| Change::Put { value: text.repeat(300).into(), ttl: None };
    let change = match (at(&own), (round + writer) % 3) {
        (1.., 2) => Change::Delete,
        _ => put(format!("{round}.{writer} ")),
    };
    let shared = at("/shared");
    [
        Write { expected: at(&own), key: own.into(), change },
        Write { key: "/shared".into(), expected: shared, change: put(format!("{writer} was here in {round} ")) },
        Write { key: "/shared".into(), expected: shared, change: put("too late".to_owned()) },
    ]
}

/// A deliberate bug in the store, so that the test is known to notice it.
#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    SkipsSyncs,
    PublishesFirst,
}

/// Runs a history on a disk that fails after `cut` operations. Returns true if the disk did not fail at all; an error
/// says which promise was broken.
async fn cut_at(cut: usize, mutant: Mutant) -> Result<bool, String> {
    let env = Env::simulated(cut as u64);
    let (random, backend, model) = (env.random("dice"), Fragile::default(), Memory::new(&env));
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    if mutant == Mutant::SkipsSyncs {
        backend.skip_syncs();
    }
    let witness = Arc::new(Witness {
        watch: Mutex::new(store.watch("/", 1).await.unwrap()),
        store: store.clone(),
        watched: Mutex::default(),
        answers: Mutex::default(),
        durable: AtomicU64::new(1),
        early: Mutex::default(),
    });
    let observer = Arc::downgrade(&witness);
    backend.observe(move || observer.upgrade().iter().for_each(|witness| witness.look()));
    backend.fail_after(cut);

    // What the store holds after each revision, from 0 on.
    let mut states = vec![String::new(); 2];
    for round in 0..ROUNDS {
        let mut expected = Vec::new();
        for writer in 0..WRITERS {
            let at = |key: &str| {
                let read = model.get(key).now_or_never().expect("memory does not wait").unwrap();
                read.entry.map_or(0, |entry| entry.mod_revision)
            };
            for write in batch(round, writer, at) {
                let outcome = model.write(write.clone()).await.unwrap();
                if matches!(outcome, Outcome::Written { .. }) {
                    states.push(text(&model.range(RangeRequest::prefix("/")).await.unwrap().entries));
                }
                expected.push(outcome);
                witness.answers.lock().push(store.submit(write).expect("it has not stopped"));
            }
        }
        witness.look();
        if mutant == Mutant::PublishesFirst {
            let writes: Vec<DiskWrite> =
                store.state.lock().queue.iter().filter_map(|pending| pending.write.clone()).collect();
            store.publish(&writes);
        }
        store.commit_queue();
        let answers = std::mem::take(&mut *witness.answers.lock());
        let answers: Vec<_> =
            answers.into_iter().map(|mut answer| answer.try_recv().expect("all are answered")).collect();
        if answers.iter().any(Result::is_err) {
            if answers.iter().any(Result::is_ok) {
                return Err(format!("some of one batch were answered that it is written: {answers:?}"));
            }
            break;
        }
        let answers: Vec<Outcome> = answers.into_iter().flatten().collect();
        if answers != expected {
            return Err(format!("answered {answers:?} where {expected:?} is right"));
        }
        witness.durable.store(model.current_revision().await.unwrap(), Ordering::Relaxed);
    }
    if let Some(early) = witness.early.lock().take() {
        return Err(early);
    }
    let answered = witness.durable.load(Ordering::Relaxed);
    witness.read_watch();
    let watched = std::mem::take(&mut *witness.watched.lock());
    if !watched.iter().copied().eq(2..=answered) {
        return Err(format!("{watched:?} was watched, and {answered} is the last durable revision"));
    }

    let with_the_last = states.len() as u64 - 1;
    for _ in 0..3 {
        let found = backend.after_power_loss(&random);
        let again = Embedded::open_backend(&env, found).map_err(|error| format!("after the loss: {error}"))?;
        let revision = again.current_revision().await.unwrap();
        if revision != answered && revision != with_the_last {
            return Err(format!("it is at {revision}, between {answered} and {with_the_last}, where a batch ends"));
        }
        let there = everything(&again).await;
        if there != states[revision as usize] {
            return Err(format!("at revision {revision} there is {there:?}"));
        }
        let next = put(&again, "/after", "1").await;
        if next != revision + 1 {
            return Err(format!("after revision {revision} came {next}"));
        }
    }
    Ok(!backend.has_failed())
}

#[tokio::test(start_paused = true)]
async fn power_may_go_at_every_operation_of_a_batch() {
    for cut in 0.. {
        match cut_at(cut, Mutant::None).await {
            Ok(true) => {
                assert!(cut > 2 * ROUNDS, "each batch is at least a change and a sync");
                return;
            }
            Ok(false) => {}
            Err(broken) => panic!("the disk failed after operation {cut}: {broken}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_skips_syncs_or_publishes_first_is_found_out() {
    for cut in [30, 45, 60] {
        assert!(cut_at(cut, Mutant::SkipsSyncs).await.is_err(), "nothing was missed after operation {cut}");
        let early = cut_at(cut, Mutant::PublishesFirst).await.unwrap_err();
        assert!(early.contains("when 1 was the last durable one"), "{early}");
    }
}
