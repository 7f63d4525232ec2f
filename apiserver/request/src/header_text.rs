//! The value of a header as text.
//!
//! Go's servers accept any bytes in a header. If a value with a letter beyond ASCII were ignored, the request would
//! mean something else than its sender wanted: an `Impersonate-User` header would have no effect, for example.

use http::HeaderValue;
use std::borrow::Cow;

/// Returns UTF-8; invalid bytes are replaced as Go replaces them in JSON.
pub fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}
