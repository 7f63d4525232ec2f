//! Truncated files and files with garbage: refused with a message, or opened as they were; never a panic.

use super::*;
use std::panic::AssertUnwindSafe;

/// Returns a store of a hundred keys, closed at the end if `closed`, and killed otherwise.
async fn written_store(env: &Env, closed: bool) -> (Fragile, String) {
    let backend = Fragile::default();
    let store = Embedded::open_backend(env, backend.clone()).unwrap();
    for number in 0..100 {
        put(&store, &format!("/{number}"), &format!("{number} ").repeat(number * 10)).await;
    }
    let state = everything(&store).await;
    if closed {
        store.close().await;
    }
    (backend.after_kill(), state)
}

#[tokio::test(start_paused = true)]
async fn damage_is_never_a_panic() {
    let env = Env::simulated(1);
    let random = env.random("damage");
    for closed in [true, false] {
        let (whole, state) = written_store(&env, closed).await;
        let length = whole.len().unwrap() as usize;
        for round in 0..100 {
            let damaged = whole.after_kill();
            match round % 2 {
                0 => damaged.set_len(random.below(length) as u64).unwrap(),
                _ => {
                    let at = if round % 4 == 1 { random.below(1024) } else { random.below(length) };
                    let garbage: Vec<u8> = (0..1 + random.below(600)).map(|_| random.below(256) as u8).collect();
                    damaged.write(at as u64, &garbage[..garbage.len().min(length - at)]).unwrap();
                }
            }
            let opened = std::panic::catch_unwind(AssertUnwindSafe(|| Embedded::open_backend(&env, damaged)));
            match opened {
                Err(_) => panic!("closed {closed}, round {round}: a panic"),
                Ok(Err(error)) => assert!(!error.to_string().contains('\n'), "{error}"),
                Ok(Ok(store)) => {
                    assert!(everything(&store).await == state, "closed {closed}, round {round}: not the state")
                }
            }
        }
    }
}
