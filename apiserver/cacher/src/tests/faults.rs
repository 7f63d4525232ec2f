//! The cacher over a store that is unavailable, cut and compacted.

use super::*;
use futures::FutureExt;
use storage::etcd::testing as etcd_tests;
use storage::etcd::testing::model;
use storage::etcd::testing::model::Model;
use storage::fault::{Fault, Faults};

async fn faulty() -> (Bench, Arc<Fault>) {
    let env = Env::simulated(3);
    let fault = Fault::new(&env, Memory::new(&env));
    (Bench::over(env, fault.clone()).await, fault)
}

#[tokio::test(start_paused = true)]
async fn a_cut_watch_of_the_store_is_taken_up_where_it_ended() {
    let (bench, fault) = faulty().await;
    let mut watch = bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await;
    bench.set("x/a", Some("red")).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/a red 2"]);
    fault.cut_watches();
    bench.set("x/a", Some("blue")).await;
    bench.set("x/a", None).await;
    assert_eq!(take(&mut watch, 2).await, ["MODIFIED x/a blue 3", "DELETED x/a blue 4"]);
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn lost_history_makes_it_list_again_and_its_watches_too() {
    let (bench, fault) = faulty().await;
    bench.set("x/a", Some("red")).await;
    let mut watch = bench.watch(WatchRequest::new(WatchFrom::of(None, None))).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/a red 2"]);
    fault.cut_watches();
    for color in ["blue", "green", "red"] {
        bench.set("x/a", Some(color)).await;
    }
    bench.storage.compact(4).await.unwrap();
    assert_eq!(take(&mut watch, 1).await, ["ERROR too old resource version: 2 (5)"]);
    assert!(take(&mut watch, 1).await.is_empty(), "after an error there is no more");
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().get("x", "a").unwrap().revision, 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_older_than_the_window_reads_the_engines_history() {
    let bench = Bench::new().await;
    for color in ["red", "blue", "red"] {
        bench.set("x/a", Some(color)).await;
    }
    bench.set("x/b", Some("red")).await;
    bench.set("x/b", None).await;
    for _ in 0..3 {
        bench.set_elsewhere().await;
    }
    // This cacher lists at revision 9, so that its window begins there.
    let late = Cacher::new(&bench.env, bench.storage.clone(), PREFIX, decoder());
    late.ready().await;
    let request = |after| WatchRequest { predicate: colored("red"), ..WatchRequest::new(WatchFrom::After(after)) };
    let mut watch = late.watch(request(2)).await.unwrap();
    let mut quiet = late.watch(request(7)).await.unwrap();
    assert!(quiet.next().now_or_never().is_none(), "nothing happened after 7, but the window can take over");
    bench.set("x/c", Some("red")).await;
    let expected = ["DELETED x/a red 3", "ADDED x/a red 4", "ADDED x/b red 5", "DELETED x/b red 6", "ADDED x/c red 10"];
    assert_eq!(take(&mut watch, 5).await, expected);
    assert_eq!(take(&mut quiet, 1).await, ["ADDED x/c red 10"]);
    bench.set("x/d", Some("red")).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/d red 11"]);
    bench.storage.compact(4).await.unwrap();
    let expired = late.watch(request(3)).await.unwrap_err();
    assert_eq!(expired, Error::Expired { requested: 3, oldest: 4 });
    assert!(late.watch(request(4)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_and_passes() {
    let (bench, fault) = faulty().await;
    bench.set("x/a", Some("red")).await;
    bench.cacher.read(Freshness::Latest).await.unwrap();
    fault.set(Faults { lost_request: 1.0, ..Faults::default() });
    fault.cut_watches();
    bench.env.sleep(Duration::from_secs(20)).await;
    assert_eq!(bench.cacher.trouble().unwrap(), "the store did not answer: the request was lost");
    assert_eq!(bench.cacher.snapshot().unwrap().len(), 1, "what is cached is still served");
    assert!(matches!(bench.cacher.read(Freshness::Latest).await, Err(Error::Storage(_))));
    fault.set(Faults::default());
    bench.set("x/b", Some("red")).await;
    bench.env.sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cacher.trouble(), None);
    assert_eq!(bench.cacher.snapshot().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_told_by_name_and_left_out() {
    let bench = Bench::new().await;
    bench.set("x/a", Some("red")).await;
    bench.set("x/bad", Some("red")).await;
    let mut watch = bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await;
    let key = format!("{PREFIX}x/bad");
    bench.storage.update(&key, 3, Bytes::from_static(b"{"), None).await.unwrap();
    bench.set("x/c", Some("red")).await;
    let expected = ["ADDED x/a red 2", "ADDED x/bad red 3", "DELETED x/bad red 4", "ADDED x/c red 5"];
    assert_eq!(take(&mut watch, 4).await, expected, "for a watch it is gone");
    let unreadable = bench.cacher.unreadable();
    assert_eq!(unreadable.len(), 1);
    assert!(*unreadable[0].0 == *key && unreadable[0].1.to_string().starts_with("EOF while parsing"), "{unreadable:?}");
    assert_eq!(bench.cacher.trouble(), None);
    assert!(matches!(bench.cacher.get_latest("x", "bad").await, Err(Error::Undecodable { .. })));

    // A server that starts now reads the other objects, from the store and from its history.
    let late = Cacher::new(&bench.env, bench.storage.clone(), PREFIX, decoder());
    late.ready().await;
    assert_eq!(names(&late.read(Freshness::Latest).await.unwrap()), "x/a@2 x/c@5");
    let mut history = late.watch(WatchRequest::new(WatchFrom::After(1))).await.unwrap();
    assert_eq!(take(&mut history, 4).await, expected);
    let page = late.read_exact(4, PREFIX, "/registry/pods0", 1).await.unwrap();
    let next = late.read_exact(4, &page.next.unwrap(), "/registry/pods0", 1).await.unwrap();
    assert_eq!((page.objects.len(), page.remaining, next.objects.len(), next.remaining), (1, 1, 0, 0));

    bench.set("x/bad", Some("blue")).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/bad blue 6"], "mended");
    assert!(bench.cacher.unreadable().is_empty());
    bench.storage.update(&key, 6, Bytes::from_static(b"{"), None).await.unwrap();
    bench.storage.delete(&key, 7).await.unwrap();
    bench.set("x/d", Some("red")).await;
    assert_eq!(take(&mut watch, 2).await, ["DELETED x/bad blue 7", "ADDED x/d red 9"]);
    assert!(bench.cacher.unreadable().is_empty());
}

/// An old etcd cannot tell when a cache is complete, so nothing may depend on its progress.
#[tokio::test(start_paused = true)]
async fn without_progress_consistent_reads_go_to_the_store() {
    let env = Env::simulated(3);
    let members = Model::new(&env, 1).members(1, model::OLD);
    let storage = etcd_tests::over(&env, &members).await.unwrap();
    assert!(!storage.reports_progress());
    let bench = Bench::over(env, storage).await;
    let mut followed = bench.watch(WatchRequest::new(WatchFrom::After(1))).await;
    for turn in 0..20_u64 {
        let revision = bench.set("x/a", Some(["red", "blue"][turn as usize % 2])).await;
        let read = bench.cacher.read(Freshness::Latest).await.unwrap();
        assert_eq!((names(&read), read.revision), (format!("x/a@{revision}"), revision));
        // No object of this row changes at these revisions.
        let elsewhere = bench.set_elsewhere().await;
        assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().revision, elsewhere);
        assert_eq!(bench.cacher.read(Freshness::AtLeast(elsewhere)).await.unwrap().revision, elsewhere);
    }
    let last = bench.storage.current_revision().await.unwrap();
    let too_large = bench.cacher.read(Freshness::AtLeast(last + 1)).await.unwrap_err();
    assert_eq!(too_large, Error::TooLarge { requested: last + 1, current: last });
    let from = WatchFrom::of(None, Some(true));
    let request = WatchRequest { bookmarks: true, initial_events_end: true, ..WatchRequest::new(from) };
    let mut watch = bench.watch(request).await;
    bench.set("x/b", Some("red")).await;
    let expected =
        [format!("ADDED x/a blue {}", last - 1), format!("BOOKMARK {last} end"), format!("ADDED x/b red {}", last + 1)];
    assert_eq!(take(&mut watch, 3).await, expected);
    assert_eq!(take(&mut followed, 21).await.len(), 21);
}

/// A list of the store counts as unchanged if its content is, even though it does not come from the cache.
#[tokio::test(start_paused = true)]
async fn without_progress_only_a_change_ends_the_wait_for_one() {
    let env = Env::simulated(3);
    let members = Model::new(&env, 1).members(1, model::OLD);
    let bench = Bench::over(env.clone(), etcd_tests::over(&env, &members).await.unwrap()).await;
    bench.set("x/a", Some("red")).await;
    for color in [Some("red"), Some("blue"), None] {
        bench.set_elsewhere().await;
        let known = bench.cacher.read(Freshness::Latest).await.unwrap();
        let waiting = env.timeout(Duration::from_secs(60), bench.cacher.changed(&known)).await;
        assert!(waiting.is_err(), "nothing has changed at {}", known.revision);
        bench.set("x/a", color).await;
        bench.cacher.changed(&known).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_falls_off_and_delays_nobody() {
    let bench = Bench::new().await;
    let mut slow = bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await;
    for turn in 0..1500 {
        bench.set("x/a", Some(if turn % 2 == 0 { "red" } else { "blue" })).await;
        bench.env.sleep(Duration::from_millis(200)).await;
    }
    // Five minutes later the first events are old, and enough newer ones have come.
    let mut current = bench.watch(WatchRequest::new(WatchFrom::of(None, None))).await;
    assert_eq!(take(&mut current, 1).await, ["ADDED x/a blue 1501"]);
    let error = slow.next().now_or_never().expect("it does not wait").unwrap_err();
    assert!(matches!(error, Error::Expired { requested: 1, .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_stopped_ends_its_watches() {
    let bench = Bench::new().await;
    let mut watch = bench.watch(WatchRequest::new(WatchFrom::of(None, None))).await;
    bench.cacher.stop();
    assert!(take(&mut watch, 1).await.is_empty());
}

/// A reader lists the store. Before its answer arrives, a key becomes unreadable, and the feed sees that first.
#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_forget_what_became_unreadable_after_it() {
    let (bench, fault) = faulty().await;
    fault.hide_progress();
    let key: storage::Key = format!("{PREFIX}x/bad").into();
    let change = storage::Change::Put { value: Bytes::from_static(b"{"), ttl: None };
    bench.set("x/a", Some("red")).await;
    fault.write_after_range(storage::Write { key: key.clone(), expected: 0, change });
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().len(), 1);
    let unreadable: Vec<_> = bench.cacher.unreadable().into_iter().map(|(key, _)| key).collect();
    assert_eq!(unreadable, [key]);
}

/// The opposite order: the key becomes readable, and the reader has seen the unreadable value.
#[tokio::test(start_paused = true)]
async fn an_older_list_does_not_tell_of_what_has_been_mended_since() {
    let (bench, fault) = faulty().await;
    fault.hide_progress();
    let key = format!("{PREFIX}x/bad");
    bench.storage.create(&key, Bytes::from_static(b"{"), None).await.unwrap();
    bench.env.sleep(Duration::from_secs(1)).await;
    bench.set("x/a", Some("red")).await;
    let change = storage::Change::Put { value: pod("x/bad", "blue"), ttl: None };
    fault.write_after_range(storage::Write { key: key.into(), expected: 2, change });
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().len(), 1, "as it was");
    assert!(!bench.cacher.has_unreadable(), "{:?}", bench.cacher.unreadable());
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_panics_starts_over() {
    let (bench, fault) = faulty().await;
    bench.set("x/a", Some("red")).await;
    let mut watch = bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await;
    assert_eq!(take(&mut watch, 1).await, ["ADDED x/a red 2"]);
    fault.set_panics(true);
    fault.cut_watches();
    bench.env.sleep(Duration::from_secs(20)).await;
    let trouble = bench.cacher.trouble();
    assert!(trouble.as_deref().is_some_and(|why| why.contains("a mistake in the engine")), "{trouble:?}");
    fault.set_panics(false);
    bench.env.sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cacher.trouble(), None);
    bench.set("x/a", Some("blue")).await;
    assert_eq!(take(&mut watch, 1).await, ["MODIFIED x/a blue 3"], "its watches go on");
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().get("x", "a").unwrap().revision, 3);
}

/// An object at which the decoder panics is left out, as any other unreadable one.
#[tokio::test(start_paused = true)]
async fn a_decoder_that_panics_costs_one_object() {
    let env = Env::simulated(3);
    let storage = Memory::new(&env);
    let careless: Decode = Arc::new(|entry: &Entry| {
        assert_ne!(&*entry.value, b"boom", "a mistake in the decoder");
        decoder()(entry)
    });
    let cacher = Cacher::new(&env, storage.clone(), PREFIX, careless);
    storage.create(&format!("{PREFIX}x/bad"), Bytes::from_static(b"boom"), None).await.unwrap();
    storage.create(&format!("{PREFIX}x/a"), pod("x/a", "red"), None).await.unwrap();
    env.sleep(Duration::from_secs(1)).await;
    let read = cacher.read(Freshness::Latest).await.expect("the row is served");
    assert_eq!((read.len(), cacher.unreadable().len()), (1, 1));
    assert!(matches!(cacher.get_latest("x", "bad").await, Err(Error::Undecodable { .. })));
}
