//! What programs do with the network: look names up, and speak HTTP as a client or as a server.
//!
//! Corresponds to the resolver of a C library and to an HTTP library.

pub mod resolver;
pub mod url;
pub mod http;
pub mod fetch;
pub mod serve;
pub mod pages;
