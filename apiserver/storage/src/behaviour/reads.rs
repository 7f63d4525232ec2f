//! Reads: ranges, past revisions, compaction.

use super::*;

on_every_engine!(
    a_range_holds_exactly_its_keys,
    a_limit_pages_through_a_revision,
    the_past_reads_as_it_was,
    compaction_ends_the_past;
);
in_virtual_time!(memory_alone, Bench::memory().await, history_lasts_five_minutes,);
in_virtual_time!(embedded_alone, Bench::embedded().await, history_lasts_five_minutes,);

async fn a_range_holds_exactly_its_keys(bench: &Bench) {
    for key in ["/a/x/1", "/a/x/2", "/a/y/1", "/a/x", "/a/x0", "/b/1"] {
        bench.put(key, "").await;
    }
    let keys = async |request: RangeRequest| {
        let range = bench.storage.range(request).await.unwrap();
        let keys: Vec<_> = range.entries.iter().map(|entry| entry.key.to_string()).collect();
        format!("{} ({}{})", keys.join(" "), range.count, if range.more { ", more" } else { "" })
    };
    let cases = [
        (RangeRequest::prefix("/a/x/"), "/a/x/1 /a/x/2 (2)"),
        (RangeRequest::prefix("/a/x"), "/a/x /a/x/1 /a/x/2 /a/x0 (4)"),
        (RangeRequest::prefix("/c/"), " (0)"),
        (RangeRequest::prefix("/a/").limit(2), "/a/x /a/x/1 (5, more)"),
        (RangeRequest::prefix("/a/").limit(5), "/a/x /a/x/1 /a/x/2 /a/x0 /a/y/1 (5)"),
        (RangeRequest::prefix("/a/").starting_at("/a/x/2").limit(2), "/a/x/2 /a/x0 (3, more)"),
        (RangeRequest::prefix("/a/").starting_at("/a/x/2\0").limit(9), "/a/x0 /a/y/1 (2)"),
        (RangeRequest::prefix("/a/").starting_at("/b"), " (0)"),
        (RangeRequest::prefix("/").count_only(), " (6)"),
    ];
    for (request, expected) in cases {
        assert_eq!(keys(request.clone()).await, expected, "{request:?}");
    }
    bench.remove("/a/x").await;
    assert_eq!(keys(RangeRequest::prefix("/a/x")).await, "/a/x/1 /a/x/2 /a/x0 (3)");
    let none = bench.storage.get("/a/x").await.unwrap();
    assert_eq!(none, Read { entry: None, revision: 8 });
}

async fn a_limit_pages_through_a_revision(bench: &Bench) {
    for number in 0..25 {
        bench.put(&format!("/a/{number:02}"), "").await;
    }
    let whole = bench.list("/a/", 0).await.unwrap();
    let mut entries = Vec::new();
    let mut request = RangeRequest::prefix("/a/").limit(10);
    let mut counts = Vec::new();
    loop {
        let page = bench.storage.range(request.clone()).await.unwrap();
        request.revision = if request.revision == 0 { page.revision } else { request.revision };
        counts.push((page.entries.len(), page.count));
        entries.extend(page.entries);
        if !page.more {
            break;
        }
        request.start = format!("{}\0", entries.last().unwrap().key);
        // Writes between two pages do not appear on them.
        bench.remove(&format!("/a/{:02}", entries.len())).await;
        bench.put(&format!("/a/{:02}x", entries.len()), "").await;
    }
    assert_eq!(counts, [(10, 25), (10, 15), (5, 5)]);
    assert_eq!(text(&entries), whole);
}

async fn the_past_reads_as_it_was(bench: &Bench) {
    let mut pasts = vec![(1, String::new())];
    for turn in 0..30 {
        let key = format!("/a/{}", turn % 4);
        let revision = if turn % 7 == 6 { bench.remove(&key).await } else { bench.put(&key, &turn.to_string()).await };
        pasts.push((revision, bench.list("/a/", 0).await.unwrap()));
    }
    for (revision, past) in &pasts {
        assert_eq!(bench.list("/a/", *revision).await.as_ref(), Ok(past), "at {revision}");
    }
    let future = bench.list("/a/", 32).await.unwrap_err();
    assert_eq!(future, Error::FutureRevision { requested: 32, current: 31 });
    let answer = bench.storage.range(RangeRequest::prefix("/a/").at(2)).await.unwrap();
    assert_eq!(answer.revision, 31, "the store's revision, not the one read at");
}

async fn compaction_ends_the_past(bench: &Bench) {
    bench.put("/old", "1").await;
    for turn in 0..4 {
        bench.put("/a", &turn.to_string()).await;
    }
    bench.remove("/a").await;
    bench.storage.compact(5).await.unwrap();
    bench.storage.compact(3).await.unwrap();
    let gone = Err(Error::Compacted { requested: 4, compacted: 5 });
    assert_eq!(bench.list("/", 4).await, gone);
    assert_eq!(bench.storage.watch("/", 4).await.err(), gone.err());
    assert_eq!(bench.list("/", 5).await.unwrap(), "/a=2 3/5, /old=1 2/2", "current keys stay");
    bench.expect(&mut bench.storage.watch("/", 5).await.unwrap(), &["6 /a 2 -> 3", "7 /a 3 -> -"]).await;
    bench.storage.compact(7).await.unwrap();
    assert_eq!(bench.list("/", 7).await.unwrap(), "/old=1 2/2");
    bench.expect_nothing(&mut bench.storage.watch("/", 7).await.unwrap()).await;
    let future = bench.storage.compact(8).await.unwrap_err();
    assert_eq!(future, Error::FutureRevision { requested: 8, current: 7 });
    assert_eq!(bench.put("/a", "new").await, 8);
}

/// A promise of the engines that nobody else compacts.
async fn history_lasts_five_minutes(bench: &Bench) {
    bench.put("/a", "1").await;
    bench.env.sleep(Duration::from_secs(HISTORY_S / 2)).await;
    bench.put("/a", "2").await;
    bench.env.sleep(Duration::from_secs(HISTORY_S / 2 - 1)).await;
    bench.put("/a", "3").await;
    assert_eq!(bench.list("/", 1).await.unwrap(), "");
    // History ends without any further write.
    bench.env.sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.list("/", 1).await, Err(Error::Compacted { requested: 1, compacted: 2 }));
    assert_eq!(bench.list("/", 2).await.unwrap(), "/a=1 2/2");
}
