//! The time limit of a request: the one that it asks for, within the server's limit.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go.

use super::info::RequestInfo;
use component_base::duration::parse_duration;
use proto::Status;
use std::time::Duration;

/// Returns the time limit of a request; `None` for long-running ones. An invalid duration is refused before
/// authentication. Zero and negative durations stand for the server's limit.
pub fn limit(info: &RequestInfo, most: Duration) -> Result<Option<Duration>, Status> {
    if info.is_long_running() {
        return Ok(None);
    }
    let requested = match info.query.text("timeout") {
        "" => Duration::ZERO,
        text if text.starts_with('-') => parse_timeout(&text[1..]).map(|_| Duration::ZERO)?,
        text => parse_timeout(text)?,
    };
    Ok(Some(if requested.is_zero() { most } else { requested.min(most) }))
}

fn parse_timeout(text: &str) -> Result<Duration, Status> {
    parse_duration(text).map_err(|_| {
        let is_number = text.parse::<f64>().is_ok();
        let what = if is_number { "missing unit in duration" } else { "invalid duration" };
        Status::bad_request(format!("invalid timeout specified in the request URL - time: {what} {text:?}"))
    })
}
