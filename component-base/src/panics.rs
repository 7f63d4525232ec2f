//! Turns panics into errors with a message, for work that others wait for.
//!
//! Corresponds to HandleCrash of k8s.io/apimachinery/pkg/util/runtime, which logs every panic.

use futures::FutureExt;
use std::any::Any;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};

/// Returns the result of the work, or the message of its panic. State that the work shares must be consistent after a
/// panic, or the caller must drop it.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic))
}

/// Returns the result of a future, or the message of its panic.
pub async fn caught_in<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| message(&*panic))
}

/// Returns the text of a panic; `?` if it has none.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_its_message() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| panic!("at {}", 7)), Err::<(), _>("at 7".to_owned()));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(caught(|| panic::panic_any(7)), Err::<(), _>("?".to_owned()));
        let future = caught_in(async { panic!("later") });
        assert_eq!(future.now_or_never(), Some(Err::<(), _>("later".to_owned())));
    }
}
