//! `CrashPoint`: a moment at which a component is killed, named by the number of the write: `before-7`.

use crate::plan::fault::Moment;
use std::fmt;
use std::str::FromStr;

/// A write, by its number from 1, and the moment of the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPoint {
    pub write: u32,
    pub moment: Moment,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.moment, self.write)
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

#[cfg(test)]
mod tests {
    use super::*;

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
