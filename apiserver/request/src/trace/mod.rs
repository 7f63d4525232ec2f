//! The chain made visible: what became of one request at each gate, for people who want to see it.
//!
//! A request that asks for it ([`HEADER`]) takes a [`Draft`] along; each gate adds its steps. What comes of it is a
//! [`Trace`], kept for a while in [`RequestTraces`] and read at `/debug/requests/ID`. Without `--enable-request-trace`
//! there is never a draft, and every gate looks at a `None`. It has nothing that corresponds to it in Kubernetes.

pub mod step;
pub mod change;
pub mod steps;
pub mod trace;
pub mod draft;
pub mod kept;

pub use change::{Before, Change};
pub use draft::Draft;
pub use kept::RequestTraces;
pub use step::{Gate, Outcome, Step};
pub use steps::Steps;
pub use trace::Trace;

use http::HeaderName;

/// `Orrery-Trace: true` asks for a trace.
pub const HEADER: HeaderName = HeaderName::from_static("orrery-trace");

/// Where traces are read; the one of a request below it, by its audit id.
pub const PATH: &str = "/debug/requests";

/// The place of a trace. An id is the client's own if he gives one, so it may hold anything that a header may.
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
