//! Tests of the allocator: cases worked out from the documentation of dynamic resource allocation, and random worlds beside a
//! plain reference.

mod cases;
mod limits;
mod nodes;
mod random;
mod reference;
mod sharing;
mod world;
