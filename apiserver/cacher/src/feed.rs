//! The feed: lists the row once, then follows the store's watch. It lists again only when history is lost.
//!
//! Corresponds to the reflector inside k8s.io/apiserver/pkg/storage/cacher/cacher.go.

use super::{Error, Shared};
use component_base::panics::caught_in;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use storage::WatchItem;

/// Pause before the store is called again, doubled up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Runs until shutdown, or until the store has stopped for good.
pub(super) async fn run(shared: Arc<Shared>) {
    tokio::select! {
        biased;
        () = shared.stopped.cancelled() => {}
        () = follow_despite_panics(&shared) => {}
    }
}

/// Follows the store, and starts over after a panic, as after a restart. Until the row has been read again, readiness
/// reports the panic.
async fn follow_despite_panics(shared: &Shared) {
    let mut pause = FIRST_PAUSE;
    while let Err(why) = caught_in(follow(shared)).await {
        tracing::error!(prefix = %shared.prefix, why, "the feed of a watch cache panicked and starts over");
        shared.state.lock().trouble = Some(format!("the feed of {} panicked: {why}", shared.prefix));
        shared.env.sleep(shared.jitter.jitter(pause, 0.5)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

enum State {
    List,
    Watch,
}

async fn follow(shared: &Shared) {
    let mut state = State::List;
    let mut pause = FIRST_PAUSE;
    loop {
        let (next, error) = match state {
            State::List => match list(shared).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    state = State::Watch;
                    continue;
                }
                Err(error) => (State::List, error),
            },
            State::Watch => {
                let before = shared.state.lock().window.revision();
                let error = tokio::select! {
                    biased;
                    () = shared.relist.notified() => {
                        state = State::List;
                        continue;
                    }
                    error = watch(shared) => error,
                };
                if shared.state.lock().window.revision() > before {
                    pause = FIRST_PAUSE;
                }
                let lost = matches!(error, Error::Expired { .. });
                (if lost { State::List } else { State::Watch }, error)
            }
        };
        state = next;
        let stopped = matches!(error, Error::Storage(storage::Error::Stopped(_)));
        // With an expired watch the store asks to list again; that is not a failure.
        if !matches!(error, Error::Expired { .. }) {
            // All rows fail at once, and the engine itself has logged it.
            tracing::debug!(prefix = %shared.prefix, %error, "the watch cache lost the store");
            shared.state.lock().trouble = Some(error.to_string());
        }
        if stopped {
            return;
        }
        shared.env.sleep(shared.jitter.jitter(pause, 0.5)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads the row at one revision and starts the window anew.
async fn list(shared: &Shared) -> Result<(), Error> {
    let unreadable = shared.unreadable.len();
    let listed = shared.list().await?;
    shared.announced.clear();
    {
        let mut state = shared.state.lock();
        if shared.unreadable.len() < unreadable {
            std::mem::take(&mut state.restart_watches).cancel();
        }
        state.window.replace(listed.objects, listed.revision);
        state.ready = true;
        state.trouble = None;
    }
    shared.appended.notify_waiters();
    shared.advanced.notify_waiters();
    Ok(())
}

/// Follows the store from the window's revision on; returns the error that ended the watch.
async fn watch(shared: &Shared) -> Error {
    let after = shared.state.lock().window.revision();
    let mut watch = match shared.storage.watch(&shared.prefix, after).await {
        Ok(watch) => watch,
        Err(error) => return error.into(),
    };
    shared.state.lock().trouble = None;
    while let Some(item) = watch.next().await {
        match item {
            Ok(WatchItem::Events(events)) => {
                // Decoded before the lock is taken, so that readers do not wait for it.
                let mut decoded = Vec::with_capacity(events.len());
                for event in events {
                    // For watches an object that became unreadable is deleted.
                    let object = event.current.as_ref().and_then(|entry| shared.decode_current(entry));
                    if event.current.is_none() {
                        shared.unreadable.forget(&event.key);
                    }
                    decoded.push((event, object));
                }
                shared.state.lock().window.append(decoded, shared.env.wall().as_millisecond());
                shared.appended.notify_waiters();
            }
            Ok(WatchItem::Progress(revision)) => shared.state.lock().window.progress(revision),
            Err(error) => return error.into(),
        }
        shared.advanced.notify_waiters();
    }
    Error::Storage(storage::Error::Unavailable("the watch was cut".to_owned()))
}
