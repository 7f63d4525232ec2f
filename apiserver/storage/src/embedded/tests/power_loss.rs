//! Power losses and kills at any operation of the disk: answered writes are present, and no write is present in part.

use super::*;
use component_base::rng::Random;
use futures::{FutureExt, StreamExt};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes until the device fails. Returns the content of the store after each revision, and the last answered revision.
async fn write_until_failure(env: &Env, backend: &Fragile, random: &Random) -> (Vec<String>, u64) {
    let store = Embedded::open_backend(env, backend.clone()).unwrap();
    let model = crate::memory::Memory::new(env);
    // States by revision, from 0 on.
    let mut states = vec![String::new(); 2];
    backend.fail_after(1 + random.below(400));
    loop {
        let key = format!("/{}", random.below(12));
        let at = model.get(&key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
        let write = match (at, random.below(4)) {
            (1.., 0) => Write { key: key.as_str().into(), expected: at, change: crate::Change::Delete },
            _ => {
                let value = Bytes::from(random.uid().repeat(random.below(60)));
                let change = crate::Change::Put { value, ttl: None };
                Write { key: key.as_str().into(), expected: at, change }
            }
        };
        model.write(write.clone()).await.unwrap();
        states.push(text(&model.range(RangeRequest::prefix("/")).await.unwrap().entries));
        if store.write(write).await.is_err() {
            return (states, model.current_revision().await.unwrap() - 1);
        }
    }
}

/// Opens the store, which repairs it, with further power losses while it does so.
fn lose_power_while_opening(env: &Env, mut found: Fragile, random: &Random) -> Fragile {
    for steps in 0.. {
        found.fail_after(steps);
        if Embedded::open_backend(env, found.clone()).is_ok() && !found.has_failed() {
            return found.after_power_loss(random);
        }
        found = found.after_power_loss(random);
    }
    unreachable!("the loop ends by returning")
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_survives_and_nothing_is_half_there() {
    for seed in 0..60 {
        let env = Env::simulated(seed);
        let random = env.random("power loss");
        let backend = Fragile::default();
        let (states, answered) = write_until_failure(&env, &backend, &random).await;
        assert!(backend.has_failed());
        for loss in 0..3 {
            let found = if loss == 0 { backend.after_kill() } else { backend.after_power_loss(&random) };
            let found = if loss == 1 { lose_power_while_opening(&env, found, &random) } else { found };
            let again = Embedded::open_backend(&env, found.clone())
                .unwrap_or_else(|error| panic!("seed {seed}, loss {loss}: {error}"));
            let revision = again.current_revision().await.unwrap();
            assert!(
                revision == answered || revision == answered + 1,
                "seed {seed}, loss {loss}: at {revision}, {answered} was answered and one more was on its way"
            );
            assert_eq!(everything(&again).await, states[revision as usize], "seed {seed}, loss {loss}");
            // The store goes on from there, and survives its own recovery.
            assert_eq!(put(&again, "/after", "1").await, revision + 1);
            let found = found.after_power_loss(&random);
            let once_more = Embedded::open_backend(&env, found).unwrap();
            assert_eq!(once_more.current_revision().await.unwrap(), revision + 1, "seed {seed}, loss {loss}");
        }
    }
}

/// A reader and a watcher that check what is visible before each operation of the disk.
struct Witness {
    store: Arc<Embedded>,
    watch: Mutex<Watch>,
    /// The highest revision that a writer was answered.
    answered: AtomicU64,
    /// The first write that was visible before it was answered, and so before it was durable.
    early: Mutex<Option<String>>,
}

impl Witness {
    fn look(&self) {
        let answered = self.answered.load(Ordering::Relaxed);
        let range = self.store.range(RangeRequest::prefix("/")).now_or_never().expect("reads do not wait");
        let Ok(Range { entries, revision, .. }) = range else { return };
        let newest = entries.iter().map(|entry| entry.mod_revision).max().unwrap_or(0).max(revision);
        if newest > answered {
            self.early
                .lock()
                .get_or_insert(format!("revision {newest} was read when {answered} was the last answered"));
        }
        while let Some(Some(Ok(item))) = self.watch.lock().next().now_or_never() {
            let crate::WatchItem::Events(events) = item else { continue };
            if let Some(event) = events.iter().find(|event| event.revision > answered) {
                let early = format!("revision {} was watched when {answered} was the last answered", event.revision);
                self.early.lock().get_or_insert(early);
            }
        }
    }
}

/// Runs a history of `writes` writes on a disk that fails after `cut` operations. Returns true if the disk did not fail
/// at all; an error says which promise was broken.
async fn cut_at(cut: usize, writes: usize, skips_syncs: bool) -> Result<bool, String> {
    let env = Env::simulated(cut as u64);
    let (random, backend) = (env.random("dice"), Fragile::default());
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    if skips_syncs {
        backend.skip_syncs();
    }
    let watch = Mutex::new(store.watch("/", 1).await.unwrap());
    let witness = Arc::new(Witness { store, watch, answered: AtomicU64::new(1), early: Mutex::default() });
    let observer = Arc::downgrade(&witness);
    backend.observe(move || observer.upgrade().iter().for_each(|witness| witness.look()));
    backend.fail_after(cut);

    // What the store held after each revision, from 0 on.
    let mut states = vec![String::new(); 2];
    for number in 0..writes {
        let key = format!("/{}", number % 5);
        let at = witness.store.get(&key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
        let change = match (at, number % 7) {
            (1.., 6) => crate::Change::Delete,
            _ => crate::Change::Put { value: format!("{number}").repeat(400).into(), ttl: None },
        };
        let write = Write { key: key.as_str().into(), expected: at, change };
        let Ok(outcome) = witness.store.write(write).await else { break };
        witness.answered.store(written(outcome), Ordering::Relaxed);
        states.push(everything(&witness.store).await);
    }
    if let Some(early) = witness.early.lock().take() {
        return Err(early);
    }

    let answered = witness.answered.load(Ordering::Relaxed);
    if answered + 1 != states.len() as u64 {
        return Err(format!("{} writes were answered, the last with revision {answered}", states.len() - 2));
    }
    for _ in 0..3 {
        let found = backend.after_power_loss(&random);
        let again = Embedded::open_backend(&env, found).map_err(|error| format!("after the loss: {error}"))?;
        let revision = again.current_revision().await.unwrap();
        let in_flight = u64::from(backend.has_failed());
        if revision < answered || revision > answered + in_flight {
            return Err(format!("it is at revision {revision}, and {answered} was answered"));
        }
        let there = everything(&again).await;
        if revision == answered && there != states[answered as usize] {
            return Err(format!("at revision {revision} there is {there:?}"));
        }
        let next = put(&again, "/after", "1").await;
        if next != revision + 1 {
            return Err(format!("after revision {revision} came {next}"));
        }
    }
    Ok(!backend.has_failed())
}

/// Number of writes for which every operation of the disk is tried as the last.
const CUT_WRITES: usize = 16;

#[tokio::test(start_paused = true)]
async fn power_may_go_at_every_operation_of_the_disk() {
    for cut in 0.. {
        match cut_at(cut, CUT_WRITES, false).await {
            Ok(true) => {
                assert!(cut > 2 * CUT_WRITES, "each write is at least a change and a sync");
                return;
            }
            Ok(false) => {}
            Err(broken) => panic!("the disk failed after operation {cut}: {broken}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_skips_its_syncs_is_found_out() {
    for cut in [30, 60, 90, 120] {
        assert!(cut_at(cut, CUT_WRITES, true).await.is_err(), "nothing was missed after operation {cut}");
    }
}
