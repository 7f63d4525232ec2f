//! `Work`: estimates how many seats a request occupies, and for how long it occupies them after its response.
//!
//! A long list is more work than a get. A write with many watchers keeps seats while its event is sent to all of them.
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/request.

use request::info::RequestInfo;
use std::time::Duration;

/// Estimated duration of a request before it is measured.
pub const ESTIMATED_SERVICE_S: f64 = 0.003;
/// Objects that a list reads for each seat, and the most seats of a list.
const OBJECTS_PER_SEAT: u64 = 100;
const MOST_LIST_SEATS: u64 = 100;
/// Watchers that receive an event for each seat, the most seats for an event, and the time that sending takes.
pub const WATCHES_PER_SEAT: u64 = 10;
const MOST_EVENT_SEATS: u64 = 10;
const EVENT_DURATION_S: f64 = 0.005;
/// The largest part of a level's seats that one request may occupy.
const MOST_OF_A_LEVEL: f64 = 0.15;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Seats until the response is complete.
    pub initial_seats: usize,
    /// Seats after the response, for `additional_latency`.
    pub final_seats: usize,
    pub additional_latency: Duration,
}

impl Work {
    pub fn of_seats(seats: usize) -> Self {
        Self { initial_seats: seats, final_seats: 0, additional_latency: Duration::ZERO }
    }

    pub fn max_seats(&self) -> usize {
        self.initial_seats.max(self.final_seats)
    }

    /// Returns the work in seat-seconds, with the estimated duration.
    pub fn total(&self) -> f64 {
        self.initial_seats as f64 * ESTIMATED_SERVICE_S
            + self.final_seats as f64 * self.additional_latency.as_secs_f64()
    }

    /// Returns the same work on at most `limit` seats.
    pub fn within(self, limit: usize) -> Self {
        let limit = limit.max(1);
        if self.final_seats <= limit {
            return self;
        }
        let longer = self.additional_latency.mul_f64(self.final_seats as f64 / limit as f64);
        Self { final_seats: limit, additional_latency: longer, ..self }
    }
}

/// The load of the request's resource, which the estimate depends on.
pub trait Load {
    /// Returns the number of objects of the resource; `None` when it is not known yet.
    fn objects(&self) -> Option<u64>;
    /// Returns the number of watches that receive an event of the request's object.
    fn watches(&self) -> u64;
}

/// Estimates the work of a request on a level with `nominal` seats.
pub fn estimate(info: &RequestInfo, nominal: usize, load: &impl Load) -> Work {
    let most = |limit: u64| limit.min((nominal as f64 * MOST_OF_A_LEVEL).ceil() as u64).max(1);
    match info.verb.as_str() {
        "list" => Work::of_seats(list_seats(info, most(MOST_LIST_SEATS), load)),
        // It begins with the result of a list.
        "watch" if info.query.switch("sendInitialEvents") => {
            Work::of_seats(list_seats(info, most(MOST_LIST_SEATS), load))
        }
        "create" | "update" | "patch" | "delete" if info.is_resource => mutation(info, most(MOST_EVENT_SEATS), load),
        _ => Work::of_seats(1),
    }
}

fn list_seats(info: &RequestInfo, most: u64, load: &impl Load) -> usize {
    // It reads one object, however many there are.
    if !info.name.is_empty() || info.named_by_selector().is_some() {
        return 1;
    }
    let seats = match load.objects() {
        None => most,
        Some(stored) => looked_at(info, stored).div_ceil(OBJECTS_PER_SEAT).clamp(1, most),
    };
    usize::try_from(seats).unwrap_or(usize::MAX)
}

/// Returns how many objects a list reads. From the cache it reads all of them; from the store it reads one page, and more
/// for objects that do not match.
fn looked_at(info: &RequestInfo, stored: u64) -> u64 {
    let query = &info.query;
    let continues = !query.text("continue").is_empty();
    let exact = query.text("resourceVersionMatch") == "Exact";
    if !continues && !exact {
        return stored;
    }
    let limit = query.text("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(stored).min(stored);
    let selects = !query.text("fieldSelector").is_empty() || !query.text("labelSelector").is_empty();
    if selects { stored + limit } else { 2 * limit }
}

fn mutation(info: &RequestInfo, most: u64, load: &impl Load) -> Work {
    // A TokenRequest changes no watched object.
    if info.resource == "serviceaccounts" && info.subresource == "token" {
        return Work::of_seats(1);
    }
    let watches = load.watches();
    if watches < WATCHES_PER_SEAT {
        return Work::of_seats(1);
    }
    let seats = watches.div_ceil(WATCHES_PER_SEAT);
    let seat_seconds = seats as f64 * EVENT_DURATION_S;
    let final_seats = seats.min(most);
    Work {
        initial_seats: 1,
        final_seats: usize::try_from(final_seats).unwrap_or(usize::MAX),
        additional_latency: Duration::from_secs_f64(seat_seconds / final_seats as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    struct Known(Option<u64>, u64);

    impl Load for Known {
        fn objects(&self) -> Option<u64> {
            self.0
        }
        fn watches(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn long_lists_take_many_seats() {
        let seats = |path: &str, query: &str, objects| {
            let info = RequestInfo::of(&Method::GET, path, query);
            estimate(&info, 245, &Known(objects, 5000)).max_seats()
        };
        let pods = "/api/v1/pods";
        let cases = [
            ("/api/v1/namespaces/a/pods/p", "", Some(5000), 1),
            (pods, "", Some(0), 1),
            (pods, "", Some(101), 2),
            (pods, "", Some(2500), 25),
            // 15% of the level's seats.
            (pods, "", Some(100_000), 37),
            (pods, "", None, 37),
            (pods, "resourceVersion=0&limit=10", Some(2500), 25),
            (pods, "continue=abc&limit=50", Some(2500), 1),
            (pods, "continue=abc&limit=500", Some(2500), 10),
            (pods, "continue=abc&limit=500&labelSelector=a", Some(2500), 30),
            (pods, "fieldSelector=metadata.name=a", Some(2500), 1),
            (pods, "watch=1", Some(2500), 1),
            (pods, "watch=1&sendInitialEvents=true", Some(2500), 25),
            ("/healthz", "", None, 1),
        ];
        for (path, query, objects, expected) in cases {
            assert_eq!(seats(path, query, objects), expected, "{path}?{query}");
        }
        let small = RequestInfo::of(&Method::GET, pods, "");
        assert_eq!(estimate(&small, 3, &Known(Some(100_000), 0)).max_seats(), 1, "a small level");
    }

    #[test]
    fn what_many_watch_goes_on_when_it_is_answered() {
        let of = |path: &str, watches| {
            let work = estimate(&RequestInfo::of(&Method::POST, path, ""), 245, &Known(None, watches));
            (work.initial_seats, work.final_seats, work.additional_latency.as_millis())
        };
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(of(pods, 9), (1, 0, 0));
        assert_eq!(of(pods, 10), (1, 1, 5));
        assert_eq!(of(pods, 100), (1, 10, 5));
        // The seats are limited, so that the work lasts longer.
        assert_eq!(of(pods, 1000), (1, 10, 50));
        assert_eq!(of("/api/v1/namespaces/a/serviceaccounts/x/token", 1000), (1, 0, 0));
    }

    #[test]
    fn fewer_seats_take_longer() {
        let work = Work { initial_seats: 1, final_seats: 10, additional_latency: Duration::from_millis(5) };
        let fewer = work.within(2);
        assert_eq!((fewer.final_seats, fewer.additional_latency), (2, Duration::from_millis(25)));
        assert_eq!(work.within(10), work);
    }
}
