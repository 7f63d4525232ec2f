//! `Range`: the least and the most of a cost or size. Its arithmetic saturates.

use crate::costs::scaled;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

pub const ONE: Range = Range { min: 1, max: 1 };
pub const NOTHING: Range = Range { min: 0, max: 0 };
pub const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

impl Range {
    pub fn exactly(number: u64) -> Self {
        Self { min: number, max: number }
    }

    pub fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns both ends times a factor, rounded up.
    pub fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    pub fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}
