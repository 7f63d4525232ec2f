//! `Refusal`: the Status of a refused request, and the response that carries it.

use crate::answer;
use crate::media::{self, Form};
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, header};
use proto::Status;
use request::info::RequestInfo;

/// The refusal of a request. As in Kubernetes, the response of a refusal by a filter forbids the client to guess the media
/// type.
pub struct Refusal {
    pub status: Status,
    no_sniff: bool,
}

impl Refusal {
    pub fn of(status: Status) -> Self {
        Self { status, no_sniff: false }
    }

    /// A refusal by impersonation or authorization, which are filters in Kubernetes.
    pub fn by_filter(status: Status) -> Self {
        Self { status, no_sniff: true }
    }

    pub fn into_response(self, headers: &HeaderMap, info: &RequestInfo) -> Response<Body> {
        let pretty = media::wants_pretty(headers, info.query.get("pretty"));
        let form = Form { encoding: media::encoding_of_errors(headers), pretty, ..Form::default() };
        let mut response = answer::status(&form, &self.status);
        if self.no_sniff {
            response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        response
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::of(status)
    }
}
