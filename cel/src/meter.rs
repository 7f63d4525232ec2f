//! `Meter`: the cost limit of an evaluation, and its cost so far.

use super::failure::Failure;

/// Counts the cost of one evaluation by Kubernetes' rules, and separately the work that those rules do not count.
#[derive(Debug)]
pub struct Meter {
    cost: u64,
    limit: u64,
    work_left: u64,
}

/// Most values that one evaluation makes or reads. Kubernetes' rules miss some: appending to a list costs next to nothing
/// there, whatever its length.
const MAX_WORK: u64 = 20_000_000;

impl Meter {
    pub fn new(limit: u64) -> Self {
        Self { cost: 0, limit, work_left: MAX_WORK }
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::TooCostly) } else { Ok(()) }
    }

    /// Counts the work of reading or making so many values, or ten times as many bytes.
    pub fn work(&mut self, values: usize) -> Result<(), Failure> {
        match self.work_left.checked_sub(1 + values as u64) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(Failure::TooCostly),
        }
    }
}
