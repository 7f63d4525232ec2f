//! `PoolChanges`: the pools whose devices were allocated or freed of late, so that others need not be looked at again.

use crate::slices::PoolId;
use std::collections::VecDeque;

/// Number of changes that are remembered. Who has seen none of them looks at every pool again.
const MAX_CHANGES: usize = 1024;

#[derive(Clone, Debug, Default)]
pub struct PoolChanges {
    /// Number of all changes.
    version: u64,
    /// The last ones, the oldest first.
    recent: VecDeque<PoolId>,
}

impl PoolChanges {
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn record(&mut self, pool: PoolId) {
        self.version += 1;
        if self.recent.len() == MAX_CHANGES {
            self.recent.pop_front();
        }
        self.recent.push_back(pool);
    }

    /// Returns the pools that have changed since a version, perhaps several times; `None` if that is not known.
    pub fn since(&self, version: u64) -> Option<impl Iterator<Item = &PoolId>> {
        let missed = usize::try_from(self.version.checked_sub(version)?).ok()?;
        let first = self.recent.len().checked_sub(missed)?;
        Some(self.recent.range(first..))
    }
}
