//! A fake API server for tests of clients; no released program contains it.
//!
//! `client` may depend on it, not the other way, so that the client's own tests can use it too.

mod fake_server;

pub use fake_server::{FakeServer, Fault, Recorded, Refusal};
