//! `StreamEvent`: what happens on the streams of one connection.

use super::spdy::Headers;
use axum::body::Bytes;

/// An event from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    Open {
        stream: u32,
        headers: Headers,
    },
    Data {
        stream: u32,
        bytes: Bytes,
    },
    /// The client sends no more on this stream, but still reads.
    End(u32),
    /// The client has dropped this stream.
    Reset(u32),
}
