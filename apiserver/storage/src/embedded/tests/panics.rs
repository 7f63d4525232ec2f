//! Panics during a write: every waiting caller gets an error, nobody waits for ever, and the process learns of it.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_writer_thread_stops_the_engine() {
    let (env, backend) = (Env::system(), Fragile::default());
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    backend.panic_after(40);
    let answered = write_until_refused(&env, &store, 20).await;
    let why = env.timeout(LIMIT, store.stopped()).await.expect("the process hears of it").to_string();
    assert_eq!(why, "the store has stopped: writing panicked: a mistake in the disk's driver");
    assert_eq!(store.trouble().as_deref(), Some(why.as_str()), "and readiness says so");
    assert_eq!(store.get("/0/0").await.unwrap_err().to_string(), why);
    env.timeout(LIMIT, store.close()).await.expect("closing ends");
    let again = Embedded::open_backend(&env, backend.after_power_loss(&env.random("loss"))).unwrap();
    assert!(again.current_revision().await.unwrap() > answered, "what was answered is there");
    again.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_simulated_commit_stops_the_engine_too() {
    let (env, backend) = (Env::simulated(1), Fragile::default());
    let store = Embedded::open_backend(&env, backend.clone()).unwrap();
    put(&store, "/a", "1").await;
    let mut watch = store.watch("/", 2).await.unwrap();
    backend.panic_after(0);
    let error = store.create("/b", Bytes::new(), None).await.unwrap_err();
    assert_eq!(store.create("/c", Bytes::new(), None).await, Err(error.clone()));
    assert_eq!(store.stopped().await, error);
    assert_eq!(arrived(&mut watch), [format!("error: {error}"), "end".to_owned()]);
}
