//! A fake API server for tests of what talks to one; no released program contains it.
//!
//! It stands below `client`, so that the client's own tests can use it too.

mod fake_server;

pub use fake_server::{FakeServer, Fault, Recorded, Refusal};
