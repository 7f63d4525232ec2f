//! Random histories on the embedded engine and on the memory engine as its model: every answer is the same.

use super::*;
use crate::memory::Memory;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Action {
    Put { key: u8, right: bool, ttl_s: Option<u64> },
    Delete { key: u8, right: bool },
    Sleep { s: u64 },
    Read { back: u64, limit: usize },
    Compact { back: u64 },
    Watch { back: u64 },
    Progress,
    Reopen,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let ttl = prop_oneof![3 => Just(None), 1 => (1_u64..200).prop_map(Some)];
    let action = prop_oneof![
        12 => (0_u8..6, prop::bool::weighted(0.85), ttl).prop_map(|(key, right, ttl_s)| Action::Put { key, right, ttl_s }),
        5 => (0_u8..6, prop::bool::weighted(0.85)).prop_map(|(key, right)| Action::Delete { key, right }),
        2 => (0_u64..120).prop_map(|s| Action::Sleep { s }),
        4 => (0_u64..12, 0_usize..4).prop_map(|(back, limit)| Action::Read { back, limit }),
        1 => (0_u64..12).prop_map(|back| Action::Compact { back }),
        2 => (0_u64..12).prop_map(|back| Action::Watch { back }),
        1 => Just(Action::Progress),
        1 => Just(Action::Reopen),
    ];
    prop::collection::vec(action, 1..120)
}

/// The two stores, side by side.
struct Pair {
    env: Env,
    /// The environment of the embedded store alone, so that its tasks end with it.
    opened: Env,
    backend: Fragile,
    model: Arc<Memory>,
    store: Arc<Embedded>,
    watches: Vec<(Watch, Watch)>,
}

impl Pair {
    fn new() -> Self {
        let env = Env::simulated(1);
        let (opened, backend) = (env.child(), Fragile::default());
        let store = Embedded::open_backend(&opened, backend.clone()).unwrap();
        Self { model: Memory::new(&env), opened, backend, store, watches: Vec::new(), env }
    }

    async fn both(&self, write: Write) {
        let (model, store) = (self.model.write(write.clone()).await, self.store.write(write.clone()).await);
        assert_eq!(model, store, "{write:?}");
    }

    async fn write(&self, key: u8, right: bool, change: crate::Change) {
        let key = format!("/k/{key}");
        let at = self.model.get(&key).await.unwrap().entry.map_or(0, |entry| entry.mod_revision);
        self.both(Write { key: key.into(), expected: if right { at } else { at + 1 }, change }).await;
    }

    fn compare_watches(&mut self) {
        for (model, store) in &mut self.watches {
            assert_eq!(arrived(model), arrived(store));
        }
    }

    async fn action(&mut self, action: Action) {
        let now = self.model.current_revision().await.unwrap();
        assert_eq!(self.store.current_revision().await.unwrap(), now);
        match action {
            Action::Put { key, right, ttl_s } => {
                let change =
                    crate::Change::Put { value: Bytes::from(format!("at {now}")), ttl: ttl_s.map(Duration::from_secs) };
                self.write(key, right, change).await;
            }
            Action::Delete { key, right } => self.write(key, right, crate::Change::Delete).await,
            Action::Sleep { s } => self.env.sleep(Duration::from_secs(s)).await,
            Action::Read { back, limit } => {
                let request = RangeRequest::prefix("/").at(now.saturating_sub(back)).limit(limit);
                assert_eq!(
                    self.model.range(request.clone()).await,
                    self.store.range(request.clone()).await,
                    "{request:?}"
                );
            }
            Action::Compact { back } => {
                let at = now.saturating_sub(back);
                assert_eq!(self.model.compact(at).await, self.store.compact(at).await);
            }
            Action::Watch { back } => {
                let after = now.saturating_sub(back);
                match (self.model.watch("/k/", after).await, self.store.watch("/k/", after).await) {
                    (Ok(model), Ok(store)) => self.watches.push((model, store)),
                    (model, store) => assert_eq!(model.err(), store.err(), "after {after}"),
                }
            }
            Action::Progress => {
                self.model.request_progress("/k/").await.unwrap();
                self.store.request_progress("/k/").await.unwrap();
            }
            Action::Reopen => {
                self.compare_watches();
                self.watches.clear();
                self.store.close().await;
                self.opened.drain().await;
                self.opened = self.env.child();
                self.store = Embedded::open_backend(&self.opened, self.backend.clone()).unwrap();
                // A store that was opened again starts at its head.
                self.model.compact(now).await.unwrap();
            }
        }
        // Expiries that are due happen now, on both.
        self.env.sleep(Duration::from_millis(1)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn embedded_answers_as_its_model(actions in actions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut pair = Pair::new();
            for action in actions {
                pair.action(action).await;
            }
            pair.compare_watches();
            let all = RangeRequest::prefix("/");
            assert_eq!(pair.model.range(all.clone()).await, pair.store.range(all).await);
        });
    }
}
