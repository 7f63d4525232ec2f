//! The `orrery` program.
fn main() {}
