//! `ServerVersion`: the version of an etcd member, and whether its progress answers are reliable.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerVersion(u32, u32, u32);

impl ServerVersion {
    /// Parses `3.5.13`. A suffix such as `-rc.1` is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(['-', '+']).next()?.split('.').map(|number| number.parse().ok());
        let version = Self(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }

    /// Returns whether the answer to a progress request comes after the events that it covers. Members before 3.4.31
    /// and
    /// 3.5.13 send it too early: a read that trusted it would miss what had just been written.
    ///
    /// Corresponds to k8s.io/apiserver/pkg/storage/feature/feature_support_checker.go.
    pub fn answers_progress_in_order(self) -> bool {
        match self {
            Self(3, 4, patch) => patch >= 31,
            Self(3, 5, patch) => patch >= 13,
            later => later > Self(3, 5, 0),
        }
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_trusted_from_the_mended_versions_on() {
        let cases = [
            ("3.3.27", false),
            ("3.4.23", false),
            ("3.4.30", false),
            ("3.4.31", true),
            ("3.5.0", false),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
            ("3.6.0", true),
            ("4.0.0", true),
        ];
        for (text, trusted) in cases {
            assert_eq!(ServerVersion::parse(text).unwrap().answers_progress_in_order(), trusted, "{text}");
        }
        for text in ["", "3", "3.5", "3.5.x", "3.5.1.2", "not_decided"] {
            assert_eq!(ServerVersion::parse(text), None, "{text}");
        }
    }
}
