//! Equipment for tests, simulations and measurements; no released program contains it.
//!
//! Other crates name it under `[dev-dependencies]`; only `e2e` and `xtask`, which are not released either, depend on it.

pub mod fixtures;
pub mod cel_pieces;
pub mod etcd_process;
pub mod test_needs;
