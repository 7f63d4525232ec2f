//! `Link`: the way from a simulated machine to its server, which can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A network link; its clones are cut and mended together.
#[derive(Clone, Debug, Default)]
pub struct Link(Arc<AtomicBool>);

impl Link {
    pub fn set_cut(&self, cut: bool) {
        self.0.store(cut, Ordering::Release);
    }

    pub fn is_cut(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
