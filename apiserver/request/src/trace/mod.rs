//! The trace of one request: the decision of each stage that it passed, for people who want to see it.
//!
//! A request that asks for a trace ([`HEADER`]) carries a [`Draft`], and each gate adds its steps. The result is a
//! [`Trace`], which is kept for a while in [`RequestTraces`] and read at `/debug/requests/ID`. Without
//! `--enable-request-trace` there is no draft, and every gate sees a `None`. Kubernetes has nothing like it.

pub mod step;
pub mod change;
pub mod steps;
pub mod document;
pub mod draft;
pub mod retained;

pub use change::{Before, Change};
pub use document::Trace;
pub use draft::Draft;
pub use retained::RequestTraces;
pub use step::{Gate, Step, StepOutcome};
pub use steps::Steps;

use http::HeaderName;

/// A request with `Orrery-Trace: true` asks for a trace.
pub const HEADER: HeaderName = HeaderName::from_static("orrery-trace");

/// The path of the list of traces. The trace of a request is below it, under its audit id.
pub const PATH: &str = "/debug/requests";

/// Returns the path of a trace. A client may choose the id, so it may hold any character of a header.
pub fn path_of(audit_id: &str) -> String {
    let mut path = format!("{PATH}/");
    for byte in audit_id.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}
