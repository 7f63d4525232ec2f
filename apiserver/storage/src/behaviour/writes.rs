//! Writes: revisions, compare-and-swap, time to live.

use super::*;

on_every_engine!(
    revisions_are_the_whole_stores,
    a_write_happens_only_at_the_expected_revision,
    a_write_is_seen_by_every_later_read,
    concurrent_increments_are_all_counted;
    a_key_expires_by_a_deletion_of_its_own,
    a_later_write_replaces_the_time_to_live,
    many_keys_expire_in_order,
);

async fn revisions_are_the_whole_stores(bench: &Bench) {
    assert_eq!(bench.revision().await, 1, "a new store");
    assert_eq!(bench.put("/a/x", "1").await, 2);
    assert_eq!(bench.put("/b/x", "1").await, 3);
    assert_eq!(bench.put("/a/x", "2").await, 4);
    assert_eq!(bench.remove("/b/x").await, 5);
    let refused = bench.storage.create("/a/x", Bytes::new(), None).await.unwrap();
    assert!(matches!(refused, Outcome::Refused(Some(_))));
    assert_eq!(bench.put("/b/x", "2").await, 6, "a refusal takes no revision");
    assert_eq!(bench.revision().await, 6);
    assert_eq!(bench.list("/", 0).await.unwrap(), "/a/x=2 2/4, /b/x=2 6/6", "created anew after its deletion");
}

async fn a_write_happens_only_at_the_expected_revision(bench: &Bench) {
    bench.put("/a", "1").await;
    bench.put("/a", "2").await;
    let held = bench.storage.get("/a").await.unwrap().entry;
    let put = || Change::Put { value: Bytes::from_static(b"new"), ttl: None };
    let refusals = [
        ("/a", 0, put(), &held),
        ("/a", 2, put(), &held),
        ("/a", 9, put(), &held),
        ("/a", 0, Change::Delete, &held),
        ("/a", 2, Change::Delete, &held),
        ("/none", 3, put(), &None),
        ("/none", 3, Change::Delete, &None),
        ("/none", 0, Change::Delete, &None),
    ];
    for (key, expected, change, current) in refusals {
        let write = Write { key: key.into(), expected, change };
        let outcome = bench.storage.write(write.clone()).await.unwrap();
        assert_eq!(outcome, Outcome::Refused(current.clone()), "{write:?}");
    }
    assert_eq!(bench.list("/", 0).await.unwrap(), "/a=2 2/3");
    let updated = bench.storage.update("/a", 3, Bytes::from_static(b"new"), None).await.unwrap();
    assert_eq!(updated, Outcome::Written { revision: 4, previous: held });
    let held = bench.storage.get("/a").await.unwrap().entry;
    let deleted = bench.storage.delete("/a", 4).await.unwrap();
    assert_eq!(deleted, Outcome::Written { revision: 5, previous: held });
    let created = bench.storage.create("/a", Bytes::new(), None).await.unwrap();
    assert_eq!(created, Outcome::Written { revision: 6, previous: None });
}

async fn a_write_is_seen_by_every_later_read(bench: &Bench) {
    for turn in 2..50 {
        let revision = bench.put("/a", &turn.to_string()).await;
        let read = bench.storage.get("/a").await.unwrap();
        assert_eq!((read.revision, read.entry.unwrap().mod_revision), (revision, revision));
        assert_eq!(bench.storage.range(RangeRequest::prefix("/a")).await.unwrap().revision, revision);
        assert_eq!(bench.revision().await, revision);
    }
}

async fn concurrent_increments_are_all_counted(bench: &Bench) {
    const TASKS: u64 = 8;
    const EACH: u64 = 20;
    let tasks = (0..TASKS).map(|_| {
        let (storage, random) = (bench.storage.clone(), bench.env.random("increments"));
        let env = bench.env.clone();
        bench.env.spawn(async move {
            let mut revisions = Vec::new();
            while revisions.len() < EACH as usize {
                let entry = storage.get("/count").await.unwrap().entry;
                // Let other writers run between the read and the write.
                env.sleep(Duration::from_millis(random.u64() % 3)).await;
                let (at, count) = entry.map_or((0, 0), |entry| {
                    (entry.mod_revision, String::from_utf8_lossy(&entry.value).parse::<u64>().unwrap())
                });
                let value = Bytes::from((count + 1).to_string());
                if let Outcome::Written { revision, .. } = storage.update("/count", at, value, None).await.unwrap() {
                    revisions.push(revision);
                }
            }
            revisions
        })
    });
    let mut revisions: Vec<u64> = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        revisions.extend(task.await.unwrap());
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (2..2 + TASKS * EACH).collect::<Vec<_>>(), "each once, without a gap");
    assert_eq!(bench.storage.get("/count").await.unwrap().entry.unwrap().value, (TASKS * EACH).to_string());
}

/// Time after which a key must be gone: an engine may keep it for a twentieth of its time to live too long.
const AND_A_LITTLE_LATER: Duration = Duration::from_secs(6);

async fn a_key_expires_by_a_deletion_of_its_own(bench: &Bench) {
    let mut watch = bench.storage.watch("/", 1).await.unwrap();
    bench.put_for("/a", "1", Some(Duration::from_secs(60))).await;
    bench.put("/b", "1").await;
    bench.env.sleep(Duration::from_secs(59)).await;
    assert_eq!(bench.list("/", 0).await.unwrap(), "/a=1 2/2, /b=1 3/3");
    bench.env.sleep(AND_A_LITTLE_LATER).await;
    assert_eq!(bench.list("/", 0).await.unwrap(), "/b=1 3/3");
    assert_eq!(bench.revision().await, 4);
    bench.expect(&mut watch, &["2 /a - -> 1", "3 /b - -> 1", "4 /a 1 -> -"]).await;
    assert_eq!(bench.list("/", 3).await.unwrap(), "/a=1 2/2, /b=1 3/3", "history does not expire with it");
}

async fn a_later_write_replaces_the_time_to_live(bench: &Bench) {
    let minute = Some(Duration::from_secs(60));
    for key in ["/cleared", "/longer", "/again", "/shorter"] {
        bench.put_for(key, "1", minute).await;
    }
    bench.env.sleep(Duration::from_secs(30)).await;
    bench.put("/cleared", "2").await;
    bench.put_for("/longer", "2", minute).await;
    bench.put_for("/shorter", "2", Some(Duration::from_secs(5))).await;
    bench.remove("/again").await;
    bench.put("/again", "2").await;
    let keys = async || -> Vec<String> {
        let entries = bench.storage.range(RangeRequest::prefix("/")).await.unwrap().entries;
        entries.iter().map(|entry| entry.key.to_string()).collect()
    };
    bench.env.sleep(Duration::from_secs(6)).await;
    assert_eq!(keys().await, ["/again", "/cleared", "/longer"]);
    bench.env.sleep(Duration::from_secs(44)).await;
    assert_eq!(keys().await, ["/again", "/cleared", "/longer"], "80 s after the first writes");
    bench.env.sleep(Duration::from_secs(10)).await;
    bench.env.sleep(AND_A_LITTLE_LATER).await;
    assert_eq!(keys().await, ["/again", "/cleared"]);
    bench.env.sleep(Duration::from_secs(3600)).await;
    assert_eq!(keys().await, ["/again", "/cleared"]);
}

async fn many_keys_expire_in_order(bench: &Bench) {
    for second in (1..=40).rev() {
        bench.put_for(&format!("/{second:02}"), "", Some(Duration::from_secs(second))).await;
    }
    let mut watch = bench.storage.watch("/", bench.revision().await).await.unwrap();
    bench.env.sleep(Duration::from_secs(60)).await;
    let expected: Vec<_> = (1..=40).map(|second| format!("{} /{second:02}  -> -", 41 + second)).collect();
    bench.expect(&mut watch, &expected).await;
}
