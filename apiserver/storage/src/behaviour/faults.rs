//! Any engine under an unreliable network: answered writes are present, and a watch that resumes misses nothing.

use super::*;
use crate::fault::Faults;
use std::collections::BTreeMap;

on_every_engine!(nothing_is_lost_or_repeated_in_a_bad_network;);

const WRITERS: usize = 4;
const WRITES: usize = 25;

const BAD_NETWORK: Faults = Faults {
    lost_request: 0.05,
    lost_answer: 0.1,
    delay: 0.3,
    longest_delay: Duration::from_millis(5),
    cut_watch: 0.1,
};

async fn nothing_is_lost_or_repeated_in_a_bad_network(bench: &Bench) {
    let fault = Fault::new(&bench.env, bench.storage.clone());
    fault.set(BAD_NETWORK);
    let follower = bench.env.spawn(follow(fault.clone()));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let random = bench.env.random(&format!("writer {writer}"));
            let storage = fault.clone();
            bench.env.spawn(async move {
                let mut answered = Vec::new();
                for turn in 0..WRITES {
                    let key = format!("/k{}", random.below(3));
                    let value = format!("{writer}.{turn}");
                    if let Some(revision) = write_once(&*storage, &key, &value).await {
                        answered.push(format!("{revision} {key} {value}"));
                    }
                }
                answered
            })
        })
        .collect();
    let mut answered = Vec::new();
    for writer in writers {
        answered.extend(writer.await.unwrap());
    }
    fault.set(Faults::default());
    let last = bench.put("/end", "").await;
    let events = bench.env.timeout(LONGEST_WAIT, follower).await.expect("the follower reaches the end").unwrap();
    let revisions: Vec<u64> = events.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, (2..=last).collect::<Vec<_>>(), "each once, in order, without a gap");
    let mut current: BTreeMap<Key, Entry> = BTreeMap::new();
    for event in &events {
        assert_eq!(event.previous, current.get(&event.key).cloned(), "{}", event_line(event));
        match &event.current {
            Some(entry) => drop(current.insert(event.key.clone(), entry.clone())),
            None => drop(current.remove(&event.key)),
        }
    }
    let entries: Vec<Entry> = current.into_values().collect();
    assert_eq!(text(&entries), bench.list("/", 0).await.unwrap());
    for line in answered {
        let deliveries = events.iter().filter(|event| {
            let value = event.current.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
            value.is_some_and(|value| format!("{} {} {value}", event.revision, event.key) == line)
        });
        assert_eq!(deliveries.count(), 1, "{line} was answered");
    }
}

/// Writes once and returns the revision, if the write was answered. One write in five deletes.
async fn write_once(storage: &dyn Storage, key: &str, value: &str) -> Option<u64> {
    let at = storage.get(key).await.ok()?.entry.map_or(0, |entry| entry.mod_revision);
    let outcome = if value.ends_with('4') && at > 0 {
        storage.delete(key, at).await.ok()?;
        return None;
    } else {
        storage.update(key, at, Bytes::from(value.to_owned()), None).await.ok()?
    };
    match outcome {
        Outcome::Written { revision, .. } => Some(revision),
        Outcome::Refused(_) => None,
    }
}

/// Returns every event up to the write of `/end`, however often the watch has to be resumed.
async fn follow(storage: Arc<Fault>) -> Vec<Arc<Event>> {
    let mut events: Vec<Arc<Event>> = Vec::new();
    loop {
        let after = events.last().map_or(1, |event| event.revision);
        let Ok(mut watch) = storage.watch("/", after).await else { continue };
        while let Some(Ok(item)) = watch.next().await {
            if let WatchItem::Events(batch) = item {
                events.extend(batch);
            }
            if events.last().is_some_and(|last| &*last.key == "/end") {
                return events;
            }
        }
    }
}
