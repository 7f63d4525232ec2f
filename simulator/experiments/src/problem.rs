//! One mistake in a study or in a file that it names, with its place.

use std::fmt;

/// A mistake. `place` is a path in the study, such as `workloads[0].csv.columns`, or a line of a file, such as `pods.csv:7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub place: String,
    pub message: String,
}

impl Problem {
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    /// True if this place, or something in it or around it, is what is wrong.
    pub fn concerns(&self, place: &str) -> bool {
        let (short, long) =
            if self.place.len() < place.len() { (self.place.as_str(), place) } else { (place, self.place.as_str()) };
        let rest = long.strip_prefix(short).filter(|_| !short.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_concerns_what_is_in_it_and_around_it() {
        let concerns = |place: &str, other: &str| Problem::new(place, "").concerns(other);
        assert!(concerns("a[1].b", "a[1].b") && concerns("a[1].b", "a[1]") && concerns("a", "a[1].b"));
        assert!(!concerns("a[1].b", "a[1].bc") && !concerns("a[1]", "a[10]") && !concerns("", "a"));
    }
}
