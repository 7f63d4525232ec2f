//! Kills the API server repeatedly while clients write, and checks that answered writes survive and revisions grow.

use crate::{etcd, program};
use component_base::env::Env;
use component_base::rng::Random;
use e2e::apiserver::ApiServer;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const KILLS: usize = 25;
const WRITERS: usize = 4;
/// Most answered writes before a kill.
const MAX_WRITES_PER_KILL: usize = 40;
const SEED: u64 = 1;

#[tokio::test]
async fn answered_writes_to_the_embedded_store_survive_kills() {
    survives_kills(Store::Embedded).await;
}

#[tokio::test]
async fn answered_writes_to_etcd_survive_kills() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    survives_kills(Store::Etcd(&etcd)).await;
}

/// The state of an object as its writer knows it.
#[derive(Clone, Debug, Default)]
struct WriterState {
    /// The last number that was answered, and its revision.
    number: u64,
    revision: u64,
    /// A number that was sent and not answered, so it may be stored or not.
    unanswered: Option<u64>,
}

async fn survives_kills(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let mut server = ApiServer::start(program(), directory.path(), store).await;
    let random = Env::simulated(SEED).random("kills");
    let mut known: Vec<WriterState> = vec![WriterState::default(); WRITERS];
    for round in 0..KILLS {
        let before = known.iter().map(|known| known.revision).max().unwrap();
        write_until_killed(&mut server, &random, &mut known).await;
        server.restart().await;
        let there = objects(&server).await;
        for (writer, known) in known.iter_mut().enumerate() {
            let (number, revision) = there.get(&name(writer)).copied().unwrap_or_default();
            let context = format!("round {round} (seed {SEED}), writer {writer}: {number} at {revision}, {known:?}");
            match known.unanswered.take() {
                Some(unanswered) if number == unanswered => assert!(revision > known.revision, "{context}"),
                _ => assert_eq!((number, revision), (known.number, known.revision), "{context}"),
            }
            assert!(number == 0 || known.revision == revision || revision > before, "{context}");
            (known.number, known.revision) = (number, revision);
        }
    }
    assert!(known.iter().all(|known| known.number > 0), "every writer has written: {known:?}");
}

fn name(writer: usize) -> String {
    format!("writer-{writer}")
}

/// Lets every writer increment the number in its own object, and kills the server after a random number of answers.
async fn write_until_killed(server: &mut ApiServer, random: &Random, known: &mut [WriterState]) {
    let (answers, limit) = (AtomicUsize::new(0), 1 + random.below(MAX_WRITES_PER_KILL));
    let client = server.client(&server.admin);
    let killer = parking_lot::Mutex::new(Some(server));
    let writers = known.iter_mut().enumerate().map(|(writer, known)| {
        let (client, answers, killer) = (client.clone(), &answers, &killer);
        async move {
            loop {
                let number = known.number + 1;
                known.unanswered = Some(number);
                let body =
                    json!({"metadata": {"name": name(writer)}, "data": {"number": number.to_string()}}).to_string();
                let request = match number {
                    1 => RawRequest::post(CONFIG_MAPS, body),
                    _ => RawRequest::put(&format!("{CONFIG_MAPS}/{}", name(writer)), body),
                };
                let Ok(answer) = request.send(&client).await else { return };
                assert!(answer.code < 300 || answer.code >= 500, "{}: {}", answer.code, answer.body);
                if answer.code >= 500 {
                    return;
                }
                let revision = version(&answer.body);
                assert!(revision > known.revision, "{revision} after {known:?}");
                *known = WriterState { number, revision, unanswered: None };
                if answers.fetch_add(1, Ordering::Relaxed) + 1 == limit
                    && let Some(server) = killer.lock().take()
                {
                    server.kill();
                    return;
                }
            }
        }
    });
    join_all(writers).await;
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Returns the number and the revision of each object.
async fn objects(server: &ApiServer) -> BTreeMap<String, (u64, u64)> {
    let list = RawRequest::get(CONFIG_MAPS).send(&server.client(&server.admin)).await.unwrap().body;
    let items = list["items"].as_array().unwrap().iter();
    let of = |item: &Value| (item["data"]["number"].as_str().unwrap_or("0").parse().unwrap(), version(item));
    items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), of(item))).collect()
}
