//! The cacher over a store that is lost, cut and compacted.

use super::*;
use crate::storage::fault::{Fault, Faults};
use futures::FutureExt;

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
    // This one lists at revision 9, so that its window begins there.
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
async fn an_object_that_cannot_be_decoded_is_told_by_name() {
    let bench = Bench::new().await;
    let key = format!("{PREFIX}x/bad");
    bench.storage.create(&key, Bytes::from_static(b"{"), None).await.unwrap();
    bench.env.sleep(Duration::from_secs(1)).await;
    let trouble = bench.cacher.trouble().unwrap();
    assert!(trouble.starts_with("/registry/pods/x/bad: EOF while parsing"), "{trouble}");
    bench.storage.delete(&key, 2).await.unwrap();
    bench.env.sleep(Duration::from_secs(10)).await;
    assert_eq!(bench.cacher.trouble(), None);
    assert_eq!(bench.cacher.read(Freshness::Latest).await.unwrap().revision, 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_falls_off_and_delays_nobody() {
    let bench = Bench::new().await;
    let mut slow = bench.watch(WatchRequest::new(WatchFrom::of(Some(1), None))).await;
    for turn in 0..1500 {
        bench.set("x/a", Some(if turn % 2 == 0 { "red" } else { "blue" })).await;
        bench.env.sleep(Duration::from_millis(200)).await;
    }
    // Five minutes later the first events are old, and enough newer ones are there.
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
