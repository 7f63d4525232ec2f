//! What plugins leave for themselves between the points of one scheduling cycle.
//!
//! Corresponds to framework.CycleState.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct CycleState {
    data: BTreeMap<&'static str, Box<dyn Any + Send + Sync>>,
    /// Plugins whose Filter or Score is left out in this cycle.
    pub skip_filter: BTreeSet<&'static str>,
    pub skip_score: BTreeSet<&'static str>,
}

impl CycleState {
    /// One value per key; plugins use their own name, or their name and the point.
    pub fn write<T: Any + Send + Sync>(&mut self, key: &'static str, value: T) {
        self.data.insert(key, Box::new(value));
    }

    /// What was written under the key in this cycle.
    pub fn read<T: Any>(&self, key: &'static str) -> Option<&T> {
        self.data.get(key)?.downcast_ref()
    }
}
