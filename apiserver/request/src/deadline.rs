//! How long a request may take: what it asks for, within what the server allows.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/request_deadline.go.

use super::info::RequestInfo;
use component_base::duration::parse_duration;
use proto::Status;
use std::time::Duration;

/// How long a request may take; `None` for those that stay open. What is no duration is refused before anybody asks
/// who calls; none, and less than none, stand for the server's own limit.
pub fn limit(info: &RequestInfo, most: Duration) -> Result<Option<Duration>, Status> {
    if info.is_long_running() {
        return Ok(None);
    }
    let asked = match info.query.text("timeout") {
        "" => Duration::ZERO,
        text if text.starts_with('-') => asked_for(&text[1..]).map(|_| Duration::ZERO)?,
        text => asked_for(text)?,
    };
    Ok(Some(if asked.is_zero() { most } else { asked.min(most) }))
}

fn asked_for(text: &str) -> Result<Duration, Status> {
    parse_duration(text).map_err(|_| {
        let is_number = text.parse::<f64>().is_ok();
        let what = if is_number { "missing unit in duration" } else { "invalid duration" };
        Status::bad_request(format!("invalid timeout specified in the request URL - time: {what} {text:?}"))
    })
}
