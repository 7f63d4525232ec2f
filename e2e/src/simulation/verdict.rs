//! `Verdict`: the violations of a run, reported at the step at which they occur.
//!
//! Checks often run where a panic would be caught (a request, a reconcile) or lost (a task), so they report here, and the
//! run stops at once.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Once};
use tokio_util::sync::CancellationToken;

/// Most recorded violations; further ones are mostly consequences of the first.
const KEPT: usize = 5;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub what: String,
    /// Keys in the store whose timelines show the cause.
    pub concerned: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// The verdict on a run; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    violations: Arc<Mutex<Vec<Violation>>>,
    broken: CancellationToken,
}

impl Verdict {
    pub fn violated(&self, what: impl Into<String>, concerned: impl IntoIterator<Item = String>) {
        let mut violations = self.violations.lock();
        if violations.len() < KEPT {
            violations.push(Violation { what: what.into(), concerned: concerned.into_iter().collect() });
        }
        drop(violations);
        self.broken.cancel();
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.violations.lock().clone()
    }

    /// Resolves at the first violation.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Records every panic of this thread as a violation, since no component may panic, even if that is caught. A simulation
    /// has its own thread.
    pub(super) fn watch_panics(&self) {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let default = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                WATCHING.with_borrow(|verdict| match verdict {
                    Some(verdict) => verdict.violated(format!("a panic: {panic}"), []),
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
    static WATCHING: RefCell<Option<Verdict>> = const { RefCell::new(None) };
}
