//! `Violations`: collects the violated invariants of a run, and ends the run at the first one.
//!
//! Checks do not panic, since a request or a reconcile would catch the panic, and a task would lose it.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Once};
use tokio_util::sync::CancellationToken;

/// Most recorded violations. Further ones are mostly consequences of the first.
const KEPT: usize = 5;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise that was broken. Two runs that break the same one fail in the same way.
    pub promise: String,
    pub what: String,
    /// Keys in the store whose timelines show the cause.
    pub concerned: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The violations of a run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    recorded: Arc<Mutex<Vec<Violation>>>,
    /// Cancelled at the first violation.
    any: CancellationToken,
}

impl Violations {
    pub fn record(
        &self,
        promise: impl Into<String>,
        what: impl Into<String>,
        concerned: impl IntoIterator<Item = String>,
    ) {
        let mut recorded = self.recorded.lock();
        if recorded.len() < KEPT {
            let (promise, what) = (promise.into(), what.into());
            recorded.push(Violation { promise, what, concerned: concerned.into_iter().collect() });
        }
        drop(recorded);
        self.any.cancel();
    }

    pub fn all(&self) -> Vec<Violation> {
        self.recorded.lock().clone()
    }

    /// Waits for the first violation.
    pub async fn first(&self) {
        self.any.cancelled().await;
    }

    /// Records every panic of this thread as a violation, since no component may panic, not even where the panic is
    /// caught. A simulation runs on one thread of its own.
    pub(super) fn watch_panics(&self) {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let default = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                WATCHING.with_borrow(|violations| match violations {
                    Some(violations) => {
                        violations.record("no component panics", format!("a panic: {panic}"), []);
                    }
                    None => default(panic),
                });
            }));
        });
        WATCHING.set(Some(self.clone()));
    }

    pub(super) fn stop_watching_panics() {
        WATCHING.set(None);
    }
}

thread_local! {
    /// Violations of the simulation that runs on this thread.
    static WATCHING: RefCell<Option<Violations>> = const { RefCell::new(None) };
}
