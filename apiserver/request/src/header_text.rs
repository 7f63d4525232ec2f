//! What a header says, as text.
//!
//! Go's servers take whatever bytes a header has. A value that was left out because of a letter beyond ASCII would make a
//! request say less than its sender meant: not to be somebody else, for one.

use http::HeaderValue;
use std::borrow::Cow;

/// UTF-8; what is not even that, as Go writes it in JSON.
pub fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}
