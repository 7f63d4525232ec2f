//! `Places`: limits the number of connections, and evicts idle ones when a new client comes.

use super::activity::Activity;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// When no place is left, one connection in so many is evicted: searching all of them is expensive, and so serves several
/// newcomers.
const EVICTED_ONE_IN: usize = 16;

/// The limited places of one server.
pub struct Places {
    free: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    by_number: BTreeMap<u64, Arc<Activity>>,
}

/// The place of one connection; dropping it, when the socket closes, gives it back.
pub struct Place {
    places: Arc<Places>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().by_number.remove(&self.number);
    }
}

impl Places {
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(count)), taken: Mutex::default() })
    }

    /// Waits for a place for an accepted connection. If none is free, evicts idle connections.
    pub async fn take(self: &Arc<Self>, activity: &Arc<Activity>) -> Place {
        if self.free.available_permits() == 0 {
            self.evict_idle();
        }
        let permit = self.free.clone().acquire_owned().await.expect("nobody closes the semaphore");
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, activity.clone());
        drop(taken);
        Place { places: self.clone(), number, _permit: permit }
    }

    /// Evicts idle connections: first those without any request, the oldest before the others.
    pub fn evict_idle(&self) {
        let taken = self.taken.lock();
        let idle = taken.by_number.iter().filter_map(|(number, activity)| Some((activity.idle_since()?, *number)));
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        let enough = taken.by_number.len() / EVICTED_ONE_IN + 1;
        for (_, number) in idle.into_iter().take(enough) {
            taken.by_number[&number].evict();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::Protocol;
    use super::*;
    use crate::env::Env;
    use std::time::Duration;

    /// A connection without any request is evicted before the others, and none is evicted while it serves a request.
    #[tokio::test(start_paused = true)]
    async fn the_newcomer_gets_the_place_of_the_most_useless() {
        let env = Env::simulated(1);
        let places = Places::new(3);
        let mut open = Vec::new();
        for served in [true, false, true] {
            let activity = Arc::new(Activity::new(&env));
            let place = places.take(&activity).await;
            activity.handshake_ended(Protocol::Http2);
            if served {
                activity.request_began();
            }
            open.push((activity, Some(place)));
            env.sleep(Duration::from_secs(1)).await;
        }
        // The first has been served, and is idle since the latest.
        open[0].0.request_ended();
        let now = env.now();
        for (goes, is_told) in [(1, false), (0, true)] {
            let newcomer = Arc::new(Activity::new(&env));
            newcomer.request_began();
            let (going, place) = (open[goes].0.clone(), open[goes].1.take());
            let gone = async {
                assert_eq!(going.expired().await, is_told);
                drop(place);
            };
            let (place, ()) = tokio::join!(places.take(&newcomer), gone);
            open.push((newcomer, Some(place)));
        }
        // Neither waited for a limit.
        assert_eq!(env.now(), now);
        // Now all are served: the next one waits.
        let last = Arc::new(Activity::new(&env));
        assert!(env.timeout(Duration::from_secs(3600), places.take(&last)).await.is_err());
        open[2].1.take();
        assert!(env.timeout(Duration::from_secs(1), places.take(&last)).await.is_ok());
    }
}
