//! Watches: order, history, progress, ends.

use super::*;
use futures::stream;

on_every_engine!(
    a_watch_sees_each_event_under_its_prefix_once,
    history_and_live_events_join_without_a_seam,
    a_watch_after_a_future_revision_waits,
    a_dropped_watch_is_forgotten,
    progress_comes_after_the_events_it_speaks_of,
    progress_is_for_the_prefix,
    a_watch_wakes_its_reader,
    a_long_history_comes_in_batches;
);

async fn a_watch_sees_each_event_under_its_prefix_once(bench: &Bench) {
    let mut all = bench.storage.watch("/", 1).await.unwrap();
    let mut some = bench.storage.watch("/a/", 1).await.unwrap();
    bench.put("/a/1", "x").await;
    bench.put("/b/1", "x").await;
    bench.put("/a/1", "y").await;
    bench.storage.create("/a/1", Bytes::new(), None).await.unwrap();
    bench.remove("/a/1").await;
    bench.put("/a/1", "z").await;
    let expected = ["2 /a/1 - -> x", "4 /a/1 x -> y", "5 /a/1 y -> -", "6 /a/1 - -> z"];
    bench.expect(&mut some, &expected).await;
    let others = ["2 /a/1 - -> x", "3 /b/1 - -> x", "4 /a/1 x -> y", "5 /a/1 y -> -", "6 /a/1 - -> z"];
    bench.expect(&mut all, &others).await;
    bench.expect_nothing(&mut some).await;
}

async fn history_and_live_events_join_without_a_seam(bench: &Bench) {
    let mut expected = Vec::new();
    let mut watches = vec![(1, bench.storage.watch("/a/", 1).await.unwrap())];
    for turn in 0..40 {
        let (key, before) = (format!("/a/{}", turn % 3), if turn < 3 { "-".into() } else { (turn - 3).to_string() });
        let revision = bench.put(&key, &turn.to_string()).await;
        expected.push((revision, format!("{revision} {key} {before} -> {turn}")));
        let after = 1 + bench.env.random("after").u64() % revision;
        watches.push((after, bench.storage.watch("/a/", after).await.unwrap()));
    }
    for (after, watch) in &mut watches {
        let expected: Vec<_> =
            expected.iter().filter(|(revision, _)| revision > after).map(|(_, line)| line.clone()).collect();
        bench.expect(watch, &expected).await;
    }
}

async fn a_watch_after_a_future_revision_waits(bench: &Bench) {
    let mut watch = bench.storage.watch("/", 3).await.unwrap();
    bench.put("/a", "2").await;
    bench.put("/a", "3").await;
    bench.expect_nothing(&mut watch).await;
    bench.put("/a", "4").await;
    bench.expect(&mut watch, &["4 /a 3 -> 4"]).await;
}

async fn a_dropped_watch_is_forgotten(bench: &Bench) {
    let watch = bench.storage.watch("/", 1).await.unwrap();
    let mut other = bench.storage.watch("/", 1).await.unwrap();
    drop(watch);
    bench.put("/a", "1").await;
    bench.expect(&mut other, &["2 /a - -> 1"]).await;
}

async fn progress_comes_after_the_events_it_speaks_of(bench: &Bench) {
    let mut watch = bench.storage.watch("/a/", 1).await.unwrap();
    bench.put("/a/1", "x").await;
    bench.put("/b/1", "x").await;
    bench.storage.request_progress("/a/").await.unwrap();
    bench.put("/a/2", "x").await;
    if !bench.storage.reports_progress() {
        return bench.expect(&mut watch, &["2 /a/1 - -> x", "4 /a/2 - -> x"]).await;
    }
    let mut lines = Vec::new();
    while lines.len() < 3 {
        lines.extend(item_lines(watch.next().await));
    }
    let at = lines.iter().position(|line| line.starts_with("progress")).expect("progress was asked for");
    let reported: u64 = lines[at]["progress ".len()..].parse().unwrap();
    assert!((3..=4).contains(&reported), "{lines:?}");
    for (place, line) in lines.iter().enumerate() {
        if let Some(revision) = line.split(' ').next().and_then(|first| first.parse::<u64>().ok()) {
            assert!(place < at || revision > reported, "{lines:?}");
        }
    }
    bench.storage.request_progress("/a/").await.unwrap();
    bench.expect(&mut watch, &["progress 4"]).await;
}

async fn progress_is_for_the_prefix(bench: &Bench) {
    let mut watch = bench.storage.watch("/a/", 1).await.unwrap();
    bench.put("/b/1", "x").await;
    bench.storage.request_progress("/a/").await.unwrap();
    match bench.storage.reports_progress() {
        // Nothing happened below the prefix, and progress reports that.
        true => bench.expect(&mut watch, &["progress 2"]).await,
        false => bench.expect_nothing(&mut watch).await,
    }
}

async fn a_watch_wakes_its_reader(bench: &Bench) {
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    let reader = bench.env.spawn(async move { watch.next().await });
    bench.env.sleep(Duration::from_secs(1)).await;
    bench.put("/a", "1").await;
    let Some(Ok(WatchItem::Events(events))) = reader.await.unwrap() else { panic!("no events") };
    assert_eq!(event_line(&events[0]), "2 /a - -> 1");
    assert_eq!(events[0].kind(), EventKind::Put);
}

async fn a_long_history_comes_in_batches(bench: &Bench) {
    let writes = stream::iter(0..1500)
        .map(async |number| written(bench.storage.create(&format!("/{number:04}"), Bytes::new(), None).await.unwrap()));
    assert_eq!(writes.buffer_unordered(100).count().await, 1500);
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    let (mut last, mut batches) = (1, 0);
    while last < 1501 {
        let Some(Ok(WatchItem::Events(events))) = watch.next().await else { panic!("ended after {last}") };
        assert!(!events.is_empty());
        for event in events {
            assert_eq!(event.revision, last + 1);
            last += 1;
        }
        batches += 1;
    }
    assert!(batches > 1);
}
