//! `CrashPoint`: the moment at which a component is killed, right before or right after one of its writes.
//!
//! A run without a kill counts the writes of all components. Then every one of them can be tried as a crash point: the same
//! seed leads to the same writes up to it.

use super::part::Part;
use request::info::RequestInfo;
use std::fmt;
use std::str::FromStr;

/// Whether the write reaches the store before its component is killed. The component never gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

/// A write, by its number from 1, and the moment of the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    pub write: u32,
    pub moment: Moment,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = if self.moment == Moment::Before { "before" } else { "after" };
        write!(f, "{moment}-{}", self.write)
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no crash point: give before-N or after-N");
        let (moment, write) = text.split_once('-').ok_or_else(bad)?;
        let moment = match moment {
            "before" => Moment::Before,
            "after" => Moment::After,
            _ => return Err(bad()),
        };
        Ok(Self { write: write.parse().map_err(|_| bad())?, moment })
    }
}

/// Counts the writes of a run, and finds the one to crash at.
#[derive(Debug, Default)]
pub struct CrashPoints {
    count: u32,
    chosen: Option<CrashPoint>,
    reached: Option<String>,
}

impl CrashPoints {
    pub fn new(chosen: Option<CrashPoint>) -> Self {
        Self { chosen, ..Self::default() }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the write that was crashed at.
    pub fn reached(&self) -> Option<&str> {
        self.reached.as_deref()
    }

    /// Counts a request if it is a write. Returns the moment of the kill if it is the chosen one.
    pub fn next(&mut self, caller: Part, info: &RequestInfo) -> Option<Moment> {
        if !is_crash_point(info) {
            return None;
        }
        self.count += 1;
        let chosen = self.chosen.filter(|chosen| chosen.write == self.count)?;
        self.reached = Some(format!("{caller} is killed {chosen}: {} {}", info.verb, info.path));
        Some(chosen.moment)
    }
}

/// Returns true for writes of objects on which something depends. A Lease renewal and a token leave nothing to resume, and a
/// kill after an Event finds the same objects as a kill before the next write.
fn is_crash_point(info: &RequestInfo) -> bool {
    let is_left_out = matches!(info.resource.as_str(), "leases" | "events") || info.subresource == "token";
    info.is_mutating() && !is_left_out && !matches!(info.resource.as_str(), "tokenreviews" | "subjectaccessreviews")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    #[test]
    fn writes_are_counted_up_to_the_chosen_one() {
        let mut points = CrashPoints::new(Some("after-2".parse().unwrap()));
        let mut request =
            |method: &Method, path: &str| points.next(Part::ControllerManager, &RequestInfo::of(method, path, ""));
        assert_eq!(request(&Method::POST, "/api/v1/namespaces/default/pods"), None, "the first write");
        assert_eq!(request(&Method::GET, "/api/v1/namespaces/default/pods"), None, "no write");
        assert_eq!(request(&Method::POST, "/api/v1/namespaces/default/events"), None, "nothing depends on it");
        assert_eq!(request(&Method::DELETE, "/api/v1/namespaces/default/pods/p"), Some(Moment::After));
        assert_eq!(request(&Method::DELETE, "/api/v1/namespaces/default/pods/q"), None, "only once");
        assert_eq!(points.count(), 3);
        let reached = "controller-manager is killed after-2: delete /api/v1/namespaces/default/pods/p";
        assert_eq!(points.reached(), Some(reached));
    }

    #[test]
    fn a_crash_point_is_read_as_it_is_written() {
        for text in ["before-1", "after-117"] {
            assert_eq!(text.parse::<CrashPoint>().unwrap().to_string(), text);
        }
        for text in ["", "before", "during-1", "after-x"] {
            assert!(text.parse::<CrashPoint>().is_err(), "{text}");
        }
    }
}
