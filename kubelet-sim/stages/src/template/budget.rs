//! `Budget`: limits on the work, the values and the output of one rendering.

use crate::template::value::Value;

/// Nodes, loop rounds and computed values of one rendering; a value counts by its size.
const MAX_STEPS: usize = 300_000;
/// A patch of a megabyte is more than the API server takes of a status.
pub const MAX_BYTES: usize = 1 << 20;
/// Blocks and templates that are within each other.
const MAX_LEVELS: usize = 150;
/// Largest size and depth of a computed value. Values that contain each other twice grow fast.
const MAX_SIZE: usize = 100_000;
const MAX_DEPTH: usize = 100;

#[derive(Debug)]
pub struct Budget {
    steps_left: usize,
    levels_left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps_left: MAX_STEPS, levels_left: MAX_LEVELS }
    }
}

impl Budget {
    pub fn step(&mut self) -> Result<(), String> {
        self.spend(1)
    }

    /// Counts a value that a function has computed.
    pub fn computed(&mut self, value: &Value) -> Result<(), String> {
        if value.size() > MAX_SIZE || value.depth() > MAX_DEPTH {
            return Err("a value becomes too large".to_owned());
        }
        self.spend(value.size())
    }

    fn spend(&mut self, steps: usize) -> Result<(), String> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or("the template does not end")?;
        Ok(())
    }

    /// Enters a block, or a template that another one calls.
    pub fn enter(&mut self) -> Result<(), String> {
        self.levels_left = self.levels_left.checked_sub(1).ok_or("exceeded maximum template depth")?;
        Ok(())
    }

    pub fn leave(&mut self) {
        self.levels_left += 1;
    }
}
