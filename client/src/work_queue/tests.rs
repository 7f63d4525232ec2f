//! Tests of client-go's guarantees about queues, in virtual time.

use super::*;
use futures::FutureExt;

fn queue(env: &Env) -> WorkQueue<&'static str> {
    WorkQueue::new(env, "test")
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_order_and_once() {
    let queue = queue(&Env::simulated(1));
    for key in ["a", "b", "a", "c", "b"] {
        queue.add(key);
    }
    assert_eq!(queue.len(), 3);
    for expected in ["a", "b", "c"] {
        assert_eq!(queue.get().await, Some(expected));
        queue.done(&expected);
    }
    assert!(queue.get().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn preferred_keys_come_first_and_leave_turns_to_the_others() {
    let queue = WorkQueue::<u32>::new(&Env::simulated(1), "test");
    queue.prefer(|key| key % 2 == 0);
    (1..=40).for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 40);
    let mut order = Vec::new();
    while let Some(Some(key)) = queue.get().now_or_never() {
        queue.done(&key);
        order.push(key);
    }
    let even = |from: u32, to: u32| (from..=to).filter(|key| key % 2 == 0);
    let expected = even(2, 30).chain([1]).chain(even(32, 40)).chain((3..40).filter(|key| key % 2 == 1));
    assert_eq!(order, expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_key_in_process_comes_back_only_after_it_is_done() {
    let queue = queue(&Env::simulated(1));
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
    queue.add("a");
    queue.add("a");
    assert_eq!(queue.len(), 0);
    assert!(queue.get().now_or_never().is_none());
    queue.done(&"a");
    assert_eq!(queue.get().await, Some("a"));
    queue.done(&"a");
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn shut_down_hands_out_what_is_ready_and_takes_nothing_more() {
    let queue = queue(&Env::simulated(1));
    queue.add("a");
    queue.add_after("later", secs(1));
    queue.shut_down();
    queue.add("b");
    assert!(queue.is_shutting_down());
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(queue.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn shut_down_wakes_every_worker() {
    let env = Env::simulated(1);
    let queue = queue(&env);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            env.spawn(async move { queue.get().await })
        })
        .collect();
    env.sleep(secs(1)).await;
    queue.shut_down();
    for worker in workers {
        assert_eq!(worker.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_ready_at_its_time() {
    let env = Env::simulated(1);
    let (queue, began) = (queue(&env), env.now());
    queue.add_after("second", secs(2));
    queue.add_after("first", secs(1));
    queue.add_after("now", Duration::ZERO);
    for (key, at) in [("now", 0), ("first", 1), ("second", 2)] {
        assert_eq!(queue.get().await, Some(key));
        assert_eq!(env.now().duration_since(began), secs(at));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_counts() {
    let env = Env::simulated(1);
    let (queue, began) = (queue(&env), env.now());
    queue.add_after("a", secs(5));
    queue.add_after("a", secs(2));
    queue.add_after("a", secs(9));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(env.now().duration_since(began), secs(2));
    queue.done(&"a");
    env.sleep(secs(60)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_delay_wakes_a_worker_that_waits_for_a_later_one() {
    let env = Env::simulated(1);
    let (queue, began) = (queue(&env), env.now());
    queue.add_after("late", secs(60));
    let worker = env.spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    env.sleep(secs(1)).await;
    queue.add_after("soon", secs(1));
    assert_eq!(worker.await.unwrap(), Some("soon"));
    assert_eq!(env.now().duration_since(began), secs(2));
}

#[tokio::test(start_paused = true)]
async fn keys_due_together_reach_all_workers() {
    let env = Env::simulated(1);
    let queue = queue(&env);
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            env.spawn(async move { queue.get().await })
        })
        .collect();
    for key in ["a", "b", "c"] {
        queue.add_after(key, secs(1));
    }
    let mut got = Vec::new();
    for worker in workers {
        got.push(worker.await.unwrap().unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_wait_until_forgotten() {
    let env = Env::simulated(1);
    let queue = queue(&env);
    let mut waits_ms = Vec::new();
    for _ in 0..4 {
        let added = env.now();
        queue.add_rate_limited("a");
        queue.get().await;
        waits_ms.push(env.now().duration_since(added).as_millis());
        queue.done(&"a");
    }
    assert_eq!(waits_ms, [5, 10, 20, 40]);
    assert_eq!(queue.requeues(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.requeues(&"a"), 0);
    let added = env.now();
    queue.add_rate_limited("a");
    queue.get().await;
    assert_eq!(env.now().duration_since(added).as_millis(), 5);
}

#[test]
fn limits_are_those_of_client_go() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(1);
        let mut limiter = RateLimiter::new(&env);
        let waits: Vec<Duration> = (0..25).map(|_| limiter.when(&"a", env.now())).collect();
        assert_eq!(waits[10], Duration::from_millis(5 * 1024));
        assert_eq!(waits[24], secs(1000));
        // A hundred retries pass at once, then ten a second, for all keys together.
        let mut limiter = RateLimiter::new(&env);
        let waits: Vec<u128> = (0..120).map(|n| limiter.when(&n, env.now()).as_millis()).collect();
        assert!(waits[..100].iter().all(|wait| *wait == 5));
        assert_eq!((waits[100], waits[101], waits[119]), (100, 200, 2000));
    });
}

#[tokio::test(start_paused = true)]
async fn a_queue_counts_what_it_does() {
    let env = Env::simulated(1);
    let queue = queue(&env);
    for key in ["a", "b", "a"] {
        queue.add(key);
    }
    let key = queue.get().await.unwrap();
    env.sleep(secs(2)).await;
    let shown = env.metrics().encode();
    for line in [
        "workqueue_unfinished_work_seconds{name=\"test\"} 2.0",
        "workqueue_longest_running_processor_seconds{name=\"test\"} 2.0",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    queue.add_rate_limited(key);
    queue.done(&key);
    env.sleep(secs(1)).await;
    assert_eq!(queue.len(), 2);
    let shown = env.metrics().encode();
    for line in [
        "workqueue_adds_total{name=\"test\"} 3",
        "workqueue_depth{name=\"test\"} 2",
        "workqueue_retries_total{name=\"test\"} 1",
        "workqueue_queue_duration_seconds_count{name=\"test\"} 1",
        "workqueue_work_duration_seconds_sum{name=\"test\"} 2.0",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
}
