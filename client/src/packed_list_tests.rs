//! Tests that a long list is never in memory as a whole: the objects that are whole are counted.

use crate::cached::{Cached, Codec, PartialObject};
use crate::client::Client;
use crate::informer::{Core, Event, Informer};
use crate::options::ListOptions;
use client_testing::{FakeServer, Refusal};
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Status;
use proto::gvk::Gvr;
use proto::kinds::metav1::ObjectMeta;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Objects in the list, which has two pages, and how many of them the store holds whole.
const LISTED: usize = 700;
const WHOLE: usize = 10;
/// Most objects that may be whole at one time: those of the store and of the list, and the two that are compared.
const MOST: usize = 2 * WHOLE + 2;

thread_local! {
    /// Objects that are whole now, and the most that ever were.
    static ALIVE: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// An object that is counted while it is in memory.
struct Counted(PartialObject);

impl Cached for Counted {
    fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let object = PartialObject::decode(bytes)?;
        let (alive, most) = ALIVE.get();
        ALIVE.set((alive + 1, most.max(alive + 1)));
        Ok(Self(object))
    }

    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.0.metadata
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (alive, most) = ALIVE.get();
        ALIVE.set((alive - 1, most));
    }
}

fn config(number: usize, label: &str) -> Value {
    let name = format!("map-{number:03}");
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"value": label}}})
}

fn text(object: &Counted) -> (String, String) {
    let label = object.0.metadata.labels.iter().flatten().map(|(_, value)| value.clone()).collect();
    (object.cache_key(), label)
}

/// Follows a long collection, loses the watch for good while objects change, and lists it again.
async fn check(refusal: Option<Refusal>) {
    let env = Env::simulated(3);
    let server = FakeServer::new(&env);
    if let Some(refusal) = refusal {
        server.refuse_initial_events(refusal);
    }
    (0..LISTED).for_each(|number| server.put("configmaps", config(number, "first")));
    let client = Client::from_service(&env, server.service(), "test");
    let api = client.dynamic(&Gvr::new("", "v1", "configmaps"), "");
    let core = Arc::new(Core::new(api, ListOptions::default(), Codec::of::<Counted>(), None));
    let informer = Informer::<Counted>::of(core.clone());
    informer.pack_beyond(WHOLE);
    let events = Arc::new(Mutex::new(BTreeMap::new()));
    let log = events.clone();
    informer.on_event(move |event| {
        let what = match event {
            Event::Added(object) => (text(object).0, format!("+{}", text(object).1)),
            Event::Updated { old, new } => (text(new).0, format!("{}->{}", text(old).1, text(new).1)),
            Event::Deleted(object) => (text(object).0, "-".to_owned()),
        };
        log.lock().insert(what.0, what.1);
    });
    env.spawn(core.run());
    assert!(informer.synced().await);
    let added = std::mem::take(&mut *events.lock());
    assert_eq!((added.len(), added.values().filter(|what| *what == "+first").count()), (LISTED, LISTED));

    // Some of each kind: whole and packed in the store, whole and packed in the list.
    let (changed, removed) = ([0, 7, 150, LISTED - 2], [3, LISTED - 1]);
    server.compact();
    changed.iter().for_each(|number| server.put("configmaps", config(*number, "second")));
    removed.iter().for_each(|number| server.remove("configmaps", &format!("ns/map-{number:03}")));
    server.compact();
    server.cut_watches();
    env.sleep(Duration::from_secs(60)).await;
    let expected = changed.iter().map(|number| (format!("ns/map-{number:03}"), "first->second".to_owned()));
    let expected: BTreeMap<String, String> =
        expected.chain(removed.iter().map(|number| (format!("ns/map-{number:03}"), "-".to_owned()))).collect();
    assert_eq!(*events.lock(), expected, "no event repeats what has not changed");
    assert!(ALIVE.get().1 <= MOST, "{} objects were whole at one time", ALIVE.get().1);

    let read: Vec<(String, String)> = informer.lister().list().iter().map(|object| text(object)).collect();
    let stored = server
        .list("configmaps")
        .into_iter()
        .map(|object| text(&Counted::decode(object.to_string().as_bytes()).unwrap()));
    assert_eq!(read, stored.collect::<Vec<_>>());
    env.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_packed_while_it_is_read() {
    check(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_is_packed_while_it_is_read() {
    check(Some(Refusal::Answer(Status::bad_request("sendInitialEvents is not known")))).await;
}
