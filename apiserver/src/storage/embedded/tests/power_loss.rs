//! The power goes, or the process is killed, at any operation of the disk: what was answered is there, and nothing is half there.

use super::*;
use component_base::rng::Random;

/// Writes until the device fails; what the store held after each revision, and the last one that was answered.
async fn write_until_failure(env: &Env, backend: &Fragile, random: &Random) -> (Vec<String>, u64) {
    let store = Embedded::open_backend(env, backend.clone()).unwrap();
    let model = crate::storage::memory::Memory::new(env);
    // States by revision, from 0 on.
    let mut states = vec![String::new(); 2];
    backend.fail_after(1 + random.below(400));
    loop {
        let key = format!("/{}", random.below(12));
        let at = model.get(&key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
        let write = match (at, random.below(4)) {
            (1.., 0) => Write { key: key.as_str().into(), expected: at, change: crate::storage::Change::Delete },
            _ => {
                let value = Bytes::from(random.uid().repeat(random.below(60)));
                let change = crate::storage::Change::Put { value, ttl: None };
                Write { key: key.as_str().into(), expected: at, change }
            }
        };
        model.write(write.clone()).await.unwrap();
        states.push(text(&model.range(RangeRequest::prefix("/")).await.unwrap().entries));
        if store.write(write).await.is_err() {
            return (states, model.current_revision().await.unwrap() - 1);
        }
    }
}

/// Opening repairs what the loss left: power may go then too, any number of times.
fn lose_power_while_opening(env: &Env, mut found: Fragile, random: &Random) -> Fragile {
    for steps in 0.. {
        found.fail_after(steps);
        if Embedded::open_backend(env, found.clone()).is_ok() && !found.has_failed() {
            return found.after_power_loss(random);
        }
        found = found.after_power_loss(random);
    }
    unreachable!("the loop ends by returning")
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_survives_and_nothing_is_half_there() {
    for seed in 0..60 {
        let env = Env::simulated(seed);
        let random = env.random("power loss");
        let backend = Fragile::default();
        let (states, answered) = write_until_failure(&env, &backend, &random).await;
        assert!(backend.has_failed());
        for loss in 0..3 {
            let found = if loss == 0 { backend.after_kill() } else { backend.after_power_loss(&random) };
            let found = if loss == 1 { lose_power_while_opening(&env, found, &random) } else { found };
            let again = Embedded::open_backend(&env, found.clone())
                .unwrap_or_else(|error| panic!("seed {seed}, loss {loss}: {error}"));
            let revision = again.current_revision().await.unwrap();
            assert!(
                revision == answered || revision == answered + 1,
                "seed {seed}, loss {loss}: at {revision}, {answered} was answered and one more was on its way"
            );
            assert_eq!(everything(&again).await, states[revision as usize], "seed {seed}, loss {loss}");
            // It goes on from there, and survives its recovery too.
            assert_eq!(put(&again, "/after", "1").await, revision + 1);
            let found = found.after_power_loss(&random);
            let once_more = Embedded::open_backend(&env, found).unwrap();
            assert_eq!(once_more.current_revision().await.unwrap(), revision + 1, "seed {seed}, loss {loss}");
        }
    }
}
