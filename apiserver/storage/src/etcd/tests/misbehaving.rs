//! The failures of etcd and how the engine handles them, one test each, in virtual time.

use super::*;
use crate::WatchItem;
use crate::behaviour::{arrived, written};
use crate::etcd::testing::model::{NEW, OLD};
use futures::{FutureExt, StreamExt};

struct Bench {
    env: Env,
    model: Arc<Model>,
    members: Vec<Arc<ModelMember>>,
    storage: Arc<Etcd>,
}

impl Bench {
    async fn of(count: usize, version: &str) -> Self {
        let env = Env::simulated(1);
        let model = Model::new(&env, 7);
        let members = model.members(count, version);
        let storage = over(&env, &members).await.unwrap();
        Self { env, model, members, storage }
    }

    async fn put(&self, key: &str, value: &str) -> Result<u64, Error> {
        let at = self.storage.get(key).await?.entry.map_or(0, |entry| entry.mod_revision);
        Ok(written(self.storage.update(key, at, Bytes::from(value.to_owned()), None).await?))
    }

    /// Returns what has arrived once all other tasks are idle.
    async fn arrived(&self, watch: &mut Watch) -> Vec<String> {
        self.env.sleep(Duration::from_millis(200)).await;
        arrived(watch)
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_member_is_passed_over() {
    let bench = Bench::of(3, NEW).await;
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    let mut expected = Vec::new();
    for turn in 0..9 {
        let revision = bench.put(&format!("/{turn}"), "x").await.unwrap();
        expected.push(format!("{revision} /{turn} - -> x"));
        let lost = &bench.members[turn % 3];
        lost.kill();
        let revision = bench.put(&format!("/{turn}/again"), "x").await.unwrap();
        expected.push(format!("{revision} /{turn}/again - -> x"));
        lost.set(|switches| switches.is_down = false);
    }
    assert_eq!(bench.arrived(&mut watch).await, expected);
}

#[tokio::test(start_paused = true)]
async fn all_members_lost_is_told_at_once_and_passes() {
    let bench = Bench::of(3, NEW).await;
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    for member in &bench.members {
        member.kill();
    }
    let began = bench.env.now();
    let error = bench.put("/a", "1").await.unwrap_err();
    assert_eq!(error.to_string(), "the store did not answer: etcd at http://etcd-2: connection refused");
    assert_eq!(began.elapsed(), Duration::ZERO);
    let ended = bench.arrived(&mut watch).await;
    assert_eq!(ended, [format!("error: {error}"), "end".to_owned()], "whoever watches has to know");
    bench.members[1].set(|switches| switches.is_down = false);
    assert_eq!(bench.put("/a", "1").await, Ok(2));
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    assert_eq!(bench.arrived(&mut watch).await, ["2 /a - -> 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_not_repeated() {
    let bench = Bench::of(3, NEW).await;
    bench.put("/count", "1").await.unwrap();
    for member in &bench.members {
        member.set(|switches| switches.loses_answers = true);
    }
    let write = bench.storage.update("/count", 2, Bytes::from_static(b"2"), None);
    let error = write.await.unwrap_err();
    assert_eq!(error.to_string(), "the store did not answer: etcd at http://etcd-0: connection reset");
    for member in &bench.members {
        member.set(|switches| switches.loses_answers = false);
    }
    let read = bench.storage.get("/count").await.unwrap();
    assert_eq!((read.revision, &*read.entry.unwrap().value), (3, &b"2"[..]), "it happened, once");
}

#[tokio::test(start_paused = true)]
async fn an_election_is_waited_for() {
    let bench = Bench::of(3, NEW).await;
    let leaderless = |is_so: bool| {
        for member in &bench.members {
            member.set(|switches| switches.has_no_leader = is_so);
        }
    };
    leaderless(true);
    let storage = bench.storage.clone();
    let writer = bench.env.spawn(async move { storage.create("/a", Bytes::new(), None).await });
    bench.env.sleep(Duration::from_secs(3)).await;
    assert!(!writer.is_finished());
    leaderless(false);
    assert_eq!(written(writer.await.unwrap().unwrap()), 2);
    leaderless(true);
    let began = bench.env.now();
    let error = bench.storage.get("/a").await.unwrap_err();
    assert_eq!(error.to_string(), "the store did not answer: etcd at http://etcd-2: etcdserver: no leader");
    assert!((10..12).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_hangs_is_given_up() {
    let bench = Bench::of(2, NEW).await;
    bench.put("/a", "1").await.unwrap();
    bench.members[0].set(|switches| switches.is_hung = true);
    let read = bench.storage.get("/a").await.unwrap();
    assert_eq!(read.revision, 2, "a read goes to the next member");
    assert_eq!(bench.put("/a", "2").await, Ok(3), "and what comes after it too");
    bench.members[1].set(|switches| switches.is_hung = true);
    let write = bench.storage.update("/a", 3, Bytes::new(), None).await;
    let error = write.unwrap_err().to_string();
    assert_eq!(error, "the store did not answer: etcd at http://etcd-1: no answer within 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_slow_etcd_is_waited_for() {
    let bench = Bench::of(1, NEW).await;
    bench.members[0].set(|switches| switches.delay = Duration::from_secs(4));
    assert_eq!(bench.put("/a", "1").await, Ok(2));
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    bench.env.sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.arrived(&mut watch).await, ["2 /a - -> 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_etcd_still_deletes() {
    let bench = Bench::of(3, NEW).await;
    bench.put("/a", "1").await.unwrap();
    bench.model.set_full(true);
    for _ in 0..3 {
        let error = bench.put("/a", "2").await.unwrap_err();
        assert_eq!(error, Error::Rejected("etcdserver: mvcc: database space exceeded".to_owned()));
    }
    assert_eq!(bench.storage.get("/a").await.unwrap().entry.unwrap().value, "1");
    assert_eq!(written(bench.storage.delete("/a", 2).await.unwrap()), 3);
    bench.model.set_full(false);
    assert_eq!(bench.put("/a", "2").await, Ok(4));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_compacted_while_cut_is_told() {
    let bench = Bench::of(1, NEW).await;
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    bench.put("/a", "1").await.unwrap();
    assert_eq!(bench.arrived(&mut watch).await, ["2 /a - -> 1"]);
    bench.members[0].set(|switches| switches.is_down = true);
    for turn in 2..5 {
        bench.model.put(b"/a", &turn.to_string());
    }
    bench.members[0].set(|switches| switches.is_down = false);
    bench.storage.compact(3).await.unwrap();
    assert_eq!(bench.arrived(&mut watch).await, ["3 /a 1 -> 2", "4 /a 2 -> 3", "5 /a 3 -> 4"], "it was not cut");
    bench.members[0].cut();
    bench.model.put(b"/a", "5");
    bench.storage.compact(6).await.unwrap();
    let error = Error::Compacted { requested: 5, compacted: 6 };
    assert_eq!(bench.arrived(&mut watch).await, [format!("error: {error}"), "end".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn an_older_snapshot_stops_the_engine() {
    let bench = Bench::of(3, NEW).await;
    bench.put("/a", "1").await.unwrap();
    let snapshot = bench.model.snapshot();
    let mut watch = bench.storage.watch("/", 2).await.unwrap();
    bench.put("/a", "2").await.unwrap();
    assert_eq!(bench.arrived(&mut watch).await, ["3 /a 1 -> 2"]);
    bench.model.restore(snapshot);
    bench.members[0].cut();
    let error = bench.storage.stopped().await;
    assert_eq!(
        error.to_string(),
        "the store has stopped: etcd at http://etcd-0 went back from revision 3 to 2: it was restored from an older \
         snapshot; start again to go on with what it holds"
    );
    assert_eq!(bench.put("/a", "3").await, Err(error.clone()));
    assert_eq!(bench.arrived(&mut watch).await, [format!("error: {error}"), "end".to_owned()]);
    let again = over(&bench.env, &bench.members).await.unwrap();
    assert_eq!(again.get("/a").await.unwrap().entry.unwrap().value, "1");
}

#[tokio::test(start_paused = true)]
async fn members_of_two_clusters_are_refused() {
    let env = Env::simulated(1);
    let mut members = Model::new(&env, 7).members(2, NEW);
    let foreign = Model::new(&env, 8).members(3, NEW);
    members.push(foreign[2].clone());
    let error = over(&env, &members).await.unwrap_err();
    assert_eq!(error.to_string(), "--etcd-servers: http://etcd-0 and http://etcd-2 belong to different clusters");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joined_another_cluster_is_not_asked_any_more() {
    let bench = Bench::of(2, NEW).await;
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    bench.put("/a", "1").await.unwrap();
    let other = Model::new(&bench.env, 8);
    bench.members[0].join(&other);
    assert_eq!(bench.put("/a", "2").await, Ok(3));
    assert_eq!(bench.arrived(&mut watch).await, ["2 /a - -> 1", "3 /a 1 -> 2"]);
    bench.members[1].join(&other);
    let error = bench.storage.get("/a").await.unwrap_err();
    let reason = "etcd at http://etcd-0 belongs to another cluster than the one that this server began with";
    assert_eq!(error.to_string(), format!("the store did not answer: {reason}"));
    let there = over(&bench.env, &other.members(1, NEW)).await.unwrap();
    assert_eq!(there.current_revision().await, Ok(1), "nothing was written to it");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_broke_unnoticed_is_replaced_by_one_that_is_identified_first() {
    let bench = Bench::of(1, NEW).await;
    bench.put("/a", "1").await.unwrap();
    bench.members[0].cut();
    assert_eq!(bench.put("/a", "2").await, Ok(3), "nothing had happened, so the write is repeated");
    let other = Model::new(&bench.env, 8);
    bench.members[0].join(&other);
    assert!(matches!(bench.put("/a", "3").await, Err(Error::Unavailable(_))));
    let there = over(&bench.env, &other.members(1, NEW)).await.unwrap();
    assert_eq!(there.current_revision().await, Ok(1), "nothing was written to the other cluster");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_etcd_is_told_after_a_while() {
    let env = Env::simulated(1);
    let members = Model::new(&env, 7).members(2, NEW);
    for member in &members {
        member.kill();
    }
    let began = env.now();
    let error = over(&env, &members).await.unwrap_err();
    assert_eq!(error.to_string(), "etcd does not answer at http://etcd-0, http://etcd-1: connection refused");
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    let late = members[1].clone();
    let starting = env.clone();
    env.spawn(async move {
        starting.sleep(Duration::from_secs(4)).await;
        late.set(|switches| switches.is_down = false);
    });
    assert!(over(&env, &members).await.is_ok(), "one that is starting too is waited for");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_text_is_left_out() {
    let bench = Bench::of(1, NEW).await;
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    bench.model.put(b"/\xff", "foreign");
    bench.put("/a", "1").await.unwrap();
    let range = bench.storage.range(RangeRequest::prefix("/")).await.unwrap();
    assert_eq!(range.entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["/a"]);
    assert_eq!(bench.arrived(&mut watch).await, ["3 /a - -> 1"]);
}

#[tokio::test(start_paused = true)]
async fn keys_with_the_same_time_to_live_share_a_lease_and_expire_together() {
    let bench = Bench::of(1, NEW).await;
    let hour = Some(Duration::from_secs(3600));
    for number in 0..30 {
        bench.storage.create(&format!("/{number:02}"), Bytes::new(), hour).await.unwrap();
        bench.env.sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.model.leases(), 1);
    let mut watch = bench.storage.watch("/", 31).await.unwrap();
    bench.env.sleep(Duration::from_secs(3600 - 1)).await;
    assert!(bench.arrived(&mut watch).await.is_empty(), "the youngest has not lived an hour");
    bench.env.sleep(Duration::from_secs(60)).await;
    let Some(Some(Ok(WatchItem::Events(events)))) = watch.next().now_or_never() else { panic!("no events") };
    let revisions: Vec<u64> = events.iter().map(|event| event.revision).collect();
    assert_eq!(revisions, [32; 30], "one revision, in one batch");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ended_early_is_replaced() {
    let bench = Bench::of(1, NEW).await;
    let hour = Some(Duration::from_secs(3600));
    bench.storage.create("/a", Bytes::new(), hour).await.unwrap();
    bench.model.revoke(1);
    assert_eq!(written(bench.storage.create("/b", Bytes::new(), hour).await.unwrap()), 4);
    assert_eq!(bench.model.leases(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_of_several_servers_compacts() {
    let env = Env::simulated(1);
    let model = Model::new(&env, 7);
    let interval = Duration::from_secs(300);
    let options = EtcdOptions { etcd_compaction_interval: interval, ..options(Vec::new()) };
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(over_with(&env, &model.members(1, NEW), &options).await.unwrap());
        env.sleep(Duration::from_secs(50)).await;
    }
    let mut revisions = Vec::new();
    for minute in 0..30_u32 {
        let key = format!("/{minute}");
        revisions.push(written(servers[0].create(&key, Bytes::new(), None).await.unwrap()));
        env.sleep(Duration::from_secs(60)).await;
        let readable = revisions.partition_point(|revision| *revision < model.compacted());
        let kept_min = revisions.len() - readable;
        assert!((5..=11).contains(&kept_min) || minute < 10, "{kept_min} minutes of history after {minute} minutes");
    }
    let rounds = servers[0].ask(RangeQuery::key("compact_rev_key")).await.unwrap();
    let key_value = &rounds.kvs[0];
    // Half an hour, plus a first round that compacts nothing.
    assert!((6..=7).contains(&key_value.version), "{} rounds", key_value.version);
    assert_eq!(String::from_utf8_lossy(&key_value.value), model.compacted().to_string());
}

#[tokio::test(start_paused = true)]
async fn only_members_whose_progress_can_be_trusted_are_believed() {
    let cases = [(vec![NEW, NEW], true), (vec![OLD, OLD], false), (vec![NEW, OLD], false)];
    for (versions, reports) in cases {
        let env = Env::simulated(1);
        let model = Model::new(&env, 7);
        let members = model.members(versions.len(), NEW);
        for (member, version) in members.iter().zip(&versions) {
            member.set(|switches| switches.version = (*version).to_owned());
        }
        let storage = over(&env, &members).await.unwrap();
        assert_eq!(storage.reports_progress(), reports, "{versions:?}");
        // Members are upgraded one after the other.
        for member in &members {
            member.kill();
            member.set(|switches| switches.version = NEW.to_owned());
            storage.get("/a").await.unwrap();
            member.set(|switches| switches.is_down = false);
        }
        members[0].kill();
        storage.get("/a").await.unwrap();
        assert!(storage.reports_progress(), "{versions:?}, upgraded");
    }
}
